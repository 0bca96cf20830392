//! The checked settings of a client.

use std::time::Duration;

use crate::{address::Address, retry::RetryPolicy, tls::ServerTls};

/// The settings of a client.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) address: Address,
    /// `None` for connections without TLS.
    pub(crate) tls: Option<ServerTls>,
    pub(crate) application_name: Option<String>,
    pub(crate) connections: usize,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) retry: RetryPolicy,
    pub(crate) message_bytes_max: usize,
}
