//! Logical plans of queries, with PostgreSQL's joins, arrays and types of CASE expressions.

pub mod nested;

use datafusion::{
    common::tree_node::{Transformed, TreeNodeRecursion},
    execution::{context::SQLOptions, session_state::SessionState},
    logical_expr::LogicalPlan,
    sql::{parser::Statement as DataFusionStatement, sqlparser::ast::Statement},
};
use stratalog_functions::{governor, plan_walk::PlanWalk};
use stratalog_model::{BoxFuture, ErrorKind, Result};

use crate::{
    dialect::merged_columns::{self, JoinSelection},
    errors::from_datafusion,
    parameters,
    rules::{
        planner_defects::grouping_sets,
        types::{
            array_calls, cases, common_types::check_terms, floats::values_in_doubles,
            numeric_results::round_numerics,
        },
    },
};

/// Plans a query. The future is boxed, because otherwise each crate that awaits the future would
/// compile DataFusion's planner again.
///
/// # Errors
/// The errors of the query; `FeatureNotSupported` if the statement is not a query.
pub fn logical<'a>(
    state: &'a SessionState,
    statement: &'a Statement,
) -> BoxFuture<'a, Result<LogicalPlan>> {
    Box::pin(async move {
        let which = match merged_columns::shows_all(statement) {
            true => Some(JoinSelection::All),
            false => Some(JoinSelection::Right)
                .filter(|which| merged_columns::mentions(statement, *which)),
        };
        let plan = match which {
            Some(which) => {
                let mut statement = statement.clone();
                Box::pin(merged_columns::write_out(state, &mut statement, which)).await?;
                with_merged_columns(state, &statement).await?
            }
            None => with_merged_columns(state, statement).await?,
        };
        round_numerics(plan).map_err(from_datafusion)
    })
}

/// Plans a query. If the planner reports an ambiguous column, plans the query again with the merged
/// columns of joins written out, because the planner sometimes reports a merged column as
/// ambiguous.
async fn with_merged_columns(state: &SessionState, statement: &Statement) -> Result<LogicalPlan> {
    match logical_as_written(state, statement).await {
        Err(error)
            if error.kind() == ErrorKind::AmbiguousColumn
                && merged_columns::mentions(statement, JoinSelection::All) =>
        {
            let mut statement = statement.clone();
            Box::pin(merged_columns::write_out(state, &mut statement, JoinSelection::All)).await?;
            logical_as_written(state, &statement).await.map_err(|_| error)
        }
        planned => planned,
    }
}

/// Plans a query whose joins already merge columns like PostgreSQL's joins.
///
/// # Errors
/// The errors of [`logical`].
pub fn logical_as_written<'a>(
    state: &'a SessionState,
    statement: &'a Statement,
) -> BoxFuture<'a, Result<LogicalPlan>> {
    Box::pin(async move {
        let has_parameters = parameters::count(statement)? > 0;
        let mut plan = Box::pin(typed_plan(state, statement)).await?;
        if has_parameters {
            plan = parameters::without_names(plan)?;
        }
        plan = grouping_sets::computed_below(plan).map_err(from_datafusion)?;
        SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false)
            .verify_plan(&plan)
            .map_err(from_datafusion)?;
        Ok(plan)
    })
}

/// The planner's plan, in which a CASE has PostgreSQL's type wherever the type affects the plan.
async fn typed_plan(state: &SessionState, statement: &Statement) -> Result<LogicalPlan> {
    let mut statement = statement.clone();
    array_calls::as_calls(&mut statement);
    if !cases::has_case(&statement) {
        return first_plan(state, statement).await;
    }
    let planned = first_plan(state, statement.clone()).await;
    if let Ok(plan) = &planned
        && !cases::are_mistyped(plan).map_err(from_datafusion)?
    {
        return planned;
    }
    cases::as_calls(&mut statement);
    let typed = first_plan(state, statement).await;
    // If both plans fail, report the error for the query as written.
    if typed.is_err() && planned.is_err() { planned } else { typed }
}

async fn first_plan(state: &SessionState, statement: Statement) -> Result<LogicalPlan> {
    let statement = DataFusionStatement::Statement(Box::new(statement));
    let plan = governor::planning(state.statement_to_plan(statement)).await;
    let plan = plan.map_err(from_datafusion)?;
    with_exact_values(plan).map_err(from_datafusion)
}

/// Corrects the planner's plan: columns of VALUES with floats and numerics become double precision.
/// Also checks recursive queries. Both steps need the casts that the planner added, and later rules
/// replace these casts by functions.
fn with_exact_values(plan: LogicalPlan) -> datafusion::common::Result<LogicalPlan> {
    let mut has_values = false;
    plan.each_with_subqueries(|node| {
        match node {
            LogicalPlan::RecursiveQuery(query) => check_terms(query)?,
            LogicalPlan::Values(_) => has_values = true,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !has_values {
        return Ok(plan);
    }
    let mut changed = false;
    let plan = plan.change_with_subqueries(|node| match node {
        LogicalPlan::Values(values) => {
            let values = values_in_doubles(values)?;
            changed |= values.transformed;
            Ok(values)
        }
        // The types of the nodes below have changed.
        other if changed => other.recompute_schema().map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plan.data)
}
