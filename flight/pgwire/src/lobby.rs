//! Limits the sockets that have not sent their start-up message.
//!
//! ```text
//!   accepted ─► lobby ─► start-up message ─► slot ─► session
//!                 │ full: the socket with the longest wait is closed
//! ```
//! A real client sends its start-up message at once. Silent sockets, however many, only replace
//! each other; they do not count toward `connections_max`.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The lobby: the sockets that have not sent their start-up message, in the order of their arrival.
#[derive(Debug, Clone)]
pub(crate) struct Lobby {
    waiting: Arc<Mutex<WaitingSocket>>,
    places: usize,
}

#[derive(Debug, Default)]
struct WaitingSocket {
    next: u64,
    by_number: BTreeMap<u64, CancellationToken>,
}

/// The place of a socket in the lobby. Dropping this value frees the place.
#[derive(Debug)]
pub(crate) struct LobbyPlace {
    lobby: Lobby,
    number: u64,
    leave: CancellationToken,
}

impl Lobby {
    /// Creates a lobby for at most `places` sockets.
    pub(crate) fn new(places: usize) -> Self {
        Self { waiting: Arc::default(), places }
    }

    /// Takes a place for a new socket. If the lobby is full, the socket with the longest wait must
    /// close.
    pub(crate) fn enter(&self) -> LobbyPlace {
        let mut waiting = self.waiting.lock();
        while waiting.by_number.len() >= self.places
            && let Some((_, longest)) = waiting.by_number.pop_first()
        {
            longest.cancel();
        }
        let (number, leave) = (waiting.next, CancellationToken::new());
        waiting.next += 1;
        waiting.by_number.insert(number, leave.clone());
        LobbyPlace { lobby: self.clone(), number, leave }
    }
}

impl LobbyPlace {
    /// Waits until this socket must close, because the lobby is full and a new socket replaces this
    /// socket.
    pub(crate) async fn is_needed(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for LobbyPlace {
    fn drop(&mut self) {
        self.lobby.waiting.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::Lobby;

    #[test]
    fn who_has_waited_longest_leaves_first() {
        let lobby = Lobby::new(2);
        let (first, second) = (lobby.enter(), lobby.enter());
        assert!(!first.leave.is_cancelled());
        let third = lobby.enter();
        assert!(first.leave.is_cancelled() && !second.leave.is_cancelled());
        drop(second);
        let fourth = lobby.enter();
        assert!(!third.leave.is_cancelled() && !fourth.leave.is_cancelled());
        drop(first);
        assert_eq!(lobby.waiting.lock().by_number.len(), 2);
    }
}
