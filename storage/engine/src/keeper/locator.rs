//! From arrival number to commit number.
//!
//! ```text
//!   seq  [10 … 20) ─► gsn 100 …      appends that commit in the order in which they
//!   seq  [20 … 25) ─► gsn 110 …      arrived merge into one entry
//! ```

use std::collections::BTreeMap;

/// The committed arrival numbers of one chronicle.
#[derive(Debug, Default)]
pub struct Locator {
    /// First seq to (end of seqs, gsn of the first).
    runs: BTreeMap<u64, (u64, u64)>,
    /// Entries when it was made.
    made_with: usize,
}

/// Bytes that an entry takes, about.
const ENTRY_BYTES: usize = 40;

/// Fewer entries are not worth a look.
const ENTRIES_MIN: usize = 1024;

impl Locator {
    /// Events `[seq, seq + rows)` were committed from `gsn` on.
    pub fn insert(&mut self, seq: u64, rows: u64, gsn: u64) {
        if let Some((first, (end, start))) = self.runs.range_mut(..seq).next_back()
            && *end == seq
            && *start + (*end - *first) == gsn
        {
            *end += rows;
            return;
        }
        self.runs.insert(seq, (seq + rows, gsn));
    }

    /// Bytes in memory, about.
    pub fn bytes(&self) -> usize {
        self.runs.len() * ENTRY_BYTES
    }

    /// Whether so many events came since it was made that most may be gone again.
    pub fn is_worn(&self) -> bool {
        self.runs.len() > 2 * self.made_with + ENTRIES_MIN
    }

    /// The locator of those events that `runs` tell, as (first seq, rows, gsn of the first).
    pub fn of(mut runs: Vec<(u64, u64, u64)>) -> Self {
        runs.sort_unstable();
        let mut locator = Self::default();
        for (seq, rows, gsn) in runs {
            locator.insert(seq, rows, gsn);
        }
        locator.made_with = locator.runs.len();
        locator
    }

    /// The gsn of an event; `None` while it is not committed.
    pub fn gsn(&self, seq: u64) -> Option<u64> {
        let (first, (end, gsn)) = self.runs.range(..=seq).next_back()?;
        (seq < *end).then(|| gsn + (seq - first))
    }

    /// The run that holds `seq`, as (first seq, end of seqs, gsn of the first).
    pub fn run(&self, seq: u64) -> Option<(u64, u64, u64)> {
        let (first, (end, gsn)) = self.runs.range(..=seq).next_back()?;
        (seq < *end).then_some((*first, *end, *gsn))
    }
}

#[cfg(test)]
mod tests;
