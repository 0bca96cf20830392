//! Limits of the service.

use serde::{Deserialize, Serialize};
use stratalog_flight_wire::BatchLimits;

/// How much the service takes and keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlightSettings {
    /// Connections at a time.
    pub connections_max: usize,
    /// Calls of one connection at a time.
    pub calls_max: usize,
    /// Bytes of one message of a client.
    pub message_bytes_max: usize,
    /// Prepared statements of one caller.
    pub statements_max: usize,
    /// Open transactions of one caller.
    pub transactions_max: usize,
    /// Bytes of parameters that are bound to one statement.
    pub bound_bytes_max: usize,
    /// Parts of a result that can be asked for.
    pub endpoints_max: usize,
    /// Milliseconds after which a login without calls is forgotten.
    pub idle_ms_max: u64,
    /// Milliseconds in which a ticket must be redeemed.
    pub ticket_ms_max: u64,
    /// Milliseconds that a shutdown waits for running calls.
    pub shutdown_grace_ms: u64,
    /// The database of callers that name none.
    pub default_database: String,
    /// The user of callers that name none.
    pub default_user: String,
}

impl FlightSettings {
    /// What a message of rows may hold.
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
