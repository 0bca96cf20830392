//! Makes aggregates over a window process the rows in the order of the window. DataFusion computes
//! two windows with opposite orders in a single order: with `count(*) OVER (ORDER BY v DESC)` in
//! the same query, `array_agg(v) OVER (ORDER BY v)` would collect the rows in descending order.

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        AggregateUDF, Expr, ExprSchemable, WindowFunctionDefinition, expr_rewriter::FunctionRewrite,
    },
};

use crate::rules::layers::{self, AggregateLayer};

/// Aggregates that have the same value for every order of the rows, or that DataFusion can replace
/// by another aggregate for the opposite order.
const REVERSIBLE: [&str; 11] = [
    "count",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
    "first_value",
    "last_value",
    "nth_value",
];

/// Rule: keeps the row order for all other aggregates over windows. The order also affects the
/// rounding of a sum of floats.
#[derive(Debug)]
pub struct WindowRowOrder;

/// Whether the result of an aggregate over a window depends on the order of the rows.
fn depends_on_order(function: &AggregateUDF, arguments: &[Expr], schema: &DFSchema) -> bool {
    match function.name() {
        "sum" | "avg" => {
            let is_exact = |data_type: DataType| !data_type.is_floating();
            !arguments.iter().all(|argument| argument.get_type(schema).is_ok_and(is_exact))
        }
        name => !REVERSIBLE.contains(&name),
    }
}

impl FunctionRewrite for WindowRowOrder {
    fn name(&self) -> &str {
        "window_row_order"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::WindowFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let ordered = match &call.fun {
            WindowFunctionDefinition::AggregateUDF(function)
                if !call.params.order_by.is_empty()
                    && depends_on_order(function, &call.params.args, schema)
                    && !layers::is_under::<FixedOrder>(function) =>
            {
                layers::aggregate(function.clone(), FixedOrder)
            }
            _ => return Ok(Transformed::no(Expr::WindowFunction(call))),
        };
        call.fun = WindowFunctionDefinition::AggregateUDF(ordered);
        Ok(Transformed::yes(Expr::WindowFunction(call)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FixedOrder;

impl AggregateLayer for FixedOrder {
    fn is_reversible(&self) -> bool {
        false
    }
}
