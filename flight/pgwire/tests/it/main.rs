//! The server as clients see it: tokio-postgres, and sockets that misbehave.

mod copy;
mod extended;
mod limits;
mod malformed;
mod raw;
mod server;
mod simple;
mod speed;
