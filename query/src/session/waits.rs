//! Waits of statements for other sessions, without a time limit: for the release of an acquired
//! chronicle, or for a commit of events.

use std::{sync::Arc, task::Poll};

use stratalog_model::{Error, ErrorKind, Result};
use tokio::sync::watch;

use super::Session;

/// The waits of a session's statements.
#[derive(Debug)]
pub struct Waits {
    /// The number of open waits.
    open: watch::Sender<usize>,
    /// True when all waits must end.
    ending: watch::Receiver<bool>,
}

impl Waits {
    /// Creates the list of waits, without open waits. All waits end when `ending` becomes true.
    pub fn new(ending: watch::Receiver<bool>) -> Self {
        Self { open: watch::Sender::new(0), ending }
    }

    /// Waits for `what`, which depends on other sessions, unless the server is ending. A shutdown
    /// waits for running statements, and this statement might never finish.
    ///
    /// # Errors
    /// `Shutdown`; the errors of `what`.
    pub async fn wait<T>(&self, what: impl Future<Output = Result<T>>) -> Result<T> {
        self.open.send_modify(|open| *open += 1);
        let _open = OpenWait(&self.open);
        let mut ending = self.ending.clone();
        let ended = async move {
            // The wait also ends if the service no longer exists.
            let _ = ending.wait_for(|ending| *ending).await;
        };
        let mut what = std::pin::pin!(what);
        if let Poll::Ready(done) = futures::poll!(what.as_mut()) {
            return done;
        }
        // Check for a shutdown first: a shutdown also ends other sessions, which would complete
        // waits for their chronicles.
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

/// Counts as an open wait until the drop.
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

    /// Returns when a statement waits for other sessions and may be stopped if its client is gone.
    /// A statement in an implicit block with written rows must not be stopped: its client may leave
    /// without waiting for the commit.
    pub async fn waiting(&self) {
        self.waits.begun().await;
        if self.transaction.is_implicit() && !self.transaction.written().is_empty() {
            std::future::pending().await
        }
    }
}
