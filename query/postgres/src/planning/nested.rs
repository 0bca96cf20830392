//! Planning of deeply nested subqueries.
//!
//! DataFusion checks a plan before and after its rules. The checks visit the subquery of an
//! expression once for each level around the subquery and once by itself: the time doubles with
//! each level. Plans with many levels run the same rules here, without these checks. The rules of
//! the analyzer replace most subqueries by joins; DataFusion's checks then run once on the result.

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNodeRecursion, TreeNodeRewriter},
    },
    execution::session_state::SessionState,
    logical_expr::{InvariantLevel, LogicalPlan},
    optimizer::{
        Analyzer, ApplyOrder, OptimizerConfig, OptimizerRule,
        analyzer::function_rewrite::ApplyFunctionRewrites,
    },
};
use stratalog_functions::governor;
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{Error, ErrorKind};

use crate::errors::to_datafusion;

/// Maximum number of nested subqueries for which DataFusion's checks run.
const LEVELS_CHECKED: usize = 4;

/// Applies the rules of the analyzer to a plan.
///
/// # Errors
/// The errors of rules and checks; `StatementTooComplex` for too many levels of correlated
/// subqueries.
pub fn analyzed(
    analyzer: &Analyzer,
    plan: LogicalPlan,
    options: &ConfigOptions,
) -> Result<LogicalPlan> {
    if levels(&plan)? <= LEVELS_CHECKED {
        return analyzer.execute_and_check(plan, options, |_, _| {});
    }
    let rewrites = ApplyFunctionRewrites::new(analyzer.function_rewrites().to_vec());
    let mut plan = datafusion::optimizer::AnalyzerRule::analyze(&rewrites, plan, options)?;
    for rule in &analyzer.rules {
        plan = rule.analyze(plan, options)?;
    }
    if levels(&plan)? <= LEVELS_CHECKED {
        plan.check_invariants(InvariantLevel::Executable)?;
    } else if is_correlated(&plan)? {
        return Err(to_datafusion(
            Error::new(
                ErrorKind::StatementTooComplex,
                format!(
                    "more than {LEVELS_CHECKED} levels of subqueries refer to tables of outer queries"
                ),
            )
            .with_hint("join the tables, or compute the inner subqueries in WITH"),
        ));
    }
    Ok(plan)
}

/// Applies the rules of the analyzer and then of the optimizer to a plan.
///
/// # Errors
/// The errors of [`analyzed`].
pub fn optimized(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan> {
    if levels(plan)? <= LEVELS_CHECKED {
        return state.optimize(plan);
    }
    let mut plan = analyzed(state.analyzer(), plan.clone(), state.config_options())?;
    if levels(&plan)? <= LEVELS_CHECKED {
        return state.optimizer().optimize(plan, state, |_, _| {});
    }
    for _ in 0..state.config_options().optimizer.max_passes {
        let before = plan.clone();
        for rule in &state.optimizer().rules {
            plan = match rule.apply_order() {
                Some(order) => {
                    let mut rewriter = Rewriter { order, rule: rule.as_ref(), state };
                    plan.rewrite_with_subqueries(&mut rewriter)?.data
                }
                None => rule.rewrite(plan, state)?.data,
            };
        }
        if plan == before {
            break;
        }
    }
    Ok(plan)
}

/// The maximum nesting depth of subqueries in the expressions of a plan.
fn levels(plan: &LogicalPlan) -> Result<usize> {
    let mut most = 0;
    plan.each(|node| {
        governor::check()?;
        node.apply_subqueries(|subquery| {
            most = most.max(levels(subquery)? + 1);
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(most)
}

/// Whether a subquery refers to a table of an enclosing query.
fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.each_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Subquery(subquery)
            if !subquery.outer_ref_columns.is_empty());
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Applies an optimizer rule to each node of a plan and of its subqueries.
struct Rewriter<'a> {
    order: ApplyOrder,
    rule: &'a dyn OptimizerRule,
    state: &'a dyn OptimizerConfig,
}

impl TreeNodeRewriter for Rewriter<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::TopDown => self.rule.rewrite(node, self.state),
            ApplyOrder::BottomUp => Ok(Transformed::no(node)),
        }
    }

    fn f_up(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        match self.order {
            ApplyOrder::BottomUp => self.rule.rewrite(node, self.state),
            ApplyOrder::TopDown => Ok(Transformed::no(node)),
        }
    }
}
