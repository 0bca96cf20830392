//! Corrects the inputs of aggregates: the arguments and the ORDER BY keys are computed only for
//! rows that pass the FILTER, and an ORDER BY contains each key once.
//!
//! ```text
//!   sum(1 / x) FILTER (WHERE x <> 0)  ─►  sum(CASE WHEN x <> 0 THEN 1 / x END) FILTER (WHERE x <> 0)
//!   array_agg(x ORDER BY a, a DESC)   ─►  array_agg(x ORDER BY a)
//! ```
//! DataFusion computes the arguments for all rows: a row excluded by the filter could fail the
//! statement.

use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{
        Case, Expr, ExprSchemable, SortExpr,
        expr::{AggregateFunction, WindowFunction},
        expr_rewriter::FunctionRewrite,
    },
};

use crate::rules::operators::null_members::has_subquery;

/// Rewrites aggregates and aggregates over windows. Runs before type coercion.
#[derive(Debug)]
pub struct AggregateInputs;

impl FunctionRewrite for AggregateInputs {
    fn name(&self) -> &str {
        "aggregate_inputs"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::AggregateFunction(AggregateFunction { func, mut params }) => {
                let keys = params.order_by.iter_mut().map(|key| &mut key.expr);
                let inputs = params.args.iter_mut().chain(keys);
                let mut changed = guard(params.filter.as_deref(), inputs, schema);
                changed |= keep_first(&mut params.order_by);
                let call = Expr::AggregateFunction(AggregateFunction { func, params });
                Transformed::new_transformed(call, changed)
            }
            Expr::WindowFunction(call) => {
                let WindowFunction { fun, mut params } = *call;
                let inputs = params.args.iter_mut();
                let changed = guard(params.filter.as_deref(), inputs, schema);
                let call = WindowFunction { fun, params };
                Transformed::new_transformed(Expr::WindowFunction(Box::new(call)), changed)
            }
            other => Transformed::no(other),
        })
    }
}

/// Wraps each of the `inputs` in a CASE that computes it only for rows that pass `filter`. Returns
/// true if an input changed.
fn guard<'a>(
    filter: Option<&Expr>,
    inputs: impl Iterator<Item = &'a mut Expr>,
    schema: &DFSchema,
) -> bool {
    // A volatile filter could give another result at the second evaluation, and a subquery would
    // become a second join.
    let Some(filter) = filter.filter(|filter| !filter.is_volatile() && !has_subquery(filter))
    else {
        return false;
    };
    let mut changed = false;
    for input in inputs.filter(|input| can_fail(input, filter)) {
        // A CASE would drop the jsonb metadata of a text.
        if !input.to_field(schema).is_ok_and(|(_, field)| field.metadata().is_empty()) {
            continue;
        }
        let inner = std::mem::take(input);
        let arms = vec![(Box::new(filter.clone()), Box::new(inner))];
        *input = Expr::Case(Case { expr: None, when_then_expr: arms, else_expr: None });
        changed = true;
    }
    changed
}

/// Whether the evaluation of an input may fail. Plain columns and constants never fail. An input
/// that already has the CASE for `filter` does not count, because rewrites run more than once.
fn can_fail(input: &Expr, filter: &Expr) -> bool {
    match input {
        Expr::Column(_)
        | Expr::OuterReferenceColumn(_, _)
        | Expr::Literal(_, _)
        | Expr::Placeholder(_) => false,
        Expr::Case(case) => {
            !matches!(case.when_then_expr.as_slice(), [(guard, _)] if guard.as_ref() == filter)
        }
        #[expect(deprecated, reason = "the planner still makes wildcards")]
        Expr::Wildcard { .. } => false,
        Expr::Alias(alias) => can_fail(&alias.expr, filter),
        // An ordered-set aggregate needs its constant arguments unchanged.
        other => other.any_column_refs(),
    }
}

/// Removes each key that equals an earlier key. Otherwise DataFusion would drop the key from the
/// sort, and then miss its column. Returns true if a key was removed.
pub fn keep_first(keys: &mut Vec<SortExpr>) -> bool {
    let before = keys.len();
    let mut kept: Vec<SortExpr> = Vec::with_capacity(before);
    for key in keys.drain(..) {
        if !kept.iter().any(|earlier| earlier.expr == key.expr) {
            kept.push(key);
        }
    }
    *keys = kept;
    keys.len() < before
}
