//! Limits the size of `string_agg`. The result is one value in a column of a batch, and Arrow
//! cannot address more than two gigabytes in a column. PostgreSQL's limit is one gigabyte (CL-10).

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, EmitTo, GroupsAccumulator, function::AccumulatorArgs,
    },
};
use stratalog_model::{Error, ErrorKind};

use crate::{
    errors::to_datafusion,
    rules::layers::{self, AggregateLayer},
};

/// Maximum number of bytes in an aggregate.
const BYTES_MAX: usize = 1 << 30;

/// Wraps `string_agg` to limit its size. Other functions stay unchanged.
pub fn bounded(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "string_agg" => layers::aggregate(function, BoundedStringAgg),
        _ => function,
    }
}

fn check(bytes: usize) -> Result<()> {
    if bytes <= BYTES_MAX {
        return Ok(());
    }
    Err(to_datafusion(
        Error::new(
            ErrorKind::LimitExceeded,
            format!("string_agg() would use more than {BYTES_MAX} bytes"),
        )
        .with_hint("join fewer rows at once, or read the rows one by one"),
    ))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct BoundedStringAgg;

impl AggregateLayer for BoundedStringAgg {
    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(LongTextAccumulator(inner.accumulator(arguments)?)))
    }

    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(LongTextAccumulator(inner.create_sliding_accumulator(arguments)?)))
    }

    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(LongTextGroups(inner.create_groups_accumulator(arguments)?)))
    }
}

/// Collects the text of a group.
#[derive(Debug)]
struct LongTextAccumulator(Box<dyn Accumulator>);

impl Accumulator for LongTextAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)?;
        check(self.0.size())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)?;
        check(self.0.size())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// Collects the texts of many groups, which are returned in a column.
struct LongTextGroups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for LongTextGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.update_batch(values, group_indices, opt_filter, total_num_groups)?;
        check(self.0.size())
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.merge_batch(values, group_indices, total_num_groups)?;
        check(self.0.size())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.0.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabyte_is_the_most() {
        assert!(check(BYTES_MAX).is_ok());
        let error = crate::errors::from_datafusion(check(BYTES_MAX + 1).unwrap_err());
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }
}
