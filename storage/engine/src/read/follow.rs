//! Followers (the readers behind subscriptions) receive the events of a chronicle in commit order:
//! first the history, then each new commit (F104).
//!
//! ```text
//!   position ─► in the ring of the last commits? ─► yes: commits, decoded once for all followers
//!                 └► no: a version is pinned ─► sweep: windows of positions, from any tier
//! ```
//!
//! For each follower, the server keeps only its position, and history events that were read but not
//! yet delivered, if the memory budget has room. A slow follower falls out of the ring of the last
//! commits, reads history up to the head of the log, and enters the ring again. A follower pins a
//! version only for a moment, so that files and memory become free even if a follower is very slow.

pub mod feed;
pub mod followers;
mod history;
mod history_read;
pub mod memory;
mod pending_updates;

use std::sync::Arc;

use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use futures::stream;
use parking_lot::Mutex;
use stratalog_model::{
    ChronicleDefinition, Error, ErrorKind, Gsn, Result,
    ipc::batch_bytes,
    subscribe::{SubscribeFrom, SubscribeRequest, Subscription, Update},
};

use self::{
    followers::Followers,
    history_read::{HistoryRead, PausedSweep},
    pending_updates::{PendingUpdates, Position},
};
use crate::read::follow::feed::{Commit, FeedFollower, RingCommits};

/// Maximum number of commits taken from the ring at a time.
const COMMITS_MAX: usize = 256;

/// Maximum bytes of a batch that combines several commits.
const TOGETHER_BYTES: usize = 512 << 10;

/// Starts a subscription to a chronicle.
///
/// # Errors
/// `UndefinedTable` if the chronicle was dropped.
pub fn subscribe(followers: &Arc<Followers>, request: SubscribeRequest) -> Result<Subscription> {
    let chronicle = followers.publisher.chronicles.chronicle(&request.chronicle)?;
    let (following, head) = followers.publisher.follow(&chronicle)?;
    let place = match request.from {
        SubscribeFrom::Gsn(gsn) => FollowerPlace::At(gsn),
        SubscribeFrom::Live => FollowerPlace::At(Gsn(head.0 + 1)),
        SubscribeFrom::Tick(_) => FollowerPlace::Unknown,
    };
    let follower = Follower {
        followers: Arc::clone(followers),
        request: Arc::new(request),
        following,
        place,
        paused: Arc::default(),
        windows: 0,
        deleted: Gsn(0),
        pending_updates: PendingUpdates::default(),
    };
    Ok(Box::pin(stream::try_unfold(Some(follower), |follower| async move {
        let Some(mut follower) = follower else { return Ok(None) };
        let update = follower.next().await?;
        Ok(Some((update, Some(follower))))
    })))
}

/// The position of a follower in the log.
#[derive(Debug, Clone, Copy)]
enum FollowerPlace {
    /// The subscription starts at a tick, whose position is not yet determined.
    Unknown,
    /// The first gsn that is not yet delivered.
    At(Gsn),
}

struct Follower {
    followers: Arc<Followers>,
    request: Arc<SubscribeRequest>,
    following: FeedFollower,
    place: FollowerPlace,
    /// The paused scan of the history, between two windows of events.
    paused: Arc<Mutex<Option<PausedSweep>>>,
    /// Number of history windows read so far.
    windows: u64,
    /// Deletes up to this gsn have been delivered.
    deleted: Gsn,
    /// History events to deliver next.
    pending_updates: PendingUpdates,
}

impl Follower {
    async fn next(&mut self) -> Result<Update> {
        loop {
            if let Some(update) = self.pending_updates.next() {
                return Ok(update);
            }
            let FollowerPlace::At(next) = self.place else {
                self.place = FollowerPlace::At(self.find().await?);
                continue;
            };
            let rows_max = self.rows_max();
            match self.following.take(next, COMMITS_MAX, rows_max, TOGETHER_BYTES as u64) {
                RingCommits::Ended => return Err(dropped(&self.request.chronicle)),
                RingCommits::Commits(commits) if commits.is_empty() => self.following.news().await,
                RingCommits::Commits(commits) => {
                    if let Some(rows) = self.take(&commits, next)? {
                        return Ok(Update::Events(rows));
                    }
                }
                RingCommits::Behind => self.read(next).await?,
            }
        }
    }

