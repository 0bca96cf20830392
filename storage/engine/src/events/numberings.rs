//! Numbers for the series of a chronicle, to compare the newest events by number.

use std::sync::Arc;

use parking_lot::Mutex;
use stratalog_model::{
    ColumnId, Result,
    newest::{Best, GroupNumbers},
};

use crate::events::budget::{Budget, Claim};

/// Maximum bytes of the numbers of all chronicles together.
pub const BYTES_MAX: u64 = 128 << 20;

/// The numbers of the last query for the newest events. Numbers without room in the budget are
/// dropped at the end of their query.
#[derive(Debug)]
pub struct Numberings {
    budget: Arc<Budget>,
    last: Mutex<Option<Numbering>>,
}

/// Numbers for groups by the key columns `keys`.
#[derive(Debug)]
struct Numbering {
    keys: Vec<ColumnId>,
    numbers: Arc<GroupNumbers>,
    claim: Claim,
}

impl Numberings {
    /// Without numbers; the numbers of all chronicles share `budget`.
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { budget: Arc::clone(budget), last: Mutex::default() })
    }

    /// Memory of the numbers of all chronicles.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// The numbers for groups by `keys`.
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

/// The numbers, lent to one query.
#[derive(Debug)]
pub struct LentNumbers {
    numberings: Arc<Numberings>,
    /// The numbers.
    pub numbers: Arc<GroupNumbers>,
}

impl Drop for LentNumbers {
    fn drop(&mut self) {
        let bytes = self.numbers.bytes() as u64;
        let finds_no_room = |last: &mut Numbering| {
            // The last numbering is another numbering by now, or the bytes are claimed already.
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

/// The numbers of some series, found once for each numbering.
#[derive(Debug, Default)]
pub struct SeriesNumbers(Mutex<Option<(u64, Arc<[u32]>)>>);

impl SeriesNumbers {
    /// Series with known numbers.
    pub fn known(best: &Best, numbers: Arc<[u32]>) -> Self {
        Self(Mutex::new(Some((best.numbers().id(), numbers))))
    }

    /// The numbers, if they belong to the numbering of `best`.
    pub fn get(&self, best: &Best) -> Option<Arc<[u32]>> {
        let known = self.0.lock();
        let (id, numbers) = known.as_ref()?;
        (*id == best.numbers().id()).then(|| Arc::clone(numbers))
    }

    /// The numbers of the series in the numbering of `best`; calls `find` for a numbering different
    /// from the last one.
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
