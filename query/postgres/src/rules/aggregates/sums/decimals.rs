//! Sums of numerics, computed with 256 bits: no possible number of rows overflows the sum.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal256Array},
    buffer::NullBuffer,
    datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, i256},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{Accumulator, EmitTo, GroupsAccumulator, utils::format_state_name},
};

use super::{groups::passes, out_of_range, single::first_array};

/// The result type of a sum of numerics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Decimals {
    pub(super) precision: u8,
    pub(super) scale: i8,
}

impl Decimals {
    /// The result type for the fields of the argument and of the result; `None` if these are not
    /// numerics of the same scale.
    pub(super) fn of(arguments: &[FieldRef], result: &FieldRef) -> Option<Self> {
        match (arguments.first()?.data_type(), result.data_type()) {
            (DataType::Decimal128(_, of), DataType::Decimal128(precision, scale))
                if of == scale =>
            {
                Some(Self { precision: *precision, scale: *scale })
            }
            _ => None,
        }
    }

    /// The widest type of the argument: 38 digits.
    pub(super) fn value(self) -> DataType {
        DataType::Decimal128(38, self.scale)
    }

    fn state(self) -> DataType {
        DataType::Decimal256(76, self.scale)
    }

    /// The field of a partial sum, or with DISTINCT the list field of the values of a group.
    pub(super) fn state_field(self, name: &str, is_distinct: bool) -> Field {
        match is_distinct {
            true => {
                let item = Field::new_list_field(self.value(), true);
                Field::new_list(format_state_name(name, "sum distinct"), item, true)
            }
            false => Field::new(format_state_name(name, "sum"), self.state(), true),
        }
    }

    /// Converts a sum to the result type; an error if the sum has too many digits.
    fn narrow(self, sum: i256) -> Result<i128> {
        let most = 10_u128.pow(u32::from(self.precision.min(38)));
        match sum.to_i128().filter(|sum| sum.unsigned_abs() < most) {
            Some(sum) => Ok(sum),
            None => {
                let (precision, scale) = (self.precision, self.scale);
                Err(out_of_range(&format!(
                    "a sum of numerics has at most {precision} digits, {scale} of them behind the point"
                )))
            }
        }
    }

    fn scalar(self, sum: Option<i256>) -> Result<ScalarValue> {
        let sum = sum.map(|sum| self.narrow(sum)).transpose()?;
        Ok(ScalarValue::Decimal128(sum, self.precision, self.scale))
    }
}

fn values(arrays: &[ArrayRef]) -> Result<&Decimal128Array> {
    Ok(first_array(arrays)?.as_primitive::<Decimal128Type>())
}

fn total(arrays: &[ArrayRef]) -> Result<(i256, u64)> {
    let values = values(arrays)?;
    let add = |sum: i256, value: i128| sum.wrapping_add(i256::from_i128(value));
    let sum = match values.null_count() {
        0 => values.values().iter().copied().fold(i256::ZERO, add),
        _ => values.iter().flatten().fold(i256::ZERO, add),
    };
    Ok((sum, (values.len() - values.null_count()) as u64))
}

/// Computes the sum of a group or of a sliding window.
#[derive(Debug)]
pub(super) struct DecimalSum {
    decimals: Decimals,
    sum: i256,
    rows: u64,
}

impl DecimalSum {
    pub(super) fn new(decimals: Decimals) -> Self {
        Self { decimals, sum: i256::ZERO, rows: 0 }
    }

    fn known(&self) -> Option<i256> {
        (self.rows > 0).then_some(self.sum)
    }
}

