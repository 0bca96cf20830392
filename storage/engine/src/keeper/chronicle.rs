//! What the keeper knows of one chronicle, behind one short lock.
//!
//! ```text
//!   admit:    look up and reserve keys, number events        (appender, any order)
//!   commit:   number known ─► version, replaced events       (publisher, lsn order)
//!   roll back: reserved keys are free again                  (whoever drops the chunk)
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use ahash::RandomState;
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard, RwLock};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Collision, Result, SchemaVersion, invariant,
    store::OnConflict,
};

use super::{
    candidates::{Admission, Candidates, Refused},
    chunk::Reserved,
    keys::Groups,
    locator::Locator,
    series::{SeriesId, SeriesTable},
};
use crate::{
    budget::Budget,
    memtable::{batch::MemoryBatch, compact, shape::Shape},
    version::{Fence, Version},
};

mod state;

pub use state::State;
use state::{Override, Pending};

/// A chronicle in the keeper.
#[derive(Debug)]
pub struct Chronicle {
    id: ChronicleId,
    collision: Collision,
    indexed: bool,
    shapes: RwLock<HashMap<SchemaVersion, Arc<Shape>, RandomState>>,
    state: Mutex<State>,
    /// Whether most rows of some batch were replaced.
    worn: AtomicBool,
}

