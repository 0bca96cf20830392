//! Idempotent producers (F68): the last committed number of each, so that a retry is
//! acknowledged and not stored again.
//!
//! The table holds `producers_max` producers. One more evicts the one whose last commit is
//! oldest: a retry of its last statement would then be stored as new. Producers number
//! their statements upwards and send one at a time.
//!
//! A connection may break while a statement is under way, and the retry be here before its outcome:
//! ```text
//!   first try   begin ─► admitted ─► committing ─────────► committed ─► leave
//!   retry                begin ─► refused, its times are old by now ─► waits ─► a duplicate
//! ```
//! What is stored is never told to be refused: whoever is refused first waits for the other tries of
//! the same numbers that may still be committed.

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

/// What became of a statement that is refused now, in other tries.
#[derive(Debug)]
pub enum Earlier {
    /// It is not known, and will not be: the refusal stands.
    Nothing,
    /// It was committed.
    Committed,
    /// Of several statements some were committed, and others not.
    Overlap,
    /// One that is under way may be committed: wait for it, then ask again.
    UnderWay(Arc<Outcome>),
}

/// A try of the statements `from..=number`.
#[derive(Debug)]
struct Try {
    from: u64,
    number: u64,
    outcome: Arc<Outcome>,
    /// It only waits for what becomes of others: nobody needs to wait for it.
    refused: bool,
}

/// Last committed numbers.
#[derive(Debug)]
pub struct Producers {
    committed: HashMap<ProducerId, (u64, u64), RandomState>,
    by_age: BTreeMap<u64, ProducerId>,
    in_flight: HashMap<ProducerId, Arc<Outcome>, RandomState>,
    /// From their begin on, also before they are in flight.
    tries: HashMap<ProducerId, Vec<Try>, RandomState>,
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

    /// A try of the statements `from..=number` begins, whose outcome is `outcome`; it lasts until
    /// [`Self::leave`].
    pub fn begin(&mut self, producer: ProducerId, from: u64, number: u64, outcome: &Arc<Outcome>) {
        let outcome = Arc::clone(outcome);
        let begun = Try { from, number, outcome, refused: false };
        self.tries.entry(producer).or_default().push(begun);
    }

    /// The try whose outcome is `outcome` is refused: what is known of others.
    pub fn refused(
        &mut self,
        producer: ProducerId,
        from: u64,
        number: u64,
        outcome: &Outcome,
    ) -> Earlier {
        if self.is_duplicate(producer, number) {
            return Earlier::Committed;
        }
        if self.is_duplicate(producer, from) {
            return Earlier::Overlap;
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
        under_way.map_or(Earlier::Nothing, Earlier::UnderWay)
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

    /// A try has ended, one way or the other, whether or not it was in flight.
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
