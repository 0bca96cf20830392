//! The bytes of a table's rows, and their limit.

use stratalog_model::{ColumnType, Error, ErrorKind, Result};

use super::{TAG_BYTES, Table};
use crate::{RowLimits, fault::excerpt, tag::TagRole};

/// Bytes of a row in addition to its columns: time, series, line number, and a share of the
/// columns' lists of NULL rows.
const ROW_BYTES: usize = 32;

impl Table {
    /// The approximate bytes of the collected rows in the form of a batch. Each row takes space in
    /// every column.
    pub(crate) fn bytes(&self) -> usize {
        self.rows() * self.row_bytes + self.text_bytes
    }

    /// Recomputes `row_bytes` for the present columns and tags of the batch.
    pub(super) fn measure(&mut self) {
        let known = self.definition.iter().flat_map(|definition| &definition.columns);
        let known: usize = known.map(|column| value_bytes(&column.column_type)).sum();
        let new = self.columns.iter().filter(|column| column.new);
        let new: usize = new.map(|column| value_bytes(&column.column_type)).sum();
        let tags = self.tags.iter().filter(|tag| tag.role == TagRole::New && tag.is_used());
        self.row_bytes = ROW_BYTES + known + new + TAG_BYTES * tags.count();
    }

    /// Checks that the rows stay within `table_bytes_max` if each row grows by `bytes`.
    pub(crate) fn check_growth(&self, bytes: usize, limits: &RowLimits) -> Result<()> {
        let rows = self.rows() + 1;
        if rows.saturating_mul(self.row_bytes + bytes) <= limits.table_bytes_max {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::LimitExceeded,
            format!(
                "a new column of table \"{}\" takes space in {rows} rows of the request, and the rows would exceed {} bytes",
                excerpt(&self.measurement),
                limits.table_bytes_max
            ),
        )
        .with_hint("send lines with the same fields together, in several requests"))
    }
}

/// Bytes of a value of the given type in a batch, without the bytes of its text.
pub(super) fn value_bytes(column_type: &ColumnType) -> usize {
    match column_type {
        ColumnType::Boolean => 1,
        ColumnType::BigInt
        | ColumnType::Integer
        | ColumnType::SmallInt
        | ColumnType::Double
        | ColumnType::Real
        | ColumnType::Timestamp { .. }
        | ColumnType::TimestampTz { .. } => 8,
        _ => 16,
    }
}