    /// Maximum number of rows of a batch.
    fn rows_max(&self) -> usize {
        self.request.batch_rows_max.max(1)
    }

    /// Finds the gsn of the first event, in commit order, at or after the requested tick.
    async fn find(&self) -> Result<Gsn> {
        let SubscribeFrom::Tick(tick) = self.request.from else {
            return Err(Error::internal("a subscription has no beginning"));
        };
        history_read::first_at(&self.followers, self.request.chronicle.id, tick).await
    }

    /// Makes a batch from the next commits of the ring. The commits stay in the ring for other
    /// followers.
    fn take(&mut self, commits: &[Arc<Commit>], next: Gsn) -> Result<Option<RecordBatch>> {
        let (mut batches, mut count, mut bytes, mut place) = (Vec::new(), 0, 0, next);
        let rows_max = self.rows_max();
        for commit in commits {
            if count == rows_max {
                break;
            }
            let (rows, behind) = commit.behind(&self.request.chronicle, next, rows_max)?;
            let rows = rows.project(&self.request.projection)?;
            let more = batch_bytes(&rows);
            // A commit that does not fit completely waits for the next batch. If a batch consists
            // of one commit, the decoded rows need no copy.
            let whole = count + rows.num_rows() <= rows_max && bytes + more <= TOGETHER_BYTES;
            if count > 0 && !whole {
                break;
            }
            (count, bytes, place) = (count + rows.num_rows(), bytes + more, behind);
            batches.push(rows);
        }
        debug_assert!(commits.is_empty() || next < place, "a follower stands still at {next}");
        debug_assert!(count <= rows_max, "a batch has too many rows");
        self.place = FollowerPlace::At(place.max(next));
        let mut concat_batches_up_to = concat_batches_up_to(batches, rows_max)?;
        match concat_batches_up_to.pop() {
            Some(_) if !concat_batches_up_to.is_empty() => {
                Err(Error::internal("commits are several batches"))
            }
            rows => Ok(rows),
        }
    }

    /// Reads the next window of history, from any tier.
    async fn read(&mut self, next: Gsn) -> Result<()> {
        self.windows += 1;
        let history_read = HistoryRead {
            followers: Arc::downgrade(&self.followers),
            request: Arc::clone(&self.request),
            paused: Arc::clone(&self.paused),
            windows: self.windows,
            position: Position { next, deleted: self.deleted },
        };
        let read = history_read.run().await?;
        debug_assert!(next <= read.position.next, "a follower goes back from {next}");
        debug_assert!(self.deleted <= read.position.deleted, "a delete is delivered again");
        self.place = FollowerPlace::At(read.position.next);
        self.deleted = read.position.deleted;
        self.pending_updates = read.pending_updates;
        Ok(())
    }
}

/// Concatenates adjacent small batches into batches of up to `rows` rows and `TOGETHER_BYTES`
/// bytes. Does not copy large batches.
fn concat_batches_up_to(batches: Vec<RecordBatch>, rows: usize) -> Result<Vec<RecordBatch>> {
    let mut all = Vec::new();
    let mut gathered: Vec<RecordBatch> = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    let join = |gathered: &mut Vec<RecordBatch>| -> Result<Option<RecordBatch>> {
        let schema: Option<SchemaRef> = gathered.first().map(RecordBatch::schema);
        Ok(match (schema, gathered.len()) {
            (None, _) => None,
            (Some(_), 1) => gathered.pop(),
            (Some(schema), _) => Some(concat_batches(&schema, std::mem::take(gathered).iter())?),
        })
    };
    for batch in batches.into_iter().filter(|batch| batch.num_rows() > 0) {
        let more = batch_bytes(&batch);
        if count > 0 && (count + batch.num_rows() > rows || bytes + more > TOGETHER_BYTES) {
            all.extend(join(&mut gathered)?);
            (count, bytes) = (0, 0);
        }
        count += batch.num_rows();
        bytes += more;
        gathered.push(batch);
    }
    all.extend(join(&mut gathered)?);
    debug_assert!(gathered.is_empty(), "batches are left behind");
    Ok(all)
}

fn dropped(chronicle: &ChronicleDefinition) -> Error {
    Error::new(
        ErrorKind::UndefinedTable,
        format!("table \"{}\" was dropped", chronicle.qualified_name()),
    )
}
