//! Checks that the buffers of a batch are consistent with its nodes (the numbers of rows and NULLs
//! per column). The check assigns nodes and buffers to columns in the same order as Arrow's
//! decoder.

use std::collections::VecDeque;

use arrow::{
    datatypes::{DataType, Field},
    ipc::{FieldNode, RecordBatch},
};

/// The nodes and buffers of a batch that the check has not yet assigned to a column.
pub(super) struct Layout {
    nodes: VecDeque<(u64, u64)>,
    /// The uncompressed bytes of each buffer.
    buffers: VecDeque<u64>,
    variadic: VecDeque<usize>,
}

impl Layout {
    /// Collects the nodes and buffers of a batch. The caller has already checked that each number
    /// is valid.
    pub(super) fn new(batch: RecordBatch<'_>, buffers: Vec<u64>) -> Self {
        let number = |value: i64| u64::try_from(value).unwrap_or(0);
        let node = |node: &FieldNode| (number(node.length()), number(node.null_count()));
        let counts = batch.variadicBufferCounts().into_iter().flatten();
        Self {
            nodes: batch.nodes().into_iter().flatten().map(node).collect(),
            buffers: buffers.into(),
            variadic: counts.map(|count| usize::try_from(count).unwrap_or(usize::MAX)).collect(),
        }
    }

    /// Assigns the nodes and buffers to `fields`. Returns an error if the decoder would fail on
    /// them.
    pub(super) fn check<'a>(
        mut self,
        fields: impl IntoIterator<Item = &'a Field>,
    ) -> Result<(), String> {
        for field in fields {
            self.field(field).map_err(|what| format!("column \"{}\" {what}", field.name()))?;
        }
        match self.variadic.is_empty() {
            true => Ok(()),
            false => Err("the batch counts buffers of missing columns".to_string()),
        }
    }

    fn field(&mut self, field: &Field) -> Result<(), String> {
        let (rows, nulls) = self.nodes.pop_front().ok_or("is missing in the batch")?;
        match field.data_type() {
            DataType::Null => return Ok(()),
            DataType::RunEndEncoded(ends, values) => {
                self.field(ends)?;
                return self.field(values);
            }
            _ => {}
        }
        let marks = if nulls > 0 { rows.div_ceil(8) } else { 0 };
        self.at_least(marks, "marks of nulls")?;
        let width = width(field.data_type());
        for at in 0..self.others(field.data_type())? {
            let bytes = self.buffer()?;
            // The last buffer of a column with offsets or views contains their data, and may have
            // any length.
            if at < typed(field.data_type()) && !bytes.is_multiple_of(width) {
                return Err(format!(
                    "has {bytes} bytes, not a multiple of {width} bytes for each value"
                ));
            }
        }
        match field.data_type() {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => self.field(item),
            DataType::Struct(fields) => fields.iter().try_for_each(|field| self.field(field)),
            _ => Ok(()),
        }
    }

    /// The number of a column's buffers, apart from the validity buffer.
    fn others(&mut self, data_type: &DataType) -> Result<usize, String> {
        Ok(match data_type {
            DataType::Struct(_) | DataType::FixedSizeList(..) => 0,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 2,
            DataType::ListView(_) | DataType::LargeListView(_) => 2,
            DataType::Utf8View | DataType::BinaryView => {
                let count = self.variadic.pop_front().ok_or("does not count its buffers")?;
                count.saturating_add(1)
            }
            _ => 1,
        })
    }

    fn buffer(&mut self) -> Result<u64, String> {
        self.buffers.pop_front().ok_or_else(|| "has too few buffers".to_string())
    }

    fn at_least(&mut self, bytes: u64, what: &str) -> Result<(), String> {
        let found = self.buffer()?;
        match found < bytes {
            true => Err(format!("has {found} bytes of {what}, but needs {bytes} bytes")),
            false => Ok(()),
        }
    }
}

/// The bytes of one value, offset or view in a buffer of the column; 1 for types without a fixed
/// width.
fn width(data_type: &DataType) -> u64 {
    match data_type {
        DataType::Utf8
        | DataType::Binary
        | DataType::List(_)
        | DataType::ListView(_)
        | DataType::Map(..) => 4,
        DataType::LargeUtf8
        | DataType::LargeBinary
        | DataType::LargeList(_)
        | DataType::LargeListView(_) => 8,
        DataType::Utf8View | DataType::BinaryView => 16,
        DataType::Dictionary(index, _) => width(index),
        other => other.primitive_width().map_or(1, |width| width as u64),
    }
}

/// The number of buffers after the validity buffer whose length must be a multiple of [`width`].
fn typed(data_type: &DataType) -> usize {
    match data_type {
        DataType::ListView(_) | DataType::LargeListView(_) => 2,
        _ => 1,
    }
}
