//! VALUES whose cells have different types: literals and NULL beside a cell that names its type take
//! it, as in PostgreSQL. The planner wants equal types, or makes numerics of floats.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, TimezoneInfo, UnaryOperator, Value, ValueWithSpan, Values,
};

/// Casts literals in a column of VALUES to the type that another cell of it names.
pub fn align(values: &mut Values) {
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    if values.rows.len() < 2 {
        return;
    }
    for at in 0..columns {
        let types: Vec<&DataType> = values
            .rows
            .iter()
            .filter_map(|row| row.content.get(at))
            .filter_map(named_type)
            .collect();
        let double = types.iter().find(|data_type| is_double(data_type));
        let time = types.iter().max_by_key(|data_type| time_rank(data_type));
        let time = time.filter(|data_type| time_rank(data_type) > 0);
        let Some(wanted) = double.or(time).or(types.first()).map(|data_type| (*data_type).clone())
        else {
            continue;
        };
        let rank = time_rank(&wanted);
        let floating = is_double(&wanted) || matches!(wanted, DataType::Real | DataType::Float4);
        for cell in values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            let given = named_type(cell).map_or(0, time_rank);
            if is_untyped(cell) || floating && is_number(cell) || 0 < given && given < rank {
                let inner = std::mem::replace(cell, Expr::Value(Value::Null.into()));
                *cell = Expr::Cast {
                    kind: CastKind::DoubleColon,
                    expr: Box::new(inner),
                    data_type: wanted.clone(),
                    array: false,
                    format: None,
                };
            }
        }
    }
}

/// The type that a cell names.
fn named_type(cell: &Expr) -> Option<&DataType> {
    const INTERVAL: &DataType = &DataType::Interval { fields: None, precision: None };
    match cell {
        Expr::Cast { data_type, .. } => Some(data_type),
        Expr::TypedString(typed) => Some(&typed.data_type),
        Expr::Interval(_) => Some(INTERVAL),
        Expr::Value(ValueWithSpan { value: Value::Boolean(_), .. }) => Some(&DataType::Boolean),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => named_type(inner),
        _ => None,
    }
}

/// Where a time stands in PostgreSQL's order of implicit casts; 0 for other types.
fn time_rank(data_type: &DataType) -> u8 {
    match data_type {
        DataType::Date => 1,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => 2,
        DataType::Timestamp(_, TimezoneInfo::Tz | TimezoneInfo::WithTimeZone) => 3,
        _ => 0,
    }
}

fn is_double(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::DoublePrecision | DataType::Double(_) | DataType::Float8 | DataType::Float(_)
    )
}

/// Whether a cell is a text literal or NULL. The planner wants a type with metadata, such as uuid, of
/// NULL too.
fn is_untyped(cell: &Expr) -> bool {
    match cell {
        Expr::Value(ValueWithSpan { value, .. }) => {
            matches!(value, Value::SingleQuotedString(_) | Value::Null)
        }
        Expr::Nested(inner) => is_untyped(inner),
        _ => false,
    }
}

fn is_number(cell: &Expr) -> bool {
    match cell {
        Expr::Value(ValueWithSpan { value: Value::Number(_, _), .. }) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_number(expr),
        _ => false,
    }
}
