//! Idempotent producers (F68): for each producer, the number of its last committed statement. If a
//! producer sends a statement again, the keeper acknowledges it without storing the events again.
//!
//! The table has room for `producers_max` producers. A further producer evicts the producer whose
//! last commit is the oldest: if the evicted producer then retries its last statement, the keeper
//! stores the events twice. Producers number their statements upwards, and send one statement at a
//! time.
//!
//! A connection may break during a statement, and the retry may arrive before the first attempt has
//! ended:
//! ```text
//!   first try   begin ─► admitted ─► committing ─────────► committed ─► leave
//!   retry                begin ─► refused, for example: times too old ─► waits ─► a duplicate
//! ```
//! The keeper never reports a stored statement as refused. Before it reports a refusal, it waits
//! for all other running attempts at the same numbers, because one of them may commit.

use std::{collections::BTreeMap, sync::Arc};

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::ProducerId;

use super::outcome::Outcome;

/// The decision about a producer's statement that is ready to commit.
#[derive(Debug)]
pub enum ProducerDecision {
    /// The statement is new, and is now in flight: its commit may begin.
    New,
    /// The statement was committed before.
    Duplicate,
    /// The attempt combines several statements, of which only some were committed before.
    Overlap,
    /// Another statement of the producer is in flight: the caller waits for its end, and asks
    /// again.
    Wait(Arc<Outcome>),
}

/// The outcome of other attempts at the same statement, after a refusal.
#[derive(Debug)]
pub enum EarlierAttempt {
    /// No other attempt has committed or can still commit: the refusal stands.
    Nothing,
    /// Another attempt has committed the statement.
    Committed,
    /// The attempt combines several statements, of which only some were committed.
    Overlap,
    /// Another attempt may still commit: the caller waits for its end, and asks again.
    UnderWay(Arc<Outcome>),
}

/// A running attempt at the statements `from..=number`.
#[derive(Debug)]
struct ProducerAttempt {
    from: u64,
    number: u64,
    outcome: Arc<Outcome>,
    /// True after a refusal. A refused attempt can only wait for other attempts, and no attempt
    /// waits for a refused attempt.
    refused: bool,
}

/// The last committed number of each producer, and the running attempts.
#[derive(Debug)]
pub struct Producers {
    committed: HashMap<ProducerId, (u64, u64), RandomState>,
    by_age: BTreeMap<u64, ProducerId>,
    in_flight: HashMap<ProducerId, Arc<Outcome>, RandomState>,
    /// All running attempts, including those that are not in flight yet.
    tries: HashMap<ProducerId, Vec<ProducerAttempt>, RandomState>,
    commits: u64,
    producers_max: usize,
}

impl Producers {
    /// An empty table for at most `producers_max` producers.
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

    /// The last committed number of each producer, ascending by producer.
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

    /// Registers an attempt at the statements `from..=number`, identified by `outcome`. The attempt
    /// lasts until [`Self::leave`].
    pub fn begin(&mut self, producer: ProducerId, from: u64, number: u64, outcome: &Arc<Outcome>) {
        let outcome = Arc::clone(outcome);
        let begun = ProducerAttempt { from, number, outcome, refused: false };
        self.tries.entry(producer).or_default().push(begun);
    }

    /// Marks the attempt `outcome` as refused. Returns the outcome of the other attempts at the
    /// same statements.
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

    /// Asks for permission to commit the statements `from..=number` of the attempt `outcome`, all
    /// at once.
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

    /// Ends an attempt, with any result, in flight or not.
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
