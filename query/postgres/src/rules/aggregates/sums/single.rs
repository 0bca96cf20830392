//! The sum of the integers of a group or of a sliding window.

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array},
    compute::cast,
    datatypes::{DataType, Decimal128Type, Int64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Accumulator,
};
use stratalog_model::Error;

use super::SumType;
use crate::errors::to_datafusion;

/// Computes the sum, and counts the rows that are not NULL.
#[derive(Debug)]
pub(super) struct IntegerSum {
    sum_type: SumType,
    sum: i128,
    rows: u64,
}

impl IntegerSum {
    pub(super) fn new(sum_type: SumType) -> Self {
        Self { sum_type, sum: 0, rows: 0 }
    }
}

/// The first of the arrays; an error if no array is given.
pub(super) fn first_array(arrays: &[ArrayRef]) -> Result<&ArrayRef> {
    arrays.first().ok_or_else(|| to_datafusion(Error::internal("sum needs an argument")))
}

/// The values to add, as bigints.
pub(super) fn integers(arrays: &[ArrayRef]) -> Result<Int64Array> {
    let values = cast(first_array(arrays)?, &DataType::Int64)?;
    Ok(values.as_primitive::<Int64Type>().clone())
}

fn total(arrays: &[ArrayRef]) -> Result<(i128, u64)> {
    let values = integers(arrays)?;
    let rows = values.len() - values.null_count();
    let sum = match values.null_count() {
        0 => values.values().iter().map(|value| i128::from(*value)).sum(),
        _ => values.iter().flatten().map(i128::from).sum(),
    };
    Ok((sum, rows as u64))
}

impl Accumulator for IntegerSum {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = total(arrays)?;
        self.sum += sum;
        self.rows += rows;
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = total(arrays)?;
        self.sum -= sum;
        self.rows = self.rows.saturating_sub(rows);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Decimal128((self.rows > 0).then_some(self.sum), 38, 0)])
    }

    fn merge_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for sum in first_array(arrays)?.as_primitive::<Decimal128Type>().iter().flatten() {
            self.sum += sum;
            self.rows += 1;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.sum_type.value((self.rows > 0).then_some(self.sum))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
