//! Finds the first row of each run of rows with the same group, in sorted input.

use arrow::{
    array::{BooleanArray, RecordBatch},
    compute::filter_record_batch,
    datatypes::Schema,
    row::{OwnedRow, RowConverter},
};
use datafusion::{common::Result, physical_expr::PhysicalSortExpr};

use super::{First, converter, values};

/// The state after the rows read so far, which are sorted by group.
pub struct Runs {
    groups: Vec<PhysicalSortExpr>,
    converter: RowConverter,
    /// The group of the last row.
    last: Option<OwnedRow>,
}

impl Runs {
    /// The state before the first row.
    pub fn new(first: &First, schema: &Schema) -> Result<Self> {
        let groups = first.groups.clone();
        Ok(Self { converter: converter(&groups, schema)?, groups, last: None })
    }

    /// The rows of a batch that are the first rows of their groups.
    pub fn firsts(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = self.converter.convert_columns(&values(&self.groups, batch)?)?;
        let before = std::iter::once(self.last.as_ref().map(OwnedRow::row));
        let before = before.chain(rows.iter().map(Some));
        let other = rows.iter().zip(before).map(|(row, before)| before != Some(row));
        let first: BooleanArray = other.map(Some).collect();
        if let Some(last) = rows.num_rows().checked_sub(1) {
            self.last = Some(rows.row(last).owned());
        }
        Ok(filter_record_batch(batch, &first)?)
    }
}
