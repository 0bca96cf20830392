//! The mutable state of a chronicle, and its cleanup after rollbacks and deletes.

use std::{collections::BTreeMap, sync::Arc};

use ahash::RandomState;
use hashbrown::{HashMap, HashSet, hash_map::Entry};
use stratalog_model::{SchemaVersion, Tick, TickRange};

use super::seal::Horizon;
use crate::{
    events::budget::{Budget, Claim},
    ingest::{
        admission_request::AdmissionRequest,
        chunk::KeyReservation,
        locator::Locator,
        outcome::Outcome,
        series::{Series, SeriesId, SeriesTable},
    },
    version::{Version, fence::Fence},
};

/// Minimum number of empty series that makes a cleanup worth its cost.
const EMPTIED_MAX: usize = 4096;

/// The mutable state of a chronicle.
#[derive(Debug)]
pub struct ChronicleState {
    /// The series, each with its tick index.
    pub series: SeriesTable,
    /// Maps the arrival numbers (seq) of committed events to their commit numbers (gsn).
    pub locator: Locator,
    /// The current version. Readers find the published version in `PublishedVersions`.
    pub version: Arc<Version>,
    pub(super) pending: BTreeMap<u64, PendingRange>,
    /// For each key: the pending events that have no entry in the index, in the order of arrival.
    /// The entry belongs to another event, which the same statement has deleted, or with which the
    /// pending event merges (`collision = 'merge'`).
    pub(super) successors: HashMap<(SeriesId, i64), Vec<u64>, RandomState>,
    /// Unfinished deletes of a chronicle that merges events.
    pub(super) deletes: Vec<UnfinishedDelete>,
    pub(super) next_seq: u64,
    /// The newest schema version of a committed event.
    pub(super) newest_version: SchemaVersion,
    /// The highest tick that was ever committed. With `late = 'reject'`, events before this tick
    /// are late.
    pub highest: Option<i64>,
    /// Number of series that rollbacks have left without an event.
    emptied: usize,
    pub(super) horizon: Horizon,
    pub(super) index_claim: Claim,
    pub(super) forgotten: bool,
}

/// The uncommitted events of one chunk: a range of arrival numbers.
#[derive(Debug)]
pub(super) struct PendingRange {
    pub(super) end_seq: u64,
    pub(super) outcome: Arc<Outcome>,
    /// The lowest tick of the events; `None` without events.
    pub(super) lowest: Option<i64>,
    /// The smallest range of ticks that contains all events with values of earlier events
    /// (`collision = 'merge'`).
    pub(super) merged: TickRange,
    /// The events whose key belongs to another event in the index. At the commit, they replace the
    /// other event (`collision = 'last'` and `'merge'`, or after a delete by the same statement).
    pub(super) overrides: Vec<KeyOverride>,
    /// Events in tablets and stories that this chunk replaces: arrival number of the replaced
    /// event, and arrival number of the new event.
    pub(super) replaced: Vec<(u64, u64)>,
}

/// A delete of a range of ticks that is not yet committed.
#[derive(Debug)]
pub(super) struct UnfinishedDelete {
    pub(super) ticks: TickRange,
    pub(super) outcome: Arc<Outcome>,
    /// Ids of the outcomes that the delete waits for: their statements may merge further events in
    /// these ticks.
    pub(super) waits_for: Vec<u64>,
}

/// A pending event that takes over its key from another event at the commit.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyOverride {
    pub(super) series: SeriesId,
    pub(super) tick: i64,
    pub(super) seq: u64,
}

impl ChronicleState {
    pub(super) fn new(budget: &Arc<Budget>, horizon: Horizon) -> Self {
        Self {
            series: SeriesTable::default(),
            locator: Locator::default(),
            version: Arc::new(Version::default()),
            pending: BTreeMap::new(),
            successors: HashMap::default(),
            deletes: Vec::new(),
            next_seq: 1,
            newest_version: SchemaVersion::default(),
            highest: None,
            emptied: 0,
            horizon,
            index_claim: budget.claim_anyway(0),
            forgotten: false,
        }
    }

