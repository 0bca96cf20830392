//! Key prefixes of the wanted events, made from the values that a request fixes for the first key
//! columns. Pieces are sorted by key, and the prefixes select parts by the first and last key of a
//! part.

use stratalog_model::{Result, tier::ScanRequest};

use crate::events::keys::KeyBytes;

/// Maximum number of prefixes. With more values, the prefixes cover fewer columns.
const KEYS_MAX: usize = 1024;

/// The prefixes of the wanted keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadingKeys {
    /// Ascending and distinct. Each prefix covers at least the first key column.
    keys: Vec<Vec<u8>>,
    /// True if the request fixes all key columns of the chronicle, and the prefixes are whole keys.
    whole: bool,
}

impl LeadingKeys {
    /// All combinations of the values of the leading key columns with a filter. `None` if the first
    /// key column has no filter.
    ///
    /// # Errors
    /// `Internal` if a value is not valid for its key column.
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
            // The first of two filters on a column keeps a superset of the rows that both filters
            // keep.
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
        debug_assert!(keys.len() <= KEYS_MAX, "too many prefixes");
        debug_assert!(
            !whole || columns == chronicle.key_columns.len(),
            "a whole key lacks a column"
        );
        if columns == 0 {
            return Ok(None);
        }
        let mut keys: Vec<Vec<u8>> = keys.into_iter().map(KeyBytes::finish).collect();
        // Removes duplicates of values listed twice.
        keys.sort_unstable();
        keys.dedup();
        Ok(Some(Self { keys, whole }))
    }

    /// The keys, ascending, if the request fixes all key columns.
    pub fn whole(&self) -> Option<&[Vec<u8>]> {
        self.whole.then_some(self.keys.as_slice())
    }

    /// A copy for events that may have more key columns.
    #[must_use]
    pub fn as_beginnings(&self) -> Self {
        Self { keys: self.keys.clone(), whole: false }
    }

    /// True if a wanted key may lie in `first..=last`.
    pub fn may_lie_between(&self, first: &[u8], last: &[u8]) -> bool {
        let before = |key: &Vec<u8>| {
            key.as_slice() < first && (self.whole || !first.starts_with(key.as_slice()))
        };
        // A key that begins with a prefix at or after `first` also lies at or after `first`.
        let at = self.keys.partition_point(before);
        self.keys.get(at).is_some_and(|key| key.as_slice() <= last)
    }
}

#[cfg(test)]
mod tests;
