//! The settings of the HTTP listener and of the listener for line protocol over TCP.

use serde::{Deserialize, Serialize};

/// Limits and defaults of the HTTP listener and of the listener for line protocol over TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpSettings {
    /// Maximum number of connections of each of the two listeners.
    pub connections_max: usize,
    /// Maximum received bytes of a request body, before decompression.
    pub body_bytes_max: usize,
    /// Maximum bytes of a request body after decompression.
    pub decoded_bytes_max: usize,
    /// Maximum bytes of the rows that one request's lines make, including NULLs.
    pub rows_bytes_max: usize,
    /// Maximum bytes of the bodies and rows of all requests together.
    pub inbound_bytes_max: usize,
    /// Maximum rows that a connection of line protocol over TCP collects for one append.
    pub batch_rows_max: usize,
    /// Maximum bytes of the rows that such a connection collects for one append.
    pub batch_bytes_max: usize,
    /// Maximum milliseconds for the head of a request, and for each next piece of its body.
    pub patience_ms: u64,
    /// Maximum milliseconds that a request waits for memory; afterwards the client must retry.
    pub room_ms: u64,
    /// An idle subscription sends a comment after this number of milliseconds: a sign of life for
    /// clients and proxies.
    pub heartbeat_ms: u64,
    /// Maximum milliseconds that a shutdown waits for running requests.
    pub shutdown_grace_ms: u64,
    /// The database that all requests use.
    pub default_database: String,
    /// The user of a request that names no user.
    pub default_user: String,
    /// Names of this server in the header `Host`, in addition to its addresses; separated by
    /// commas.
    pub hosts: String,
    /// Origins of web pages that may send requests; separated by commas.
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
