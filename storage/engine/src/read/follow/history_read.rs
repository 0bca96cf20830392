//! Reads history for a follower, window by window from the follower's position onward.
//!
//! ```text
//!   a paused sweep, or a new sweep (permit, version) ─► window ─► delivered
//!                                                   └► the sweep pauses until the next window
//! ```
//!
//! The permits for sweeps are scarce, and a client may poll its follower very late or never: for
//! example, an open cursor without fetches. A task therefore does all waiting, and returns its
//! permit at the end even if nobody polls the follower.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use parking_lot::Mutex;
use stratalog_model::{
    ChronicleId, Error, ErrorKind, Gsn, GsnRange, Result, Tick, subscribe::SubscribeRequest,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
};

use super::{
    history::HistorySweep,
    pending_updates::{FollowerRead, Position},
};
use crate::read::follow::followers::Followers;

/// Maximum nanoseconds for which a sweep keeps its version pinned.
const PINNED_NS_MAX: u64 = 1_000_000_000;

/// Maximum time for which a paused sweep waits for the next read of its follower.
const IDLE: Duration = Duration::from_millis(100);

/// A sweep between two windows.
pub struct PausedSweep {
    sweep: HistorySweep,
    /// First gsn of the next window.
    next: Gsn,
    /// Time at which the version was pinned, in nanoseconds.
    began_ns: u64,
    /// Number of the last window.
    windows: u64,
    _place: OwnedSemaphorePermit,
}

/// The input of one read of history.
pub struct HistoryRead {
    /// A weak reference, upgraded only between waits: a task must not keep the engine alive.
    pub followers: Weak<Followers>,
    /// The follower's request.
    pub request: Arc<SubscribeRequest>,
    /// The paused sweep of the follower, if there is one.
    pub paused: Arc<Mutex<Option<PausedSweep>>>,
    /// Number of this window, counted from the start of the follower.
    pub windows: u64,
    /// The position from which the read starts.
    pub position: Position,
}

impl HistoryRead {
    /// Reads a window. Starts a task only if the read must wait.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`, `Shutdown`.
    pub async fn run(self) -> Result<FollowerRead> {
        finish_in_task(self.read()).await
    }

    async fn read(self) -> Result<FollowerRead> {
        let mut paused = match self.take_paused()? {
            Some(paused) => paused,
            None => {
                let sweeps = Arc::clone(&upgrade(&self.followers)?.sweeps);
                let place = place(sweeps).await?;
                let (begun, end) = self.begin(place)?;
                let Some(begun) = begun else {
                    return Ok(FollowerRead::nothing(end, self.position));
                };
                begun
            }
        };
        debug_assert!(paused.next == self.position.next, "a sweep goes on at another position");
        let memory = Arc::clone(&upgrade(&self.followers)?.history_budget);
        // Uses only half of the free memory, and leaves room for other followers.
        let bytes_max = usize::try_from(memory.left() / 2).unwrap_or(usize::MAX);
        let window = paused.sweep.window(bytes_max).await?;
        let passed = GsnRange::new(self.position.next, window.end);
        let lost = paused.sweep.version().lost().within(passed).collect();
        let ended = window.ended;
        let rows_max = self.request.batch_rows_max;
        let read = FollowerRead::new(window, lost, self.position, rows_max, &memory);
        if read.whole && !ended {
            paused.next = read.position.next;
            self.pause(paused);
        }
        Ok(read)
    }

    /// Takes over the paused sweep. Returns `None` if its version has been pinned for too long, or
    /// if the follower has meanwhile advanced in the ring of the last commits.
    fn take_paused(&self) -> Result<Option<PausedSweep>> {
        let now_ns = upgrade(&self.followers)?.clock.monotonic_ns();
        let paused = self.paused.lock().take();
        Ok(paused.filter(|paused| {
            paused.next == self.position.next
                && now_ns.saturating_sub(paused.began_ns) < PINNED_NS_MAX
        }))
    }

    /// Begins a sweep over the published events. Returns the sweep (`None` if the chronicle has no
    /// version), and the gsn after the last published event.
    fn begin(&self, place: OwnedSemaphorePermit) -> Result<(Option<PausedSweep>, Gsn)> {
        let followers = upgrade(&self.followers)?;
        let published = followers.publisher.published();
        let gsns = GsnRange::between(self.position.next, published.gsn);
        let Some(pinned) = published.versions.get(&self.request.chronicle.id) else {
            return Ok((None, gsns.end));
        };
        let sweep = HistorySweep::begin(&pinned.version, &self.request, gsns)?;
        let began_ns = followers.clock.monotonic_ns();
        Ok((
            Some(PausedSweep {
                sweep,
                next: self.position.next,
                began_ns,
                windows: 0,
                _place: place,
            }),
            gsns.end,
        ))
    }

    /// Keeps the sweep for the next window, and drops the sweep after `IDLE`: a slow follower pins
    /// no version and occupies no permit.
    fn pause(self, mut paused: PausedSweep) {
        let Self { paused: rests, windows, .. } = self;
        paused.windows = windows;
        *rests.lock() = Some(paused);
        tokio::spawn(async move {
            tokio::time::sleep(IDLE).await;
            let late = rests.lock().take_if(|paused| paused.windows == windows);
            drop(late);
        });
    }
}

/// Finds the gsn of the first event, in commit order, at or after this tick. If no event matches,
/// returns the gsn after the head of the log.
///
/// # Errors
/// The errors of [`HistoryRead::run`].
pub async fn first_at(
    followers: &Arc<Followers>,
    chronicle: ChronicleId,
    tick: Tick,
) -> Result<Gsn> {
    finish_in_task(find(Arc::downgrade(followers), chronicle, tick)).await
}

async fn find(followers: Weak<Followers>, chronicle: ChronicleId, tick: Tick) -> Result<Gsn> {
    let sweeps = Arc::clone(&upgrade(&followers)?.sweeps);
    let _place = place(sweeps).await?;
    let published = upgrade(&followers)?.publisher.published();
    let behind = Gsn(published.gsn.0 + 1);
    let version = published.versions.get(&chronicle).map(|known| Arc::clone(&known.version));
    drop(published);
    let Some(version) = version else { return Ok(behind) };
    let first = version.first_at(tick, Gsn(behind.0 - 1)).await?;
    debug_assert!(first.is_none_or(|first| first < behind), "an event lies behind the head");
    Ok(first.unwrap_or(behind))
}

fn upgrade(followers: &Weak<Followers>) -> Result<Arc<Followers>> {
    followers.upgrade().ok_or_else(|| Error::new(ErrorKind::Shutdown, "the log was closed"))
}

async fn place(sweeps: Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    sweeps.acquire_owned().await.map_err(|_| Error::internal("sweeps are closed"))
}

/// Polls `work` once. If `work` is not ready, a task completes it.
async fn finish_in_task<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut work: BoxFuture<'static, Result<T>> = Box::pin(work);
    match work.as_mut().now_or_never() {
        Some(done) => done,
        None => Task(tokio::spawn(work)).ended().await,
    }
}

/// A task that is aborted when this value drops, that is, when the caller stops waiting.
struct Task<T>(JoinHandle<Result<T>>);

impl<T> Task<T> {
    async fn ended(mut self) -> Result<T> {
        match (&mut self.0).await {
            Ok(done) => done,
            Err(error) if error.is_cancelled() => {
                Err(Error::new(ErrorKind::Shutdown, "the server is shutting down"))
            }
            Err(error) => {
                Err(Error::internal(format!("reading of the history has stopped: {error}")))
            }
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
