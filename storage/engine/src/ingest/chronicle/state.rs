//! The changing part of a chronicle, and its cleanup after rollbacks and deletes.

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

/// Series without an event before a cleanup is worth its cost.
const EMPTIED_MAX: usize = 4096;

/// The changing part of a chronicle.
#[derive(Debug)]
pub struct ChronicleState {
    /// Series and the tick index of each series.
    pub series: SeriesTable,
    /// Commit numbers by arrival number.
    pub locator: Locator,
    /// The current version; readers see the version in `PublishedVersions`.
    pub version: Arc<Version>,
    pub(super) pending: BTreeMap<u64, PendingRange>,
    /// Pending events whose key another event holds in the index, in the order of arrival. The other
    /// event was deleted by the same statement, or is the earlier event under `collision = 'merge'`.
    pub(super) successors: HashMap<(SeriesId, i64), Vec<u64>, RandomState>,
    /// Unfinished deletes of a chronicle that merges events.
    pub(super) deletes: Vec<UnfinishedDelete>,
    pub(super) next_seq: u64,
    /// The newest schema version of a committed event.
    pub(super) newest_version: SchemaVersion,
    /// The highest tick ever committed: with `late = 'reject'`, earlier events are late.
    pub highest: Option<i64>,
    /// Series left without an event by rollbacks.
    emptied: usize,
    pub(super) horizon: Horizon,
    pub(super) index_claim: Claim,
    pub(super) forgotten: bool,
}

/// A range of uncommitted arrival numbers.
#[derive(Debug)]
pub(super) struct PendingRange {
    pub(super) end_seq: u64,
    pub(super) outcome: Arc<Outcome>,
    /// The lowest tick of the events.
    pub(super) lowest: Option<i64>,
    /// The ticks of the events with values of earlier events (`collision = 'merge'`).
    pub(super) merged: TickRange,
    /// Events with a key already held by another event in the index. The commit decides under
    /// `collision = 'last'` and `'merge'`.
    pub(super) overrides: Vec<KeyOverride>,
    /// Replaced events of pieces: arrival number of each event, and of its successor.
    pub(super) replaced: Vec<(u64, u64)>,
}

/// An unfinished delete of ticks.
#[derive(Debug)]
pub(super) struct UnfinishedDelete {
    pub(super) ticks: TickRange,
    pub(super) outcome: Arc<Outcome>,
    /// Ids of the outcomes ahead of the delete: the statements of these outcomes may merge further
    /// events.
    pub(super) waits_for: Vec<u64>,
}

/// An event that replaces the holder of its key at the commit.
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

    /// Records the commit of events with the ticks of `hull` and a schema version.
    pub(super) fn see(&mut self, hull: &TickRange, version: SchemaVersion) {
        self.newest_version = self.newest_version.max(version);
        if !hull.is_empty() {
            self.highest = self.highest.max(Some(hull.end.0.saturating_sub(1)));
        }
    }

    /// Moves the horizon to the start: the chronicle had events before the start.
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

    /// The statements other than the statement of `outcome` with uncommitted merges of `ticks`.
    pub(super) fn merges_of_others<'a>(
        &'a self,
        ticks: &'a TickRange,
        outcome: &'a Outcome,
    ) -> impl Iterator<Item = &'a Arc<Outcome>> {
        let merging = self.pending.values().filter(|pending| pending.merged.overlaps(ticks));
        let outcomes = merging.map(|pending| &pending.outcome);
        outcomes.filter(|other| other.id() != outcome.id())
    }

    /// An unfinished delete of another statement with `tick` that a merge by `statement` must wait
    /// for.
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

    /// The event with a key: a pending successor, or else the indexed event.
    pub(super) fn holder(&self, series: SeriesId, tick: i64) -> Option<u64> {
        let successor = match self.successors.is_empty() {
            true => None,
            false => self.successors.get(&(series, tick)).and_then(|seqs| seqs.last().copied()),
        };
        successor.or_else(|| self.series.series(series)?.find(tick))
    }

    /// True if the statement of `candidates` deletes the events of a tick, `holder` included.
    /// `holder` is no event of `candidates`.
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

    /// Removes the events of `pending` from the successors.
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
        // The interval grows with the number of series: a cleanup visits every series.
        if self.emptied > EMPTIED_MAX.max(self.series.slots() / 8) {
            self.drop_empty();
        }
    }

    /// Removes the committed events behind a fence from the series.
    pub(super) fn trim(&mut self, fence: &Fence) {
        let (pending, locator) = (&self.pending, &self.locator);
        let behind = |seq: u64| match fence.raised {
            // All committed events.
            None => true,
            Some(_) => locator.gsn(seq).is_some_and(|gsn| gsn <= fence.gsn.0),
        };
        self.series.trim(&fence.ticks, |seq| is_pending(pending, seq) || !behind(seq));
        self.drop_empty();
    }

    /// Removes the events committed up to `through`: pieces hold these events. Pending replacements
    /// of removed events refer to the arrival numbers from now on.
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

    /// Frees the series without an event, except series with a pending replacement.
    fn drop_empty(&mut self) {
        let pending = self.pending.values().flat_map(|pending| &pending.overrides);
        let awaited: HashSet<SeriesId, RandomState> = pending.map(|event| event.series).collect();
        self.series.drop_empty(|id| awaited.contains(&id));
        self.emptied = 0;
    }

    /// Drops locator entries without a batch, once these entries may be the majority.
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

    /// Marks events of pieces, by arrival number, as replaced at the given gsn's.
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
