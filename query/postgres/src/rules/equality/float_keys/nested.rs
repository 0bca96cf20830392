//! Keys of arrays and rows of floats, which DataFusion compares by their bits everywhere.

use std::sync::Arc;

use super::{FloatKeys, holds_floats};
use crate::rules::equality::{key_rewrite::KeyRewrite, list_order};
use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema, Result,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{
        BinaryExpr, Distinct, Expr, ExprSchemable, Join, LogicalPlan, Operator, Projection,
        expr::InList, expr_rewriter::NamePreserver,
    },
};

/// Whether an expression is an array or a row of floats.
pub(super) fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    let is_nested = |known: &DataType| {
        !matches!(known, DataType::Float32 | DataType::Float64) && holds_floats(known)
    };
    expr.get_type(schema).is_ok_and(|known| is_nested(&known))
}

/// Replaces an array or row of floats by its key. Other values stay unchanged.
fn replace_by_key(keys: &FloatKeys, expr: Expr, schema: &DFSchema) -> Expr {
    match is_nested(&expr, schema) && !keys.is_key(&expr, schema) {
        true => keys.key(expr),
        false => expr,
    }
}

/// Uses keys in comparisons, and in functions that search an array for an element.
pub(super) fn of_expression(
    keys: &FloatKeys,
    expr: Expr,
    schema: &DFSchema,
) -> Result<Transformed<Expr>> {
    let key = |expr: Expr| replace_by_key(keys, expr, schema);
    let expr = match list_order::ordered(expr, schema)? {
        Transformed { data, transformed: true, .. } => return Ok(Transformed::yes(data)),
        other => other.data,
    };
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_equality(op) && is_nested(&left, schema) && is_nested(&right, schema) =>
        {
            let both = BinaryExpr::new(Box::new(key(*left)), op, Box::new(key(*right)));
            Transformed::yes(Expr::BinaryExpr(both))
        }
        Expr::InList(InList { expr, list, negated }) if is_nested(&expr, schema) => {
            let list = list.into_iter().map(key).collect();
            Transformed::yes(Expr::InList(InList::new(Box::new(key(*expr)), list, negated)))
        }
        Expr::ScalarFunction(mut call) if looks_for_element(call.name()) => {
            let mut changed = false;
            let wanted = call.args.len().min(2);
            for argument in call.args.iter_mut().take(wanted) {
                changed |= keys.replace_by_key(argument, schema);
            }
            Transformed::new_transformed(Expr::ScalarFunction(call), changed)
        }
        other => Transformed::no(other),
    })
}

fn is_equality(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
    )
}

/// Whether a function searches an array for a value.
fn looks_for_element(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "array_position",
        "array_positions",
        "array_remove",
        "array_remove_all",
        "array_replace",
        "array_replace_all",
    ];
    NAMES.contains(&name)
}

/// Makes DISTINCT compare the keys of rows.
pub(super) fn of_distinct(
    keys: &FloatKeys,
    input: Arc<LogicalPlan>,
) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let columns: Vec<Expr> = schema.iter().map(Expr::from).collect();
    if !columns.iter().any(|column| is_nested(column, &schema)) {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
    }
    let columns = columns.into_iter().zip(schema.iter()).map(|(column, (qualifier, field))| {
        match is_nested(&column, &schema) && !keys.is_key(&column, &schema) {
            true => keys.key(column).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    let keyed = LogicalPlan::Projection(Projection::try_new(columns.collect(), input)?);
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::All(Arc::new(keyed)))))
}

/// Makes a join compare the keys of its columns.
pub(super) fn of_join(keys: &FloatKeys, mut join: Join) -> Transformed<LogicalPlan> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        for (expr, input) in [(left, &join.left), (right, &join.right)] {
            if is_nested(expr, input.schema()) {
                changed |= keys.replace_by_key(expr, input.schema());
            }
        }
    }
    Transformed::new_transformed(LogicalPlan::Join(join), changed)
}

/// Makes an aggregation compare the keys of its groups.
pub(super) fn of_groups(keys: &FloatKeys, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let LogicalPlan::Aggregate(mut aggregate) = node else { return Ok(Transformed::no(node)) };
    let schema = Arc::clone(aggregate.input.schema());
    if !aggregate.group_expr.iter().any(|group| holds_nested(group, &schema)) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    for group in &mut aggregate.group_expr {
        let of_part = |part: Expr| {
            let name = names.save(&part);
            Ok(Transformed::yes(name.restore(replace_by_key(keys, part, &schema))))
        };
        let keyed = match std::mem::take(group) {
            sets @ Expr::GroupingSet(_) => sets.map_children(of_part)?,
            other => of_part(other)?,
        };
        *group = keyed.data;
    }
    // The names and types of the columns stay the same, and therefore the schema too.
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

fn holds_nested(group: &Expr, schema: &DFSchema) -> bool {
    match group {
        Expr::GroupingSet(sets) => {
            sets.distinct_expr().into_iter().any(|group| is_nested(group, schema))
        }
        group => is_nested(group, schema),
    }
}
