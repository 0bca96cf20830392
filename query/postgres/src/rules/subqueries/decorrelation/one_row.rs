//! Checks that a scalar subquery returns at most one row.

use std::sync::Arc;

use arrow::{
    array::AsArray,
    datatypes::{DataType, FieldRef, Int64Type},
};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Volatility, expr::ScalarFunction,
    },
};
use stratalog_model::Error;

use crate::errors::{to_datafusion, too_many_rows};

/// An expression that returns `value`, or fails if `rows`, a bigint with the number of rows,
/// exceeds 1.
pub fn one_row(value: Expr, rows: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(SingleRow(Signature::any(2, Volatility::Immutable))));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![value, rows]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow(Signature);

impl ScalarUDFImpl for SingleRow {
    fn name(&self) -> &str {
        "one_row"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match arguments.arg_fields.first() {
            Some(field) => Ok(Arc::clone(field)),
            None => Err(to_datafusion(Error::internal("one_row takes a value"))),
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, rows] = arguments.args.as_slice() else {
            return Err(to_datafusion(Error::internal("one_row takes a value and a count")));
        };
        let rows = rows.to_array(arguments.number_rows)?;
        if rows.as_primitive::<Int64Type>().iter().flatten().any(|rows| rows > 1) {
            return Err(to_datafusion(too_many_rows()));
        }
        Ok(value.clone())
    }
}
