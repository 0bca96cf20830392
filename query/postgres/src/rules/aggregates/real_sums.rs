//! Makes `sum` of reals return a real, like in PostgreSQL. The addition itself uses double
//! precision.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::Result,
    logical_expr::{
        Accumulator, AggregateUDF, GroupsAccumulator, Signature, Volatility,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
};

use crate::rules::layers::{self, AggregateLayer, Converted, types_fitted};

/// Wraps `sum` to return a real for an argument of type real. Other functions stay unchanged.
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

/// The field with the type double precision.
fn wide(field: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_data_type(DataType::Float64))
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
        Ok(Box::new(real(inner.accumulator(arguments)?)))
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
        Ok(Box::new(real(inner.create_groups_accumulator(arguments)?)))
    }
}

fn real<A: ?Sized>(inner: Box<A>) -> Converted<A> {
    Converted { argument: Some(DataType::Float64), result: DataType::Float32, inner }
}
