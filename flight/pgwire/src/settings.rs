//! Limits of the Postgres protocol.

use serde::{Deserialize, Serialize};

/// Limits of the Postgres protocol; plain values, no behaviour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PgwireSettings {
    /// Maximum number of connections; a further connection gets 53300.
    pub connections_max: usize,
    /// Maximum bytes of a client's message; a larger message ends its connection with 54000.
    pub message_bytes_max: usize,
    /// Maximum bytes of incoming large messages of all clients, at least `message_bytes_max`. The
    /// first 128 KiB of each message do not count.
    pub inbound_bytes_max: usize,
    /// Maximum wait in milliseconds of a large message for room; then the message fails with 53200.
    pub inbound_wait_ms: u64,
    /// Maximum milliseconds for the start-up of a connection.
    pub startup_timeout_ms: u64,
    /// Milliseconds for running statements at a shutdown before their cancellation.
    pub shutdown_grace_ms: u64,
    /// Seconds of silence before a client is probed; a client without an answer counts as
    /// disconnected.
    pub keepalive_idle_s: u64,
    /// Bytes of buffered results before a send.
    pub output_buffer_bytes: usize,
    /// Maximum bytes of a line of COPY data.
    pub copy_line_bytes_max: usize,
    /// Maximum prepared statements of a connection.
    pub statements_max: usize,
    /// Maximum portals of a connection.
    pub portals_max: usize,
    /// Maximum estimated bytes of a connection's named statements and portals; more bytes fail with
    /// 54000. A statement or portal larger than the limit is allowed only alone.
    pub kept_bytes_max: usize,
    /// Database of a client without a database name.
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
