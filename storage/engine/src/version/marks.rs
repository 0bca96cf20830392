//! Marks of replaced events in pieces: arrival number of the event, and gsn of the event that
//! replaced it.

use std::{collections::BTreeMap, sync::Arc};

use stratalog_model::Gsn;

/// Maximum number of recent marks, which each change copies; all other marks are shared between
/// copies.
const RECENT_MAX: usize = 512;

/// A set of marks. Each version of a chronicle has a copy, and the copies share most marks.
#[derive(Debug, Clone, Default)]
pub struct Marks {
    settled: Arc<BTreeMap<u64, u64>>,
    recent: Arc<BTreeMap<u64, u64>>,
}

impl Marks {
    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.settled.is_empty() && self.recent.is_empty()
    }

    /// The gsn of the event that replaced `seq`.
    pub fn get(&self, seq: u64) -> Option<Gsn> {
        self.recent.get(&seq).or_else(|| self.settled.get(&seq)).copied().map(Gsn)
    }

    /// All marks, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.settled.iter().chain(self.recent.iter()).map(|(seq, gsn)| (*seq, *gsn))
    }

    /// Adds marks (arrival number, gsn). If an event has a mark already, the old mark stays.
    pub fn extend(&mut self, marks: impl IntoIterator<Item = (u64, u64)>) {
        let recent = Arc::make_mut(&mut self.recent);
        for (seq, gsn) in marks {
            if !self.settled.contains_key(&seq) {
                recent.entry(seq).or_insert(gsn);
            }
        }
        if recent.len() > RECENT_MAX {
            Arc::make_mut(&mut self.settled).append(recent);
        }
        debug_assert!(recent.len() <= RECENT_MAX, "each change copies too many marks");
    }

    /// Removes the marks of the events `seqs`.
    pub fn remove(&mut self, seqs: &[u64]) {
        if seqs.is_empty() {
            return;
        }
        let (settled, recent) = (Arc::make_mut(&mut self.settled), Arc::make_mut(&mut self.recent));
        for seq in seqs {
            settled.remove(seq);
            recent.remove(seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_those_of_one_map_however_they_are_kept() {
        let (mut marks, mut model) = (Marks::default(), BTreeMap::new());
        assert!(marks.is_empty());
        for round in 0..40_u64 {
            let before = (marks.clone(), model.clone());
            let some: Vec<(u64, u64)> =
                (0..100).map(|n| (n * 7919 % 3000, round * 100 + n)).collect();
            marks.extend(some.iter().copied());
            for (seq, gsn) in some {
                model.entry(seq).or_insert(gsn);
            }
            let gone: Vec<u64> = (0..20).map(|n| (n * 131 + round) % 3000).collect();
            if round % 3 == 0 {
                marks.remove(&gone);
                model.retain(|seq, _| !gone.contains(seq));
            }
            let (old, known) = before;
            for (marks, model) in [(&marks, &model), (&old, &known)] {
                assert_eq!(&marks.iter().collect::<BTreeMap<_, _>>(), model);
                assert_eq!(marks.iter().count(), model.len());
                for seq in 0..3000 {
                    assert_eq!(marks.get(seq), model.get(&seq).copied().map(Gsn));
                }
            }
        }
    }
}
