//! What clients send, and what they get.

mod clients;
mod corpus;
mod fixture;
mod information;
mod psql;
mod session_functions;
