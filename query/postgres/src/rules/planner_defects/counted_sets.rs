//! Corrects EXCEPT ALL and INTERSECT ALL, which count equal rows. If a row occurs n times on the
//! left and m times on the right, EXCEPT ALL keeps n - m copies, and INTERSECT ALL the lesser of n
//! and m. DataFusion would remove or keep all copies.
//!
//! ```text
//!   LeftAnti on a                  Projection: a
//!   ├─ left                          LeftAnti on a, number
//!   └─ right            ─►           ├─ row_number() PARTITION BY a: left
//!                                    └─ row_number() PARTITION BY a: right
//! ```

use std::sync::Arc;

use datafusion::{
    common::{Column, NullEquality, Result, config::ConfigOptions, tree_node::Transformed},
    functions_window::row_number::row_number_udwf,
    logical_expr::{
        Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder,
        WindowFunctionDefinition, expr::WindowFunction,
    },
    optimizer::AnalyzerRule,
};
use stratalog_functions::plan_walk::PlanWalk;

/// Numbers the copies of equal rows on both sides, and joins by the number too.
#[derive(Debug)]
pub struct CountedSets;

impl AnalyzerRule for CountedSets {
    fn name(&self) -> &str {
        "counted_sets"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_with_subqueries(|node| match node {
            LogicalPlan::Join(join) if counts(&join) => counted(join).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })
        .map(|plan| plan.data)
    }
}

/// Names of the columns that number equal rows.
const NUMBERS: [&str; 2] = ["left\u{1}number", "right\u{1}number"];

/// Whether a join is an EXCEPT ALL or INTERSECT ALL whose rows are not numbered yet. Before
/// optimization, no other semi-join or anti-join treats NULLs as equal.
fn counts(join: &Join) -> bool {
    let numbered = matches!(
        join.on.last(),
        Some((Expr::Column(left), _)) if NUMBERS.contains(&left.name.as_str())
    );
    matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_))
        && !numbered
}

fn counted(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let [left_name, right_name] = NUMBERS;
    let (left, left_number) = numbered(join.left, left_name)?;
    let (right, right_number) = numbered(join.right, right_name)?;
    let mut on = join.on;
    on.push((left_number, right_number));
    let join = Join::try_new(
        left,
        right,
        on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    LogicalPlanBuilder::from(LogicalPlan::Join(join))
        .project(columns.into_iter().map(Expr::Column))?
        .build()
}

/// Adds a column that numbers equal rows to a plan. Also returns the expression for this column.
fn numbered(plan: Arc<LogicalPlan>, name: &str) -> Result<(Arc<LogicalPlan>, Expr)> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let function = WindowFunctionDefinition::WindowUDF(row_number_udwf());
    let number = Expr::from(WindowFunction::new(function, Vec::new()))
        .partition_by(columns)
        .build()?
        .alias(name);
    let plan = LogicalPlanBuilder::from(plan).window([number])?.build()?;
    Ok((Arc::new(plan), Expr::Column(Column::new_unqualified(name))))
}
