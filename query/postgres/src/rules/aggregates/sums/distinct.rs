//! The sum of the distinct integers of a group or of a sliding window.

use std::collections::HashMap;

use arrow::{
    array::{ArrayRef, AsArray, Int64Array},
    datatypes::{DataType, Int64Type},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::Accumulator,
};

use super::{
    SumType,
    single::{first_array, integers},
};

/// Counts the occurrences of each value, and computes the sum of the distinct values.
#[derive(Debug)]
pub(super) struct DistinctIntegerSum {
    sum_type: SumType,
    counts: HashMap<i64, u64, ahash::RandomState>,
    sum: i128,
}

impl DistinctIntegerSum {
    pub(super) fn new(sum_type: SumType) -> Self {
        Self { sum_type, counts: HashMap::default(), sum: 0 }
    }

    fn add(&mut self, values: &Int64Array) {
        for value in values.iter().flatten() {
            let count = self.counts.entry(value).or_insert(0);
            if *count == 0 {
                self.sum += i128::from(value);
            }
            *count += 1;
        }
    }
}

impl Accumulator for DistinctIntegerSum {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(&integers(arrays)?);
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for value in integers(arrays)?.iter().flatten() {
            let Some(count) = self.counts.get_mut(&value) else { continue };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&value);
                self.sum -= i128::from(value);
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<ScalarValue> =
            self.counts.keys().map(|value| ScalarValue::Int64(Some(*value))).collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Int64))])
    }

    fn merge_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for values in first_array(arrays)?.as_list::<i32>().iter().flatten() {
            self.add(values.as_primitive::<Int64Type>());
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.sum_type.value((!self.counts.is_empty()).then_some(self.sum))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * size_of::<(i64, u64)>()
    }
}
