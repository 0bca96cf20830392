//! Limits of the service.

use serde::{Deserialize, Serialize};
use stratalog_flight_wire::BatchLimits;

/// Limits and defaults of the service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlightSettings {
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Maximum number of concurrent calls of a connection.
    pub calls_max: usize,
    /// Maximum bytes of a client's message.
    pub message_bytes_max: usize,
    /// Maximum number of a caller's prepared statements.
    pub statements_max: usize,
    /// Maximum number of a caller's open transactions.
    pub transactions_max: usize,
    /// Maximum bytes of the bound parameters of a statement.
    pub bound_bytes_max: usize,
    /// Maximum number of parts of a result.
    pub endpoints_max: usize,
    /// Milliseconds before a login without calls expires.
    pub idle_ms_max: u64,
    /// Milliseconds before a ticket expires.
    pub ticket_ms_max: u64,
    /// Milliseconds of a shutdown's wait for running calls.
    pub shutdown_grace_ms: u64,
    /// The database of callers without a database name.
    pub default_database: String,
    /// The user of callers without a user name.
    pub default_user: String,
}

impl FlightSettings {
    /// The limits for a message with rows.
    pub(crate) fn batch_limits(&self) -> BatchLimits {
        BatchLimits::of_message(self.message_bytes_max)
    }
}

impl Default for FlightSettings {
    fn default() -> Self {
        Self {
            connections_max: 1000,
            calls_max: 128,
            message_bytes_max: 64 << 20,
            statements_max: 1000,
            transactions_max: 100,
            bound_bytes_max: 256 << 20,
            endpoints_max: 64,
            idle_ms_max: 3_600_000,
            ticket_ms_max: 600_000,
            shutdown_grace_ms: 10_000,
            default_database: "stratalog".to_string(),
            default_user: "stratalog".to_string(),
        }
    }
}
