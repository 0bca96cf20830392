//! The sums of integers for many groups at once.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array},
    buffer::NullBuffer,
    datatypes::Decimal128Type,
};
use datafusion::{
    common::Result,
    logical_expr::{EmitTo, GroupsAccumulator},
};

use super::{
    SumType,
    single::{first_array, integers},
};

/// Computes a sum for each group. `seen` marks the groups that have a value.
#[derive(Debug)]
pub(super) struct IntegerSumGroups {
    sum_type: SumType,
    sums: Vec<i128>,
    seen: Vec<bool>,
}

/// Whether a row passes `filter`. Without a filter, every row passes.
pub(super) fn passes(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl IntegerSumGroups {
    pub(super) fn new(sum_type: SumType) -> Self {
        Self { sum_type, sums: Vec::new(), seen: Vec::new() }
    }

    fn add(&mut self, groups: &[usize], total: usize, values: impl Iterator<Item = Option<i128>>) {
        self.sums.resize(total, 0);
        self.seen.resize(total, false);
        for (group, value) in groups.iter().zip(values) {
            if let (Some(value), Some(sum), Some(seen)) =
                (value, self.sums.get_mut(*group), self.seen.get_mut(*group))
            {
                *sum += value;
                *seen = true;
            }
        }
    }

    fn take(&mut self, emit_to: EmitTo) -> (Vec<i128>, NullBuffer) {
        let sums = emit_to.take_needed(&mut self.sums);
        (sums, NullBuffer::from(emit_to.take_needed(&mut self.seen)))
    }
}

impl GroupsAccumulator for IntegerSumGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let values = integers(values)?;
        if opt_filter.is_none() && values.null_count() == 0 {
            let values = values.values().iter().map(|value| Some(i128::from(*value)));
            self.add(group_indices, total_num_groups, values);
        } else {
            let values = values
                .iter()
                .enumerate()
                .map(|(row, value)| value.filter(|_| passes(opt_filter, row)).map(i128::from));
            self.add(group_indices, total_num_groups, values);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, seen) = self.take(emit_to);
        self.sum_type.array(sums, seen)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, seen) = self.take(emit_to);
        let sums = Decimal128Array::new(sums.into(), Some(seen)).with_data_type(super::STATE);
        Ok(vec![Arc::new(sums)])
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        let values = first_array(values)?.as_primitive::<Decimal128Type>();
        self.add(group_indices, total_num_groups, values.iter());
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let values = integers(values)?;
        let sums: Decimal128Array = values
            .iter()
            .enumerate()
            .map(|(row, value)| value.filter(|_| passes(opt_filter, row)).map(i128::from))
            .collect();
        Ok(vec![Arc::new(sums.with_data_type(super::STATE))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<i128>() + self.seen.capacity()
    }
}
