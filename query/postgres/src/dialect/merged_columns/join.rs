//! Rewrites the joins with USING and NATURAL in one item of a FROM clause to joins with ON.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, ObjectName, TableFactor, TableWithJoins, Value,
};
use stratalog_model::{Error, ErrorKind, Result, chronicle::SYSTEM_COLUMNS};

use super::{
    Columns, MergedSide,
    columns::Column,
    constraint,
    scope::{MergedNames, ambiguous},
};
use crate::{names::fold, parse::call};

/// Rewrites the joins of an item of FROM, and returns the columns of the item. `None` means that
/// the columns are unknown.
///
/// # Errors
/// `UndefinedColumn` or `AmbiguousColumn` for a merged name that a side does not have, or has
/// twice; `FeatureNotSupported` for LATERAL in a join with USING or NATURAL.
pub fn merge(
    item: &mut TableWithJoins,
    columns: &mut impl Iterator<Item = Option<Columns>>,
) -> Result<Option<Columns>> {
    let merges = item.joins.iter_mut().any(|join| {
        constraint(&mut join.join_operator).is_some_and(|(constraint, _)| {
            matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
        })
    });
    let mut all = of_factor(&mut item.relation, columns)?;
    for join in &mut item.joins {
        let right = of_factor(&mut join.relation, columns)?;
        let (Some(left), Some(right)) = (all.take(), right) else {
            if merges {
                return Err(Error::not_yet("LATERAL beside a join with USING or NATURAL")
                    .with_hint("join with ON"));
            }
            continue;
        };
        all = Some(match constraint(&mut join.join_operator) {
            Some((constraint, side)) => joined(left, right, constraint, side)?,
            None => left.into_iter().chain(right).collect(),
        });
    }
    Ok(all)
}

fn of_factor(
    factor: &mut TableFactor,
    columns: &mut impl Iterator<Item = Option<Columns>>,
) -> Result<Option<Columns>> {
    match factor {
        // The trait object prevents an infinite type: without it, each level of recursion would
        // need a new iterator type.
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            let columns: &mut dyn Iterator<Item = Option<Columns>> = columns;
            merge(table_with_joins, &mut { columns })
        }
        _ => Ok(columns.next().flatten()),
    }
}

/// The columns of a join: first the merged columns, then the other columns of both sides. Replaces
/// the constraint of the join with ON.
fn joined(
    left: Columns,
    right: Columns,
    constraint: &mut JoinConstraint,
    side: MergedSide,
) -> Result<Columns> {
    let names: Vec<String> = match constraint {
        JoinConstraint::Using(names) => names.iter().filter_map(name_of).collect(),
        JoinConstraint::Natural => common(&left, &right),
        JoinConstraint::On(condition) => {
            let both: Columns = left.into_iter().chain(right).collect();
            let mut names = MergedNames::new(&both);
            names.replace_in(condition);
            return names.checked().map(|()| both);
        }
        JoinConstraint::None => return Ok(left.into_iter().chain(right).collect()),
    };
    let mut merged = Vec::new();
    let mut condition: Option<Expr> = None;
    for name in &names {
        let (first, second) =
            (only_column(&left, name, "left")?, only_column(&right, name, "right")?);
        let equal = binary(first.expr.clone(), BinaryOperator::Eq, second.expr.clone());
        condition = Some(match condition.take() {
            Some(before) => binary(before, BinaryOperator::And, equal),
            None => equal,
        });
        let expr = match side {
            MergedSide::Left => first.expr.clone(),
            MergedSide::Right => second.expr.clone(),
            MergedSide::Either => {
                let arguments = vec![first.expr.clone(), second.expr.clone()];
                call("coalesce", arguments).ok_or_else(|| Error::internal("coalesce is a call"))?
            }
        };
        merged.push(Column { name: name.clone(), expr, merged: true });
    }
    let always = || Expr::Value(Value::Boolean(true).into());
    *constraint = JoinConstraint::On(condition.unwrap_or_else(always));
    let rest = left.into_iter().chain(right).filter(|column| !names.contains(&column.name));
    merged.extend(rest);
    Ok(merged)
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn name_of(name: &ObjectName) -> Option<String> {
    name.0.last().and_then(|part| part.as_ident()).map(fold)
}

/// The column names that both sides have.
fn common(left: &[Column], right: &[Column]) -> Vec<String> {
    left.iter()
        .map(|column| &column.name)
        .filter(|name| right.iter().any(|other| other.name == **name))
        .filter(|name| !SYSTEM_COLUMNS.contains(&name.as_str()))
        .cloned()
        .collect()
}

/// The single column with the name `name`; an error if `columns` has no such column, or several.
fn only_column<'a>(columns: &'a [Column], name: &str, side: &str) -> Result<&'a Column> {
    let mut named = columns.iter().filter(|column| column.name == name);
    match (named.next(), named.next()) {
        (Some(column), None) => Ok(column),
        (None, _) => Err(Error::new(
            ErrorKind::UndefinedColumn,
            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
        )),
        _ => Err(ambiguous(format!(
            "common column name \"{name}\" appears more than once in {side} table"
        ))),
    }
}
