//! Common types for the columns of INTERSECT and EXCEPT, which DataFusion plans as joins of their
//! two sides.

use std::sync::Arc;

use datafusion::{
    common::{
        DFSchema, NullEquality, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    logical_expr::{Distinct, Expr, Join, JoinType, LogicalPlan, Projection, SubqueryAlias},
    optimizer::AnalyzerRule,
};
use stratalog_functions::literal::style_of;
use stratalog_functions::plan_walk::PlanWalk;
use stratalog_model::ColumnType;
use stratalog_text::TextStyle;

use super::{
    ValueType, common_type,
    unions::{self, columns_of, outside_recursion, retyped, unaliased},
};

/// Casts the columns of both sides to their common types. Runs before other rules change the sides.
#[derive(Debug)]
pub struct SetTypes;

impl AnalyzerRule for SetTypes {
    fn name(&self) -> &str {
        "set_types"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.each_with_subqueries(|node| {
            found = found || matches!(node, LogicalPlan::Join(join) if is_set_operation(join));
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !found {
            return Ok(plan);
        }
        let style = style_of(config);
        outside_recursion(plan, |node| in_common_types(node.recompute_schema()?, &style))
    }
}

/// Casts the columns of a set operation to their common types. Other nodes stay unchanged. Before
/// constants are narrowed to integer, a UNION inside of an INTERSECT or EXCEPT has the types of its
/// first input.
///
/// # Errors
/// `DatatypeMismatch` for types without a common type, and errors for invalid literals.
pub fn in_common_types(node: LogicalPlan, style: &TextStyle) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Join(join) if is_set_operation(&join) => in_one_type(join, style),
        LogicalPlan::Union(union) => unions::in_one_type(union, style),
        other => Ok(Transformed::no(other)),
    }
}

/// Whether a join is an INTERSECT or EXCEPT. Before optimization, only these semi-joins and
/// anti-joins treat NULLs as equal.
pub fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
        && join.null_equality == NullEquality::NullEqualsNull
}

/// The column expressions and the input of each side of an INTERSECT or EXCEPT.
pub fn sides(join: &Join) -> [(Vec<Expr>, Arc<LogicalPlan>); 2] {
    [columns_of(written_side(&join.left)), columns_of(written_side(&join.right))]
}

/// One side of the operation as written, below the nodes that the planner added.
fn written_side(side: &Arc<LogicalPlan>) -> &Arc<LogicalPlan> {
    match side.as_ref() {
        LogicalPlan::Distinct(Distinct::All(input)) => match input.as_ref() {
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            _ => input,
        },
        LogicalPlan::SubqueryAlias(alias) => &alias.input,
        _ => side,
    }
}

fn in_one_type(mut join: Join, style: &TextStyle) -> Result<Transformed<LogicalPlan>> {
    let mut wanted: Vec<Option<ColumnType>> = Vec::new();
    let what = if join.join_type == JoinType::LeftSemi { "INTERSECT" } else { "EXCEPT" };
    let both = sides(&join);
    let given = both.each_ref().map(|(exprs, input)| {
        let each = exprs.iter().map(|expr| ValueType::of(unaliased(expr), input.schema()));
        each.collect::<Vec<_>>()
    });
    let [left, right] = &given;
    for (left, right) in left.iter().zip(right) {
        wanted.push(common_type(what, &[left.clone(), right.clone()])?);
    }
    let new_left = in_types(&join.left, left, &wanted, style)?;
    let new_right = in_types(&join.right, right, &wanted, style)?;
    if new_left.is_none() && new_right.is_none() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    join.left = new_left.unwrap_or(join.left);
    join.right = new_right.unwrap_or(join.right);
    LogicalPlan::Join(join).recompute_schema().map(Transformed::yes)
}

/// Casts the columns of one side to the wanted types; `None` if no column changes.
fn in_types(
    side: &Arc<LogicalPlan>,
    given: &[ValueType],
    wanted: &[Option<ColumnType>],
    style: &TextStyle,
) -> Result<Option<Arc<LogicalPlan>>> {
    Ok(match side.as_ref() {
        LogicalPlan::Distinct(Distinct::All(input)) => in_types(input, given, wanted, style)?
            .map(|input| Arc::new(LogicalPlan::Distinct(Distinct::All(input)))),
        LogicalPlan::SubqueryAlias(alias) => match in_types(&alias.input, given, wanted, style)? {
            Some(input) => {
                let alias = SubqueryAlias::try_new(input, alias.alias.clone())?;
                Some(Arc::new(LogicalPlan::SubqueryAlias(alias)))
            }
            None => None,
        },
        _ => {
            let (mut exprs, input) = columns_of(side);
            let mut changed = false;
            let names: Vec<_> =
                side.schema().iter().map(|(of, field)| (of, field.name())).collect();
            for (((expr, given), wanted), (of, name)) in
                exprs.iter_mut().zip(given).zip(wanted).zip(names)
            {
                let Some(wanted) = wanted else { continue };
                let schema: &DFSchema = input.schema();
                if let Some(typed) = retyped(expr, given, wanted, schema, style)? {
                    *expr = typed.alias_qualified(of.cloned(), name.clone());
                    changed = true;
                }
            }
            match changed {
                true => Some(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, input)?))),
                false => None,
            }
        }
    })
}
