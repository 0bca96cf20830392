//! The settings of the Flight SQL listener.

use serde::{Deserialize, Serialize};
use stratalog_flight_wire::BatchLimits;

/// Limits and defaults of the Flight SQL listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlightSettings {
    /// Maximum number of connections.
    pub connections_max: usize,
    /// Maximum number of concurrent calls on one connection.
    pub calls_max: usize,
    /// Maximum bytes of a client's message.
    pub message_bytes_max: usize,
    /// Maximum number of prepared statements of one login.
    pub statements_max: usize,
    /// Maximum number of open transactions of one login.
    pub transactions_max: usize,
    /// Maximum bytes of the parameters bound to one statement.
    pub bound_bytes_max: usize,
    /// Maximum number of parts of a result; each part has a ticket.
    pub endpoints_max: usize,
    /// A login expires after this many milliseconds without a call.
    pub idle_ms_max: u64,
    /// A ticket expires this many milliseconds after GetFlightInfo.
    pub ticket_ms_max: u64,
    /// Milliseconds that a shutdown waits for running calls.
    pub shutdown_grace_ms: u64,
    /// The database of a caller that names no database.
    pub default_database: String,
    /// The user of a caller that names no user.
    pub default_user: String,
}

impl FlightSettings {
    /// The limits of a message that contains rows.
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
