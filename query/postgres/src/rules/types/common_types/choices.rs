//! Functions and expressions that return one of their arguments, for example `coalesce` and CASE:
//! casts the arguments to their common type.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Case, Expr, ReturnFieldArgs, ScalarUDF, Signature, Volatility,
        expr_rewriter::FunctionRewrite, type_coercion::functions::fields_with_udf,
    },
};
use stratalog_functions::{
    json_choice,
    literal::{self, style_of},
};
use stratalog_model::{ColumnType, Error};

use super::{
    ValueType, common_type, in_type,
    sql_typed::{is_typed_twice, with_sql_type},
};
use crate::{
    errors::to_datafusion,
    rules::{
        calendar::aligned_times::AlignedTimes,
        layers::{self, ScalarLayer},
    },
};

/// Wraps a function that returns one of its arguments to accept arguments of different types during
/// planning. Before execution, a rewrite replaces the call. Other functions stay unchanged.
pub fn unified(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    if !gives_an_argument(function.name()) {
        return function;
    }
    let signature = Signature::variadic_any(Volatility::Immutable);
    layers::scalar(function, UnifiedFunction { signature })
}

/// Whether the function with this name returns one of its arguments.
pub fn gives_an_argument(name: &str) -> bool {
    matches!(name, "coalesce" | "greatest" | "least" | "nullif")
}