impl Chronicle {
    /// A chronicle without events.
    pub fn new(definition: &ChronicleDefinition, budget: &Arc<Budget>) -> Self {
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
            state: Mutex::new(State::new(budget)),
            worn: AtomicBool::new(false),
        }
    }

    /// Its id.
    pub fn id(&self) -> ChronicleId {
        self.id
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
        if let Some(shape) = self.shapes.read().get(&version) {
            return Ok(Arc::clone(shape));
        }
        let shape = Arc::new(Shape::of(definition, version)?);
        self.shapes.write().insert(version, Arc::clone(&shape));
        Ok(shape)
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

    /// Admits events, all or none (but those skipped). `ticks` are changed under
    /// `collision = 'next'`.
    pub fn admit(
        self: &Arc<Self>,
        candidates: &Candidates<'_>,
        ticks: &mut [i64],
    ) -> Result<Admission, Refused> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut reserved = Reserved {
            chronicle: Arc::clone(self),
            first_seq: candidates.first_seq,
            end_seq: candidates.first_seq + ticks.len() as u64,
            touched: Vec::new(),
            // Rolling back takes the lock, so every way out of here undoes by hand.
            committed: true,
        };
        let mut pending = Pending {
            end_seq: reserved.end_seq,
            outcome: Arc::clone(candidates.outcome),
            overrides: Vec::new(),
        };
        let mut admission_kept = None;
        let mut moved = false;
        if self.indexed {
            let keys = &candidates.groups.keys;
            reserved.touched =
                keys.iter().map(|key| (state.series.intern(key), i64::MAX)).collect();
            let judged = self.judge(
                state,
                candidates,
                ticks,
                &mut reserved.touched,
                &mut pending.overrides,
                &mut admission_kept,
            );
            match judged {
                Ok((kept, any_moved)) => {
                    reserved.end_seq = candidates.first_seq + kept;
                    moved = any_moved;
                }
                Err(refused) => {
                    state.remove_entries(&reserved);
                    return Err(refused);
                }
            }
        }
        pending.end_seq = reserved.end_seq;
        if reserved.end_seq > reserved.first_seq {
            state.pending.insert(reserved.first_seq, pending);
        }
        state.account();
        reserved.committed = false;
        Ok(Admission { reserved, kept: admission_kept, moved })
    }

    /// Gives each event its place in the index; returns how many are kept, and whether a
    /// tick was moved.
    fn judge(
        &self,
        state: &mut State,
        candidates: &Candidates<'_>,
        ticks: &mut [i64],
        touched: &mut [(SeriesId, i64)],
        overrides: &mut Vec<Override>,
        kept: &mut Option<Vec<bool>>,
    ) -> Result<(u64, bool), Refused> {
        let rows = ticks.len();
        let mut next = candidates.first_seq;
        let mut moved = false;
        for (row, tick) in ticks.iter_mut().enumerate() {
            let Some((series, lowest)) = touched.get_mut(candidates.groups.group(row)) else {
                continue;
            };
            let series = *series;
            let holder = match self.collision {
                Collision::All => None,
                _ => state.series.series(series).and_then(|series| series.find(*tick)),
            };
            match (self.collision, holder) {
                (_, None) => state.series.insert(series, *tick, next),
                (Collision::Last | Collision::All, Some(_)) => {
                    overrides.push(Override { series, tick: *tick, seq: next });
                }
                (Collision::Next, Some(_)) => {
                    let free = state.series.next_free(series, *tick);
                    *tick = free.ok_or(Refused::NoTickLeft)?;
                    moved = true;
                    state.series.insert(series, *tick, next);
                }
                (Collision::First, Some(holder)) => {
                    if let Some(other) = state.pending_of(holder)
                        && other.outcome.id() != candidates.outcome.id()
                    {
                        return Err(Refused::Pending(Arc::clone(&other.outcome)));
                    }
                    if candidates.on_conflict == OnConflict::Error {
                        return Err(Refused::Taken(row));
                    }
                    if let Some(keep) = kept.get_or_insert_with(|| vec![true; rows]).get_mut(row) {
                        *keep = false;
                    }
                    continue;
                }
            }
            *lowest = (*lowest).min(*tick);
            next += 1;
        }
        Ok((next - candidates.first_seq, moved))
    }

    /// Frees what a chunk reserved.
    pub fn roll_back(&self, reserved: &Reserved) {
        let mut state = self.state.lock();
        state.pending.remove(&reserved.first_seq);
        state.remove_entries(reserved);
        state.account();
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
        if state.forgotten {
            return None;
        }
        let (first_gsn, rows) = (batch.first_gsn(), batch.rows() as u64);
        let sealed = state.version.sealed().len();
        state.version = Arc::new(state.version.with_batch(Arc::new(batch), rows_sealed));
        self.consider_sealed(state, sealed);
        if self.indexed {
            state.locator.insert(reserved.first_seq, rows, first_gsn);
            let mut overrides = pending.map(|pending| pending.overrides).unwrap_or_default();
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
    pub fn replay(&self, batch: MemoryBatch, groups: &Groups, first_seq: u64, rows_sealed: usize) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (first_gsn, rows) = (batch.first_gsn(), batch.rows() as u64);
        let batch = Arc::new(batch);
        let sealed = state.version.sealed().len();
        Arc::make_mut(&mut state.version).push(Arc::clone(&batch), rows_sealed);
        self.consider_sealed(state, sealed);
        state.next_seq = state.next_seq.max(first_seq + rows);
        if !self.indexed {
            return;
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
                    let stays = batch.rows() >= rows_sealed
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

    /// Deletes the committed events behind `fence`; returns the version before and the one
    /// after. Only under the publisher's lock.
    pub fn delete(&self, fence: Fence) -> (Arc<Version>, Arc<Version>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let before = Arc::clone(&state.version);
        state.version = Arc::new(before.with_fence(fence));
        if self.indexed {
            state.trim(&fence.ticks);
            state.shrink_locator();
            state.account();
        }
        (before, Arc::clone(&state.version))
    }

    /// Puts one batch in the place of `old`; `None` when the version has changed there.
    /// Only under the publisher's lock.
    pub fn replace(
        &self,
        old: &[Arc<MemoryBatch>],
        merged: Option<MemoryBatch>,
    ) -> Option<Arc<Version>> {
        let mut state = self.state.lock();
        if let Some(merged) = &merged {
            merged.set_superseded(compact::marks_of(old, merged));
        }
        let next = state.version.with_merged(old, merged.map(Arc::new))?;
        state.version = Arc::new(next.without_idle_fences());
        state.shrink_locator();
        state.account();
        Some(Arc::clone(&state.version))
    }

    /// Drops all events and refuses later ones.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        state.forgotten = true;
        state.version = Arc::default();
        state.series = SeriesTable::default();
        state.locator = Locator::default();
        state.account();
    }

    /// Keys that have an event.
    pub fn series_count(&self) -> u64 {
        self.state.lock().series.len() as u64
    }

    /// Bytes of the index.
    pub fn index_bytes(&self) -> u64 {
        self.state.lock().index_claim.bytes()
    }
}
