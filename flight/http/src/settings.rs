//! Limits of the service.

use serde::{Deserialize, Serialize};

/// How much the service takes and keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpSettings {
    /// Connections at a time, of HTTP and of line protocol each.
    pub connections_max: usize,
    /// Bytes of a request's body as it comes.
    pub body_bytes_max: usize,
    /// Bytes of a request's body when it is decompressed.
    pub decoded_bytes_max: usize,
    /// Bytes of the rows that the lines of one request make, NULLs included.
    pub rows_bytes_max: usize,
    /// Bytes of bodies and their rows, of all requests together.
    pub inbound_bytes_max: usize,
    /// Rows that a connection of line protocol over TCP collects before it stores them.
    pub batch_rows_max: usize,
    /// Bytes of rows that it collects.
    pub batch_bytes_max: usize,
    /// Milliseconds in which a request's head, or the next piece of its body, must come.
    pub patience_ms: u64,
    /// Milliseconds that a request waits for room before it is told to come back.
    pub room_ms: u64,
    /// Milliseconds after which a subscription that has nothing to tell sends a comment, so that
    /// clients and proxies know that it goes on.
    pub heartbeat_ms: u64,
    /// Milliseconds that a shutdown waits for running requests.
    pub shutdown_grace_ms: u64,
    /// The database that everything is in.
    pub default_database: String,
    /// The user of requests that name none.
    pub default_user: String,
    /// Names in `Host` that mean this server, besides its addresses; commas separate them.
    pub hosts: String,
    /// Origins of web pages that may use the server; commas separate them.
    pub origins: String,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            connections_max: 1000,
            body_bytes_max: 64 << 20,
            decoded_bytes_max: 256 << 20,
            rows_bytes_max: 256 << 20,
            inbound_bytes_max: 512 << 20,
            batch_rows_max: 32_768,
            batch_bytes_max: 8 << 20,
            patience_ms: 30_000,
            room_ms: 5_000,
            heartbeat_ms: 15_000,
            shutdown_grace_ms: 10_000,
            default_database: "stratalog".to_string(),
            default_user: "stratalog".to_string(),
            hosts: String::new(),
            origins: String::new(),
        }
    }
}
