//! Types of the columns of relations in FROM, settled before the planner reads the query around the
//! relation:
//!
//! ```text
//!   SELECT sum(c) / 4 FROM (SELECT 1 AS c) q
//!                                  └ integer: the sum is a bigint, and the quotient has no fraction
//! ```
//!
//! [`IntegerLiterals`](super::literals::IntegerLiterals) narrows constants after planning. The
//! planner would take `c` for a bigint, the sum for a numeric, and plan another division.

use std::cell::Cell;

use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        LogicalPlan,
        expr_rewriter::NamePreserver,
        planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning},
    },
    sql::sqlparser::ast::TableFactor,
};
use stratalog_functions::literal::style_of;
use stratalog_text::TextStyle;

use super::{common_types::in_common_types, literals::narrow_choice};

thread_local! {
    /// Whether DataFusion's planner plans the next relation of this thread.
    static BY_DEFAULT: Cell<bool> = const { Cell::new(false) };
}

/// Settles the types of subqueries in FROM, and of queries in WITH at each reference.
#[derive(Debug)]
pub struct RelationTypes;

impl RelationPlanner for RelationTypes {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let has_query =
            matches!(relation, TableFactor::Derived { .. } | TableFactor::Table { args: None, .. });
        if BY_DEFAULT.take() || !has_query {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        // `context.plan` calls the relation planners again, first of all this one.
        BY_DEFAULT.set(true);
        let planned = context.plan(relation);
        BY_DEFAULT.set(false);
        let style = style_of(context.context_provider().options());
        let plan = settled(planned?, &style)?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// A relation with the types of its constants settled. Relations within the relation are settled
/// already.
pub(super) fn settled(plan: LogicalPlan, style: &TextStyle) -> Result<LogicalPlan> {
    let is_alias = |plan: &LogicalPlan| matches!(plan, LogicalPlan::SubqueryAlias(_));
    let mut aliases_left = 0_usize;
    let mut below = &plan;
    while let LogicalPlan::SubqueryAlias(alias) = below {
        aliases_left = aliases_left.saturating_add(1);
        below = alias.input.as_ref();
    }
    let stop = |node: LogicalPlan| {
        let jumps = match is_alias(&node) && aliases_left > 0 {
            true => {
                aliases_left = aliases_left.saturating_sub(1);
                false
            }
            false => is_alias(&node) || matches!(node, LogicalPlan::RecursiveQuery(_)),
        };
        let next = if jumps { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue };
        Ok(Transformed::new(node, false, next))
    };
    plan.transform_down_up(stop, |node| settled_node(node, style)).map(|settled| settled.data)
}

fn settled_node(node: LogicalPlan, style: &TextStyle) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Projection(_) => {
            let names = NamePreserver::new(&node);
            let narrowed = node.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(narrow_choice(expr).update_data(|expr| name.restore(expr)))
            })?;
            narrowed.map_data(LogicalPlan::recompute_schema)
        }
        // The analyzer reports the errors.
        LogicalPlan::Union(_) => {
            Ok(in_common_types(node.clone(), style).unwrap_or(Transformed::no(node)))
        }
        LogicalPlan::Values(_) => in_common_types(node, style),
        other => Ok(Transformed::no(other.recompute_schema()?)),
    }
}
