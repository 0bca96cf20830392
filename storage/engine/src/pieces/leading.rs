//! The values that a request fixes for the first key columns: bytes with which the keys of all
//! wanted events begin. Pieces are sorted by key, so that parts are chosen by their first and last key.

use stratalog_model::{Result, tier::ScanRequest};

use crate::keeper::keys::KeyBytes;

/// Keys that a request may name; with more, parts are chosen by fewer columns.
const KEYS_MAX: usize = 1024;

/// The beginnings of wanted keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadingKeys {
    /// Ascending and distinct; at least the first key column of each.
    keys: Vec<Vec<u8>>,
    /// Whether all key columns of the request's chronicle are fixed, so that these are whole keys.
    whole: bool,
}

impl LeadingKeys {
    /// Every combination of the values of the leading key columns that have a filter; `None` when
    /// the first has none.
    ///
    /// # Errors
    /// `Internal` for values that are none of a key column.
    pub fn of(request: &ScanRequest) -> Result<Option<Self>> {
        let chronicle = &request.chronicle;
        let fixed = chronicle.key_columns.len().saturating_sub(chronicle.keys_added);
        let mut keys = vec![KeyBytes::new(fixed)];
        let (mut columns, mut whole) = (0, true);
        for id in &chronicle.key_columns {
            let at = chronicle.position(*id);
            let mut filters = request.keys.iter().filter(|filter| Some(filter.column) == at);
            let filter = filters.next();
            let Some(filter) = filter.filter(|f| keys.len() * f.values.len() <= KEYS_MAX) else {
                whole = false;
                break;
            };
            // Of two filters one leaves at least what both leave.
            whole &= filters.next().is_none();
            let mut longer = Vec::with_capacity(keys.len() * filter.values.len());
            for key in &keys {
                for row in 0..filter.values.len() {
                    let mut key = key.clone();
                    key.push(&filter.values, row)?;
                    longer.push(key);
                }
            }
            (keys, columns) = (longer, columns + 1);
        }
        if columns == 0 {
            return Ok(None);
        }
        let mut keys: Vec<Vec<u8>> = keys.into_iter().map(KeyBytes::finish).collect();
        // A value that is listed twice is one.
        keys.sort_unstable();
        keys.dedup();
        Ok(Some(Self { keys, whole }))
    }

    /// The keys, ascending, if all columns are fixed.
    pub fn whole(&self) -> Option<&[Vec<u8>]> {
        self.whole.then_some(self.keys.as_slice())
    }

    /// The same, for events that may have more key columns.
    #[must_use]
    pub fn as_beginnings(&self) -> Self {
        Self { keys: self.keys.clone(), whole: false }
    }

    /// Whether a wanted key may lie between two keys, these included.
    pub fn may_lie_between(&self, first: &[u8], last: &[u8]) -> bool {
        let before = |key: &Vec<u8>| {
            key.as_slice() < first && (self.whole || !first.starts_with(key.as_slice()))
        };
        // Whatever begins with the first of the others is not before `first`.
        let at = self.keys.partition_point(before);
        self.keys.get(at).is_some_and(|key| key.as_slice() <= last)
    }
}

#[cfg(test)]
mod tests;
