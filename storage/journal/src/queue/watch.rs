//! Whoever writes a frame alone does so on its own thread, a runtime's: to hand that thread's sockets to
//! another one, and back, takes as long as half of a sync. So they are handed over only when the disk
//! takes its time.
//!
//! ```text
//!   appender: enter ─► write, sync ─► leave      most of the time nothing else happens
//!   thread:    looks every LOOK ─► still the same one? ─► a task that does nothing: the runtime wakes
//!                                                         another thread, which finds the sockets
//! ```

use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Handle, RuntimeFlavor};

/// How often it is looked whether a write takes its time: for twice as long nobody may see to the sockets
/// of a runtime.
pub(super) const LOOK: Duration = Duration::from_millis(2);

/// Who writes on a runtime's thread.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    /// Where it writes now.
    writes: Option<Handle>,
    /// Turns so far, and those at the last look.
    turns: u64,
    seen: u64,
}

impl Watch {
    /// Does work that may block on this thread. If nobody watches, or nobody could take over, another
    /// thread sees to the runtime meanwhile from the beginning.
    pub(super) fn enter<T>(&self, is_watched: bool, work: impl FnOnce() -> T) -> T {
        let Ok(runtime) = Handle::try_current() else { return work() };
        match runtime.runtime_flavor() {
            RuntimeFlavor::MultiThread if is_watched && runtime.metrics().num_workers() > 1 => {
                {
                    let mut watched = self.0.lock();
                    watched.turns += 1;
                    watched.writes = Some(runtime);
                }
                let _left = Left(self);
                work()
            }
            RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
            _ => work(),
        }
    }

    /// Has another thread see to the runtime of a write that began before the last look.
    pub(super) fn look(&self) {
        let mut watched = self.0.lock();
        let same = watched.seen == watched.turns;
        watched.seen = watched.turns;
        if same && let Some(runtime) = &watched.writes {
            runtime.spawn(std::future::ready(()));
        }
    }
}

/// Whoever wrote does not any more, however that ended.
struct Left<'a>(&'a Watch);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.0.lock().writes = None;
    }
}
