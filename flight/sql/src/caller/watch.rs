//! Watches for the termination of a session by `pg_terminate_backend`. The work and the
//! acquisitions of a terminated session end at once, even if its client makes no further call.

use std::sync::Arc;

use stratalog_query::Session;
use tokio::task::AbortHandle;

/// A task that waits for the termination of a session. Dropping the watch ends the task.
#[derive(Debug)]
pub(super) struct Watch(AbortHandle);

impl Watch {
    /// Starts a task that calls `end` when `session` is terminated.
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
