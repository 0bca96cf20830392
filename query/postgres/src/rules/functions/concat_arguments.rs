//! Converts the arguments of `concat` to text. Booleans become `t` and `f`, as in the protocol; for
//! uuid and bytea, DataFusion would concatenate the raw bytes.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Case, Expr, ExprSchemable, ReturnFieldArgs, ScalarUDF, cast,
        expr_rewriter::FunctionRewrite, lit,
    },
};

use crate::rules::layers::{self, ScalarLayer};

/// Converts boolean, uuid and bytea arguments of `concat` to text. Runs before type coercion.
#[derive(Debug)]
pub struct ConcatArguments;

impl FunctionRewrite for ConcatArguments {
    fn name(&self) -> &str {
        "concat_arguments"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let mut changed = false;
        if matches!(call.name(), "concat" | "concat_ws") {
            for argument in &mut call.args {
                let shown = match argument.get_type(schema) {
                    Ok(DataType::Boolean) => letter(std::mem::take(argument)),
                    Ok(given) if is_bytes(&given) => {
                        cast(std::mem::take(argument), DataType::Utf8View)
                    }
                    _ => continue,
                };
                *argument = shown;
                changed = true;
            }
        }
        let call = Expr::ScalarFunction(call);
        Ok(if changed { Transformed::yes(call) } else { Transformed::no(call) })
    }
}

/// True for the types bytea and uuid.
fn is_bytes(data_type: &DataType) -> bool {
    data_type.is_binary() || matches!(data_type, DataType::FixedSizeBinary(_))
}

/// Wraps `concat` and `concat_ws` to accept bytes together with text during planning. Other
/// functions stay unchanged.
pub fn beside_text(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    match function.name() {
        "concat" | "concat_ws" => layers::scalar(function, BytesAsText),
        _ => function,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct BytesAsText;

impl ScalarLayer for BytesAsText {
    fn coerce_types(&self, inner: &ScalarUDF, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let coerced = inner.coerce_types(&as_text(arguments))?;
        // The types stay unchanged here, because coercion would read bytes as text. The rewrite
        // later replaces the bytes by their text.
        let types = arguments.iter().zip(coerced);
        Ok(types.map(|(given, text)| if is_bytes(given) { given.clone() } else { text }).collect())
    }

    fn return_field(&self, inner: &ScalarUDF, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given = arguments.arg_fields.iter().map(|field| field.data_type().clone());
        let shown = as_text(&given.collect::<Vec<_>>());
        let fields = arguments.arg_fields.iter().zip(shown);
        let fields: Vec<FieldRef> = fields
            .map(|(field, text)| Arc::new(field.as_ref().clone().with_data_type(text)))
            .collect();
        inner.return_field_from_args(ReturnFieldArgs { arg_fields: &fields, ..arguments })
    }
}

fn as_text(arguments: &[DataType]) -> Vec<DataType> {
    let shown = arguments.iter().map(|given| match is_bytes(given) {
        true => DataType::Utf8View,
        false => given.clone(),
    });
    shown.collect()
}

fn letter(truth: Expr) -> Expr {
    let choice = |truth: Expr, letter: &str| (Box::new(truth), Box::new(lit(letter)));
    let choices = vec![choice(truth.clone(), "t"), choice(!truth, "f")];
    Expr::Case(Case::new(None, choices, None))
}
