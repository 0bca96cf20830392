//! The values of one tag in a batch.

use arrow::array::{Array, ArrayBuilder, StringViewArray, StringViewBuilder};

/// What happens to the values of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TagRole {
    /// They fill a key column; a series without the tag has ''.
    Key,
    /// They fill a text column outside of the key, row by row, as a field does.
    Text,
    /// The table has no column for the tag: the caller decides.
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

    /// Sets the value for series number `slot` of the batch; the numbers must ascend.
    pub(crate) fn push(&mut self, slot: usize, value: &str) {
        self.pad(slot);
        self.values.append_value(value);
    }

    /// Takes the values for the first `slots` series, and leaves the column empty. `None` if no
    /// series has the tag.
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
