//! The service, spoken to by arrow-flight's own client.

mod server;
mod statements;
