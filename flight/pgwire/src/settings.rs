//! Limits of the Postgres protocol.

use serde::{Deserialize, Serialize};

/// Limits of the Postgres protocol; plain values, no behaviour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PgwireSettings {
    /// Connections at a time; one more is told 53300.
    pub connections_max: usize,
    /// Bytes of one message from a client; a larger one ends its connection with 54000.
    pub message_bytes_max: usize,
    /// Bytes that the large messages of all clients may hold while they come in, at least
    /// one of `message_bytes_max`. Of each the first 128 KiB are free.
    pub inbound_bytes_max: usize,
    /// Milliseconds that a large message waits for others to make room; then it fails with
    /// 53200.
    pub inbound_wait_ms: u64,
    /// Milliseconds in which a new connection must complete its start-up.
    pub startup_timeout_ms: u64,
    /// Milliseconds that running statements get at shutdown before they are cut off.
    pub shutdown_grace_ms: u64,
    /// Seconds of silence after which a client is probed; one that does not answer is
    /// taken for gone.
    pub keepalive_idle_s: u64,
    /// Bytes of results that are gathered before they are sent.
    pub output_buffer_bytes: usize,
    /// Bytes of one line of COPY data.
    pub copy_line_bytes_max: usize,
    /// Prepared statements of one connection.
    pub statements_max: usize,
    /// Portals of one connection.
    pub portals_max: usize,
    /// Bytes that the named statements and portals of one connection may hold; one more
    /// fails with 54000. They are estimated. One that is larger needs the room alone.
    pub kept_bytes_max: usize,
    /// Database of a client that names none.
    pub default_database: String,
}

impl Default for PgwireSettings {
    fn default() -> Self {
        Self {
            connections_max: 500,
            message_bytes_max: 64 << 20,
            inbound_bytes_max: 256 << 20,
            inbound_wait_ms: 10_000,
            startup_timeout_ms: 10_000,
            shutdown_grace_ms: 10_000,
            keepalive_idle_s: 60,
            output_buffer_bytes: 64 << 10,
            copy_line_bytes_max: 16 << 20,
            statements_max: 5_000,
            portals_max: 1_000,
            kept_bytes_max: 128 << 20,
            default_database: "stratalog".to_string(),
        }
    }
}
