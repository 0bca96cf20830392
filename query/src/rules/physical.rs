//! The list of optimizer rules for physical plans.

use std::sync::Arc;

use datafusion::{
    common::{Result, config::ConfigOptions, tree_node::TreeNode},
    physical_optimizer::{
        PhysicalOptimizerRule, aggregate_statistics::AggregateStatistics,
        optimizer::PhysicalOptimizer,
    },
    physical_plan::{ExecutionPlan, aggregates::AggregateExec},
};
use stratalog_postgres::rules::{
    planner_defects::{
        endless_sorts::{ENDLESS_SORTS, UNREAD_ORDERS},
        opaque_casts::OPAQUE_CASTS,
        outer_constants::OUTER_CONSTANTS,
        restored_sorts::RESTORED_SORTS,
        staged_filter::STAGED_FILTER,
    },
    windows::whole_frames::WHOLE_FRAMES,
};

use super::{
    aggregate_pushdown::{AGGREGATE_PUSHDOWN, NEWEST_WINDOWS},
    first_rows::FIRST_ROWS,
    key_lookups::{JOINED_KEYS, SUBQUERY_KEYS},
    newest_rows::NEWEST_ROWS,
    one_stream::OneStream,
    ordered_scan::ORDERED_SCAN,
};

/// DataFusion's rules and Stratalog's rules, without DataFusion's rules for filter pushdown. These
/// rules look up the columns of a projection by name, but a join may have two columns of one name.
/// The optimizer of the logical plan has already pushed down all possible filters.
pub fn rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
    let counted: Arc<dyn PhysicalOptimizerRule + Send + Sync> =
        Arc::new(UnfilteredAggregateStatistics(AggregateStatistics::new()));
    for rule in &mut rules {
        if rule.name() == counted.name() {
            *rule = Arc::clone(&counted);
        }
    }
    // Insert before the last rule, which checks the plan.
    let last = rules.len().saturating_sub(1);
    rules.insert(last, Arc::new(RESTORED_SORTS));
    rules.insert(last + 1, Arc::new(ENDLESS_SORTS));
    rules.insert(0, Arc::new(UNREAD_ORDERS));
    rules.insert(0, Arc::new(FIRST_ROWS));
    rules.insert(0, Arc::new(NEWEST_ROWS));
    rules.insert(0, Arc::new(OUTER_CONSTANTS));
    rules.insert(0, Arc::new(OPAQUE_CASTS));
    rules.push(Arc::new(WHOLE_FRAMES));
    rules.push(Arc::new(OneStream));
    rules.push(Arc::new(ORDERED_SCAN));
    rules.push(Arc::new(STAGED_FILTER));
    rules.push(Arc::new(SUBQUERY_KEYS));
    rules.push(Arc::new(AGGREGATE_PUSHDOWN));
    rules.push(Arc::new(NEWEST_WINDOWS));
    rules.push(Arc::new(JOINED_KEYS));
    rules
}

/// DataFusion's rule that computes aggregates from statistics, restricted to plans without FILTER.
/// The original rule ignores an aggregate with a FILTER, finds an aggregate below, and replaces
/// both aggregates by the value of the lower aggregate.
#[derive(Debug)]
struct UnfilteredAggregateStatistics(AggregateStatistics);

impl PhysicalOptimizerRule for UnfilteredAggregateStatistics {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = plan.exists(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            let mut filters = aggregate.into_iter().flat_map(AggregateExec::filter_expr);
            Ok(filters.any(Option::is_some))
        })?;
        if filters { Ok(plan) } else { self.0.optimize(plan, config) }
    }
}
