//! The limit of a listener's open sockets. When the limit is reached, a new socket replaces a
//! socket without a running request.
//!
//! ```text
//!   accepted ─► silent ─► running ⇄ idle      silent: no request yet; idle: between two requests
//!                 │                  │    no place is free: the oldest silent socket closes,
//!                 └──────────────────┴─►  else the oldest idle socket; running sockets stay open
//! ```
//! Thus silent sockets, however many, never prevent a new connection.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The limit of a listener's open sockets. Each open socket occupies one place.
#[derive(Debug)]
pub(crate) struct ConnectionLimit {
    shared: Arc<SharedTable>,
    places: usize,
}

#[derive(Debug, Default)]
struct SharedTable {
    table: Mutex<ConnectionTable>,
    /// Notified when a socket closes or becomes idle.
    changed: Notify,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    next: u64,
    count: usize,
    /// Sockets without any request, in the order of their arrival.
    silent: BTreeMap<u64, CancellationToken>,
    /// Sockets between two requests, in the order in which they became idle.
    idle: BTreeMap<u64, CancellationToken>,
}

/// The place of an open socket. Dropping the permit frees the place.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    shared: Arc<SharedTable>,
    leave: CancellationToken,
    state: Mutex<ConnectionState>,
}

#[derive(Debug)]
struct ConnectionState {
    /// The key of the socket in `silent` or `idle`.
    number: u64,
    running: usize,
    has_spoken: bool,
}

/// Marks a socket as running until dropped.
#[derive(Debug)]
pub(crate) struct RunningRequest(Arc<ConnectionPermit>);

impl ConnectionLimit {
    /// Creates a limit of `places` open sockets.
    pub(crate) fn new(places: usize) -> Self {
        Self { shared: Arc::default(), places: places.max(1) }
    }

    /// Takes a place for a new socket. If no place is free, closes the oldest silent socket or else
    /// the oldest idle socket, and takes its place. Waits while all sockets are running.
    pub(crate) async fn enter(&self) -> Arc<ConnectionPermit> {
        loop {
            let changed = self.shared.changed.notified();
            if let Some(permit) = self.try_enter() {
                return permit;
            }
            changed.await;
        }
    }

    fn try_enter(&self) -> Option<Arc<ConnectionPermit>> {
        let mut table = self.shared.table.lock();
        if table.count >= self.places {
            let (_, longest) = match table.silent.pop_first() {
                Some(silent) => silent,
                None => table.idle.pop_first()?,
            };
            longest.cancel();
            table.count -= 1;
        }
        table.count += 1;
        let (number, leave) = (table.next, CancellationToken::new());
        table.next += 1;
        table.silent.insert(number, leave.clone());
        let state = Mutex::new(ConnectionState { number, running: 0, has_spoken: false });
        Some(Arc::new(ConnectionPermit { shared: Arc::clone(&self.shared), leave, state }))
    }
}

impl ConnectionPermit {
    /// Marks the socket as running: the socket keeps its place until the returned guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> RunningRequest {
        let mut table = self.shared.table.lock();
        let mut state = self.state.lock();
        table.silent.remove(&state.number);
        table.idle.remove(&state.number);
        state.running += 1;
        state.has_spoken = true;
        RunningRequest(Arc::clone(self))
    }

    /// Waits until this socket must close because a new socket replaces it.
    pub(crate) async fn must_leave(&self) {
        self.leave.cancelled().await;
    }

    /// Returns after `patience` if no request has begun in the meantime; otherwise never returns.
    pub(crate) async fn stays_silent(&self, patience: Duration) {
        tokio::time::sleep(patience).await;
        if self.state.lock().has_spoken {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let ConnectionPermit { shared, leave, state } = &*self.0;
        let mut table = shared.table.lock();
        let mut state = state.lock();
        state.running = state.running.saturating_sub(1);
        if state.running == 0 && !leave.is_cancelled() {
            state.number = table.next;
            table.next += 1;
            table.idle.insert(state.number, leave.clone());
            shared.changed.notify_one();
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut table = self.shared.table.lock();
        let number = self.state.lock().number;
        table.silent.remove(&number);
        table.idle.remove(&number);
        if !self.leave.is_cancelled() {
            table.count = table.count.saturating_sub(1);
        }
        self.shared.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
