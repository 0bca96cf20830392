//! `sum` of integers that fails where the result does not fit bigint; DataFusion's wraps.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, GroupsAccumulator,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::format_state_name,
    },
};
use stratalog_model::{Error, ErrorKind};

use super::layers::{self, AggregateLayer};
use crate::errors::to_datafusion;

mod distinct;
mod groups;
mod single;

/// What a partial sum is kept in: wide enough for any number of rows.
const STATE: DataType = DataType::Decimal128(38, 0);

/// `function` with a sum of integers that never wraps, if it is `sum`.
pub fn checked(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "sum" => layers::aggregate(function, Sum),
        _ => function,
    }
}

fn narrow(sum: i128) -> Result<i64> {
    i64::try_from(sum)
        .map_err(|_| to_datafusion(Error::new(ErrorKind::NumericOutOfRange, "bigint out of range")))
}

fn result(sum: Option<i128>) -> Result<ScalarValue> {
    sum.map(narrow).transpose().map(ScalarValue::Int64)
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sum;

fn of_integers(arguments: &AccumulatorArgs<'_>) -> bool {
    *arguments.return_field.data_type() == DataType::Int64
}

impl AggregateLayer for Sum {
    fn state_fields(
        &self,
        inner: &AggregateUDF,
        arguments: StateFieldsArgs<'_>,
    ) -> Result<Vec<FieldRef>> {
        if arguments.is_distinct || *arguments.return_type() != DataType::Int64 {
            return inner.state_fields(arguments);
        }
        let name = format_state_name(arguments.name, "sum");
        Ok(vec![Arc::new(Field::new(name, STATE, true))])
    }

    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if of_integers(&arguments) {
            return self.sliding_accumulator(inner, arguments);
        }
        inner.accumulator(arguments)
    }

    fn sliding_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match (of_integers(&arguments), arguments.is_distinct) {
            (true, true) => Ok(Box::new(distinct::Distinct::default())),
            (true, false) => Ok(Box::new(single::Single::default())),
            (false, _) => inner.create_sliding_accumulator(arguments),
        }
    }

    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if of_integers(&arguments) {
            return Ok(Box::new(groups::Sums::default()));
        }
        inner.create_groups_accumulator(arguments)
    }
}
