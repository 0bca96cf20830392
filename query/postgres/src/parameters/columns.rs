//! The types and names of parameters in the columns of VALUES and of set operations.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    DataType as SqlType, Expr, Ident, Query, Select, SelectItem, SetExpr, UnaryOperator, Value,
    ValueWithSpan, Values,
};
use stratalog_model::ColumnType;

use super::{cast, number};
use crate::walk::{self, Change, Look};

/// Casts the parameters and constants of a VALUES column to integer if the column contains only
/// integers: `VALUES ($1), (2)`. The planner would give the constants the type bigint.
pub fn cast_in_values(query: &mut Query, declared_types: &[Option<ColumnType>]) {
    let _ = walk::change(query, &mut IntegerColumns { declared_types });
}

struct IntegerColumns<'a> {
    declared_types: &'a [Option<ColumnType>],
}

impl Change for IntegerColumns<'_> {
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Values(values) = query.body.as_mut() {
            self.of_values(values);
        }
        ControlFlow::Continue(())
    }
}

impl IntegerColumns<'_> {
    fn of_values(&self, values: &mut Values) {
        let columns = values.rows.first().map_or(0, |row| row.content.len());
        for at in 0..columns {
            let cells = || values.rows.iter().filter_map(|row| row.content.get(at));
            let has_parameter = cells().any(|cell| parameter(cell).is_some());
            let has_constant = cells().any(is_integer);
            if !has_parameter || !has_constant || !cells().all(|cell| self.fits(cell)) {
                continue;
            }
            for cell in values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
                if !matches!(cell, Expr::Cast { .. }) {
                    cast(cell, SqlType::Integer(None));
                }
            }
        }
    }

    /// True for a constant of type integer, and for a parameter that may be an integer.
    fn fits(&self, cell: &Expr) -> bool {
        match cell {
            Expr::Cast { data_type, .. } => matches!(
                data_type,
                SqlType::Int(None) | SqlType::Integer(None) | SqlType::Int4(None)
            ),
            cell => match parameter(cell) {
                Some(at) => matches!(
                    self.declared_types.get(at.saturating_sub(1)),
                    None | Some(None | Some(ColumnType::Integer))
                ),
                None => is_integer(cell),
            },
        }
    }
}

/// The number of a parameter in a cell, also inside of a cast.
fn parameter(cell: &Expr) -> Option<usize> {
    match cell {
        Expr::Value(ValueWithSpan { value: Value::Placeholder(name), .. }) => number(name),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => parameter(expr),
        _ => None,
    }
}

/// True for a constant of type integer.
fn is_integer(cell: &Expr) -> bool {
    match cell {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            digits.parse::<i32>().is_ok()
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } | Expr::Nested(expr) => is_integer(expr),
        _ => false,
    }
}

/// Gives a parameter in the select list the column name `?column?`. Otherwise the cast that is
/// added later would name the column after its type.
pub fn name_items(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && is_bare(expr)
        {
            let expr = expr.clone();
            *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', "?column?") };
        }
    }
}

/// True for a parameter without a cast.
fn is_bare(expr: &Expr) -> bool {
    !matches!(expr, Expr::Cast { .. }) && parameter(expr).is_some()
}

/// True if a query has a set operation inside of a set operation, and a parameter as a column. The
/// planner does not determine column types for the inner operation.
pub fn is_in_nested_sets(query: &Query) -> bool {
    walk::look(query, &mut NestedSets).is_break()
}

struct NestedSets;

impl Look for NestedSets {
    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        match query.body.as_ref() {
            SetExpr::SetOperation { left, right, .. }
                if (is_set(left) || is_set(right)) && has_parameter(&query.body) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn is_set(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { .. } => true,
        SetExpr::Query(query) => is_set(&query.body),
        _ => false,
    }
}

fn has_parameter(body: &SetExpr) -> bool {
    match body {
        SetExpr::SetOperation { left, right, .. } => has_parameter(left) || has_parameter(right),
        SetExpr::Query(query) => has_parameter(&query.body),
        SetExpr::Select(select) => select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => is_bare(expr),
            _ => false,
        }),
        _ => false,
    }
}
