//! Derives the types of array parameters: in `x = ANY ($1)`, the parameter is an array of the type
//! of `x`.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::{DFSchema, DFSchemaRef, tree_node::TreeNodeRecursion},
    logical_expr::{Expr, LogicalPlan},
};
use stratalog_functions::plan_walk::{PlanWalk, TreeWalk};
use stratalog_model::{ColumnType, Result};

use crate::{
    errors::{from_datafusion, to_datafusion},
    rules::types::{common_types::ValueType, jsonb_arrays},
};

/// The planner's function for ANY and ALL; its arguments are the array and the element.
const MEMBERSHIP: &str = "array_has";

/// The types of the parameters on the right of `= ANY` and `<> ALL`, by parameter name.
///
/// # Errors
/// `FeatureNotSupported` for arrays of jsonb; errors of the plan traversal.
pub fn compared(plan: &LogicalPlan) -> Result<HashMap<String, ColumnType>> {
    let mut found = HashMap::new();
    plan.each_with_subqueries(|node| {
        let schema = input_schema(node);
        node.apply_expressions(|expr| {
            expr.each(|inner| {
                if let Some((name, element)) = membership(inner)
                    && let ValueType::Typed(column_type, _) =
                        ValueType::of(element, schema.as_ref())
                    && !matches!(column_type, ColumnType::Array(_))
                {
                    if column_type == ColumnType::Jsonb {
                        return Err(to_datafusion(jsonb_arrays::refusal()));
                    }
                    found.insert(name.to_string(), ColumnType::Array(Box::new(column_type)));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map_err(from_datafusion)?;
    Ok(found)
}

/// The parameter name and the element in a membership test `array_has(parameter, element)`; `None`
/// for other expressions.
fn membership(expr: &Expr) -> Option<(&str, &Expr)> {
    let Expr::ScalarFunction(call) = expr else { return None };
    match call.args.as_slice() {
        [Expr::Placeholder(placeholder), element] if call.name() == MEMBERSHIP => {
            Some((placeholder.id.as_str(), element))
        }
        _ => None,
    }
}

/// The columns available to the expressions of a plan node.
pub fn input_schema(node: &LogicalPlan) -> DFSchemaRef {
    match node.inputs().as_slice() {
        [] => Arc::clone(node.schema()),
        [input] => Arc::clone(input.schema()),
        inputs => {
            let mut schema = DFSchema::empty();
            for input in inputs {
                schema.merge(input.schema());
            }
            Arc::new(schema)
        }
    }
}
