//! What the keeper knows of one chronicle, behind one short lock.
//!
//! ```text
//!   admit:    look up and reserve keys, number events        (appender, any order)
//!   commit:   number known ─► version, replaced events       (publisher, lsn order)
//!   roll back: reserved keys are free again                  (whoever drops the chunk)
//! ```

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use ahash::RandomState;
use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard, RwLock};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Collision, Gsn, LatePolicy, Result, SchemaVersion, invariant,
    store::OnConflict,
};

use super::{
    candidates::{Admission, Candidates, Refused, Taken},
    chunk::Reserved,
    keys::Groups,
    locator::Locator,
    series::{SeriesId, SeriesTable},
};
use crate::{
    budget::Budget,
    memtable::{batch::MemoryBatch, compact, shape::Shape},
    pieces::{piece::OpenPiece, set::PieceSet},
    version::{Fence, Version},
    waiting::Waiting,
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
    /// Batches up to this gsn are about to leave, or have left.
    leaving: AtomicU64,
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
            leaving: AtomicU64::new(0),
        }
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
        if let Some(shape) = self.shapes.read().get(&version) {
            return Ok(Arc::clone(shape));
        }
        let shape = Arc::new(Shape::of(definition, version)?);
        self.shapes.write().insert(version, Arc::clone(&shape));
        Ok(shape)
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
            replaced: Vec::new(),
        };
        if candidates.taken.epoch() != state.version.epoch() && !state.version.pieces().is_empty() {
            return Err(Refused::Moved);
        }
        if candidates.late == LatePolicy::Reject {
            let sealed = state.version.pieces().sealed();
            if let Some(row) = ticks.iter().position(|tick| *tick < sealed) {
                return Err(Refused::Late(row, sealed));
            }
        }
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
                &mut pending,
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
        pending: &mut Pending,
        kept: &mut Option<Vec<bool>>,
    ) -> Result<(u64, bool), Refused> {
        let rows = ticks.len();
        let taken = candidates.taken;
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
            let group = candidates.groups.group(row);
            let filed = taken.seq(group, *tick);
            if let (Collision::Last, Some(filed)) = (self.collision, filed) {
                pending.replaced.push((filed, next));
            }
            match (self.collision, holder) {
                (Collision::Last | Collision::All, None) => {
                    state.series.insert(series, *tick, next);
                }
                (_, None) if filed.is_none() => state.series.insert(series, *tick, next),
                (Collision::Last | Collision::All, Some(_)) => {
                    pending.overrides.push(Override { series, tick: *tick, seq: next });
                }
                (Collision::Next, _) => {
                    *tick = free_tick(state, taken, series, group, *tick)?;
                    moved = true;
                    state.series.insert(series, *tick, next);
                }
                (Collision::First, holder) => {
                    if let Some(other) = holder.and_then(|holder| state.pending_of(holder))
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
        if state.forgotten {
            return None;
        }
        let (first_gsn, rows) = (batch.first_gsn(), batch.rows() as u64);
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

    /// The pieces take over the events up to the gsn `through`; what was replaced after
    /// `shown` stays so. Only under the publisher's lock.
    pub fn move_out(&self, added: Vec<Arc<OpenPiece>>, through: Gsn, shown: Gsn) -> Arc<Version> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let version = Arc::clone(&state.version);
        let moved = version.batches().take_while(|batch| batch.last_gsn() <= through.0);
        let late = moved.flat_map(|batch| {
            let marks = batch.superseded();
            let late = marks.iter().filter(|mark| mark.gsn > shown.0);
            late.map(|mark| (batch.seq(mark.row as usize), mark.gsn)).collect::<Vec<_>>()
        });
        let pieces = version.pieces().with(added, &[], through).with_replaced(late);
        state.version = Arc::new(version.with_moved(pieces));
        if self.indexed {
            state.move_out(through.0);
        }
        state.account();
        Arc::clone(&state.version)
    }

    /// Puts pieces in the place of others, which held the same events, but those of the
    /// arrival numbers `dropped`. Only under the publisher's lock.
    pub fn swap_pieces(
        &self,
        added: Vec<Arc<OpenPiece>>,
        removed: &[u64],
        dropped: &[u64],
    ) -> Arc<Version> {
        let mut state = self.state.lock();
        let pieces = state.version.pieces();
        let pieces = pieces.with(added, removed, pieces.through).without_replaced(dropped);
        state.version = Arc::new(state.version.with_pieces(pieces).without_idle_fences());
        Arc::clone(&state.version)
    }

    /// Puts the pieces and deletes in place that the manifest names. Before any replay.
    pub fn adopt(&self, pieces: PieceSet, fences: Vec<Fence>, next_seq: u64) -> Arc<Version> {
        let mut state = self.state.lock();
        state.version = Arc::new(Version::default().with_pieces(pieces).with_fences(fences));
        state.next_seq = state.next_seq.max(next_seq);
        Arc::clone(&state.version)
    }

    /// Puts one batch in the place of `old`; `None` when the version has changed there, or
    /// they are about to leave. Only under the publisher's lock.
    pub fn replace(
        &self,
        old: &[Arc<MemoryBatch>],
        merged: Option<MemoryBatch>,
    ) -> Option<Arc<Version>> {
        if self.staying(old).len() < old.len() {
            return None;
        }
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

    /// Drops all events and refuses later ones. Returns the pieces, which snapshots may read.
    pub fn forget(&self) -> Vec<Arc<OpenPiece>> {
        let mut state = self.state.lock();
        state.forgotten = true;
        let version = std::mem::take(&mut state.version);
        state.series = SeriesTable::default();
        state.locator = Locator::default();
        state.account();
        version.pieces().iter().cloned().collect()
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

/// The first free tick at or after `tick`, which is taken.
fn free_tick(
    state: &mut State,
    taken: &Taken,
    series: SeriesId,
    group: usize,
    tick: i64,
) -> Result<i64, Refused> {
    let mut free = tick;
    loop {
        free = state.series.next_free(series, free).ok_or(Refused::NoTickLeft)?;
        if taken.seq(group, free).is_none() {
            return Ok(free);
        }
        free = free.checked_add(1).filter(|free| *free < i64::MAX).ok_or(Refused::NoTickLeft)?;
    }
}
