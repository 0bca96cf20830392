//! A tag of a table, over the series of a batch.

use arrow::array::{Array, ArrayBuilder, StringViewArray, StringViewBuilder};

/// The use of a tag's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TagRole {
    /// The values fill a key column, with '' for series without the tag.
    Key,
    /// The values fill a text column outside of the key, row by row as a field.
    Text,
    /// The table lacks the column: the caller decides.
    New,
    /// The column of this name takes no tag; the text is the reason.
    Refused(String),
}

/// The values of a tag: one value per series of the batch, and NULL for series without the tag.
#[derive(Debug)]
pub(crate) struct TagColumn {
    pub(crate) name: Box<str>,
    pub(crate) role: TagRole,
    /// The last request with a row that has the tag.
    pub(crate) request: u64,
    values: StringViewBuilder,
}

impl TagColumn {
    pub(crate) fn new(name: &str, role: TagRole) -> Self {
        Self { name: name.into(), role, request: 0, values: StringViewBuilder::new() }
    }

    /// True if a series of the batch has the tag.
    pub(crate) fn is_used(&self) -> bool {
        !self.values.is_empty()
    }

    /// Sets the value of a series of the batch; series come in ascending order.
    pub(crate) fn push(&mut self, slot: usize, value: &str) {
        self.pad(slot);
        self.values.append_value(value);
    }

    /// The values for `slots` series; `None` if no series has the tag. The column starts empty
    /// again.
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

    /// Drops the values.
    pub(crate) fn clear(&mut self) {
        if !self.values.is_empty() {
            self.values = StringViewBuilder::new();
        }
    }
}
