//! What is read of history for a follower: where it begins, and one window after another.
//!
//! ```text
//!   a sweep that rests, or a place and a version ─► window ─► told
//!                                                     └► rests for a moment, for the next one
//! ```
//! Places are few, and a follower may not be looked at again for long, or ever: a cursor from which
//! nobody fetches is so. So what must be waited for is waited for by a task, which gives its place back
//! when it is through, whoever looks.

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
    history::Sweep,
    untold::{Position, Read},
};
use crate::engine::Core;

/// Nanoseconds for which a sweep goes on with the version that it began with.
const PINNED_NS_MAX: u64 = 1_000_000_000;

/// How long a sweep waits for its follower to come back for more.
const IDLE: Duration = Duration::from_millis(100);

/// A sweep that waits for its follower.
pub struct Resting {
    sweep: Sweep,
    /// Where it goes on.
    next: Gsn,
    /// When the version was pinned.
    began_ns: u64,
    /// The window that it read last.
    windows: u64,
    _place: OwnedSemaphorePermit,
}

/// What is to be read.
pub struct Reading {
    /// Only looked at between what is waited for: nobody's task keeps an engine.
    pub core: Weak<Core>,
    /// What the follower asks for.
    pub request: Arc<SubscribeRequest>,
    /// Its sweep, if there is one.
    pub resting: Arc<Mutex<Option<Resting>>>,
    /// The number of the window.
    pub windows: u64,
    /// Where it begins.
    pub position: Position,
}

impl Reading {
    /// Reads it: at once, where nothing is to be waited for.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`, `Shutdown`.
    pub async fn run(self) -> Result<Read> {
        aside(self.read()).await
    }

    async fn read(self) -> Result<Read> {
        let mut resting = match self.rested()? {
            Some(resting) => resting,
            None => {
                let sweeps = Arc::clone(&there(&self.core)?.sweeps);
                let place = place(sweeps).await?;
                let (begun, end) = self.begin(place)?;
                let Some(begun) = begun else { return Ok(Read::nothing(end, self.position)) };
                begun
            }
        };
        let memory = Arc::clone(&there(&self.core)?.untold);
        // So that many find some room, if there is little.
        let bytes_max = usize::try_from(memory.left() / 2).unwrap_or(usize::MAX);
        let window = resting.sweep.window(bytes_max).await?;
        let passed = GsnRange::new(self.position.next, window.end);
        let lost = resting.sweep.version().lost().within(passed).collect();
        let ended = window.ended;
        let rows_max = self.request.batch_rows_max;
        let read = Read::new(window, lost, self.position, rows_max, &memory);
        if read.whole && !ended {
            resting.next = read.position.next;
            self.rest(resting);
        }
        Ok(read)
    }

    /// The sweep that rests, unless it did so for too long, or the follower has read on without it: out of
    /// the ring of the last commits.
    fn rested(&self) -> Result<Option<Resting>> {
        let now_ns = there(&self.core)?.clock.monotonic_ns();
        let resting = self.resting.lock().take();
        Ok(resting.filter(|resting| {
            resting.next == self.position.next
                && now_ns.saturating_sub(resting.began_ns) < PINNED_NS_MAX
        }))
    }

    /// A sweep through what is visible now, if something is; and where that ends.
    fn begin(&self, place: OwnedSemaphorePermit) -> Result<(Option<Resting>, Gsn)> {
        let core = there(&self.core)?;
        let published = core.published();
        let gsns = GsnRange::between(self.position.next, published.gsn);
        let Some(pinned) = published.versions.get(&self.request.chronicle.id) else {
            return Ok((None, gsns.end));
        };
        let sweep = Sweep::begin(&pinned.version, &self.request, gsns)?;
        let began_ns = core.clock.monotonic_ns();
        Ok((
            Some(Resting { sweep, next: self.position.next, began_ns, windows: 0, _place: place }),
            gsns.end,
        ))
    }

    /// Keeps a sweep for the next window, unless that is long in coming: whoever is slow pins no
    /// version, and takes no place.
    fn rest(self, mut resting: Resting) {
        let Self { resting: rests, windows, .. } = self;
        resting.windows = windows;
        *rests.lock() = Some(resting);
        tokio::spawn(async move {
            tokio::time::sleep(IDLE).await;
            let late = rests.lock().take_if(|resting| resting.windows == windows);
            drop(late);
        });
    }
}

/// The position of the first event, in the order of commits, that has a tick or a later one; behind the
/// head of the log where there is none.
///
/// # Errors
/// As [`Reading::run`].
pub async fn first_at(core: &Arc<Core>, chronicle: ChronicleId, tick: Tick) -> Result<Gsn> {
    aside(find(Arc::downgrade(core), chronicle, tick)).await
}

async fn find(core: Weak<Core>, chronicle: ChronicleId, tick: Tick) -> Result<Gsn> {
    let sweeps = Arc::clone(&there(&core)?.sweeps);
    let _place = place(sweeps).await?;
    let published = there(&core)?.published();
    let behind = Gsn(published.gsn.0 + 1);
    let version = published.versions.get(&chronicle).map(|known| Arc::clone(&known.version));
    drop(published);
    let Some(version) = version else { return Ok(behind) };
    let first = version.first_at(tick, Gsn(behind.0 - 1)).await?;
    Ok(first.unwrap_or(behind))
}

fn there(core: &Weak<Core>) -> Result<Arc<Core>> {
    core.upgrade().ok_or_else(|| Error::new(ErrorKind::Shutdown, "the log was closed"))
}

async fn place(sweeps: Arc<Semaphore>) -> Result<OwnedSemaphorePermit> {
    sweeps.acquire_owned().await.map_err(|_| Error::internal("sweeps are closed"))
}

/// Does work at once where nothing is to be waited for, and else by a task.
async fn aside<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut work: BoxFuture<'static, Result<T>> = Box::pin(work);
    match work.as_mut().now_or_never() {
        Some(done) => done,
        None => Task(tokio::spawn(work)).ended().await,
    }
}

/// A task that ends with whoever waits for it.
struct Task<T>(JoinHandle<Result<T>>);

impl<T> Task<T> {
    async fn ended(mut self) -> Result<T> {
        match (&mut self.0).await {
            Ok(done) => done,
            Err(error) if error.is_cancelled() => {
                Err(Error::new(ErrorKind::Shutdown, "the server is shutting down"))
            }
            Err(error) => Err(Error::internal(format!("history is not read on: {error}"))),
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
