//! Maps arrival numbers (seq) to commit numbers (gsn).
//!
//! ```text
//!   seq  [10 … 20) ─► gsn 100 …      consecutive appends that commit in the order
//!   seq  [20 … 25) ─► gsn 110 …      of their arrival share one entry
//! ```

use std::collections::BTreeMap;

/// The committed arrival numbers of one chronicle, and the gsn of each.
#[derive(Debug, Default)]
pub struct Locator {
    /// Key: first seq of a run. Value: end of the run (exclusive), and gsn of the first event.
    runs: BTreeMap<u64, (u64, u64)>,
    /// Number of entries at the time of [`Self::of`].
    made_with: usize,
}

/// Approximate bytes of an entry.
const ENTRY_BYTES: usize = 40;

/// With fewer entries, a cleanup is not worthwhile.
const ENTRIES_MIN: usize = 1024;

impl Locator {
    /// Records a commit: the events `[seq, seq + rows)` have consecutive gsn's from `gsn` onward.
    pub fn insert(&mut self, seq: u64, rows: u64, gsn: u64) {
        debug_assert!(self.runs.range(..=seq).next_back().is_none_or(|(_, (end, _))| *end <= seq));
        debug_assert!(
            self.runs.range(seq..).next().is_none_or(|(next, _)| seq.saturating_add(rows) <= *next),
            "the arrival numbers overlap later arrival numbers"
        );
        if let Some((first, (end, start))) = self.runs.range_mut(..seq).next_back()
            && *end == seq
            && *start + (*end - *first) == gsn
        {
            *end += rows;
            return;
        }
        self.runs.insert(seq, (seq + rows, gsn));
    }

    /// Approximate bytes in memory.
    pub fn bytes(&self) -> usize {
        self.runs.len() * ENTRY_BYTES
    }

    /// True if most entries may be obsolete: the locator has more than doubled since [`Self::of`].
    pub fn is_worn(&self) -> bool {
        self.runs.len() > 2 * self.made_with + ENTRIES_MIN
    }

    /// A locator for the events in `runs`: (first seq, number of rows, gsn of the first event).
    pub fn of(mut runs: Vec<(u64, u64, u64)>) -> Self {
        runs.sort_unstable();
        let runs_given = runs.len();
        let mut locator = Self::default();
        for (seq, rows, gsn) in runs {
            locator.insert(seq, rows, gsn);
        }
        locator.made_with = locator.runs.len();
        debug_assert!(locator.made_with <= runs_given, "more entries than runs");
        locator
    }

    /// The gsn of an event; `None` if the event is not committed, or is no longer in memory.
    pub fn gsn(&self, seq: u64) -> Option<u64> {
        let (first, (end, gsn)) = self.runs.range(..=seq).next_back()?;
        (seq < *end).then(|| gsn + (seq - first))
    }

    /// The run that contains `seq`: (first seq, end of seqs, gsn of the first event).
    pub fn run(&self, seq: u64) -> Option<(u64, u64, u64)> {
        let (first, (end, gsn)) = self.runs.range(..=seq).next_back()?;
        (seq < *end).then_some((*first, *end, *gsn))
    }
}

#[cfg(test)]
mod tests;
