//! The values of one tag in a batch.

use arrow::array::{Array, ArrayBuilder, StringViewArray, StringViewBuilder};

/// The use of a tag's values in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TagRole {
    /// The values go to a key column. A series without the tag has the value ''.
    Key,
    /// The values go to a text column outside of the key, row by row, like the values of a field.
    Text,
    /// The table has no column for the tag. The caller decides whether to create the column.
    New,
    /// The table refuses the tag; the text is the reason.
    Refused(String),
}

/// The values of a tag under construction: one value per series of the batch, NULL without the tag.
#[derive(Debug)]
pub(crate) struct TagColumn {
    pub(crate) name: Box<str>,
    pub(crate) role: TagRole,
    /// The last request in which a row had the tag.
    pub(crate) request: u64,
    values: StringViewBuilder,
}

impl TagColumn {
    pub(crate) fn new(name: &str, role: TagRole) -> Self {
        Self { name: name.into(), role, request: 0, values: StringViewBuilder::new() }
    }

    /// True if any series of the batch has the tag.
    pub(crate) fn is_used(&self) -> bool {
        !self.values.is_empty()
    }

    /// Sets the value for the series with index `slot` of the batch. The indexes of successive
    /// calls must ascend.
    pub(crate) fn push(&mut self, slot: usize, value: &str) {
        self.pad(slot);
        self.values.append_value(value);
    }

    /// Removes and returns the values of the first `slots` series, and leaves the column empty.
    /// `None` if no series has the tag.
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
