//! Keeps conditions on an aggregation without groups above the aggregation. DataFusion would move a
//! condition without columns, for example the `false` that `n = 0 AND n = 2` simplifies to, below
//! the aggregation. But an aggregation without groups returns a row even without input rows.

use std::sync::Arc;

use datafusion::{
    common::{Result, ScalarValue, tree_node::Transformed},
    logical_expr::{
        EmptyRelation, Expr, Filter, LogicalPlan,
        utils::{conjunction, split_conjunction_owned},
    },
    optimizer::{
        ApplyOrder, OptimizerConfig, OptimizerRule, push_down_filter::PushDownFilter,
        simplify_expressions::simplify_predicates,
    },
};

/// DataFusion's rule that moves filters down, except below aggregations without groups.
#[derive(Debug)]
pub struct HavingFilters(pub PushDownFilter);

impl OptimizerRule for HavingFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        node: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match node {
            LogicalPlan::Filter(filter) if is_of_all(&filter.input) => keep_above_aggregate(filter),
            other => self.0.rewrite(other, config),
        }
    }
}

/// Whether a plan is an aggregation without groups, which returns a row even without input rows.
/// Filters may stand above the aggregation.
fn is_of_all(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => is_of_all(&filter.input),
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.iter().all(|group| matches!(group, Expr::GroupingSet(_)))
        }
        _ => false,
    }
}

fn keep_above_aggregate(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let mut conditions = split_conjunction_owned(filter.predicate);
    let mut merged = false;
    let mut input = filter.input;
    while let LogicalPlan::Filter(inner) = input.as_ref() {
        conditions.splice(0..0, split_conjunction_owned(inner.predicate.clone()));
        merged = true;
        input = Arc::clone(&inner.input);
    }
    let written = conditions.len();
    conditions = simplify_predicates(conditions)?;
    conditions.retain(|condition| !is_constant(condition, &[Some(true)]));
    if conditions.iter().any(|condition| is_constant(condition, &[Some(false), None])) {
        let schema = Arc::clone(input.schema());
        let none = EmptyRelation { produce_one_row: false, schema };
        return Ok(Transformed::yes(LogicalPlan::EmptyRelation(none)));
    }
    let changed = merged || conditions.len() != written;
    Ok(match conjunction(conditions) {
        Some(predicate) => {
            let filter = LogicalPlan::Filter(Filter::try_new(predicate, input)?);
            Transformed::new_transformed(filter, changed)
        }
        None => Transformed::yes(Arc::unwrap_or_clone(input)),
    })
}

fn is_constant(condition: &Expr, values: &[Option<bool>]) -> bool {
    matches!(condition, Expr::Literal(ScalarValue::Boolean(value), _) if values.contains(value))
}
