//! The format of a block of a tablet. A block has a section for each column of the events, in the
//! format of the payload of an Events frame with a single column. One section each for the event
//! numbers `_tick`, `_seq` and `_gsn` follows. The numbers are delta-encoded: for one key they
//! hardly vary, and the differences compress to almost nothing.

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    buffer::ScalarBuffer,
    datatypes::{DataType, Field, Int64Type, Schema},
};
use bytes::Bytes;
use std::sync::Arc;
use stratalog_model::{Error, ErrorKind, Result};

use super::part_events::{ColumnSelection, PartEvents};
use crate::events::{column::Column, encode, shape::Shape};

/// The decoded events of a block, ascending by (key, tick, seq).
#[derive(Debug, Clone)]
pub struct Block {
    /// The columns of the block's schema version.
    pub columns: Vec<Column>,
    /// Tick of each event.
    pub ticks: ScalarBuffer<i64>,
    /// Arrival number of each event.
    pub seqs: ScalarBuffer<i64>,
    /// Commit number of each event.
    pub gsns: ScalarBuffer<i64>,
}

impl Block {
    /// Number of events.
    pub fn rows(&self) -> usize {
        self.ticks.len()
    }

    /// Bytes of the decoded block in memory. The event numbers count twice, because the decoded
    /// payload also contains them.
    pub fn bytes(&self) -> usize {
        let numbers = 2 * 3 * size_of::<i64>();
        self.columns.iter().map(Column::bytes).sum::<usize>() + self.rows() * numbers
    }

    /// Encodes the block as sections. Each section comes with the width of its values in bytes.
    ///
    /// # Errors
    /// `Internal` if the columns have different lengths.
    pub fn encode(&self) -> Result<Vec<(Bytes, u8)>> {
        let numbers = [&self.ticks, &self.seqs, &self.gsns]
            .map(|values| Column::Plain(Arc::new(Int64Array::new(differences(values), None))));
        debug_assert!(self.columns.iter().all(|column| column.len() == self.rows()));
        debug_assert!(self.seqs.len() == self.rows() && self.gsns.len() == self.rows());
        let columns = self.columns.iter().chain(&numbers);
        let sections = columns.map(|column| {
            let width = match column {
                Column::Plain(array) => array.data_type().primitive_width().unwrap_or(1),
                Column::Coded8 { .. } => 1,
                Column::Coded16 { .. } => 2,
            };
            let bytes = encode::encode(std::slice::from_ref(column), None)?;
            Ok((bytes, u8::try_from(width).unwrap_or(1)))
        });
        let sections = sections.collect::<Result<Vec<_>>>()?;
        debug_assert_eq!(
            sections.len(),
            self.columns.len() + numbers.len(),
            "a column or number has no section"
        );
        Ok(sections)
    }

    /// The indexes of the sections that contain the `wanted` columns and numbers, ascending.
    pub fn sections(wanted: &ColumnSelection, shape: &Shape) -> Vec<usize> {
        debug_assert!(
            wanted.columns.iter().all(|at| *at < shape.columns.len()),
            "a wanted column is not in the shape"
        );
        let numbers = [wanted.ticks, wanted.seqs, wanted.gsns];
        let numbers = (shape.columns.len()..).zip(numbers).filter(|(_, wanted)| *wanted);
        let mut sections = wanted.columns.clone();
        sections.extend(numbers.map(|(at, _)| at));
        sections
    }

    /// Decodes the `wanted` [sections](Self::sections) of a block with `rows` events.
    ///
    /// # Errors
    /// `DataCorrupted` if the bytes are not valid sections.
    pub fn decode(
        sections: &[Bytes],
        wanted: &ColumnSelection,
        shape: &Shape,
        rows: usize,
    ) -> Result<PartEvents> {
        let mut sections = sections.iter();
        let mut next = |field: &Arc<Field>| -> Result<Column> {
            let missing = || Error::new(ErrorKind::DataCorrupted, "a block lacks a column");
            let section = sections.next().ok_or_else(missing)?;
            let schema = Arc::new(Schema::new(vec![Arc::clone(field)]));
            let mut decoded = encode::decode(section, &schema, rows)?;
            decoded.columns.pop().ok_or_else(missing)
        };
        let mut columns = vec![None; shape.columns.len()];
        for at in &wanted.columns {
            let field = shape.schema.fields().get(*at);
            let field = field.ok_or_else(|| Error::internal("a shape lacks a column"))?;
            if let Some(slot) = columns.get_mut(*at) {
                *slot = Some(next(field)?);
            }
        }
        let number = Arc::new(Field::new("", DataType::Int64, true));
        let mut numbers = |wanted: bool| -> Result<ScalarBuffer<i64>> {
            if !wanted {
                return Ok(Vec::new().into());
            }
            let none = "a block has no numbers of its events";
            sums(&next(&number)?).ok_or_else(|| Error::new(ErrorKind::DataCorrupted, none))
        };
        let (ticks, seqs) = (numbers(wanted.ticks)?, numbers(wanted.seqs)?);
        let gsns = numbers(wanted.gsns)?;
        debug_assert!([&ticks, &seqs, &gsns].iter().all(|of| of.is_empty() || of.len() == rows));
        debug_assert!(
            columns.iter().flatten().all(|column| column.len() == rows),
            "a column has another number of rows than the block"
        );
        Ok(PartEvents { rows, columns, ticks, seqs, gsns })
    }
}

fn differences(values: &[i64]) -> ScalarBuffer<i64> {
    let mut before = 0_i64;
    let differences = values.iter().map(|value| {
        let difference = value.wrapping_sub(before);
        before = *value;
        difference
    });
    let differences: Vec<i64> = differences.collect();
    debug_assert!(differences.first() == values.first(), "the first number is not itself");
    differences.into()
}

fn summed(differences: &[i64]) -> ScalarBuffer<i64> {
    let mut sum = 0_i64;
    let sums = differences.iter().map(|difference| {
        sum = sum.wrapping_add(*difference);
        sum
    });
    let sums: Vec<i64> = sums.collect();
    debug_assert!(sums.first() == differences.first(), "the first number is not itself");
    sums.into()
}

fn sums(column: &Column) -> Option<ScalarBuffer<i64>> {
    let Column::Plain(array) = column else { return None };
    let array: &ArrayRef = array;
    let numbers =
        array.as_primitive_opt::<Int64Type>().filter(|numbers| numbers.null_count() == 0)?;
    Some(summed(numbers.values()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_add_up_at_the_edges_too() {
        for values in [vec![], vec![5], vec![i64::MIN, i64::MAX, -1, 0, i64::MIN, 7, 7]] {
            assert_eq!(summed(&differences(&values)).to_vec(), values);
        }
    }
}
