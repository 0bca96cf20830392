//! The keeper's state of one chronicle, protected by one lock that is held only briefly.
//!
//! ```text
//!   admit:    look up and reserve keys, assign seq's         (appender, any order)
//!   commit:   gsn known ─► new version, replaced events      (publisher, lsn order)
//!   roll back: free the reserved keys                       (drop of the chunk)
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

use super::{admission_request::StoredKeys, chunk::KeyReservation, series::SeriesId};
use crate::{
    blocking_pool::BlockingPool,
    events::{
        batch::MemoryBatch, budget::Budget, keys::Groups, numberings::Numberings, shape::Shape,
    },
    read::follow::feed::{Feed, FeedBytes},
    version::{Version, compact, fence::Fence},
};

mod admit;
mod delete_reservation;
mod pieces;
mod seal;
mod state;

pub use delete_reservation::DeleteReservation;
use seal::Horizon;
pub use state::ChronicleState;
use state::KeyOverride;

/// The keeper's state of a chronicle.
#[derive(Debug)]
pub struct Chronicle {
    id: ChronicleId,
    collision: Collision,
    indexed: bool,
    shapes: RwLock<HashMap<SchemaVersion, Arc<Shape>, RandomState>>,
    /// Largest number of key columns among the schema versions used until now.
    key_columns: AtomicUsize,
    state: Mutex<ChronicleState>,
    /// True if a merge of batches is worthwhile: most rows of some batch were replaced.
    worn: AtomicBool,
    /// The grapher is moving batches up to this gsn into pieces (tablets or stories), or has moved
    /// them.
    leaving: AtomicU64,
    numberings: Arc<Numberings>,
    feed: Arc<Feed>,
}

