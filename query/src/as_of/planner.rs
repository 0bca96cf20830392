//! Translates the logical node of an as-of join to the physical node.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    arrow::compute::SortOptions,
    catalog::Session,
    common::{DFSchema, Result},
    execution::context::QueryPlanner,
    logical_expr::{
        Expr, LogicalPlan, UserDefinedLogicalNode,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_expr::{PhysicalExpr, PhysicalSortExpr},
    physical_plan::ExecutionPlan,
    physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner},
};
use stratalog_postgres::rules::{planner_defects::opaque_casts, subqueries::as_of::AsOf};

use super::execution::{AsOfExec, PhysicalUntil, Sides};

/// DataFusion's planner with support for as-of joins.
#[derive(Debug)]
pub struct WithAsOf;

#[async_trait]
impl QueryPlanner for WithAsOf {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(AsOfPlanner)])
            .create_physical_plan(&opaque_casts::with_opaque_true(plan)?, session)
            .await
    }
}

struct AsOfPlanner;

#[async_trait]
impl ExtensionPlanner for AsOfPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [left, right]) = (node.as_any().downcast_ref::<AsOf>(), inputs) else {
            return Ok(None);
        };
        let physical = |expr: &Expr, schema: &DFSchema| -> Result<Arc<dyn PhysicalExpr>> {
            planner.create_physical_expr(expr, schema, session, context)
        };
        let of_left = |expr: &Expr| physical(expr, node.left.schema());
        let of_right = |expr: &Expr| physical(expr, node.right.schema());
        let on = node.on.iter().map(|(left, right)| Ok((of_left(left)?, of_right(right)?)));
        let until = match &node.until {
            Some(until) => Some(PhysicalUntil {
                left: of_left(&until.left)?,
                right: of_right(&until.right)?,
                inclusive: until.inclusive,
            }),
            None => None,
        };
        // Reverse the order: the first row of an order is the last row of the reversed order.
        let reversed = node.order.iter().map(|by| {
            let options = SortOptions { descending: by.asc, nulls_first: !by.nulls_first };
            Ok(PhysicalSortExpr::new(of_right(&by.expr)?, options))
        });
        let sides = Sides {
            on: on.collect::<Result<_>>()?,
            until,
            reversed: reversed.collect::<Result<_>>()?,
            rows: node.rows,
        };
        let plan = AsOfExec::new(Arc::clone(left), Arc::clone(right), Arc::new(sides));
        Ok(Some(Arc::new(plan)))
    }
}
