//! What the keeper knows of one chronicle, behind one short lock.
//!
//! ```text
//!   admit:    look up and reserve keys, number events        (appender, any order)
//!   commit:   number known ─► version, replaced events       (publisher, lsn order)
//!   roll back: reserved keys are free again                  (whoever drops the chunk)
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};

use ahash::RandomState;
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard, RwLock};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Collision, GsnRange, Result, SchemaVersion, invariant,
};

use super::{
    candidates::Taken,
    chunk::Reserved,
    feed::{Feed, FeedBytes},
    keys::Groups,
    series::SeriesId,
};
use crate::{
    budget::Budget,
    memtable::{batch::MemoryBatch, compact, shape::Shape},
    version::{Fence, Version, numberings::Numberings},
    waiting::Waiting,
};

mod admit;
mod pieces;
mod seal;
mod state;

use seal::Horizon;
use state::Override;
pub use state::State;

/// A chronicle in the keeper.
#[derive(Debug)]
pub struct Chronicle {
    id: ChronicleId,
    collision: Collision,
    indexed: bool,
    shapes: RwLock<HashMap<SchemaVersion, Arc<Shape>, RandomState>>,
    /// Key columns that events here may have.
    key_columns: AtomicUsize,
    state: Mutex<State>,
    /// Whether most rows of some batch were replaced.
    worn: AtomicBool,
    /// Batches up to this gsn are about to leave, or have left.
    leaving: AtomicU64,
    numberings: Arc<Numberings>,
    feed: Arc<Feed>,
}

impl Chronicle {
    /// A chronicle without events, in an engine that began at `opened_ns`.
    pub fn new(
        definition: &ChronicleDefinition,
        budget: &Arc<Budget>,
        numbers: &Arc<Budget>,
        feeds: &Arc<FeedBytes>,
        opened_ns: i64,
    ) -> Self {
        let collision = if crate::sabotage::active("collision-off") {
            Collision::All
        } else {
            definition.collision
        };
        Self {
            id: definition.id,
            collision,
            indexed: collision != Collision::All || !definition.key_columns.is_empty(),
            shapes: RwLock::default(),
            key_columns: AtomicUsize::new(0),
            state: Mutex::new(State::new(budget, Horizon::of(definition, opened_ns))),
            worn: AtomicBool::new(false),
            leaving: AtomicU64::new(0),
            numberings: Numberings::new(numbers),
            feed: Feed::new(feeds),
        }
    }

    /// The numbers of groups of its events.
    pub fn numberings(&self) -> &Arc<Numberings> {
        &self.numberings
    }

    /// Its last commits, for those who follow.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// Its id.
    pub fn id(&self) -> ChronicleId {
        self.id
    }

    /// What happens when two events have one key and tick.
    pub fn collision(&self) -> Collision {
        self.collision
    }

    /// Whether keys are indexed by tick. Not so without keys under `all`.
    pub fn indexed(&self) -> bool {
        self.indexed
    }

    /// The shape of a schema version.
    pub fn shape(
        &self,
        definition: &ChronicleDefinition,
        version: SchemaVersion,
    ) -> Result<Arc<Shape>> {
        let known = self.shapes.read().get(&version).cloned();
        // A rolled-back block may have given this version to other columns.
        if let Some(shape) =
            known.filter(|shape| version != definition.schema_version || shape.is_of(definition))
        {
            return Ok(shape);
        }
        let shape = Arc::new(Shape::of(definition, version)?);
        self.key_columns.fetch_max(shape.keys.at.len(), Ordering::Relaxed);
        self.shapes.write().insert(version, Arc::clone(&shape));
        Ok(shape)
    }

    /// Key columns that events here may have: more than a definition tells of that is older
    /// than the last of them.
    pub fn key_columns(&self) -> usize {
        self.key_columns.load(Ordering::Relaxed)
    }

    /// The shape of a schema version that events here had.
    pub fn known_shape(&self, version: SchemaVersion) -> Option<Arc<Shape>> {
        self.shapes.read().get(&version).cloned()
    }

    /// Arrival numbers below this one were given.
    pub fn next_seq(&self) -> u64 {
        self.state.lock().next_seq
    }

    /// The changing part. Held for look-ups, never while waiting.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Takes `rows` arrival numbers; returns the first.
    pub fn take_seqs(&self, rows: u64) -> u64 {
        let mut state = self.state.lock();
        let first = state.next_seq;
        state.next_seq += rows;
        first
    }