impl Chronicle {
    /// A chronicle without events. `opened_ns` is the time at which the engine was opened.
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
            indexed: collision.is_unique() || !definition.key_columns.is_empty(),
            shapes: RwLock::default(),
            key_columns: AtomicUsize::new(0),
            state: Mutex::new(ChronicleState::new(budget, Horizon::of(definition, opened_ns))),
            worn: AtomicBool::new(false),
            leaving: AtomicU64::new(0),
            numberings: Numberings::new(numbers),
            feed: Feed::new(feeds),
        }
    }

    /// Numbers for the series of the chronicle, for queries of the newest events.
    pub fn numberings(&self) -> &Arc<Numberings> {
        &self.numberings
    }

    /// The ring of the latest commits, for subscriptions.
    pub fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    /// The id of the chronicle.
    pub fn id(&self) -> ChronicleId {
        self.id
    }

    /// The rule for a second event with the same collision key.
    pub fn collision(&self) -> Collision {
        self.collision
    }

    /// True if the tick index has an entry per event; false without key columns under `collision =
    /// 'all'`.
    pub fn indexed(&self) -> bool {
        self.indexed
    }

    /// The shape (columns and types) of a schema version, created on first use.
    pub fn shape(
        &self,
        definition: &ChronicleDefinition,
        version: SchemaVersion,
    ) -> Result<Arc<Shape>> {
        debug_assert_eq!(definition.id, self.id, "the definition of another chronicle");
        let known = self.shapes.read().get(&version).cloned();
        // A transaction that was rolled back may have used this version number for other columns.
        if let Some(shape) =
            known.filter(|shape| version != definition.schema_version || shape.is_of(definition))
        {
            debug_assert_eq!(shape.version, version, "the shape of another version");
            return Ok(shape);
        }
        let shape = Arc::new(Shape::of(definition, version)?);
        debug_assert!(shape.tick_at < shape.columns.len(), "the tick column is behind the columns");
        self.key_columns.fetch_max(shape.keys.at.len(), Ordering::Relaxed);
        self.shapes.write().insert(version, Arc::clone(&shape));
        Ok(shape)
    }

    /// Largest number of key columns among the schema versions used until now. Older schema
    /// versions may have fewer key columns.
    pub fn key_columns(&self) -> usize {
        self.key_columns.load(Ordering::Relaxed)
    }

    /// The shape of a schema version; `None` before the first frame, piece or push with this
    /// version.
    pub fn known_shape(&self, version: SchemaVersion) -> Option<Arc<Shape>> {
        self.shapes.read().get(&version).cloned()
    }

    /// The next arrival number to assign: all lower numbers are assigned.
    pub fn next_seq(&self) -> u64 {
        self.state.lock().next_seq
    }

    /// Locks the mutable state. The lock is held only for lookups, never across an `await`.
    pub fn state(&self) -> MutexGuard<'_, ChronicleState> {
        self.state.lock()
    }

    /// Assigns `rows` arrival numbers; returns the first.
    pub fn take_seqs(&self, rows: u64) -> u64 {
        let mut state = self.state.lock();
        let first = state.next_seq;
        debug_assert!(first > 0, "the arrival number 0 is given");
        state.next_seq += rows;
        first
    }

    /// Rolls a chunk back: frees the keys that the chunk has reserved.
    pub fn roll_back(&self, reserved: &KeyReservation) {
        debug_assert!(!reserved.committed, "a committed chunk is rolled back");
        let mut state = self.state.lock();
        if let Some(pending) = state.pending.remove(&reserved.first_seq) {
            debug_assert_eq!(pending.end_seq, reserved.end_seq, "another range is pending");
            state.forget_successors(&pending);
        }
        state.remove_entries(reserved);
        state.account();
    }

    /// The current version; `None` for a dropped chronicle.
    pub fn version(&self) -> Option<Arc<Version>> {
        let state = self.state();
        (!state.forgotten).then(|| Arc::clone(&state.version))
    }

    /// Commits a batch: adds the batch to the version, and hides replaced events. Returns the new
    /// version; `None` for a dropped chronicle. Call only under the publisher's lock.
    pub fn commit(
        &self,
        batch: MemoryBatch,
        reserved: &mut KeyReservation,
        rows_sealed: usize,
    ) -> Option<Arc<Version>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        debug_assert!(!reserved.committed, "a chunk is committed twice");
        reserved.committed = true;
        let pending = state.pending.remove(&reserved.first_seq);
        if let Some(pending) = &pending {
            debug_assert_eq!(pending.end_seq, reserved.end_seq, "another range is pending");
            state.forget_successors(pending);
        }
        if state.forgotten {
            return None;
        }
        debug_assert!(batch.rows() as u64 <= reserved.end_seq - reserved.first_seq);
        invariant!(
            SnapshotsFrozen,
            batch.hull().is_empty()
                || state.version.open_from().is_none_or(|first| first <= batch.hull().start)
                || crate::sabotage::active("sealed-early")
                || crate::sabotage::active("horizon-ignored")
                || crate::sabotage::active("window-ignored"),
            "chronicle {} takes an event at tick {}, before its seal",
            self.id,
            batch.hull().start
        );
        let (first_gsn, rows) = (batch.first_gsn(), batch.rows() as u64);
        state.see(&batch.hull(), batch.shape().version);
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

    /// Commits events found in the journal at a start. The original append already decided the
    /// collisions; the replay only recomputes which events were replaced. Runs in one thread and
    /// without pending events. If the version has no readers, it changes in place, without a copy.
    ///
    /// # Errors
    /// The errors of reads of tablets and stories.
    pub fn replay(
        &self,
        batch: MemoryBatch,
        groups: &Groups,
        first_seq: u64,
        rows_sealed: usize,
        blocking_pool: &BlockingPool,
    ) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        debug_assert!(state.pending.is_empty(), "a replay beside appends");
        debug_assert!(
            groups.of_row.is_empty() || batch.rows() <= groups.of_row.len(),
            "an event without a group"
        );
        let (first_gsn, rows) = (batch.first_gsn(), batch.rows() as u64);
        if state.highest.is_none() {
            state.continue_from_start();
        }
        state.see(&batch.hull(), batch.shape().version);
        let batch = Arc::new(batch);
        let sealed = state.version.sealed().len();
        Arc::make_mut(&mut state.version).push(Arc::clone(&batch), rows_sealed);
        self.consider_sealed(state, sealed);
        state.next_seq = state.next_seq.max(first_seq + rows);
        if !self.indexed {
            return Ok(());
        }
        if self.collision.replaces() {
            let stored_keys = StoredKeys::find(&state.version, groups, batch.ticks(), false);
            let stored_keys = blocking_pool.block_on(stored_keys)?;
            let replaced = (0..batch.rows()).filter_map(|row| {
                let tick = batch.ticks().get(row)?;
                Some((stored_keys.seq(groups.group(row), *tick)?, first_gsn + row as u64))
            });
            state.replace_filed(replaced.collect::<Vec<_>>());
        }
        state.locator.insert(first_seq, rows, first_gsn);
        let series: Vec<SeriesId> =
            groups.keys.iter().map(|key| state.series.intern(key)).collect();
        for (row, tick) in batch.ticks().iter().enumerate() {
            let Some(series) = series.get(groups.group(row)).copied() else { continue };
            let (seq, gsn) = (first_seq + row as u64, first_gsn + row as u64);
            let holder = match self.collision.is_unique() {
                true => state.series.series(series).and_then(|series| series.find(*tick)),
                false => None,
            };
            match holder {
                None => state.series.insert(series, *tick, seq),
                Some(_) => {
                    invariant!(
                        AcknowledgedIsRecovered,
                        self.collision.replaces(),
                        "chronicle {} replays two events with one key, at tick {tick}",
                        self.id
                    );
                    self.settle(state, KeyOverride { series, tick: *tick, seq }, gsn, rows_sealed);
                }
            }
        }
        state.account();
        Ok(())
    }

    /// Gives a committed event the entry of its collision key, and hides the event that had the
    /// entry before. Called in gsn order: the last committed event keeps the key.
    fn settle(&self, state: &mut ChronicleState, event: KeyOverride, gsn: u64, rows_sealed: usize) {
        let KeyOverride { series, tick, seq } = event;
        let holder = state.series.series(series).and_then(|series| series.find(tick));
        let Some(holder) = holder else {
            return state.series.insert(series, tick, seq);
        };
        if holder == seq {
            return;
        }
        match state.locator.gsn(holder) {
            Some(old_gsn) => {
                debug_assert!(old_gsn < gsn, "an event replaces a later event");
                let batch = state.version.batch_of(old_gsn);
                if let Some((batch, row)) =
                    batch.and_then(|batch| Some((batch, batch.row_of(old_gsn)?)))
                {
                    let replaced = batch.supersede(row, gsn);
                    // Compaction copies small batches anyway, unless they are sealed.
                    let stays = batch.weight() >= rows_sealed
                        || state.version.sealed().last().is_some_and(|b| old_gsn <= b.last_gsn());
                    if stays && compact::is_worn(batch.rows(), replaced) {
                        self.set_worn();
                    }
                }
                state.series.replace(series, tick, holder, seq, Some(gsn));
            }
            None => {
                // A pending statement reserved the key first. When the pending statement commits,
                // its event replaces this event.
                state.series.replace(series, tick, holder, seq, None);
                if let Some(other) = state.pending_of(holder) {
                    other.overrides.push(KeyOverride { series, tick, seq: holder });
                }
            }
        }
    }

    /// Marks the chronicle as worn if the number of sealed batches has changed from `before`: rows
    /// of newly sealed batches may be replaced already.
    fn consider_sealed(&self, state: &ChronicleState, before: usize) {
        debug_assert!(before <= state.version.sealed().len(), "sealed batches are lost");
        if self.collision.replaces() && state.version.sealed().len() != before {
            self.set_worn();
        }
    }

    /// True if some batch should be copied without its replaced rows.
    pub fn is_worn(&self) -> bool {
        self.worn.load(Ordering::Relaxed)
    }

    /// Highest gsn of the batches that are moving, or have moved, into pieces: compaction in memory
    /// must not touch these batches.
    pub fn leaving(&self) -> u64 {
        self.leaving.load(Ordering::Acquire)
    }

    /// Records that batches up to `gsn` are moving into pieces.
    pub fn set_leaving(&self, gsn: u64) {
        self.leaving.store(gsn, Ordering::Release);
    }

    /// Returns the tail of `batches` (ascending by gsn) that is not moving into pieces.
    pub fn staying<'a>(&self, batches: &'a [Arc<MemoryBatch>]) -> &'a [Arc<MemoryBatch>] {
        let leaving = self.leaving();
        let first = batches.partition_point(|batch| batch.first_gsn() <= leaving);
        batches.get(first..).unwrap_or(&[])
    }

    /// Returns [`Self::is_worn`] and resets the mark.
    pub fn take_worn(&self) -> bool {
        self.worn.swap(false, Ordering::Relaxed)
    }

    /// Records that some batch should be copied without its replaced rows.
    pub fn set_worn(&self) {
        self.worn.store(true, Ordering::Relaxed);
    }

    /// Ensures that the next assigned arrival number is at least `seq`.
    pub fn seen_seq(&self, seq: u64) {
        let mut state = self.state.lock();
        state.next_seq = state.next_seq.max(seq);
    }

    /// Deletes the committed events that `fence` covers. `deleted_positions` computes the gsn's of
    /// these events in the version before the delete. Returns the versions before and after the
    /// delete. Call only under the publisher's lock.
    pub fn delete(
        &self,
        fence: Fence,
        deleted_positions: impl FnOnce(&Version) -> GsnRange,
    ) -> (Arc<Version>, Arc<Version>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let before = Arc::clone(&state.version);
        state.version =
            Arc::new(before.with_fence(fence, deleted_positions(&before), self.leaving()));
        debug_assert!(before.epoch() < state.version.epoch(), "a delete within an epoch");
        self.feed.forget(fence.raised());
        if self.indexed {
            state.trim(&fence);
            state.shrink_locator();
            state.account();
        }
        (before, Arc::clone(&state.version))
    }

    /// Finds which of the keys belong to events in tablets and stories. Reads blocks of these
    /// files, and therefore runs without the lock.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure`.
    pub async fn stored_keys(&self, groups: &Groups, ticks: &[i64]) -> Result<StoredKeys> {
        debug_assert!(
            groups.of_row.is_empty() || ticks.len() <= groups.of_row.len(),
            "an event without a group"
        );
        let version = Arc::clone(&self.state.lock().version);
        match self.collision.is_unique() {
            true => StoredKeys::find(&version, groups, ticks, self.collision.moves_ticks()).await,
            false => Ok(StoredKeys::none(&version)),
        }
    }

    /// Number of series with at least one event in memory.
    pub fn series_count(&self) -> u64 {
        self.state.lock().series.len() as u64
    }

    /// Like [`Self::series_count`], but does not wait for the lock; returns 0 while another thread
    /// holds the lock.
    pub fn series_at_hand(&self) -> u64 {
        self.state.try_lock().map_or(0, |state| state.series.len() as u64)
    }

    /// Bytes of the tick index.
    pub fn index_bytes(&self) -> u64 {
        self.state.lock().index_claim.bytes()
    }
}
