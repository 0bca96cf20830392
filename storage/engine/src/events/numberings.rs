//! Assigns numbers to the groups of series of a chronicle, so that queries of the newest events can
//! compare numbers instead of keys.

use std::sync::Arc;

use parking_lot::Mutex;
use stratalog_model::{
    ColumnId, Result,
    newest::{Best, GroupNumbers},
};

use crate::events::budget::{Budget, Claim};

/// Maximum bytes of the group numbers of all chronicles together.
pub const BYTES_MAX: u64 = 128 << 20;

/// The group numbers (the *numbering*) of the last query for the newest events, for reuse by the
/// next query. Numbers for which the budget has no room are dropped at the end of their query.
#[derive(Debug)]
pub struct Numberings {
    budget: Arc<Budget>,
    last: Mutex<Option<Numbering>>,
}

/// A numbering of the groups by the key columns `keys`.
#[derive(Debug)]
struct Numbering {
    keys: Vec<ColumnId>,
    numbers: Arc<GroupNumbers>,
    claim: Claim,
}

impl Numberings {
    /// No numbering yet; the numberings of all chronicles share `budget`.
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { budget: Arc::clone(budget), last: Mutex::default() })
    }

    /// The memory budget of the numberings of all chronicles.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Lends the numbering of the groups by `keys` to a query; creates it if the last query used
    /// other columns.
    pub fn of(self: &Arc<Self>, keys: Vec<ColumnId>) -> LentNumbers {
        let mut last = self.last.lock();
        let numbers = match last.as_ref().filter(|last| last.keys == keys) {
            Some(known) => Arc::clone(&known.numbers),
            None => {
                let numbers = Arc::new(GroupNumbers::new());
                let claim = self.budget.claim_anyway(0);
                *last = Some(Numbering { keys, numbers: Arc::clone(&numbers), claim });
                numbers
            }
        };
        LentNumbers { numberings: Arc::clone(self), numbers }
    }
}

/// The group numbers that one query uses. The drop charges the bytes that the query has added to the
/// budget.
#[derive(Debug)]
pub struct LentNumbers {
    numberings: Arc<Numberings>,
    /// The group numbers.
    pub numbers: Arc<GroupNumbers>,
}

impl Drop for LentNumbers {
    fn drop(&mut self) {
        let bytes = self.numbers.bytes() as u64;
        let finds_no_room = |last: &mut Numbering| {
            // Another query has replaced the numbering by now, or the bytes are claimed already.
            if !Arc::ptr_eq(&last.numbers, &self.numbers) || bytes <= last.claim.bytes() {
                return false;
            }
            match self.numberings.budget.claim((bytes - last.claim.bytes()) as usize) {
                Ok(more) => {
                    last.claim.join(more);
                    debug_assert_eq!(last.claim.bytes(), bytes, "the claim has another size");
                    false
                }
                Err(_) => true,
            }
        };
        self.numberings.last.lock().take_if(finds_no_room);
    }
}

/// The group numbers of some series, computed once per numbering and cached.
#[derive(Debug, Default)]
pub struct SeriesNumbers(Mutex<Option<(u64, Arc<[u32]>)>>);

impl SeriesNumbers {
    /// Group numbers that are known already.
    pub fn known(best: &Best, numbers: Arc<[u32]>) -> Self {
        Self(Mutex::new(Some((best.numbers().id(), numbers))))
    }

    /// The cached numbers; `None` if they belong to another numbering than that of `best`.
    pub fn get(&self, best: &Best) -> Option<Arc<[u32]>> {
        let known = self.0.lock();
        let (id, numbers) = known.as_ref()?;
        (*id == best.numbers().id()).then(|| Arc::clone(numbers))
    }

    /// The group numbers of the series in the numbering of `best`. Calls `find` if the cached
    /// numbers belong to another numbering.
    ///
    /// # Errors
    /// The errors of `find`.
    pub fn of(
        &self,
        best: &Best,
        find: impl FnOnce(&GroupNumbers) -> Result<Vec<u32>>,
    ) -> Result<Arc<[u32]>> {
        if let Some(known) = self.get(best) {
            return Ok(known);
        }
        let numbers: Arc<[u32]> = find(best.numbers())?.into();
        *self.0.lock() = Some((best.numbers().id(), Arc::clone(&numbers)));
        Ok(numbers)
    }
}

impl Clone for SeriesNumbers {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_while_they_are_few() {
        let budget = Budget::new(1 << 20);
        let all = Numberings::new(&budget);
        let of = |key: u32| all.of(vec![ColumnId(key)]);
        let give = |lent: &LentNumbers, keys: std::ops::Range<u64>| {
            let keys: Vec<[u8; 8]> = keys.map(u64::to_be_bytes).collect();
            lent.numbers.of(keys.iter().map(<[u8; 8]>::as_slice))
        };
        assert_eq!(give(&of(0), 0..3), [0, 1, 2]);
        assert_eq!(give(&of(0), 1..5), [1, 2, 3, 4]);
        assert_eq!(give(&of(1), 4..5), [0]);
        assert!(budget.used() > 0);
        let (many, beside) = (of(0), of(0));
        assert_eq!(give(&many, 0..1_000_000).len(), 1_000_000);
        drop(many);
        assert_eq!(budget.used(), 0, "too many are forgotten");
        assert_eq!(give(&beside, 999_999..1_000_000), [999_999], "but for who has them");
    }
}