    /// Frees what a chunk reserved.
    pub fn roll_back(&self, reserved: &Reserved) {
        let mut state = self.state.lock();
        if let Some(pending) = state.pending.remove(&reserved.first_seq) {
            state.forget_successors(&pending);
        }
        state.remove_entries(reserved);
        state.account();
    }

    /// The version; `None` when the chronicle is forgotten.
    pub fn version(&self) -> Option<Arc<Version>> {
        let state = self.state();
        (!state.forgotten).then(|| Arc::clone(&state.version))
    }

    /// Makes a batch part of the version; `None` when the chronicle is forgotten. Only
    /// under the publisher's lock.
    pub fn commit(
        &self,
        batch: MemoryBatch,
        reserved: &mut Reserved,
        rows_sealed: usize,
    ) -> Option<Arc<Version>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        reserved.committed = true;
        let pending = state.pending.remove(&reserved.first_seq);
        if let Some(pending) = &pending {
            state.forget_successors(pending);
        }
        if state.forgotten {
            return None;
        }
        let (first_gsn, rows) = (batch.first_gsn(), batch.rows() as u64);
        state.see(&batch.hull());
        let sealed = state.version.sealed().len();
        state.version = Arc::new(state.version.with_batch(Arc::new(batch), rows_sealed));
        self.consider_sealed(state, sealed);
        if self.indexed {
            state.locator.insert(reserved.first_seq, rows, first_gsn);
            let (mut overrides, replaced) =
                pending.map(|pending| (pending.overrides, pending.replaced)).unwrap_or_default();
            if !replaced.is_empty() {
                let gsn_of = |seq: u64| first_gsn + (seq - reserved.first_seq);
                state.replace_filed(replaced.into_iter().map(|(old, seq)| (old, gsn_of(seq))));
            }
            overrides.sort_unstable_by_key(|event| event.seq);
            for event in overrides {
                let gsn = first_gsn + (event.seq - reserved.first_seq);
                self.settle(state, event, gsn, rows_sealed);
            }
        }
        Some(Arc::clone(&state.version))
    }

    /// Commits events that the log replays: their collisions were settled before, and only
    /// who replaces whom is found out again. Single-threaded; nothing is pending, and the
    /// version is copied only if somebody was shown it.
    ///
    /// # Errors
    /// Those of pieces that must be looked into.
    pub fn replay(
        &self,
        batch: MemoryBatch,
        groups: &Groups,
        first_seq: u64,
        rows_sealed: usize,
        waiting: &Waiting,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (first_gsn, rows) = (batch.first_gsn(), batch.rows() as u64);
        if state.highest.is_none() {
            state.go_on();
        }
        state.see(&batch.hull());
        let batch = Arc::new(batch);
        let sealed = state.version.sealed().len();
        Arc::make_mut(&mut state.version).push(Arc::clone(&batch), rows_sealed);
        self.consider_sealed(state, sealed);
        state.next_seq = state.next_seq.max(first_seq + rows);
        if !self.indexed {
            return Ok(());
        }
        if self.collision == Collision::Last {
            let taken = Taken::find(&state.version, groups, batch.ticks(), false);
            let taken = waiting.block_on(taken)?;
            let replaced = (0..batch.rows()).filter_map(|row| {
                let tick = batch.ticks().get(row)?;
                Some((taken.seq(groups.group(row), *tick)?, first_gsn + row as u64))
            });
            state.replace_filed(replaced.collect::<Vec<_>>());
        }
        state.locator.insert(first_seq, rows, first_gsn);
        let series: Vec<SeriesId> =
            groups.keys.iter().map(|key| state.series.intern(key)).collect();
        for (row, tick) in batch.ticks().iter().enumerate() {
            let Some(series) = series.get(groups.group(row)).copied() else { continue };
            let (seq, gsn) = (first_seq + row as u64, first_gsn + row as u64);
            let holder = match self.collision {
                Collision::All => None,
                _ => state.series.series(series).and_then(|series| series.find(*tick)),
            };
            match holder {
                None => state.series.insert(series, *tick, seq),
                Some(_) => {
                    invariant!(
                        AcknowledgedIsRecovered,
                        self.collision == Collision::Last,
                        "chronicle {} replays two events with one key, at tick {tick}",
                        self.id
                    );
                    self.settle(state, Override { series, tick: *tick, seq }, gsn, rows_sealed);
                }
            }
        }
        state.account();
        Ok(())
    }

    /// The event takes its key from whoever holds it now. Called in gsn order, so the last
    /// to commit ends up with it.
    fn settle(&self, state: &mut State, event: Override, gsn: u64, rows_sealed: usize) {
        let Override { series, tick, seq } = event;
        let holder = state.series.series(series).and_then(|series| series.find(tick));
        let Some(holder) = holder else {
            return state.series.insert(series, tick, seq);
        };
        if holder == seq {
            return;
        }
        match state.locator.gsn(holder) {
            Some(old_gsn) => {
                let batch = state.version.batch_of(old_gsn);
                if let Some((batch, row)) =
                    batch.and_then(|batch| Some((batch, batch.row_of(old_gsn)?)))
                {
                    let replaced = batch.supersede(row, gsn);
                    // Small ones are merged with their neighbours anyway, unless sealed.
                    let stays = batch.weight() >= rows_sealed
                        || state.version.sealed().last().is_some_and(|b| old_gsn <= b.last_gsn());
                    if stays && compact::is_worn(batch.rows(), replaced) {
                        self.set_worn();
                    }
                }
                state.series.replace(series, tick, holder, seq, Some(gsn));
            }
            None => {
                // A pending statement reserved the key first: it will replace this event
                // if and when it commits.
                state.series.replace(series, tick, holder, seq, None);
                if let Some(other) = state.pending_of(holder) {
                    other.overrides.push(Override { series, tick, seq: holder });
                }
            }
        }
    }

    /// Batches were sealed, unless there are as many as `before`: their rows may have been
    /// replaced already.
    fn consider_sealed(&self, state: &State, before: usize) {
        if self.collision == Collision::Last && state.version.sealed().len() != before {
            self.set_worn();
        }
    }

    /// Whether a batch is worth a copy without its replaced rows.
    pub fn is_worn(&self) -> bool {
        self.worn.load(Ordering::Relaxed)
    }

    /// Batches up to this gsn are left as they are.
    pub fn leaving(&self) -> u64 {
        self.leaving.load(Ordering::Acquire)
    }

    /// Batches up to `gsn` are about to leave.
    pub fn set_leaving(&self, gsn: u64) {
        self.leaving.store(gsn, Ordering::Release);
    }

    /// Those of some batches, by ascending gsn, that are not about to leave.
    pub fn staying<'a>(&self, batches: &'a [Arc<MemoryBatch>]) -> &'a [Arc<MemoryBatch>] {
        let leaving = self.leaving();
        let first = batches.partition_point(|batch| batch.first_gsn() <= leaving);
        batches.get(first..).unwrap_or(&[])
    }

    /// As [`Self::is_worn`], and no longer.
    pub fn take_worn(&self) -> bool {
        self.worn.swap(false, Ordering::Relaxed)
    }

    /// Some batch is.
    pub fn set_worn(&self) {
        self.worn.store(true, Ordering::Relaxed);
    }

    /// Arrival numbers below `seq` are never given again, committed or not.
    pub fn seen_seq(&self, seq: u64) {
        let mut state = self.state.lock();
        state.next_seq = state.next_seq.max(seq);
    }

    /// Deletes the committed events behind `fence`, whose positions `gone` tells by the version
    /// that has them; returns that and the one after. Only under the publisher's lock.
    pub fn delete(
        &self,
        fence: Fence,
        gone: impl FnOnce(&Version) -> GsnRange,
    ) -> (Arc<Version>, Arc<Version>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let before = Arc::clone(&state.version);
        state.version = Arc::new(before.with_fence(fence, gone(&before), self.leaving()));
        self.feed.forget(fence.raised());
        if self.indexed {
            state.trim(&fence);
            state.shrink_locator();
            state.account();
        }
        (before, Arc::clone(&state.version))
    }

    /// Which keys of events are those of events in pieces. Reads parts, so without the lock.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn taken(&self, groups: &Groups, ticks: &[i64]) -> Result<Taken> {
        let version = Arc::clone(&self.state.lock().version);
        match self.collision {
            Collision::All => Ok(Taken::none(&version)),
            collision => Taken::find(&version, groups, ticks, collision == Collision::Next).await,
        }
    }

    /// Keys that have an event.
    pub fn series_count(&self) -> u64 {
        self.state.lock().series.len() as u64
    }

    /// The same, where nobody is to be waited for; 0 else.
    pub fn series_at_hand(&self) -> u64 {
        self.state.try_lock().map_or(0, |state| state.series.len() as u64)
    }

    /// Bytes of the index.
    pub fn index_bytes(&self) -> u64 {
        self.state.lock().index_claim.bytes()
    }
}