    /// Records a commit: `hull` is the range of the ticks, `version` the schema version of the
    /// events.
    pub(super) fn see(&mut self, hull: &TickRange, version: SchemaVersion) {
        self.newest_version = self.newest_version.max(version);
        if !hull.is_empty() {
            self.highest = self.highest.max(Some(hull.end.0.saturating_sub(1)));
        }
    }

    /// Moves the horizon forward to the start of the engine, for a chronicle that had events before
    /// the start.
    pub(super) fn continue_from_start(&mut self) {
        self.horizon.continue_from_start();
        let horizon_tick = self.horizon.horizon_tick();
        if let Some(first) = horizon_tick.filter(|first| self.version.open_from() != Some(*first)) {
            self.version = Arc::new(self.version.with_open_from(first));
        }
        debug_assert!(
            horizon_tick.is_none() || self.version.open_from() == horizon_tick,
            "the version has another horizon"
        );
    }

    /// The lowest tick of the uncommitted events.
    pub(super) fn lowest_pending(&self) -> Option<i64> {
        self.pending.values().filter_map(|pending| pending.lowest).min()
    }

    /// The outcomes of other statements than that of `outcome` that have uncommitted merges in
    /// `ticks`.
    pub(super) fn merges_of_others<'a>(
        &'a self,
        ticks: &'a TickRange,
        outcome: &'a Outcome,
    ) -> impl Iterator<Item = &'a Arc<Outcome>> {
        let merging = self.pending.values().filter(|pending| pending.merged.overlaps(ticks));
        let outcomes = merging.map(|pending| &pending.outcome);
        outcomes.filter(|other| other.id() != outcome.id())
    }

    /// Finds an unfinished delete, by another statement, for which a merge at `tick` by `statement`
    /// must wait.
    pub(super) fn delete_blocking(&self, tick: i64, statement: u64) -> Option<&Arc<Outcome>> {
        let blocks = |delete: &&UnfinishedDelete| {
            delete.outcome.id() != statement
                && delete.ticks.contains(Tick(tick))
                && !delete.waits_for.contains(&statement)
        };
        self.deletes.iter().find(blocks).map(|delete| &delete.outcome)
    }

    pub(super) fn pending_of(&mut self, seq: u64) -> Option<&mut PendingRange> {
        let (first, pending) = self.pending.range_mut(..=seq).next_back()?;
        debug_assert!(*first < pending.end_seq, "a pending range without an event");
        (seq < pending.end_seq).then_some(pending)
    }

    /// The arrival number of the event that has a key: the last pending successor, or else the
    /// event in the index.
    pub(super) fn holder(&self, series: SeriesId, tick: i64) -> Option<u64> {
        let successor = match self.successors.is_empty() {
            true => None,
            false => self.successors.get(&(series, tick)).and_then(|seqs| seqs.last().copied()),
        };
        successor.or_else(|| self.series.series(series)?.find(tick))
    }

    /// True if the statement of `candidates` has deleted the events at `tick`, including the event
    /// with the arrival number `holder`. `holder` must not be an event of `candidates`.
    pub(super) fn is_vacated(
        &mut self,
        candidates: &AdmissionRequest<'_>,
        tick: i64,
        holder: Option<u64>,
    ) -> bool {
        let mut vacated =
            candidates.vacated.iter().filter(|vacated| vacated.ticks.contains(Tick(tick)));
        let Some(seq) = holder else { return vacated.next().is_some() };
        match self.pending_of(seq) {
            Some(other) if other.outcome.id() != candidates.outcome.id() => false,
            Some(_) => vacated.any(|vacated| seq < vacated.before_seq),
            None => vacated.next().is_some(),
        }
    }

    /// Removes the events of `pending` from `successors`.
    pub(super) fn forget_successors(&mut self, pending: &PendingRange) {
        if self.successors.is_empty() {
            return;
        }
        for KeyOverride { series, tick, seq } in &pending.overrides {
            if let Entry::Occupied(mut seqs) = self.successors.entry((*series, *tick)) {
                seqs.get_mut().retain(|known| known != seq);
                if seqs.get().is_empty() {
                    seqs.remove();
                }
            }
        }
    }

    pub(super) fn remove_entries(&mut self, reserved: &KeyReservation) {
        for (series, lowest) in &reserved.touched {
            self.series.remove_from(*series, *lowest, reserved.first_seq, reserved.end_seq);
            self.emptied += usize::from(self.series.series(*series).is_some_and(Series::is_empty));
        }
        // The interval between cleanups grows with the number of series, because a cleanup visits
        // every series.
        if self.emptied > EMPTIED_MAX.max(self.series.slots() / 8) {
            self.drop_empty();
        }
    }

    /// Removes the committed events that a fence covers from the tick index.
    pub(super) fn trim(&mut self, fence: &Fence) {
        let (pending, locator) = (&self.pending, &self.locator);
        let behind = |seq: u64| match fence.raised {
            // The fence covers all committed events.
            None => true,
            Some(_) => locator.gsn(seq).is_some_and(|gsn| gsn <= fence.gsn.0),
        };
        self.series.trim(&fence.ticks, |seq| is_pending(pending, seq) || !behind(seq));
        self.drop_empty();
    }

    /// Removes the events with a gsn up to `through` from the tick index: tablets contain these
    /// events now. Pending replacements of removed events refer to the arrival numbers in the
    /// tablets from now on.
    pub(super) fn move_out(&mut self, through: u64) {
        let locator = &self.locator;
        for pending in self.pending.values_mut() {
            for event in &pending.overrides {
                let series = self.series.series(event.series);
                let holder = series.and_then(|series| series.find(event.tick));
                let filed =
                    holder.filter(|seq| locator.gsn(*seq).is_some_and(|gsn| gsn <= through));
                pending.replaced.extend(filed.map(|filed| (filed, event.seq)));
            }
        }
        self.series.trim(&TickRange::ALL, |seq| locator.gsn(seq).is_none_or(|gsn| gsn > through));
        self.drop_empty();
        self.renew_locator();
    }

    /// Frees the series without events, except series in which an event waits to replace another
    /// event.
    fn drop_empty(&mut self) {
        let pending = self.pending.values().flat_map(|pending| &pending.overrides);
        let awaited: HashSet<SeriesId, RandomState> = pending.map(|event| event.series).collect();
        self.series.drop_empty(|id| awaited.contains(&id));
        self.emptied = 0;
    }

    /// Drops locator entries of events that left memory, once these entries may be the majority.
    pub(super) fn shrink_locator(&mut self) {
        if self.locator.is_worn() {
            self.renew_locator();
        }
        debug_assert!(!self.locator.is_worn(), "the renewed locator is worn");
    }

    fn renew_locator(&mut self) {
        let runs = self.version.batches().flat_map(|batch| batch.runs_with_rows());
        self.locator = Locator::of(runs.map(|(run, rows)| (run.seq, rows, run.gsn)).collect());
    }

    /// Marks events in tablets and stories as replaced: arrival number of each event, and gsn of
    /// the replacement.
    pub(super) fn replace_filed(&mut self, replaced: impl IntoIterator<Item = (u64, u64)>) {
        let pieces = self.version.pieces().with_replaced(replaced);
        self.version = Arc::new(self.version.with_pieces(pieces));
    }

    pub(super) fn account(&mut self) {
        self.assert_consistent();
        self.index_claim.adjust(self.series.bytes() + self.locator.bytes());
    }

    fn assert_consistent(&self) {
        debug_assert!(
            self.pending.last_key_value().is_none_or(|(_, last)| last.end_seq <= self.next_seq),
            "a pending event has an arrival number of a later append"
        );
        debug_assert!(
            !self.pending.is_empty() || self.successors.is_empty(),
            "a successor is not pending"
        );
        debug_assert!(
            self.version.open_from().is_none_or(|open_from| open_from <= self.horizon.first()),
            "the version is sealed beyond the horizon"
        );
    }
}

fn is_pending(pending: &BTreeMap<u64, PendingRange>, seq: u64) -> bool {
    pending.range(..=seq).next_back().is_some_and(|(_, pending)| seq < pending.end_seq)
}
