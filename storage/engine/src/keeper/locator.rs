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
}

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
