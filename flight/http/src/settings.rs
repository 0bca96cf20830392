//! Limits of the service.

use serde::{Deserialize, Serialize};

/// Limits and defaults of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpSettings {
    /// Maximum number of connections, for HTTP and for line protocol each.
    pub connections_max: usize,
    /// Maximum received bytes of a request's body.
    pub body_bytes_max: usize,
    /// Maximum decompressed bytes of a request's body.
    pub decoded_bytes_max: usize,
    /// Maximum bytes of the rows from a request's lines, including NULLs.
    pub rows_bytes_max: usize,
    /// Maximum bytes of bodies and their rows, for all requests together.
    pub inbound_bytes_max: usize,
    /// Maximum rows collected by a connection of line protocol over TCP before an append.
    pub batch_rows_max: usize,
    /// Maximum bytes of collected rows.
    pub batch_bytes_max: usize,
    /// Timeout in milliseconds for a request's head, or for the next piece of its body.
    pub patience_ms: u64,
    /// Maximum wait in milliseconds of a request for memory; then the client must retry.
    pub room_ms: u64,
    /// Milliseconds before an idle subscription sends a comment, a sign of life for clients and
    /// proxies.
    pub heartbeat_ms: u64,
    /// Milliseconds of a shutdown's wait for running requests.
    pub shutdown_grace_ms: u64,
    /// The database of all requests.
    pub default_database: String,
    /// The user of requests without a user name.
    pub default_user: String,
    /// Names in `Host` for this server, besides its addresses; separated by commas.
    pub hosts: String,
    /// Allowed origins of web pages; separated by commas.
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
