//! The series table: ChronoLog's tail map (F28), extended with an index from tick to event. The
//! index detects collisions (F25) and answers point reads.
//!
//! ```text
//!   key bytes ─► series id ─► in order: [(tick, seq) …]   insert at or near the end, O(1)
//!                             late:     {(tick, seq) …}   any other insert, O(log n)
//! ```
//!
//! For each collision key, the index has one entry: the newest event, pending or committed. Under
//! `collision = 'all'`, every event has an entry.

use std::collections::{BTreeMap, BTreeSet};

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::TickRange;

/// Number of a series within its chronicle.
pub type SeriesId = u32;

/// Approximate bytes of a series, without its key and its entries.
const SERIES_BYTES: usize = 160;

/// Approximate bytes of one entry of [`Series::occupied_ticks`].
const RUN_BYTES: usize = 32;

/// Number of entries at the end that an insert searches for the place of its entry: concurrent
/// writers of a series seldom differ by more.
const NEAR_END: usize = 64;

/// All series of one chronicle.
#[derive(Debug, Default)]
pub struct SeriesTable {
    by_key: HashMap<Box<[u8]>, SeriesId, RandomState>,
    series: Vec<Series>,
    /// Ids of freed series, for reuse.
    free: Vec<SeriesId>,
    key_bytes: usize,
    /// Number of series with at least one event.
    occupied: usize,
    entries: usize,
    runs: usize,
}

/// The index entries of one series.
#[derive(Debug, Default)]
pub struct Series {
    in_order: Vec<(i64, u64)>,
    late: BTreeSet<(i64, u64)>,
    /// Disjoint runs `start ─► end` (exclusive) of ticks that are known to be taken. A search for a
    /// free tick records its result here, and the next search skips these runs.
    occupied_ticks: BTreeMap<i64, i64>,
    superseded_through: u64,
}

impl SeriesTable {
    /// Returns the series of a key; creates the series if it is missing.
    pub fn intern(&mut self, key: &[u8]) -> SeriesId {
        if let Some(id) = self.by_key.get(key) {
            return *id;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.series.push(Series::default());
            (self.series.len() - 1) as SeriesId
        });
        self.key_bytes += key.len();
        self.by_key.insert(key.into(), id);
        debug_assert!((id as usize) < self.series.len(), "an id without a series");
        debug_assert_eq!(self.by_key.len() + self.free.len(), self.series.len());
        id
    }

    /// The series of a key; `None` if unknown.
    pub fn find(&self, key: &[u8]) -> Option<SeriesId> {
        self.by_key.get(key).copied()
    }

    /// The series with an id.
    pub fn series(&self, id: SeriesId) -> Option<&Series> {
        self.series.get(id as usize)
    }

    /// Number of series with at least one event.
    pub fn len(&self) -> usize {
        self.occupied
    }

    /// Number of series, including empty and freed series.
    pub fn slots(&self) -> usize {
        self.series.len()
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        self.key_bytes
            + self.series.len() * SERIES_BYTES
            + self.entries * super::INDEX_ROW_BYTES
            + self.runs * RUN_BYTES
    }

    /// Adds the entry of a new event.
    pub fn insert(&mut self, id: SeriesId, tick: i64, seq: u64) {
        debug_assert!((id as usize) < self.series.len(), "an entry for an unknown series");
        self.change(id, |series| series.insert(tick, seq));
    }

    /// The first tick of a series at or after `tick` without an event; `None` if all of them are
    /// taken.
    pub fn next_free(&mut self, id: SeriesId, tick: i64) -> Option<i64> {
        debug_assert!((id as usize) < self.series.len(), "a search in an unknown series");
        self.change(id, |series| series.next_free(tick)).flatten()
    }

    /// Replaces the event `old` at a tick with the event `seq`. `gsn` is the commit number of the
    /// replacement; `None` before its commit.
    pub fn replace(&mut self, id: SeriesId, tick: i64, old: u64, seq: u64, gsn: Option<u64>) {
        if let Some(series) = self.series.get_mut(id as usize) {
            series.renumber(tick, old, seq);
            if let Some(gsn) = gsn {
                series.superseded_through = series.superseded_through.max(gsn);
            }
        }
    }

    /// Removes the entries of a series whose tick is at or after `tick` and whose seq is in
    /// `[start, end)`.
    pub fn remove_from(&mut self, id: SeriesId, tick: i64, start: u64, end: u64) {
        self.change(id, |series| series.remove_from(tick, start, end));
    }

    /// Removes the entries of all series with ticks in `range`, except entries for whose seq `keep`
    /// returns true.
    pub fn trim(&mut self, range: &TickRange, keep: impl Fn(u64) -> bool) {
        for id in 0..self.series.len() as SeriesId {
            self.change(id, |series| series.trim(range, &keep));
        }
    }

    /// Changes a series, and updates the totals of the table.
    fn change<T>(&mut self, id: SeriesId, change: impl FnOnce(&mut Series) -> T) -> Option<T> {
        let series = self.series.get_mut(id as usize)?;
        let (entries, runs) = (series.len(), series.occupied_ticks.len());
        let result = change(series);
        self.entries = self.entries + series.len() - entries;
        self.occupied = self.occupied + usize::from(!series.is_empty()) - usize::from(entries > 0);
        self.runs = self.runs + series.occupied_ticks.len() - runs;
        debug_assert!(series.len() <= self.entries, "a series has more entries than the table");
        debug_assert!(series.occupied_ticks.len() <= self.runs, "a series has uncounted runs");
        debug_assert!(self.occupied <= self.entries && self.occupied <= self.series.len());
        Some(result)
    }

    /// Frees the series without events, except series for which `keep` returns true. The
    /// [`SeriesId`] of a freed series may later belong to another key.
    pub fn drop_empty(&mut self, keep: impl Fn(SeriesId) -> bool) {
        let (series, free, key_bytes) = (&mut self.series, &mut self.free, &mut self.key_bytes);
        self.by_key.retain(|key, id| {
            let mine = series.get_mut(*id as usize);
            let Some(mine) = mine.filter(|mine| mine.is_empty() && !keep(*id)) else {
                return true;
            };
            *mine = Series::default();
            *key_bytes -= key.len();
            free.push(*id);
            false
        });
        self.by_key.shrink_to_fit();
        debug_assert!(self.occupied <= self.by_key.len(), "a series with an event has no key");
        debug_assert_eq!(self.by_key.len() + self.free.len(), self.series.len());
        if self.by_key.is_empty() {
            debug_assert_eq!(self.key_bytes, 0, "bytes without a key");
            *self = Self::default();
        }
    }
}

