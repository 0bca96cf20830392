//! Casts that Arrow makes otherwise than PostgreSQL: to text, of text to uuid, jsonb
//! and bytea, and of numbers to integers.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, Result, tree_node::Transformed},
    config::ConfigOptions,
    logical_expr::{Cast, Expr, ExprSchemable, ScalarUDF, expr_rewriter::FunctionRewrite},
};
use stratalog_model::{ColumnType, Error, ErrorKind};

use crate::function::sql_name;

/// Turns such casts into calls of our functions.
#[derive(Debug)]
pub struct Casts {
    functions: Vec<Arc<ScalarUDF>>,
}

impl Casts {
    /// A rewrite that calls `functions`, which are found by their names.
    pub fn new(functions: Vec<Arc<ScalarUDF>>) -> Self {
        Self { functions }
    }
}

/// The function that casts `from` to `to`; `None` leaves it to Arrow.
fn function_of(from: &ColumnType, to: &ColumnType) -> Option<&'static str> {
    use ColumnType as T;
    match (from, to) {
        (T::Text, T::Uuid) => Some("uuid_in"),
        (T::Text, T::Jsonb) => Some("jsonb_in"),
        (T::Text, T::Bytea) => Some("bytea_in"),
        (T::Text, T::Interval) => Some("interval_in"),
        (T::Real | T::Double | T::Numeric { .. }, T::SmallInt) => Some("int2"),
        (T::Real | T::Double | T::Numeric { .. }, T::Integer) => Some("int4"),
        (T::Real | T::Double | T::Numeric { .. }, T::BigInt) => Some("int8"),
        (
            T::Uuid
            | T::Bytea
            | T::Real
            | T::Double
            | T::Timestamp { .. }
            | T::TimestampTz { .. }
            | T::Time
            | T::Interval
            | T::Array(_),
            T::Text,
        ) => Some("text"),
        _ => None,
    }
}

fn is_time(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Timestamp(_, _)
            | DataType::Date32
            | DataType::Date64
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Interval(_)
    )
}

impl FunctionRewrite for Casts {
    fn name(&self) -> &str {
        "postgres_casts"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::Cast(Cast { expr: inner, field }) = expr else {
            return Ok(Transformed::no(expr));
        };
        // Text literals are read at once, by `TypedLiterals`.
        let literal =
            matches!(inner.as_ref(), Expr::Literal(value, _) if value.try_as_str().is_some());
        if let Ok(from) = inner.get_type(schema)
            && from.is_numeric()
            && is_time(field.data_type())
        {
            return Err(crate::failed(
                Error::new(
                    ErrorKind::CannotCoerce,
                    format!(
                        "cannot cast type {} to {}",
                        sql_name(&from),
                        sql_name(field.data_type())
                    ),
                )
                .with_hint("to_timestamp() makes a timestamp of seconds since 1970, make_interval() an interval"),
            ));
        }
        let function = match inner.to_field(schema) {
            Ok((_, from)) if !literal && !from.data_type().is_null() => {
                ColumnType::from_arrow_field(&from)
                    .zip(ColumnType::from_arrow_field(&field))
                    .and_then(|(from, to)| function_of(&from, &to))
            }
            _ => None,
        };
        let function = self.functions.iter().find(|candidate| Some(candidate.name()) == function);
        Ok(match function {
            Some(function) => Transformed::yes(function.call(vec![*inner])),
            None => Transformed::no(Expr::Cast(Cast { expr: inner, field })),
        })
    }
}
