//! The payload of a block of a tablet: that of an Events frame, with the numbers of the events
//! as two more columns. Ticks and numbers are kept as differences, each from the one before:
//! within a key they hardly vary, and pack to nearly nothing.

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    buffer::ScalarBuffer,
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use bytes::Bytes;
use std::sync::Arc;
use stratalog_model::{Error, ErrorKind, Result};

use crate::memtable::{column::Column, encode, shape::Shape};

/// The events of a block, by ascending (key, tick, seq).
#[derive(Debug, Clone)]
pub struct Block {
    /// The columns of the block's schema version.
    pub columns: Vec<Column>,
    /// Ticks.
    pub ticks: ScalarBuffer<i64>,
    /// Arrival numbers.
    pub seqs: ScalarBuffer<i64>,
    /// Commit numbers.
    pub gsns: ScalarBuffer<i64>,
}

impl Block {
    /// Events.
    pub fn rows(&self) -> usize {
        self.ticks.len()
    }

    /// Bytes in memory, of one that was decoded: the payload, in which the columns lie, has the
    /// numbers as well.
    pub fn bytes(&self) -> usize {
        let numbers = 2 * 3 * size_of::<i64>();
        self.columns.iter().map(Column::bytes).sum::<usize>() + self.rows() * numbers
    }

    /// The payload.
    ///
    /// # Errors
    /// `Internal` when the columns have different lengths.
    pub fn encode(&self) -> Result<Bytes> {
        let numbers = |values: &[i64]| -> Column {
            Column::Plain(Arc::new(Int64Array::new(differences(values), None)))
        };
        let mut columns = self.columns.clone();
        columns.push(numbers(&self.seqs));
        columns.push(numbers(&self.gsns));
        encode::encode(&columns, Some(&differences(&self.ticks)))
    }

    /// Reads a payload of `rows` events of a shape.
    ///
    /// # Errors
    /// `DataCorrupted` when the bytes are no such payload.
    pub fn decode(payload: &Bytes, shape: &Shape, rows: usize) -> Result<Self> {
        let decoded = encode::decode(payload, &schema_of(shape), rows)?;
        let mut columns = decoded.columns;
        let gsns = columns.pop().as_ref().and_then(sums);
        let seqs = columns.pop().as_ref().and_then(sums);
        let ticks = decoded.ticks.map(|ticks| summed(&ticks));
        match (ticks, seqs, gsns) {
            (Some(ticks), Some(seqs), Some(gsns)) => Ok(Self { columns, ticks, seqs, gsns }),
            _ => Err(Error::new(ErrorKind::DataCorrupted, "a block has no numbers of its events")),
        }
    }
}

/// The declared types of a shape's columns, and those of the numbers.
fn schema_of(shape: &Shape) -> SchemaRef {
    let number = || Arc::new(Field::new("", DataType::Int64, true));
    let fields = shape.schema.fields().iter().cloned().chain([number(), number()]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn differences(values: &[i64]) -> ScalarBuffer<i64> {
    let mut before = 0_i64;
    let differences = values.iter().map(|value| {
        let difference = value.wrapping_sub(before);
        before = *value;
        difference
    });
    differences.collect::<Vec<_>>().into()
}

fn summed(differences: &[i64]) -> ScalarBuffer<i64> {
    let mut sum = 0_i64;
    let sums = differences.iter().map(|difference| {
        sum = sum.wrapping_add(*difference);
        sum
    });
    sums.collect::<Vec<_>>().into()
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
