//! One tag of a table, over the series of a batch.

use arrow::array::{Array, ArrayBuilder, StringViewArray, StringViewBuilder};

/// What becomes of a tag's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TagRole {
    /// They fill a key column, '' where a series has none.
    Key,
    /// They fill a column of text that is not of the key: row by row, as a field would.
    Text,
    /// The table has no such column: the caller decides.
    New,
    /// The table has a column of that name that takes no tag; why.
    Refused(String),
}

/// The values of one tag: one for each series of the batch, and NULL for those without it.
#[derive(Debug)]
pub(crate) struct TagColumn {
    pub(crate) name: Box<str>,
    pub(crate) role: TagRole,
    /// The last request that had a row with it.
    pub(crate) request: u64,
    values: StringViewBuilder,
}

impl TagColumn {
    pub(crate) fn new(name: &str, role: TagRole) -> Self {
        Self { name: name.into(), role, request: 0, values: StringViewBuilder::new() }
    }

    /// Whether a series of the batch has the tag.
    pub(crate) fn is_used(&self) -> bool {
        !self.values.is_empty()
    }

    /// The value of a series of the batch; series come in ascending order.
    pub(crate) fn push(&mut self, slot: usize, value: &str) {
        self.pad(slot);
        self.values.append_value(value);
    }

    /// The values of so many series; `None` when none of them has the tag. Starts anew.
    pub(crate) fn take(&mut self, slots: usize) -> Option<StringViewArray> {
        if self.values.is_empty() {
            return None;
        }
        self.pad(slots);
        let values = self.values.finish();
        (values.null_count() < values.len()).then_some(values)
    }

    fn pad(&mut self, slots: usize) {
        for _ in self.values.len()..slots {
            self.values.append_null();
        }
    }

    /// Forgets the values.
    pub(crate) fn clear(&mut self) {
        if !self.values.is_empty() {
            self.values = StringViewBuilder::new();
        }
    }
}
