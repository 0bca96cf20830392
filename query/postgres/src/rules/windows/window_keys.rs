//! Computes the sort keys and arguments of windows in a projection below the window.
//!
//! DataFusion loses the order of some computed keys, for example `f(x) > 0` and `-f(x)`, between
//! the sort and the window, and then refuses the plan. Besides, a window computes its arguments for
//! a whole batch, but a projection splits a batch with long values.
//!
//! ```text
//!   Window: rank() OVER (ORDER BY f(x) > 0)      Projection: x, rank
//!     └ input: x                            ─►     └ Window: rank() OVER (ORDER BY "$key0") AS rank
//!                                                      └ Projection: x, f(x) > 0 AS "$key0"
//! ```

use std::sync::Arc;

use datafusion::{
    common::{
        Column, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        Expr, LogicalPlan, Operator, Projection, Window, expr::WindowFunction,
        expr_rewriter::NamePreserver,
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::is_predicted;
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};

/// Rule: moves keys and arguments to a projection. Runs when types and keys are final.
#[derive(Debug)]
pub struct WindowKeys;

impl AnalyzerRule for WindowKeys {
    fn name(&self) -> &str {
        "window_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| match node {
            LogicalPlan::Window(window) => with_columns(window),
            other => Ok(Transformed::no(other)),
        })
        .map(|plan| plan.data)
    }
}

fn with_columns(window: Window) -> Result<Transformed<LogicalPlan>> {
    // A second analysis of the same plan finds the key columns of the first analysis.
    let is_own = |column: &&Column| column.name.starts_with(KEY_PREFIX);
    let first = window.input.schema().columns().iter().filter(is_own).count();
    let mut computed: Vec<Expr> = Vec::new();
    let calls = window.window_expr.iter().map(|expr| {
        let name = NamePreserver::new_for_projection().save(expr);
        let keyed = expr.clone().change_up(|expr| match expr {
            Expr::WindowFunction(mut call) => {
                let changed = take_keys(&mut call, first, &mut computed);
                Ok(Transformed::new_transformed(Expr::WindowFunction(call), changed))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(name.restore(keyed.data))
    });
    let calls = calls.collect::<Result<Vec<_>>>()?;
    if computed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let keys = computed.into_iter().zip(first..).map(|(key, at)| key.alias(key_name(at)));
    let input = window.input.schema().columns().into_iter().map(Expr::Column);
    let below = input.chain(keys).collect();
    let all = window.schema.columns().into_iter().map(Expr::Column).collect();
    let below = Projection::try_new(below, window.input)?;
    let window = Window::try_new(calls, Arc::new(LogicalPlan::Projection(below)))?;
    let all = Projection::try_new(all, Arc::new(LogicalPlan::Window(window)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(all)))
}

/// The prefix of the names of key columns. No statement can write such a name.
const KEY_PREFIX: &str = "$window_key";

fn key_name(at: usize) -> String {
    format!("{KEY_PREFIX}{at}")
}

/// Replaces the computed keys and the computed first argument of a call by columns, whose numbers
/// begin at `first`. Moves the expressions to `computed`. Returns whether any expression was moved.
fn take_keys(call: &mut WindowFunction, first: usize, computed: &mut Vec<Expr>) -> bool {
    let params = &mut call.params;
    let sorts = params.order_by.iter_mut().map(|sort| &mut sort.expr);
    let keys = params.partition_by.iter_mut().chain(sorts).filter(|key| is_computed(key));
    // Arguments after the first one are constants.
    let argument = params.args.iter_mut().take(1).filter(|argument| is_long(argument));
    let mut changed = false;
    for key in keys.chain(argument) {
        let at = computed.iter().position(|other| other == key).unwrap_or(computed.len());
        let column = Expr::Column(key_name(first + at).into());
        let key = std::mem::replace(key, column);
        if at == computed.len() {
            computed.push(key);
        }
        changed = true;
    }
    changed
}

/// Whether DataFusion may lose the order of a key: a comparison, a negation or a CASE.
fn is_computed(key: &Expr) -> bool {
    let loses_order = |part: &Expr| match part {
        Expr::BinaryExpr(binary) => binary.op != Operator::StringConcat,
        Expr::Not(_) | Expr::Negative(_) | Expr::Case(_) => true,
        _ => false,
    };
    key.exists(|part| Ok(loses_order(part))).unwrap_or_default()
}

/// Whether the values of an argument can be long.
fn is_long(argument: &Expr) -> bool {
    let grows = |part: &Expr| match part {
        Expr::ScalarFunction(call) => is_predicted(call.name()),
        _ => false,
    };
    argument.exists(|part| Ok(grows(part))).unwrap_or_default()
}
