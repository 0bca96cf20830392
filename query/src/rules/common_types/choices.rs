//! Expressions that give one of their arguments.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility, expr_rewriter::FunctionRewrite,
        type_coercion::functions::fields_with_udf,
    },
};
use stratalog_functions::literal::{self, style_of};
use stratalog_model::Error;

use super::{
    Given, common_type, in_type,
    typed::{is_typed_twice, typed},
};
use crate::errors::to_datafusion;

/// `function` that takes arguments of any types, if it is one that gives one of them. What
/// is planned with it is replaced before it runs.
pub fn unified(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    if !gives_an_argument(function.name()) {
        return function;
    }
    let signature = Signature::variadic_any(Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Unified { inner: function, signature }))
}

/// Whether a function of this name gives one of its arguments.
pub fn gives_an_argument(name: &str) -> bool {
    matches!(name, "coalesce" | "greatest" | "least" | "nullif")
}

/// Gives such arguments their common type. Runs before type coercion.
#[derive(Debug)]
pub struct CommonTypes;

impl FunctionRewrite for CommonTypes {
    fn name(&self) -> &str {
        "common_types"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::ScalarFunction(mut call) if is_typed_twice(&call) => {
                Ok(Transformed::yes(call.args.swap_remove(0)))
            }
            Expr::ScalarFunction(mut call) => {
                let Some(unified) = call.func.inner().downcast_ref::<Unified>() else {
                    return Ok(Transformed::no(Expr::ScalarFunction(call)));
                };
                call.func = Arc::clone(&unified.inner);
                let given: Vec<Given> =
                    call.args.iter().map(|argument| Given::of(argument, schema)).collect();
                let wanted = common_type(&call.name().to_uppercase(), &given)?;
                if let Some(wanted) = &wanted {
                    for (argument, given) in call.args.iter_mut().zip(&given) {
                        let style = style_of(config);
                        *argument =
                            in_type(std::mem::take(argument), given, wanted, schema, &style)?;
                    }
                }
                let call = Expr::ScalarFunction(call);
                Ok(Transformed::yes(match &wanted {
                    Some(wanted) => typed(call, wanted),
                    None => call,
                }))
            }
            Expr::Case(mut case) => {
                let style = style_of(config);
                if let Some(base) = &case.expr {
                    for (when, _) in &mut case.when_then_expr {
                        if let Some(typed) = literal::beside(base, when, schema, &style)? {
                            **when = typed;
                        }
                    }
                }
                // PostgreSQL looks at ELSE first.
                let mut results: Vec<&mut Box<Expr>> = case.else_expr.iter_mut().collect();
                results.extend(case.when_then_expr.iter_mut().map(|(_, then)| then));
                let given: Vec<Given> =
                    results.iter().map(|result| Given::of(result, schema)).collect();
                let wanted = common_type("CASE", &given)?;
                if let Some(wanted) = &wanted {
                    for (result, given) in results.into_iter().zip(&given) {
                        let inner = std::mem::take(result.as_mut());
                        **result = in_type(inner, given, wanted, schema, &style)?;
                    }
                }
                let case = Expr::Case(case);
                Ok(Transformed::yes(match &wanted {
                    Some(wanted) => typed(case, wanted),
                    None => case,
                }))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// A function as it is planned: its type is the common type of its arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unified {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for Unified {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(to_datafusion(Error::internal("the type depends on the arguments")))
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given: Vec<Given> = arguments
            .arg_fields
            .iter()
            .zip(arguments.scalar_arguments)
            .map(|(field, value)| {
                value.and_then(Given::of_constant).unwrap_or_else(|| Given::of_field(field))
            })
            .collect();
        match common_type(&self.name().to_uppercase(), &given)? {
            Some(wanted) => {
                let nullable = self.name() == "nullif"
                    || arguments.arg_fields.iter().all(|field| field.is_nullable());
                Ok(Arc::new(wanted.arrow_field(self.name(), nullable)))
            }
            None => {
                let fields = fields_with_udf(arguments.arg_fields, self.inner.as_ref())?;
                self.inner.return_field_from_args(ReturnFieldArgs {
                    arg_fields: &fields,
                    scalar_arguments: arguments.scalar_arguments,
                })
            }
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(arguments)
    }

    fn conditional_arguments<'a>(
        &self,
        arguments: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.inner().conditional_arguments(arguments)
    }

    fn short_circuits(&self) -> bool {
        self.inner.inner().short_circuits()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
