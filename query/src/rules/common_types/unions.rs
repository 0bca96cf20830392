//! The columns of UNION and VALUES.

use std::sync::Arc;

use datafusion::{
    common::{
        DFSchema, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNodeRecursion},
    },
    logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Union, Values},
    optimizer::AnalyzerRule,
    scalar::ScalarValue,
};
use stratalog_functions::literal::style_of;
use stratalog_model::ColumnType;
use stratalog_text::TextStyle;

use super::{Given, common_type, in_type};

/// Gives the columns of a UNION their common types, and the integers of VALUES PostgreSQL's.
/// Runs before type coercion.
#[derive(Debug)]
pub struct UnionTypes;

impl AnalyzerRule for UnionTypes {
    fn name(&self) -> &str {
        "union_types"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if was_settled(&plan)? {
            return Ok(plan);
        }
        let style = style_of(config);
        plan.transform_up_with_subqueries(|node| {
            let node = node.recompute_schema()?;
            match node {
                LogicalPlan::Union(union) => in_one_type(union, &style),
                LogicalPlan::Values(values) => narrowed(values),
                other => Ok(Transformed::no(other)),
            }
        })
        .map(|plan| plan.data)
    }
}

/// Whether types were settled when it was planned: those of the two terms of a recursive
/// query, and those of columns that a subquery names from outside.
fn was_settled(plan: &LogicalPlan) -> Result<bool> {
    let mut settled = false;
    plan.apply_with_subqueries(|node| {
        settled |=
            matches!(node, LogicalPlan::RecursiveQuery(_)) || node.contains_outer_reference();
        Ok(if settled { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(settled)
}

fn in_one_type(union: Union, style: &TextStyle) -> Result<Transformed<LogicalPlan>> {
    let mut inputs: Vec<(Vec<Expr>, Arc<LogicalPlan>)> =
        union.inputs.iter().map(columns_of).collect();
    let mut changed = false;
    for at in 0..union.schema.fields().len() {
        let given: Vec<Given> = inputs
            .iter()
            .map(|(exprs, input)| match exprs.get(at) {
                Some(expr) => Given::of(unaliased(expr), input.schema()),
                None => Given::Other,
            })
            .collect();
        let Some(wanted) = common_type("UNION", &given)? else { continue };
        for ((exprs, input), given) in inputs.iter_mut().zip(&given) {
            if let Some(expr) = exprs.get_mut(at) {
                changed |= retype(expr, given, &wanted, input.schema(), style)?;
            }
        }
    }
    if !changed {
        // Constants that were narrowed are of a type that the union does not know of yet.
        let agree = union.inputs.iter().all(|input| {
            let fields = input.schema().fields().iter().zip(union.schema.fields());
            fields.clone().all(|(input, union)| input.data_type() == union.data_type())
        });
        if agree {
            return Ok(Transformed::no(LogicalPlan::Union(union)));
        }
        let union = Union::try_new_with_loose_types(union.inputs)?;
        return Ok(Transformed::yes(LogicalPlan::Union(union)));
    }
    let inputs = inputs
        .into_iter()
        .map(|(exprs, input)| {
            Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, input)?)))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The columns of an input, and what they are columns of.
pub fn columns_of(input: &Arc<LogicalPlan>) -> (Vec<Expr>, Arc<LogicalPlan>) {
    match input.as_ref() {
        LogicalPlan::Projection(projection) => {
            (projection.expr.clone(), Arc::clone(&projection.input))
        }
        other => (other.schema().iter().map(Expr::from).collect(), Arc::clone(input)),
    }
}

/// The expression that an alias names.
pub fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

fn retype(
    expr: &mut Expr,
    given: &Given,
    wanted: &ColumnType,
    schema: &DFSchema,
    style: &TextStyle,
) -> Result<bool> {
    let typed = in_type(unaliased(expr).clone(), given, wanted, schema, style)?;
    if typed == *unaliased(expr) {
        return Ok(false);
    }
    let name = match &*expr {
        Expr::Column(column) => column.name.clone(),
        other => other.schema_name().to_string(),
    };
    *expr = typed.alias(name);
    Ok(true)
}

/// Integers that all fit are integers, and not bigints.
fn narrowed(mut values: Values) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    for at in 0..values.schema.fields().len() {
        let cells = || values.values.iter().filter_map(|row| row.get(at));
        let narrow = |cell: &Expr| match cell {
            Expr::Literal(ScalarValue::Int64(Some(value)), None) => i32::try_from(*value).is_ok(),
            Expr::Literal(ScalarValue::Int64(None) | ScalarValue::Null, None) => true,
            _ => false,
        };
        let integers =
            cells().any(|cell| matches!(cell, Expr::Literal(ScalarValue::Int64(Some(_)), None)));
        if !integers || !cells().all(narrow) {
            continue;
        }
        changed = true;
        for cell in values.values.iter_mut().filter_map(|row| row.get_mut(at)) {
            let value = match &*cell {
                Expr::Literal(ScalarValue::Int64(Some(value)), _) => i32::try_from(*value).ok(),
                _ => None,
            };
            *cell = Expr::Literal(ScalarValue::Int32(value), None);
        }
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    LogicalPlanBuilder::values(values.values)?.build().map(Transformed::yes)
}
