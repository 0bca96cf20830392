//! The service that protocols call.

use std::sync::Arc;

use stratalog_model::{Clock, Error, EventStore, Result};
use stratalog_visor_core::Catalog;

use crate::{QuerySettings, Session};

/// What the service is wired to.
#[derive(Debug)]
pub struct Parts {
    /// Databases, schemas, chronicles.
    pub catalog: Arc<Catalog>,
    /// The events.
    pub store: Arc<dyn EventStore>,
    /// Time of `now()` and of events without a time of their own.
    pub clock: Arc<dyn Clock>,
    /// Limits.
    pub settings: QuerySettings,
}

/// Who connects.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// User name, already authenticated.
    pub user: String,
    /// Database.
    pub database: String,
    /// What the client calls itself.
    pub application_name: String,
    /// Where it comes from; `None` in process.
    pub client_address: Option<String>,
    /// Settings of the start-up message.
    pub settings: Vec<(String, String)>,
}

/// SQL for every protocol; one per server.
#[derive(Debug)]
pub struct QueryService {
    parts: Parts,
}

impl QueryService {
    /// A service over `parts`.
    pub fn new(parts: Parts) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { parts }))
    }

    /// Opens a session.
    ///
    /// # Errors
    /// `UndefinedDatabase`, `TooManyConnections`, `Shutdown`, and what a setting is refused with.
    pub fn connect(self: &Arc<Self>, login: Login) -> Result<Arc<Session>> {
        Err(Error::internal(format!("{login:?} {:?}", self.parts.settings)))
    }

    /// Cancels what the session of this key runs now; whether there is such a session.
    pub fn cancel(&self, process_id: i32, secret: i32) -> bool {
        process_id == secret
    }

    /// Refuses new sessions and statements, and cancels those that run.
    pub fn shutdown(&self) {}
}
