//! A statement's waits for other sessions, without a time limit of their own: for a release of
//! acquired chronicles, or for a commit of events.

use std::{sync::Arc, task::Poll};

use stratalog_model::{Error, ErrorKind, Result};
use tokio::sync::watch;

use super::Session;

/// The waits of a session's statements.
#[derive(Debug)]
pub struct Waits {
    /// The number of open waits.
    open: watch::Sender<usize>,
    /// Whether the waits must end.
    ending: watch::Receiver<bool>,
}

impl Waits {
    /// No open waits; `ending` tells later waits to end.
    pub fn new(ending: watch::Receiver<bool>) -> Self {
        Self { open: watch::Sender::new(0), ending }
    }

    /// Waits for the work of other sessions, unless the server is ending: a shutdown lets
    /// statements finish, and would wait for this statement in vain.
    ///
    /// # Errors
    /// `Shutdown`; the errors of `what`.
    pub async fn wait<T>(&self, what: impl Future<Output = Result<T>>) -> Result<T> {
        self.open.send_modify(|open| *open += 1);
        let _open = OpenWait(&self.open);
        let mut ending = self.ending.clone();
        let ended = async move {
            // Also if the service is gone.
            let _ = ending.wait_for(|ending| *ending).await;
        };
        let mut what = std::pin::pin!(what);
        if let Poll::Ready(done) = futures::poll!(what.as_mut()) {
            return done;
        }
        // Check the shutdown first: the shutdown also ends other sessions, and thus completes waits
        // for their chronicles.
        tokio::select! {
            biased;
            () = ended => Err(Error::new(
                ErrorKind::Shutdown,
                "terminating waiting statement: the server is shutting down",
            )),
            done = what => done,
        }
    }

    async fn begun(&self) {
        let mut open = self.open.subscribe();
        // Never fails during the lifetime of the sender.
        let _ = open.wait_for(|open| *open > 0).await;
    }
}

/// An open wait, until the drop.
struct OpenWait<'a>(&'a watch::Sender<usize>);

impl Drop for OpenWait<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open = open.saturating_sub(1));
    }
}

impl Session {
    /// The waits of the session's statements.
    pub(crate) fn waits(&self) -> &Arc<Waits> {
        &self.waits
    }

    /// Returns when a statement waits for other sessions, if the statement may be ended for lack of
    /// a client. A statement of an implicit block with written rows may not be ended: its client
    /// may leave without waiting for the commit.
    pub async fn waiting(&self) {
        self.waits.begun().await;
        if self.transaction.is_implicit() && !self.transaction.written().is_empty() {
            std::future::pending().await
        }
    }
}
