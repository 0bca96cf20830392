//! Followers: a chronicle in the order of commits, first what there is, then what comes (F104).
//!
//! ```text
//!   position ─► in the ring of the last commits? ─► its commits, one decoded batch for all followers
//!                 └► no: a version is pinned ─► sweep: windows of positions, out of any tier
//! ```
//! A follower has a position and nothing else: what it does not take is kept for nobody. One that
//! is slow falls out of the ring, reads history up to the head, and finds the ring again. A version
//! stays pinned for a moment only, so that files and memory are given back however slow it is.

mod history;
pub mod memory;
mod reading;

use std::{collections::VecDeque, sync::Arc};

use arrow::{
    array::{Int64Array, RecordBatch},
    compute::concat_batches,
    datatypes::SchemaRef,
};
use futures::stream;
use parking_lot::Mutex;
use stratalog_model::{
    ChronicleDefinition, Error, ErrorKind, Gsn, GsnRange, Result,
    subscribe::{Gap, GapCause, SubscribeFrom, SubscribeRequest, Subscription, Update},
};

use self::reading::{Read, Reading, Resting};
use crate::{
    engine::Core,
    keeper::feed::{Commit, Following, Taken},
};

/// Place of `_gsn` among the system columns.
pub const GSN: usize = 2;

/// Commits that are taken from the ring at a time.
const COMMITS_TAKEN: usize = 256;

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
        told: Gsn(0),
        waiting: VecDeque::new(),
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
    told: Gsn,
    /// What comes next.
    waiting: VecDeque<Update>,
}

impl Follower {
    async fn next(&mut self) -> Result<Update> {
        loop {
            if let Some(update) = self.waiting.pop_front() {
                return Ok(update);
            }
            let Place::At(position) = self.place else {
                self.place = Place::At(self.find().await?);
                continue;
            };
            match self.following.take(position, COMMITS_TAKEN) {
                Taken::Ended => return Err(dropped(&self.request.chronicle)),
                Taken::Commits(commits) if commits.is_empty() => self.following.news().await,
                Taken::Commits(commits) => self.take(&commits, position)?,
                Taken::Behind => self.read(position).await?,
            }
        }
    }

    /// The position of the first event with the tick that was asked for, or a later one.
    async fn find(&self) -> Result<Gsn> {
        let SubscribeFrom::Tick(tick) = self.request.from else {
            return Err(Error::internal("a subscription has no beginning"));
        };
        reading::first_at(&self.core, self.request.chronicle.id, tick).await
    }

    /// Commits out of the ring.
    fn take(&mut self, commits: &[Arc<Commit>], position: Gsn) -> Result<()> {
        let mut batches = Vec::with_capacity(commits.len());
        for commit in commits {
            let rows = commit.rows(&self.request.chronicle)?;
            let rows = commit.behind(&rows, &self.request.chronicle, position)?;
            batches.push(rows.project(&self.request.projection)?);
        }
        let last = commits.last().map_or(position, |commit| commit.gsns().end);
        self.place = Place::At(position.max(last));
        let most = self.request.batch_rows_max.max(1);
        for rows in together(batches, most)? {
            self.tell(rows);
        }
        Ok(())
    }

    /// A window of history, out of any tier.
    async fn read(&mut self, position: Gsn) -> Result<()> {
        self.windows += 1;
        let reading = Reading {
            core: Arc::downgrade(&self.core),
            request: Arc::clone(&self.request),
            resting: Arc::clone(&self.resting),
            windows: self.windows,
            position,
        };
        let Read { window, lost } = reading.run().await?;
        let mut gaps = window.damaged;
        for lost in lost {
            let untold =
                GsnRange::new(lost.start.max(position).max(Gsn(self.told.0 + 1)), lost.end);
            if !untold.is_empty() {
                self.told = Gsn(untold.end.0 - 1);
                gaps.push(Gap { gsns: untold, cause: GapCause::Deleted });
            }
        }
        gaps.sort_by_key(|gap| gap.gsns.start);
        self.tell_in_order(window.rows, gaps.into());
        self.place = Place::At(window.end.max(position));
        Ok(())
    }

    /// Tells of events, and of gaps where they begin: whoever goes on behind what was told last has
    /// missed nothing.
    fn tell_in_order(&mut self, rows: Vec<(RecordBatch, Int64Array)>, mut gaps: VecDeque<Gap>) {
        for (rows, gsns) in rows {
            let mut told = 0;
            let before = |gap: &Gap| {
                gsns.values().partition_point(|gsn| gsn.cast_unsigned() < gap.gsns.start.0)
            };
            while let Some(gap) = gaps.pop_front_if(|gap| before(gap) < gsns.len()) {
                let at = before(&gap);
                self.tell(rows.slice(told, at - told));
                self.waiting.push_back(Update::Gap(gap));
                told = at;
            }
            self.tell(rows.slice(told, gsns.len() - told));
        }
        self.waiting.extend(gaps.into_iter().map(Update::Gap));
    }

    fn tell(&mut self, rows: RecordBatch) {
        let most = self.request.batch_rows_max.max(1);
        let starts = (0..rows.num_rows()).step_by(most);
        let batches = starts.map(|at| rows.slice(at, most.min(rows.num_rows() - at)));
        self.waiting.extend(batches.map(Update::Events));
    }
}

/// Neighbours in batches of about so many rows, so that many small ones are few.
fn together(batches: Vec<RecordBatch>, rows: usize) -> Result<Vec<RecordBatch>> {
    let mut all = Vec::new();
    let mut gathered: Vec<RecordBatch> = Vec::new();
    let mut count = 0;
    let join = |gathered: &mut Vec<RecordBatch>| -> Result<Option<RecordBatch>> {
        let schema: Option<SchemaRef> = gathered.first().map(RecordBatch::schema);
        Ok(match (schema, gathered.len()) {
            (None, _) => None,
            (Some(_), 1) => gathered.pop(),
            (Some(schema), _) => Some(concat_batches(&schema, std::mem::take(gathered).iter())?),
        })
    };
    for batch in batches.into_iter().filter(|batch| batch.num_rows() > 0) {
        if count > 0 && count + batch.num_rows() > rows {
            all.extend(join(&mut gathered)?);
            count = 0;
        }
        count += batch.num_rows();
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
