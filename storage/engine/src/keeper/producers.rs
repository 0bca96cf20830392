//! Idempotent producers (F68): the last committed number of each, so that a retry is
//! acknowledged and not stored again.
//!
//! The table holds `producers_max` producers. One more evicts the one whose last commit is
//! oldest: a retry of its last statement would then be stored as new. Producers number
//! their statements upwards and send one at a time.

use std::{collections::BTreeMap, sync::Arc};

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::ProducerId;

use super::outcome::Outcome;

/// What to do with a statement that a producer wants to commit.
#[derive(Debug)]
pub enum Admission {
    /// New: the statement is now the one in flight.
    New,
    /// Committed before.
    Duplicate,
    /// Of several statements some were committed before, and others not.
    Overlap,
    /// Another statement of the producer is in flight: wait for it, then ask again.
    Wait(Arc<Outcome>),
}

/// Last committed numbers.
#[derive(Debug)]
pub struct Producers {
    committed: HashMap<ProducerId, (u64, u64), RandomState>,
    by_age: BTreeMap<u64, ProducerId>,
    in_flight: HashMap<ProducerId, Arc<Outcome>, RandomState>,
    commits: u64,
    producers_max: usize,
}

impl Producers {
    /// A table of at most `producers_max` producers.
    pub fn new(producers_max: usize) -> Self {
        Self {
            committed: HashMap::default(),
            by_age: BTreeMap::new(),
            in_flight: HashMap::default(),
            commits: 0,
            producers_max: producers_max.max(1),
        }
    }

    /// The last committed number of each producer, in the order of the producers.
    pub fn list(&self) -> Vec<(ProducerId, u64)> {
        let mut list: Vec<_> =
            self.committed.iter().map(|(producer, (last, _))| (*producer, *last)).collect();
        list.sort_unstable();
        list
    }

    /// Whether statement `number` was committed before.
    pub fn is_duplicate(&self, producer: ProducerId, number: u64) -> bool {
        if crate::sabotage::active("dedup-off") {
            return false;
        }
        self.committed.get(&producer).is_some_and(|(last, _)| number <= *last)
    }

    /// Asks to commit the statements `from..=number`, all of them at once, whose outcome is
    /// `outcome`.
    pub fn enter(
        &mut self,
        producer: ProducerId,
        from: u64,
        number: u64,
        outcome: &Arc<Outcome>,
    ) -> Admission {
        if self.is_duplicate(producer, number) {
            return Admission::Duplicate;
        }
        if self.is_duplicate(producer, from) {
            return Admission::Overlap;
        }
        match self.in_flight.get(&producer) {
            Some(other) if other.id() != outcome.id() => Admission::Wait(Arc::clone(other)),
            _ => {
                self.in_flight.insert(producer, Arc::clone(outcome));
                Admission::New
            }
        }
    }

    /// The statement in flight has ended, one way or the other.
    pub fn leave(&mut self, producer: ProducerId, outcome: &Outcome) {
        if self.in_flight.get(&producer).is_some_and(|other| other.id() == outcome.id()) {
            self.in_flight.remove(&producer);
        }
    }

    /// Statement `number` is committed.
    pub fn committed(&mut self, producer: ProducerId, number: u64) {
        self.commits += 1;
        let last = match self.committed.get(&producer) {
            Some((last, age)) => {
                self.by_age.remove(age);
                number.max(*last)
            }
            None => number,
        };
        self.committed.insert(producer, (last, self.commits));
        self.by_age.insert(self.commits, producer);
        if self.committed.len() > self.producers_max
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.committed.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
