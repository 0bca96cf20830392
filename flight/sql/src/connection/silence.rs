//! Limits the connections that have not made a call (silent connections).
//!
//! The server closes a connection that sends no HTTP/2 preface after a timeout. When the limit of
//! connections is reached, the server closes the oldest connection without a call to make room for
//! a new connection. Thus silent sockets cannot prevent other clients from connecting.

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

/// The time in which a client must send the HTTP/2 preface.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The length in bytes of HTTP/2's preface, `PRI * HTTP/2.0 …`.
const PREFACE_BYTES: usize = 24;

/// The connections of a listener that have not made a call, in the order of their arrival.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lobby(Arc<Mutex<SilentConnections>>);

#[derive(Debug, Default)]
struct SilentConnections {
    next: u64,
    by_number: BTreeMap<u64, CancellationToken>,
}

/// The place of a connection in the lobby. Dropping this value removes the connection from the
/// lobby.
#[derive(Debug)]
pub(crate) struct LobbyPlace {
    lobby: Lobby,
    number: u64,
    leave: CancellationToken,
}

/// The state of a connection before its first call.
#[derive(Debug)]
pub(crate) struct Silence {
    leave: Pin<Box<WaitForCancellationFutureOwned>>,
    /// The deadline for the preface; `None` after the preface is complete.
    deadline: Option<Pin<Box<Sleep>>>,
    missing_bytes: usize,
}

impl Lobby {
    /// Adds a new connection to the connections without a call.
    pub(crate) fn enter(&self) -> LobbyPlace {
        let mut waiting = self.0.lock();
        let (number, leave) = (waiting.next, CancellationToken::new());
        waiting.next += 1;
        waiting.by_number.insert(number, leave.clone());
        LobbyPlace { lobby: self.clone(), number, leave }
    }

    /// Closes the oldest connection without a call, to make room for a new connection.
    pub(crate) fn make_room(&self) {
        if let Some((_, oldest)) = self.0.lock().by_number.pop_first() {
            oldest.cancel();
        }
    }
}

impl LobbyPlace {
    /// Waits until the server closes this connection to make room for a new connection.
    pub(crate) async fn must_leave(&self) {
        self.leave.cancelled().await;
    }

    /// Creates the state of this connection before its first call.
    pub(crate) fn silence(&self) -> Silence {
        Silence {
            leave: Box::pin(self.leave.clone().cancelled_owned()),
            deadline: Some(Box::pin(sleep(PATIENCE))),
            missing_bytes: PREFACE_BYTES,
        }
    }
}

impl Silence {
    /// True if the connection must close: the deadline has passed, or the server makes room for a
    /// new connection.
    pub(crate) fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let deadline = self.deadline.as_mut();
        self.leave.as_mut().poll(context).is_ready()
            || deadline.is_some_and(|deadline| deadline.as_mut().poll(context).is_ready())
    }

    /// Counts received bytes of the preface.
    pub(crate) fn count_received(&mut self, bytes: usize) {
        self.missing_bytes = self.missing_bytes.saturating_sub(bytes);
        if self.missing_bytes == 0 {
            self.deadline = None;
        }
    }
}

impl Drop for LobbyPlace {
    fn drop(&mut self) {
        self.lobby.0.lock().by_number.remove(&self.number);
    }
}

/// The error that ends a silent connection.
pub(crate) fn silent() -> Poll<std::io::Result<()>> {
    Poll::Ready(Err(std::io::Error::new(
        std::io::ErrorKind::TimedOut,
        "the connection sent no HTTP/2 preface in time, or was closed before its first call to make room",
    )))
}
