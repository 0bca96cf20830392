//! The settings of the listener for the Postgres protocol.

use serde::{Deserialize, Serialize};

/// Limits and defaults of the Postgres protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PgwireSettings {
    /// Maximum number of connections; a further connection is refused with SQLSTATE 53300.
    pub connections_max: usize,
    /// Maximum bytes of a message from a client; a larger message ends its connection with 54000.
    pub message_bytes_max: usize,
    /// Maximum bytes of the large messages that all clients are sending, at least
    /// `message_bytes_max`. The first 128 KiB of each message do not count.
    pub inbound_bytes_max: usize,
    /// Maximum milliseconds that a large message waits for memory; then it fails with 53200.
    pub inbound_wait_ms: u64,
    /// Maximum milliseconds for the start-up of a connection.
    pub startup_timeout_ms: u64,
    /// Milliseconds that a shutdown waits for running statements before it cancels them.
    pub shutdown_grace_ms: u64,
    /// TCP probes a client after this many seconds of silence; a client that does not answer counts
    /// as disconnected.
    pub keepalive_idle_s: u64,
    /// Results are sent when this many bytes are buffered.
    pub output_buffer_bytes: usize,
    /// Maximum bytes of a line of COPY data.
    pub copy_line_bytes_max: usize,
    /// Maximum number of prepared statements of a connection.
    pub statements_max: usize,
    /// Maximum number of portals of a connection.
    pub portals_max: usize,
    /// Maximum estimated bytes of a connection's named statements and portals; a statement or
    /// portal beyond the limit fails with 54000. A single statement or portal that is larger than
    /// the limit works if there is no other.
    pub kept_bytes_max: usize,
    /// The database of a client that names no database.
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