impl Accumulator for DecimalSum {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = total(arrays)?;
        self.sum = self.sum.wrapping_add(sum);
        self.rows += rows;
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let (sum, rows) = total(arrays)?;
        self.sum = self.sum.wrapping_sub(sum);
        self.rows = self.rows.saturating_sub(rows);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Decimal256(self.known(), 76, self.decimals.scale)])
    }

    fn merge_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for sum in first_array(arrays)?.as_primitive::<Decimal256Type>().iter().flatten() {
            self.sum = self.sum.wrapping_add(sum);
            self.rows += 1;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.decimals.scalar(self.known())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Counts the occurrences of each value, and computes the sum of the distinct values.
#[derive(Debug)]
pub(super) struct DistinctDecimalSum {
    decimals: Decimals,
    counts: HashMap<i128, u64, ahash::RandomState>,
    sum: i256,
}

impl DistinctDecimalSum {
    pub(super) fn new(decimals: Decimals) -> Self {
        Self { decimals, counts: HashMap::default(), sum: i256::ZERO }
    }

    fn add(&mut self, values: &Decimal128Array) {
        for value in values.iter().flatten() {
            let count = self.counts.entry(value).or_insert(0);
            if *count == 0 {
                self.sum = self.sum.wrapping_add(i256::from_i128(value));
            }
            *count += 1;
        }
    }
}

impl Accumulator for DistinctDecimalSum {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        self.add(values(arrays)?);
        Ok(())
    }

    fn retract_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for value in values(arrays)?.iter().flatten() {
            let Some(count) = self.counts.get_mut(&value) else { continue };
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&value);
                self.sum = self.sum.wrapping_sub(i256::from_i128(value));
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let value = |value: &i128| ScalarValue::Decimal128(Some(*value), 38, self.decimals.scale);
        let values: Vec<ScalarValue> = self.counts.keys().map(value).collect();
        let list = ScalarValue::new_list_nullable(&values, &self.decimals.value());
        Ok(vec![ScalarValue::List(list)])
    }

    fn merge_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        for values in first_array(arrays)?.as_list::<i32>().iter().flatten() {
            self.add(values.as_primitive::<Decimal128Type>());
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.decimals.scalar((!self.counts.is_empty()).then_some(self.sum))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.counts.capacity() * size_of::<(i128, u64)>()
    }
}

/// Computes a sum for each group. `seen` marks the groups that have a value.
#[derive(Debug)]
pub(super) struct DecimalSumGroups {
    decimals: Decimals,
    sums: Vec<i256>,
    seen: Vec<bool>,
}

impl DecimalSumGroups {
    pub(super) fn new(decimals: Decimals) -> Self {
        Self { decimals, sums: Vec::new(), seen: Vec::new() }
    }

    fn add(&mut self, groups: &[usize], total: usize, values: impl Iterator<Item = Option<i256>>) {
        self.sums.resize(total, i256::ZERO);
        self.seen.resize(total, false);
        for (group, value) in groups.iter().zip(values) {
            if let (Some(value), Some(sum), Some(seen)) =
                (value, self.sums.get_mut(*group), self.seen.get_mut(*group))
            {
                *sum = sum.wrapping_add(value);
                *seen = true;
            }
        }
    }

    fn take(&mut self, emit_to: EmitTo) -> (Vec<i256>, NullBuffer) {
        let sums = emit_to.take_needed(&mut self.sums);
        (sums, NullBuffer::from(emit_to.take_needed(&mut self.seen)))
    }
}

/// The values of the rows that pass `filter`; all values without a filter.
fn passing<'a>(
    values: &'a Decimal128Array,
    filter: Option<&'a BooleanArray>,
) -> impl Iterator<Item = Option<i256>> + 'a {
    values
        .iter()
        .enumerate()
        .map(move |(row, value)| value.filter(|_| passes(filter, row)).map(i256::from_i128))
}

impl GroupsAccumulator for DecimalSumGroups {
    fn update_batch(
        &mut self,
        arrays: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.add(group_indices, total_num_groups, passing(values(arrays)?, opt_filter));
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, seen) = self.take(emit_to);
        let Decimals { precision, scale } = self.decimals;
        let sums = sums.into_iter().map(|sum| self.decimals.narrow(sum));
        let sums = sums.collect::<Result<Vec<i128>>>()?;
        let sums = Decimal128Array::new(sums.into(), Some(seen));
        Ok(Arc::new(sums.with_precision_and_scale(precision, scale)?))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, seen) = self.take(emit_to);
        let sums = Decimal256Array::new(sums.into(), Some(seen));
        Ok(vec![Arc::new(sums.with_data_type(self.decimals.state()))])
    }

    fn merge_batch(
        &mut self,
        arrays: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        let sums = first_array(arrays)?.as_primitive::<Decimal256Type>();
        self.add(group_indices, total_num_groups, sums.iter());
        Ok(())
    }

    fn convert_to_state(
        &self,
        arrays: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let sums: Decimal256Array = passing(values(arrays)?, opt_filter).collect();
        Ok(vec![Arc::new(sums.with_data_type(self.decimals.state()))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i256>() + self.seen.capacity()
    }
}
