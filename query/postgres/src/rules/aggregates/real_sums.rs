//! `sum` of reals is a real, like in PostgreSQL; the addition uses double precision.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BooleanArray},
    compute::cast,
    datatypes::{DataType, Field, FieldRef},
};
use datafusion::{
    common::{Result, ScalarValue},
    logical_expr::{
        Accumulator, AggregateUDF, EmitTo, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
};

use crate::rules::layers::{self, AggregateLayer, types_fitted};

/// `function` with sums of reals, if `function` is `sum`.
pub fn of_reals(function: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    match function.name() {
        "sum" => {
            let signature = Signature::user_defined(Volatility::Immutable);
            layers::aggregate(function, RealSums { signature })
        }
        _ => function,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RealSums {
    signature: Signature,
}

fn is_real(field: &FieldRef) -> bool {
    *field.data_type() == DataType::Float32
}

/// The field in double precision.
fn wide(field: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(DataType::Float64))
}

fn all_wide(arrays: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    Ok(arrays.iter().map(|array| cast(array, &DataType::Float64)).collect::<Result<_, _>>()?)
}

impl AggregateLayer for RealSums {
    fn signature<'a>(&'a self, _: &'a AggregateUDF) -> &'a Signature {
        &self.signature
    }

    fn coerce_types(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match arguments {
            [DataType::Float32] => Ok(vec![DataType::Float32]),
            _ => types_fitted(inner, arguments),
        }
    }

    fn return_type(&self, inner: &AggregateUDF, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [DataType::Float32] => Ok(DataType::Float32),
            _ => inner.return_type(arguments),
        }
    }

    fn state_fields(
        &self,
        inner: &AggregateUDF,
        arguments: StateFieldsArgs<'_>,
    ) -> Result<Vec<FieldRef>> {
        if !is_real(&arguments.return_field) {
            return inner.state_fields(arguments);
        }
        let input_fields: Vec<FieldRef> = arguments.input_fields.iter().map(wide).collect();
        inner.state_fields(StateFieldsArgs {
            return_field: wide(&arguments.return_field),
            input_fields: &input_fields,
            ..arguments
        })
    }

    fn accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn Accumulator>> {
        if !is_real(&arguments.return_field) {
            return inner.accumulator(arguments);
        }
        let expr_fields: Vec<FieldRef> = arguments.expr_fields.iter().map(wide).collect();
        let return_field = wide(&arguments.return_field);
        let arguments = AccumulatorArgs { return_field, expr_fields: &expr_fields, ..arguments };
        Ok(Box::new(RealSumAccumulator(inner.accumulator(arguments)?)))
    }

    fn groups_accumulator(
        &self,
        inner: &AggregateUDF,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        if !is_real(&arguments.return_field) {
            return inner.create_groups_accumulator(arguments);
        }
        let expr_fields: Vec<FieldRef> = arguments.expr_fields.iter().map(wide).collect();
        let return_field = wide(&arguments.return_field);
        let arguments = AccumulatorArgs { return_field, expr_fields: &expr_fields, ..arguments };
        Ok(Box::new(RealSumGroups(inner.create_groups_accumulator(arguments)?)))
    }
}

/// The sum of one group.
#[derive(Debug)]
struct RealSumAccumulator(Box<dyn Accumulator>);

impl Accumulator for RealSumAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&all_wide(values)?)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()?.cast_to(&DataType::Float32)
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }
}

/// The sums of many groups.
struct RealSumGroups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for RealSumGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.0.update_batch(&all_wide(values)?, groups, filter, total)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(cast(&self.0.evaluate(emit)?, &DataType::Float32)?)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.0.merge_batch(values, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(&all_wide(values)?, filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
