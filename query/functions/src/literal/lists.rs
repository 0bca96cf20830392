//! Text literals in the list of IN.

use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{Expr, expr::InList},
};
use stratalog_model::ColumnType;

use super::{compared_literal, style_of, text_of, type_beside};

pub(super) fn in_list(
    mut list: InList,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let Some(column_type) = type_beside(&list.expr, schema) else {
        return Ok(Transformed::no(Expr::InList(list)));
    };
    let column_type = type_of_list(column_type, &list.list, schema);
    let style = style_of(config);
    let mut changed = false;
    for item in &mut list.list {
        if let Some(text) = text_of(item) {
            let typed = compared_literal(text, &column_type, &style)?;
            *item = typed;
            changed = true;
        }
    }
    Ok(if changed {
        Transformed::yes(Expr::InList(list))
    } else {
        Transformed::no(Expr::InList(list))
    })
}

/// The type of the texts in a list beside a value of the type `value`: like in PostgreSQL, the
/// widest type of the value and of the items that read no column.
fn type_of_list(value: ColumnType, items: &[Expr], schema: &DFSchema) -> ColumnType {
    items
        .iter()
        .filter(|item| text_of(item).is_none() && !item.any_column_refs())
        .filter_map(|item| type_beside(item, schema))
        .fold(value, |widest, other| match (position(&widest), position(&other)) {
            (Some((kind, before)), Some((of, next))) if kind == of && before < next => other,
            _ => widest,
        })
}

/// The kind of a type, and the position of the type in PostgreSQL's order of implicit casts.
fn position(column_type: &ColumnType) -> Option<(&'static str, u8)> {
    Some(match column_type {
        ColumnType::SmallInt => ("number", 0),
        ColumnType::Integer => ("number", 1),
        ColumnType::BigInt => ("number", 2),
        ColumnType::Numeric { .. } => ("number", 3),
        ColumnType::Real => ("number", 4),
        ColumnType::Double => ("number", 5),
        ColumnType::Date => ("time", 0),
        ColumnType::Timestamp { .. } => ("time", 1),
        ColumnType::TimestampTz { .. } => ("time", 2),
        _ => return None,
    })
}
