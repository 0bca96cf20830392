//! Sessions that another one's command ends (`pg_terminate_backend`): whether they call again or not, what they have
//! open and acquired is given back then.

use std::sync::Arc;

use stratalog_query::Session;
use tokio::task::AbortHandle;

/// Waits for that command as long as it lives.
#[derive(Debug)]
pub(super) struct Watch(AbortHandle);

impl Watch {
    /// Has `end` done once `session` is to end.
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
