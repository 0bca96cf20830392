//! Corrects the place of NULL arrays in an order. Arrow applies NULLS FIRST and NULLS LAST also to
//! the elements of an array; in PostgreSQL, a NULL element is always greater than other elements.
//!
//! ```text
//!   ORDER BY a DESC NULLS LAST   ─►   ORDER BY a IS NULL ASC, a DESC NULLS FIRST
//! ```

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Distinct, DistinctOn, Expr, ExprSchemable, LogicalPlan, SortExpr,
        expr_rewriter::NamePreserver, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};

/// Adds a separate sort key for NULL arrays. Runs when the keys of all sorts are final.
#[derive(Debug)]
pub struct ListNulls;

impl AnalyzerRule for ListNulls {
    fn name(&self) -> &str {
        "list_nulls"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| {
            let (node, changed) = match node {
                LogicalPlan::Sort(mut sort) => {
                    let changed = separate(&mut sort.expr, sort.input.schema());
                    (LogicalPlan::Sort(sort), changed)
                }
                LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
                    let changed = separate_distinct(&mut distinct);
                    (LogicalPlan::Distinct(Distinct::On(distinct)), changed)
                }
                other => (other, false),
            };
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            let calls = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let calls = expr.change_up(|expr| {
                    Ok(match expr {
                        Expr::WindowFunction(mut call) => {
                            let changed = separate(&mut call.params.order_by, &schema);
                            Transformed::new_transformed(Expr::WindowFunction(call), changed)
                        }
                        Expr::AggregateFunction(mut call) => {
                            let changed = separate(&mut call.params.order_by, &schema);
                            Transformed::new_transformed(Expr::AggregateFunction(call), changed)
                        }
                        other => Transformed::no(other),
                    })
                })?;
                Ok(calls.update_data(|expr| name.restore(expr)))
            })?;
            let changed = changed || calls.transformed;
            Ok(Transformed::new_transformed(calls.data, changed))
        })
        .map(|plan| plan.data)
    }
}

/// True for an array key whose NULLS FIRST or NULLS LAST differs from PostgreSQL's default.
fn is_moved(key: &SortExpr, schema: &DFSchema) -> bool {
    key.nulls_first == key.asc && matches!(key.expr.get_type(schema), Ok(DataType::List(_)))
}

/// Adds the NULL keys to a DISTINCT ON. Its expressions must stay equal to its first sort keys.
/// Returns whether a key was added.
fn separate_distinct(distinct: &mut DistinctOn) -> bool {
    let Some(keys) = &mut distinct.sort_expr else { return false };
    let schema = distinct.input.schema();
    let mut on = Vec::with_capacity(distinct.on_expr.len());
    for (at, expr) in std::mem::take(&mut distinct.on_expr).into_iter().enumerate() {
        if keys.get(at).is_some_and(|key| is_moved(key, schema)) {
            on.push(expr.clone().is_null());
        }
        on.push(expr);
    }
    distinct.on_expr = on;
    separate(keys, schema)
}

/// Adds a sort key for NULL in front of each array key whose NULLS FIRST or NULLS LAST differs from
/// PostgreSQL's default. Returns whether a key was added.
fn separate(keys: &mut Vec<SortExpr>, schema: &DFSchema) -> bool {
    if !keys.iter().any(|key| is_moved(key, schema)) {
        return false;
    }
    let separated = std::mem::take(keys).into_iter().flat_map(|mut key| {
        let is_null = is_moved(&key, schema).then(|| {
            let is_null = key.expr.clone().is_null().sort(!key.nulls_first, false);
            key.nulls_first = !key.asc;
            is_null
        });
        is_null.into_iter().chain([key])
    });
    *keys = separated.collect();
    true
}
