//! What a statement waits for that others do, for as long as they like: release what they have acquired, commit
//! events.

use std::{sync::Arc, task::Poll};

use stratalog_model::{Error, ErrorKind, Result};
use tokio::sync::watch;

use super::Session;

/// The waits of a session's statements.
#[derive(Debug)]
pub struct Waits {
    /// How many there are now.
    open: watch::Sender<usize>,
    /// Whether they are to end.
    ending: watch::Receiver<bool>,
}

impl Waits {
    /// None so far; they end when `ending` says so.
    pub fn new(ending: watch::Receiver<bool>) -> Self {
        Self { open: watch::Sender::new(0), ending }
    }

    /// Waits for what others do, unless the server is to end: its shutdown lets statements finish, and would wait
    /// for this one in vain.
    ///
    /// # Errors
    /// `Shutdown`; those of `what`.
    pub async fn wait<T>(&self, what: impl Future<Output = Result<T>>) -> Result<T> {
        self.open.send_modify(|open| *open += 1);
        let _open = Open(&self.open);
        let mut ending = self.ending.clone();
        let ended = async move {
            // Also when the service is gone.
            let _ = ending.wait_for(|ending| *ending).await;
        };
        let mut what = std::pin::pin!(what);
        if let Poll::Ready(done) = futures::poll!(what.as_mut()) {
            return done;
        }
        // Before what comes of the end itself, as what a session had acquired that has just been ended.
        tokio::select! {
            biased;
            () = ended => Err(Error::new(
                ErrorKind::Shutdown,
                "terminating statement that waits for others: the server is shutting down",
            )),
            done = what => done,
        }
    }

    async fn begun(&self) {
        let mut open = self.open.subscribe();
        // It does not fail as long as the sender is there.
        let _ = open.wait_for(|open| *open > 0).await;
    }
}

/// A wait; it is over when this is dropped.
struct Open<'a>(&'a watch::Sender<usize>);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open = open.saturating_sub(1));
    }
}

impl Session {
    /// The waits of its statements.
    pub(crate) fn waits(&self) -> &Arc<Waits> {
        &self.waits
    }

    /// Ends when a statement waits for others that may be ended for want of a client: not one of a block that nobody
    /// began, and that has written. Who sent that may go without waiting for it to be committed.
    pub async fn waiting(&self) {
        self.waits.begun().await;
        if self.transaction.is_implicit() && !self.transaction.written().is_empty() {
            std::future::pending().await
        }
    }
}
