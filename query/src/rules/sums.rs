//! `sum` of integers that fails where the result does not fit bigint; DataFusion's wraps.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator,
        ReversedUDAF, SetMonotonicity, Signature,
        function::{AccumulatorArgs, StateFieldsArgs},
        utils::{AggregateOrderSensitivity, format_state_name},
    },
};
use stratalog_model::{Error, ErrorKind};

use crate::errors::to_datafusion;

mod distinct;
mod groups;
mod single;

/// What a partial sum is kept in: wide enough for any number of rows.
const STATE: DataType = DataType::Decimal128(38, 0);

/// `function` with a sum of integers that never wraps, if it is `sum`.
pub fn checked(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "sum" => Arc::new(AggregateUDF::new_from_impl(Sum { inner: function })),
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

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    inner: Arc<AggregateUDF>,
}

fn of_integers(arguments: &AccumulatorArgs<'_>) -> bool {
    *arguments.return_field.data_type() == DataType::Int64
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if of_integers(&arguments) {
            return self.create_sliding_accumulator(arguments);
        }
        self.inner.accumulator(arguments)
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if arguments.is_distinct || *arguments.return_type() != DataType::Int64 {
            return self.inner.state_fields(arguments);
        }
        let name = format_state_name(arguments.name, "sum");
        Ok(vec![Arc::new(Field::new(name, STATE, true))])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if of_integers(&arguments) {
            return Ok(Box::new(groups::Sums::default()));
        }
        self.inner.create_groups_accumulator(arguments)
    }

    fn create_sliding_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        match (of_integers(&arguments), arguments.is_distinct) {
            (true, true) => Ok(Box::new(distinct::Distinct::default())),
            (true, false) => Ok(Box::new(single::Single::default())),
            (false, _) => self.inner.create_sliding_accumulator(arguments),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
