//! Prefixes of the encoded keys that a request wants, built from the filters on the first key
//! columns. The rows of a part are sorted by key: the prefixes rule out parts by their first and
//! last key.

use stratalog_model::{Result, tier::ScanRequest};

use crate::events::keys::KeyBytes;

/// Maximum number of prefixes. If the combinations of values exceed it, the prefixes cover fewer
/// columns.
const KEYS_MAX: usize = 1024;

/// The prefixes of the wanted keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadingKeys {
    /// The prefixes, ascending and distinct. Each covers at least the first key column.
    keys: Vec<Vec<u8>>,
    /// True if the request fixes all key columns of the chronicle: the prefixes are then whole
    /// keys.
    whole: bool,
}

impl LeadingKeys {
    /// Builds the prefixes: all combinations of the allowed values of the leading key columns.
    /// `None` if the first key column has no filter.
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
            // If a column has several filters, the first alone is used: it allows a superset of the
            // rows.
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
        // A filter may list a value twice.
        keys.sort_unstable();
        keys.dedup();
        Ok(Some(Self { keys, whole }))
    }

    /// The whole keys, ascending; `None` unless the request fixes all key columns.
    pub fn whole(&self) -> Option<&[Vec<u8>]> {
        self.whole.then_some(self.keys.as_slice())
    }

    /// A copy whose entries count as prefixes and not as whole keys: for a piece with more key
    /// columns than the request knows.
    #[must_use]
    pub fn as_beginnings(&self) -> Self {
        Self { keys: self.keys.clone(), whole: false }
    }

    /// True if a wanted key may be in the range `first..=last`.
    pub fn may_lie_between(&self, first: &[u8], last: &[u8]) -> bool {
        let before = |key: &Vec<u8>| {
            key.as_slice() < first && (self.whole || !first.starts_with(key.as_slice()))
        };
        // If a prefix is at or after `first`, all keys with this prefix are, too.
        let at = self.keys.partition_point(before);
        self.keys.get(at).is_some_and(|key| key.as_slice() <= last)
    }
}

#[cfg(test)]
mod tests;
