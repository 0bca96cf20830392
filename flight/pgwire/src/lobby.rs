//! Sockets that have not said yet what they want.
//!
//! ```text
//!   accepted ─► lobby ─► start-up message ─► slot ─► session
//!                 │ full: the one that has waited longest leaves
//! ```
//! A client that means it says so at once. So those who open sockets and say nothing, however many
//! they are, only push each other out, and take none of the places of `connections_max`.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Those who wait, in the order in which they came.
#[derive(Debug, Clone)]
pub(crate) struct Lobby {
    waiting: Arc<Mutex<Waiting>>,
    places: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    by_number: BTreeMap<u64, CancellationToken>,
}

/// A place in the lobby, free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    lobby: Lobby,
    number: u64,
    leave: CancellationToken,
}

impl Lobby {
    /// A lobby with so many places.
    pub(crate) fn new(places: usize) -> Self {
        Self { waiting: Arc::default(), places }
    }

    /// A place for one who comes; who has waited longest leaves when there is none.
    pub(crate) fn enter(&self) -> Place {
        let mut waiting = self.waiting.lock();
        while waiting.by_number.len() >= self.places
            && let Some((_, longest)) = waiting.by_number.pop_first()
        {
            longest.cancel();
        }
        let (number, leave) = (waiting.next, CancellationToken::new());
        waiting.next += 1;
        waiting.by_number.insert(number, leave.clone());
        Place { lobby: self.clone(), number, leave }
    }
}

impl Place {
    /// Ends when the place is needed for somebody else.
    pub(crate) async fn is_needed(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Place {
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