/// Rewrite: casts the arguments of `coalesce`, CASE and similar expressions to their common type.
/// Runs before type coercion.
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
                let Some(inner) = layers::below::<UnifiedFunction>(&call.func) else {
                    return Ok(Transformed::no(Expr::ScalarFunction(call)));
                };
                call.func = inner;
                let given: Vec<ValueType> =
                    call.args.iter().map(|argument| ValueType::of(argument, schema)).collect();
                let wanted = common_type(&call.name().to_uppercase(), &given)?;
                if call.name() == "nullif"
                    && let Some(first) = type_of_nullif(&given)
                    && (wanted.as_ref() != Some(&first) || compares_real(&first, &given))
                    && let [value, other] = call.args.as_slice()
                    && !value.is_volatile()
                {
                    let equal = value.clone().eq(other.clone());
                    let equal = AlignedTimes.rewrite(equal, schema, config)?.data;
                    let null = ScalarValue::try_new_null(&first.arrow_type())?;
                    let choices = vec![(Box::new(equal), Box::new(Expr::Literal(null, None)))];
                    let value = match given.first() {
                        Some(given) => {
                            in_type(value.clone(), given, &first, schema, &style_of(config))?
                        }
                        None => value.clone(),
                    };
                    let case = Case::new(None, choices, Some(Box::new(value)));
                    return Ok(Transformed::yes(Expr::Case(case)));
                }
                if let Some(wanted) = &wanted {
                    for (argument, given) in call.args.iter_mut().zip(&given) {
                        let style = style_of(config);
                        *argument =
                            in_type(std::mem::take(argument), given, wanted, schema, &style)?;
                    }
                }
                if wanted == Some(ColumnType::Jsonb)
                    && let Some(by_value) = json_choice(call.name())
                {
                    return Ok(Transformed::yes(by_value.call(call.args)));
                }
                let call = Expr::ScalarFunction(call);
                Ok(Transformed::yes(match &wanted {
                    Some(wanted) => with_sql_type(call, wanted),
                    None => call,
                }))
            }
            Expr::ScalarSubquery(subquery) => {
                let subquery = Expr::ScalarSubquery(subquery);
                let wanted = match ValueType::of(&subquery, schema) {
                    ValueType::Typed(wanted, _) => wanted,
                    _ => return Ok(Transformed::no(subquery)),
                };
                // A scalar subquery loses the jsonb metadata of its text; the cast restores the
                // metadata.
                let changed = wanted == ColumnType::Jsonb;
                let value = if changed { with_sql_type(subquery, &wanted) } else { subquery };
                Ok(Transformed::new_transformed(value, changed))
            }
            Expr::WindowFunction(mut call) if matches!(call.fun.name(), "lag" | "lead") => {
                let [value, offset, default] = call.params.args.as_slice() else {
                    return Ok(Transformed::no(Expr::WindowFunction(call)));
                };
                let given = [ValueType::of(value, schema), ValueType::of(default, schema)];
                let Some(wanted) = common_type(&call.fun.name().to_uppercase(), &given)? else {
                    return Ok(Transformed::no(Expr::WindowFunction(call)));
                };
                let style = style_of(config);
                let in_common =
                    |expr: &Expr, given| in_type(expr.clone(), given, &wanted, schema, &style);
                let arguments = match &given {
                    [of_value, of_default] => vec![
                        in_common(value, of_value)?,
                        offset.clone(),
                        in_common(default, of_default)?,
                    ],
                };
                let changed = arguments != call.params.args;
                call.params.args = arguments;
                Ok(Transformed::new_transformed(Expr::WindowFunction(call), changed))
            }
            Expr::Case(mut case) => {
                let style = style_of(config);
                if let Some(base) = &case.expr {
                    for (when, _) in &mut case.when_then_expr {
                        if let Some(typed) = literal::with_type_of(base, when, schema, &style)? {
                            **when = typed;
                        }
                    }
                }
                // Like PostgreSQL, considers the type of ELSE first.
                let mut results: Vec<&mut Box<Expr>> = case.else_expr.iter_mut().collect();
                results.extend(case.when_then_expr.iter_mut().map(|(_, then)| then));
                let given: Vec<ValueType> =
                    results.iter().map(|result| ValueType::of(result, schema)).collect();
                let wanted = common_type("CASE", &given)?;
                if let Some(wanted) = &wanted {
                    for (result, given) in results.into_iter().zip(&given) {
                        let inner = std::mem::take(result.as_mut());
                        **result = in_type(inner, given, wanted, schema, &style)?;
                    }
                }
                let case = Expr::Case(case);
                Ok(Transformed::yes(match &wanted {
                    Some(wanted) => with_sql_type(case, wanted),
                    None => case,
                }))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Whether `nullif` compares a real with a value of another type, and therefore in double
/// precision.
fn compares_real(first: &ColumnType, given: &[ValueType]) -> bool {
    let is_other =
        |given: &ValueType| matches!(given, ValueType::Typed(of, _) if *of != ColumnType::Real);
    *first == ColumnType::Real && given.iter().any(is_other)
}

/// The result type of `nullif`, if PostgreSQL compares both values without a common type: usually
/// the type of the first value. `None` if PostgreSQL casts both values to their common type.
fn type_of_nullif(given: &[ValueType]) -> Option<ColumnType> {
    use ColumnType as T;
    let [ValueType::Typed(first, true), ValueType::Typed(second, true)] = given else {
        return None;
    };
    let is_whole = |known: &T| matches!(known, T::SmallInt | T::Integer | T::BigInt);
    let is_floating = |known: &T| matches!(known, T::Real | T::Double);
    let is_time =
        |known: &T| matches!(known, T::Date | T::Timestamp { .. } | T::TimestampTz { .. });
    let is_numeric = |known: &T| matches!(known, T::Numeric { .. });
    let both = |is: fn(&T) -> bool| is(first) && is(second);
    let is_exact = |known: &T| is_whole(known) || is_numeric(known);
    if is_floating(first) && is_exact(second) {
        return Some(first.clone());
    }
    // PostgreSQL compares an exact number with a float in double precision.
    if is_exact(first) && is_floating(second) {
        return Some(T::Double);
    }
    let is_kept = both(is_whole) || both(is_floating) || both(is_time) || both(is_numeric);
    is_kept.then(|| first.clone())
}

/// Wraps a function like `coalesce` during planning. The result type is the common type of the
/// arguments.
#[derive(Debug, PartialEq, Eq, Hash)]
struct UnifiedFunction {
    signature: Signature,
}

impl ScalarLayer for UnifiedFunction {
    fn signature<'a>(&'a self, _: &'a ScalarUDF) -> &'a Signature {
        &self.signature
    }

    fn return_type(&self, _: &ScalarUDF, _: &[DataType]) -> Result<DataType> {
        Err(to_datafusion(Error::internal("the type depends on the arguments")))
    }

    fn return_field(&self, inner: &ScalarUDF, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given = ValueType::of_arguments(&arguments);
        let common = common_type(&inner.name().to_uppercase(), &given)?;
        let wanted = match inner.name() {
            "nullif" => type_of_nullif(&given).or(common),
            _ => common,
        };
        match wanted {
            Some(wanted) => {
                let nullable = inner.name() == "nullif"
                    || arguments.arg_fields.iter().all(|field| field.is_nullable());
                Ok(Arc::new(wanted.arrow_field(inner.name(), nullable)))
            }
            None => {
                let fields = fields_with_udf(arguments.arg_fields, inner)?;
                inner.return_field_from_args(ReturnFieldArgs {
                    arg_fields: &fields,
                    scalar_arguments: arguments.scalar_arguments,
                })
            }
        }
    }
}
