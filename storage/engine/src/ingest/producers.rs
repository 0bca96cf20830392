//! Idempotent producers (F68): the last committed number of each producer. The keeper acknowledges
//! a retry without storing the events again.
//!
//! The table holds `producers_max` producers. One more producer evicts the producer with the oldest
//! last commit: a retry of its last statement would be stored as new. Producers number their
//! statements upwards, and send one statement at a time.
//!
//! A connection may break during a statement, and the retry may arrive before the outcome:
//! ```text
//!   first try   begin ─► admitted ─► committing ─────────► committed ─► leave
//!   retry                begin ─► refused, its times are old by now ─► waits ─► a duplicate
//! ```
//! The keeper never reports a stored statement as refused: a refused attempt first waits for all
//! other attempts at the same numbers that may still commit.

use std::{collections::BTreeMap, sync::Arc};

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::ProducerId;

use super::outcome::Outcome;

/// The decision about a producer's statement before its commit.
#[derive(Debug)]
pub enum ProducerDecision {
    /// New: the statement is now in flight.
    New,
    /// Committed before.
    Duplicate,
    /// Several statements: some were committed before, and some were not.
    Overlap,
    /// Another statement of the producer is in flight: wait for its end, then ask again.
    Wait(Arc<Outcome>),
}

/// The outcome of other attempts at a refused statement.
#[derive(Debug)]
pub enum EarlierAttempt {
    /// No outcome is known or will become known: the refusal stands.
    Nothing,
    /// Committed.
    Committed,
    /// Several statements: some were committed, and some were not.
    Overlap,
    /// An attempt under way may commit: wait for its end, then ask again.
    UnderWay(Arc<Outcome>),
}

/// An attempt at the statements `from..=number`.
#[derive(Debug)]
struct ProducerAttempt {
    from: u64,
    number: u64,
    outcome: Arc<Outcome>,
    /// A refused attempt only waits for other attempts: no attempt needs to wait for a refused
    /// attempt.
    refused: bool,
}

/// Last committed numbers.
#[derive(Debug)]
pub struct Producers {
    committed: HashMap<ProducerId, (u64, u64), RandomState>,
    by_age: BTreeMap<u64, ProducerId>,
    in_flight: HashMap<ProducerId, Arc<Outcome>, RandomState>,
    /// Attempts from their begin onward, including the time before flight.
    tries: HashMap<ProducerId, Vec<ProducerAttempt>, RandomState>,
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
            tries: HashMap::default(),
            commits: 0,
            producers_max: producers_max.max(1),
        }
    }

    /// The last committed number of each producer, in the order of the producers.
    pub fn list(&self) -> Vec<(ProducerId, u64)> {
        let mut list: Vec<_> =
            self.committed.iter().map(|(producer, (last, _))| (*producer, *last)).collect();
        debug_assert_eq!(list.len(), self.by_age.len(), "a producer without an age");
        list.sort_unstable();
        list
    }

    /// True if statement `number` was committed before.
    pub fn is_duplicate(&self, producer: ProducerId, number: u64) -> bool {
        if crate::sabotage::active("dedup-off") {
            return false;
        }
        self.committed.get(&producer).is_some_and(|(last, _)| number <= *last)
    }

    /// Begins an attempt at the statements `from..=number` with `outcome`; the attempt lasts until
    /// [`Self::leave`].
    pub fn begin(&mut self, producer: ProducerId, from: u64, number: u64, outcome: &Arc<Outcome>) {
        let outcome = Arc::clone(outcome);
        let begun = ProducerAttempt { from, number, outcome, refused: false };
        self.tries.entry(producer).or_default().push(begun);
    }

    /// Marks the attempt with `outcome` as refused. Returns the outcome of the other attempts.
    pub fn refused(
        &mut self,
        producer: ProducerId,
        from: u64,
        number: u64,
        outcome: &Outcome,
    ) -> EarlierAttempt {
        if self.is_duplicate(producer, number) {
            return EarlierAttempt::Committed;
        }
        if self.is_duplicate(producer, from) {
            return EarlierAttempt::Overlap;
        }
        let mut under_way = None;
        for one in self.tries.get_mut(&producer).into_iter().flatten() {
            if one.outcome.id() == outcome.id() {
                one.refused = true;
            } else if one.from <= number
                && from <= one.number
                && !one.refused
                && !one.outcome.has_ended()
            {
                under_way = Some(Arc::clone(&one.outcome));
            }
        }
        under_way.map_or(EarlierAttempt::Nothing, EarlierAttempt::UnderWay)
    }

    /// Asks to commit the statements `from..=number` of the attempt with `outcome`, all at once.
    pub fn enter(
        &mut self,
        producer: ProducerId,
        from: u64,
        number: u64,
        outcome: &Arc<Outcome>,
    ) -> ProducerDecision {
        if self.is_duplicate(producer, number) {
            return ProducerDecision::Duplicate;
        }
        if self.is_duplicate(producer, from) {
            return ProducerDecision::Overlap;
        }
        match self.in_flight.get(&producer) {
            Some(other) if other.id() != outcome.id() => ProducerDecision::Wait(Arc::clone(other)),
            _ => {
                self.in_flight.insert(producer, Arc::clone(outcome));
                ProducerDecision::New
            }
        }
    }

    /// Ends an attempt, with any outcome, in flight or not.
    pub fn leave(&mut self, producer: ProducerId, outcome: &Outcome) {
        if self.in_flight.get(&producer).is_some_and(|other| other.id() == outcome.id()) {
            self.in_flight.remove(&producer);
        }
        if let Some(tries) = self.tries.get_mut(&producer) {
            tries.retain(|one| one.outcome.id() != outcome.id());
            if tries.is_empty() {
                self.tries.remove(&producer);
            }
        }
    }

    /// Records the commit of statement `number`.
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
        debug_assert_eq!(self.committed.len(), self.by_age.len());
        debug_assert!(self.committed.len() <= self.producers_max);
    }
}

#[cfg(test)]
mod tests;
