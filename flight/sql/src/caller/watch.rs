//! Sessions ended by another session's command (`pg_terminate_backend`): their open work and their
//! acquisitions are released at once, even without a further call.

use std::sync::Arc;

use stratalog_query::Session;
use tokio::task::AbortHandle;

/// Waits for the command during its own lifetime.
#[derive(Debug)]
pub(super) struct Watch(AbortHandle);

impl Watch {
    /// Calls `end` when `session` must end.
    pub(super) fn new(session: Arc<Session>, end: impl FnOnce() + Send + 'static) -> Self {
        let watching = tokio::spawn(async move {
            let reason = session.terminated().await;
            tracing::debug!(%reason, "a session is ended");
            end();
        });
        Self(watching.abort_handle())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
