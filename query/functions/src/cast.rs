//! Casts that Arrow makes otherwise than PostgreSQL: to text, and of text to uuid, jsonb
//! and bytea.

use std::sync::Arc;

use datafusion::{
    common::{DFSchema, Result, tree_node::Transformed},
    config::ConfigOptions,
    logical_expr::{Cast, Expr, ExprSchemable, ScalarUDF, expr_rewriter::FunctionRewrite},
};
use stratalog_model::ColumnType;

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
