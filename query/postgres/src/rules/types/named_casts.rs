//! The function `$cast`, which gives a cast a distinct column name during planning.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
        Signature, Volatility, expr_rewriter::FunctionRewrite,
    },
};
use stratalog_model::Error;

use crate::errors::to_datafusion;

/// The name of the function. No statement can write this name.
pub const FUNCTION: &str = "$cast";

/// Creates the function with the name [`FUNCTION`].
pub fn function() -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(NamedCast { signature }))
}

/// Rule: removes the calls from a plan. The column names stay.
#[derive(Debug)]
pub struct NamedCasts;

impl FunctionRewrite for NamedCasts {
    fn name(&self) -> &str {
        "named_casts"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarFunction(mut call)
                if call.func.inner().is::<NamedCast>() && !call.args.is_empty() =>
            {
                Ok(Transformed::yes(call.args.swap_remove(0)))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedCast {
    signature: Signature,
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        FUNCTION
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        let cast = arguments.first().map(|cast| cast.schema_name().to_string());
        let type_name = match arguments.get(1) {
            Some(Expr::Literal(value, _)) => value.try_as_str().flatten(),
            _ => None,
        };
        Ok(format!("{}::{}", cast.unwrap_or_default(), type_name.unwrap_or_default()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        given.first().cloned().ok_or_else(|| to_datafusion(without_cast()))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        arguments.arg_fields.first().cloned().ok_or_else(|| to_datafusion(without_cast()))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        arguments.args.into_iter().next().ok_or_else(|| to_datafusion(without_cast()))
    }
}

fn without_cast() -> Error {
    Error::internal("the name of a cast needs the cast")
}
