//! Followers: a chronicle in the order of commits, first what there is, then what comes (F104).
//!
//! ```text
//!   position ─► in the ring of the last commits? ─► its commits, one decoded batch for all followers
//!                 └► no: a version is pinned ─► sweep: windows of positions, out of any tier
//! ```
//! A follower has a position, and of history what it read and was not told yet, as far as there is
//! room for that: what it does not take is kept for nobody. One that is slow falls out of the ring,
//! reads history up to the head, and finds the ring again. A version stays pinned for a moment only,
//! so that files and memory are given back however slow it is.

mod history;
pub mod memory;
mod reading;
mod untold;

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
    reading::{Reading, Resting},
    untold::{Position, Untold},
};
use crate::{
    engine::Core,
    keeper::feed::{Commit, Following, Taken},
};

/// Place of `_gsn` among the system columns.
pub const GSN: usize = 2;

/// Commits that are taken from the ring at a time.
const COMMITS_TAKEN: usize = 256;

/// Bytes that are put together into one batch, at most.
const TOGETHER_BYTES: usize = 512 << 10;

/// Sweeps at a time: what they have in memory is bounded, and so is how many have it.
pub const SWEEPS_MAX: usize = 4;

/// Starts a subscription.
///
/// # Errors
/// `UndefinedTable` for a chronicle that was dropped.
pub fn subscribe(core: &Arc<Core>, request: SubscribeRequest) -> Result<Subscription> {
    let chronicle = core.chronicle(&request.chronicle)?;
    let (following, head) = core.follow(&chronicle)?;
    let place = match request.from {
        SubscribeFrom::Gsn(gsn) => Place::At(gsn),
        SubscribeFrom::Live => Place::At(Gsn(head.0 + 1)),
        SubscribeFrom::Tick(_) => Place::Unknown,
    };
    let follower = Follower {
        core: Arc::clone(core),
        request: Arc::new(request),
        following,
        place,
        resting: Arc::default(),
        windows: 0,
        deleted: Gsn(0),
        untold: Untold::default(),
    };
    Ok(Box::pin(stream::try_unfold(Some(follower), |follower| async move {
        let Some(mut follower) = follower else { return Ok(None) };
        let update = follower.next().await?;
        Ok(Some((update, Some(follower))))
    })))
}

/// Where a follower is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// It is told by a tick, and not looked for yet.
    Unknown,
    /// The first position that was not told.
    At(Gsn),
}

struct Follower {
    core: Arc<Core>,
    request: Arc<SubscribeRequest>,
    following: Following,
    place: Place,
    /// History that is read, between two windows.
    resting: Arc<Mutex<Option<Resting>>>,
    /// Windows of history so far.
    windows: u64,
    /// Deletes up to this gsn were told.
    deleted: Gsn,
    /// History that comes next.
    untold: Untold,
}

impl Follower {
    async fn next(&mut self) -> Result<Update> {
        loop {
            if let Some(update) = self.untold.next() {
                return Ok(update);
            }
            let Place::At(next) = self.place else {
                self.place = Place::At(self.find().await?);
                continue;
            };
            let rows_max = self.rows_max();
            match self.following.take(next, COMMITS_TAKEN, rows_max, TOGETHER_BYTES as u64) {
                Taken::Ended => return Err(dropped(&self.request.chronicle)),
                Taken::Commits(commits) if commits.is_empty() => self.following.news().await,
                Taken::Commits(commits) => {
                    if let Some(rows) = self.take(&commits, next)? {
                        return Ok(Update::Events(rows));
                    }
                }
                Taken::Behind => self.read(next).await?,
            }
        }
    }

    /// Rows of a batch, at most.
    fn rows_max(&self) -> usize {
        self.request.batch_rows_max.max(1)
    }

    /// The position of the first event with the tick that was asked for, or a later one.
    async fn find(&self) -> Result<Gsn> {
        let SubscribeFrom::Tick(tick) = self.request.from else {
            return Err(Error::internal("a subscription has no beginning"));
        };
        reading::first_at(&self.core, self.request.chronicle.id, tick).await
    }

    /// A batch of commits out of the ring, which keeps the rest as long as it keeps it for all.
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
            // Not a part of it behind others: alone, it is no copy of what is decoded.
            let whole = count + rows.num_rows() <= rows_max && bytes + more <= TOGETHER_BYTES;
            if count > 0 && !whole {
                break;
            }
            (count, bytes, place) = (count + rows.num_rows(), bytes + more, behind);
            batches.push(rows);
        }
        self.place = Place::At(place.max(next));
        let mut together = together(batches, rows_max)?;
        match together.pop() {
            Some(_) if !together.is_empty() => Err(Error::internal("commits are several batches")),
            rows => Ok(rows),
        }
    }

    /// A window of history, out of any tier.
    async fn read(&mut self, next: Gsn) -> Result<()> {
        self.windows += 1;
        let reading = Reading {
            core: Arc::downgrade(&self.core),
            request: Arc::clone(&self.request),
            resting: Arc::clone(&self.resting),
            windows: self.windows,
            position: Position { next, deleted: self.deleted },
        };
        let read = reading.run().await?;
        self.place = Place::At(read.position.next);
        self.deleted = read.position.deleted;
        self.untold = read.untold;
        Ok(())
    }
}

/// Neighbours in batches of about so many rows, so that many small ones are few; what is large is not
/// copied for that.
fn together(batches: Vec<RecordBatch>, rows: usize) -> Result<Vec<RecordBatch>> {
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
    Ok(all)
}

fn dropped(chronicle: &ChronicleDefinition) -> Error {
    Error::new(
        ErrorKind::UndefinedTable,
        format!("table \"{}\" was dropped", chronicle.qualified_name()),
    )
}