impl Series {
    /// True if the series has no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of entries.
    fn len(&self) -> usize {
        self.in_order.len() + self.late.len()
    }

    /// Highest gsn at which an event of this series was replaced. Snapshots before this gsn may
    /// need a replaced event, which the index no longer has.
    pub fn superseded_through(&self) -> u64 {
        self.superseded_through
    }

    /// The seq of the event at a tick; `None` if the tick is free.
    pub fn find(&self, tick: i64) -> Option<u64> {
        if self.in_order.last().is_some_and(|last| tick <= last.0) {
            let at = self.first_from(tick);
            if let Some((_, seq)) = self.in_order.get(at).filter(|entry| entry.0 == tick) {
                return Some(*seq);
            }
        }
        if self.late.is_empty() {
            return None;
        }
        self.late.range((tick, 0)..=(tick, u64::MAX)).next().map(|(_, seq)| *seq)
    }

    /// The first tick at or after `start` without an event; `None` if all of them are taken.
    /// Logarithmic, amortized: a search steps over each taken tick once, and then records the tick
    /// in a run.
    fn next_free(&mut self, start: i64) -> Option<i64> {
        let mut tick = start;
        loop {
            let from = tick;
            if let Some((_, end)) = self.occupied_ticks.range(..=tick).next_back() {
                tick = tick.max(*end);
            }
            let at = self.in_order.partition_point(|entry| entry.0 < tick);
            let rest = self.in_order.get(at..).unwrap_or(&[]);
            // The ticks ascend: entries without a gap are a prefix of `rest`.
            let occupied_ticks =
                rest.first().filter(|entry| entry.0 == tick).map_or(0, |_| gapless(rest, tick));
            tick = tick.checked_add(i64::try_from(occupied_ticks).ok()?)?;
            if self.late.range((tick, 0)..=(tick, u64::MAX)).next().is_some() {
                tick = tick.checked_add(1)?;
            }
            if tick == from {
                break;
            }
        }
        debug_assert!(start <= tick, "the free tick {tick} is before {start}");
        debug_assert!(self.find(tick).is_none(), "the free tick {tick} is taken");
        self.take(start, tick);
        (tick < i64::MAX).then_some(tick)
    }

    /// Records the ticks `[start, end)` as taken.
    fn take(&mut self, start: i64, end: i64) {
        if start >= end {
            return;
        }
        let (mut start, mut end) = (start, end);
        while let Some((first, last)) =
            self.occupied_ticks.range(..=end).next_back().map(|r| (*r.0, *r.1))
            && start <= last
        {
            self.occupied_ticks.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.occupied_ticks.insert(start, end);
    }

    /// Removes the ticks `[start, end)` from the taken ticks.
    fn release(&mut self, start: i64, end: i64) {
        while let Some((first, last)) =
            self.occupied_ticks.range(..end).next_back().map(|r| (*r.0, *r.1))
            && start < last
        {
            self.occupied_ticks.remove(&first);
            if end < last {
                self.occupied_ticks.insert(end, last);
            }
            if first < start {
                self.occupied_ticks.insert(first, start);
            }
        }
    }

    /// Number of entries with ticks in `range`. The count of late entries stops at `enough`.
    pub fn count(&self, range: &TickRange, enough: usize) -> usize {
        self.ordered_range(range).len() + self.late_range(range).take(enough).count()
    }

    /// The entries with ticks in `range`, ascending.
    pub fn ascending(&self, range: &TickRange) -> impl Iterator<Item = (i64, u64)> + '_ {
        let mut ordered = self.ordered_range(range).iter().copied().peekable();
        let mut late = self.late_range(range).peekable();
        std::iter::from_fn(move || match (ordered.peek(), late.peek()) {
            (Some(a), Some(b)) if *b < *a => late.next(),
            (Some(_), _) => ordered.next(),
            (None, _) => late.next(),
        })
    }

