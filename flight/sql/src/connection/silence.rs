//! Connections before HTTP/2's preface.
//!
//! A silent connection is closed after a timeout. When a new connection finds no place, the oldest
//! silent connection is closed at once: silent sockets cannot block other clients.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Timeout of the preface.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of the preface, `PRI * HTTP/2.0 …`.
const PREFACE_BYTES: usize = 24;

/// The silent connections of a listener, in the order of their arrival.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lobby(Arc<Mutex<SilentConnection>>);

#[derive(Debug, Default)]
struct SilentConnection {
    next: u64,
    by_number: BTreeMap<u64, CancellationToken>,
}

/// A connection's time before its preface is complete.
#[derive(Debug)]
pub(crate) struct Silence {
    lobby: Lobby,
    number: u64,
    leave: Pin<Box<WaitForCancellationFutureOwned>>,
    deadline: Pin<Box<Sleep>>,
    missing_bytes: usize,
}

impl Lobby {
    /// Adds a connection.
    pub(crate) fn enter(&self) -> Silence {
        let mut waiting = self.0.lock();
        let (number, leave) = (waiting.next, CancellationToken::new());
        waiting.next += 1;
        waiting.by_number.insert(number, leave.clone());
        Silence {
            lobby: self.clone(),
            number,
            leave: Box::pin(leave.cancelled_owned()),
            deadline: Box::pin(sleep(PATIENCE)),
            missing_bytes: PREFACE_BYTES,
        }
    }

    /// Closes the connection with the longest silence.
    pub(crate) fn make_room(&self) {
        if let Some((_, oldest)) = self.0.lock().by_number.pop_first() {
            oldest.cancel();
        }
    }
}

impl Silence {
    /// True if the connection must end.
    pub(crate) fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let leave = self.leave.as_mut().poll(context);
        leave.is_ready() || self.deadline.as_mut().poll(context).is_ready()
    }

    /// Counts received bytes; `true` when the preface may be complete.
    pub(crate) fn heard(&mut self, bytes: usize) -> bool {
        self.missing_bytes = self.missing_bytes.saturating_sub(bytes);
        self.missing_bytes == 0
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.lobby.0.lock().by_number.remove(&self.number);
    }
}

/// The error of a silent connection.
pub(crate) fn silent() -> Poll<std::io::Result<()>> {
    Poll::Ready(Err(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        "the connection sent no preface of HTTP/2",
    )))
}
