//! Keeps the SQL types uuid and jsonb, which the Arrow type does not show. A function that returns
//! one of its arguments would lose them.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::Result,
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Volatility, expr::ScalarFunction,
    },
};
use stratalog_model::{ColumnType, Error};

use crate::errors::to_datafusion;

/// Adds the SQL type `column_type` to `expr`, whose values already have this type.
pub(super) fn with_sql_type(expr: Expr, column_type: &ColumnType) -> Expr {
    let name = match column_type {
        ColumnType::Uuid => "typed_uuid",
        ColumnType::Jsonb => "typed_jsonb",
        _ => return expr,
    };
    let signature = Signature::any(1, Volatility::Immutable);
    let function = SqlTyped { name, column_type: column_type.clone(), signature };
    Arc::new(ScalarUDF::new_from_impl(function)).call(vec![expr])
}

/// Whether a call and its argument both add an SQL type.
pub(super) fn is_typed_twice(call: &ScalarFunction) -> bool {
    let inner = match call.args.as_slice() {
        [Expr::ScalarFunction(inner)] => inner,
        _ => return false,
    };
    call.func.inner().is::<SqlTyped>() && inner.func.inner().is::<SqlTyped>()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SqlTyped {
    name: &'static str,
    column_type: ColumnType,
    signature: Signature,
}

impl ScalarUDFImpl for SqlTyped {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.column_type.arrow_type())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given = arguments.arg_fields.first();
        let field = self.column_type.arrow_field(self.name, true);
        // Text may have several Arrow types.
        Ok(Arc::new(match given {
            Some(given) => field.with_data_type(given.data_type().clone()),
            None => field,
        }))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments
            .args
            .into_iter()
            .next()
            .ok_or_else(|| to_datafusion(Error::internal("a typed value needs an argument")))
    }
}