    /// The entries with ticks in `range`, descending.
    pub fn descending(&self, range: &TickRange) -> impl Iterator<Item = (i64, u64)> + '_ {
        let mut ordered = self.ordered_range(range).iter().rev().copied().peekable();
        let mut late = self.late_range(range).rev().peekable();
        std::iter::from_fn(move || match (ordered.peek(), late.peek()) {
            (Some(a), Some(b)) if *b > *a => late.next(),
            (Some(_), _) => ordered.next(),
            (None, _) => late.next(),
        })
    }

    fn ordered_range(&self, range: &TickRange) -> &[(i64, u64)] {
        let (start, end) = (self.first_from(range.start.0), self.first_from(range.end.0));
        debug_assert!(start.max(end) <= self.in_order.len(), "a place behind the entries");
        self.in_order.get(start..end).unwrap_or(&[])
    }

    fn late_range(&self, range: &TickRange) -> impl DoubleEndedIterator<Item = (i64, u64)> + '_ {
        let (start, end) = (range.start.0, range.end.0.max(range.start.0));
        self.late.range((start, 0)..(end, 0)).copied()
    }

    fn insert(&mut self, tick: i64, seq: u64) {
        let entry = (tick, seq);
        let near = self.in_order.len().saturating_sub(NEAR_END);
        let place = self.in_order.iter().skip(near).rev().position(|known| *known <= entry);
        match place {
            Some(0) => self.in_order.push(entry),
            Some(behind) => self.in_order.insert(self.in_order.len() - behind, entry),
            None if near == 0 => self.in_order.insert(0, entry),
            None => {
                self.late.insert(entry);
            }
        }
        debug_assert!(
            self.in_order.iter().rev().take(2).is_sorted_by(|later, earlier| earlier <= later),
            "the last entries are out of order"
        );
    }

    /// Index in `in_order` of the first entry at or after `tick`. The search starts at the end, in
    /// growing steps, because the entry is nearly always close to the end.
    fn first_from(&self, tick: i64) -> usize {
        let (mut end, mut step) = (self.in_order.len(), 4);
        loop {
            let start = end.saturating_sub(step);
            let part = self.in_order.get(start..end).unwrap_or(&[]);
            if start == 0 || part.first().is_none_or(|first| first.0 < tick) {
                return start + part.partition_point(|entry| entry.0 < tick);
            }
            (end, step) = (start, step * 4);
        }
    }

    /// Changes the seq of the entry `(tick, old)`. The ticks of the series are unique: the entry
    /// keeps its place.
    fn renumber(&mut self, tick: i64, old: u64, seq: u64) {
        if self.late.remove(&(tick, old)) {
            self.late.insert((tick, seq));
        } else if let Ok(at) = self.in_order.binary_search(&(tick, old))
            && let Some(entry) = self.in_order.get_mut(at)
        {
            entry.1 = seq;
        }
        debug_assert_eq!(self.find(tick), Some(seq), "the new event is not at its tick");
    }

    fn remove_from(&mut self, tick: i64, start: u64, end: u64) {
        debug_assert!(start <= end, "the arrival numbers are reversed");
        let mine = |seq: u64| start <= seq && seq < end;
        let rest = self.in_order.split_off(self.first_from(tick));
        let (gone, kept): (Vec<_>, Vec<_>) = rest.into_iter().partition(|entry| mine(entry.1));
        self.in_order.extend(kept);
        let late: Vec<_> =
            self.late.range((tick, 0)..).filter(|entry| mine(entry.1)).copied().collect();
        for entry in &late {
            self.late.remove(entry);
        }
        for (tick, _) in gone.into_iter().chain(late) {
            self.release(tick, tick.saturating_add(1));
        }
    }

    fn trim(&mut self, range: &TickRange, keep: &impl Fn(u64) -> bool) {
        let gone = |entry: &(i64, u64)| {
            range.start.0 <= entry.0 && entry.0 < range.end.0 && !keep(entry.1)
        };
        if !self.ordered_range(range).is_empty() {
            self.in_order.retain(|entry| !gone(entry));
            self.in_order.shrink_to_fit();
        }
        self.late.retain(|entry| !gone(entry));
        self.release(range.start.0, range.end.0);
    }
}

/// Number of leading entries whose ticks are consecutive. The first entry has the tick `tick`.
fn gapless(entries: &[(i64, u64)], tick: i64) -> usize {
    debug_assert!(entries.first().is_some_and(|entry| entry.0 == tick), "the tick is free");
    let (mut low, mut high) = (1, entries.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let there = entries.get(middle).map(|entry| entry.0);
        if there == i64::try_from(middle).ok().and_then(|n| tick.checked_add(n)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    debug_assert!(low <= entries.len(), "more ticks than entries");
    low
}

#[cfg(test)]
mod tests;
