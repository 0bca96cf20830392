//! Converts text literals in the list of IN.

use datafusion::{
    common::{DFSchema, Result, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{Expr, expr::InList},
};
use stratalog_model::ColumnType;

use super::{compared_literal, style_of, text_of, type_beside};

/// Converts the text literals in the list of IN to values of the list's type.
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
            *item = compared_literal(text, &column_type, &style)?;
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(Expr::InList(list), changed))
}

/// The type of the text literals in the list of IN, where `value` is the type of the left operand.
/// Like in PostgreSQL, the result is the widest type of the left operand and of the typed list
/// items without column references.
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

/// The kind of a type (number or time), and the position of the type in PostgreSQL's order of
/// implicit casts within this kind. `None` for other types.
fn position(column_type: &ColumnType) -> Option<(&'static str, u8)> {
    let of_time = match column_type {
        ColumnType::Date => Some(0),
        ColumnType::Timestamp { .. } => Some(1),
        ColumnType::TimestampTz { .. } => Some(2),
        _ => None,
    };
    let of_number = number_rank(column_type).map(|rank| ("number", rank));
    of_number.or(of_time.map(|rank| ("time", rank)))
}

/// The position of a number type in PostgreSQL's order of implicit casts, from 0 for smallint to 5
/// for double precision; `None` for other types.
pub fn number_rank(column_type: &ColumnType) -> Option<u8> {
    Some(match column_type {
        ColumnType::SmallInt => 0,
        ColumnType::Integer => 1,
        ColumnType::BigInt => 2,
        ColumnType::Numeric { .. } => 3,
        ColumnType::Real => 4,
        ColumnType::Double => 5,
        _ => return None,
    })
}
