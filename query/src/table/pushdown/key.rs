//! Conversion of equality and IN conditions on key columns to sets of keys.

use arrow::datatypes::DataType;
use datafusion::{
    logical_expr::{BinaryExpr, Expr, Operator, expr::InList},
    scalar::ScalarValue,
};
use stratalog_model::{ChronicleDefinition, tier::KeyFilter};

use super::{Conjunct, array_of};

/// Converts `filter` exactly to a set of key values; `None` without an exact conversion. Valid only
/// for a conjunct, because the filter may be NULL instead of false for other keys.
pub fn filter(definition: &ChronicleDefinition, filter: &Expr) -> Option<Conjunct> {
    let (column, values) = values(definition, filter)?;
    let data_type = definition.columns.get(column)?.column_type.arrow_type();
    let mut admitted = Vec::with_capacity(values.len());
    for value in values {
        match convert(&value, &data_type)? {
            ConvertedValue::Value(value) => admitted.push(value),
            ConvertedValue::Never => {}
        }
    }
    if admitted.is_empty() {
        return Some(Conjunct::Nothing);
    }
    Some(Conjunct::Keys(KeyFilter { column, values: array_of(admitted)? }))
}

/// The key column of the filter, and the values that the filter allows.
fn values(definition: &ChronicleDefinition, filter: &Expr) -> Option<(usize, Vec<ScalarValue>)> {
    match filter {
        Expr::Alias(alias) => values(definition, &alias.expr),
        Expr::Column(_) => {
            let column = key_column(definition, filter)?;
            Some((column, vec![ScalarValue::Boolean(Some(true))]))
        }
        Expr::Not(inner) if matches!(inner.as_ref(), Expr::Column(_)) => {
            let column = key_column(definition, inner)?;
            Some((column, vec![ScalarValue::Boolean(Some(false))]))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            match (key_column(definition, left), right.as_ref()) {
                (Some(column), Expr::Literal(value, _)) => Some((column, vec![value.clone()])),
                _ => match (left.as_ref(), key_column(definition, right)) {
                    (Expr::Literal(value, _), Some(column)) => Some((column, vec![value.clone()])),
                    _ => None,
                },
            }
        }
        // The planner may rewrite `key IN (…, NULL)` to `key = … OR NULL`. The added operand is
        // never true.
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) if is_never(right) => {
            values(definition, left)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) if is_never(left) => {
            values(definition, right)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let (column, mut admitted) = values(definition, left)?;
            let (other, more) = values(definition, right)?;
            admitted.extend(more);
            (column == other).then_some((column, admitted))
        }
        Expr::InList(InList { expr, list, negated: false }) => {
            let column = key_column(definition, expr)?;
            let literals: Option<Vec<ScalarValue>> = list
                .iter()
                .map(|value| match value {
                    Expr::Literal(value, _) => Some(value.clone()),
                    _ => None,
                })
                .collect();
            Some((column, literals?))
        }
        _ => None,
    }
}

/// True if the condition is constant and not true.
fn is_never(condition: &Expr) -> bool {
    matches!(
        condition,
        Expr::Literal(ScalarValue::Boolean(None | Some(false)) | ScalarValue::Null, _)
    )
}

/// The position of the key column that `expr` represents: the column itself, or a widening cast
/// that preserves equality.
fn key_column(definition: &ChronicleDefinition, expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Alias(alias) => key_column(definition, &alias.expr),
        Expr::Column(column) => definition
            .key_columns
            .iter()
            .filter_map(|id| definition.position(*id))
            .find(|at| definition.columns.get(*at).is_some_and(|key| key.name == column.name)),
        Expr::Cast(cast) => {
            let column = key_column(definition, &cast.expr)?;
            let from = definition.columns.get(column)?.column_type.arrow_type();
            widens(&from, cast.field.data_type()).then_some(column)
        }
        _ => None,
    }
}

fn widens(from: &DataType, to: &DataType) -> bool {
    match (integer_bits(from), integer_bits(to)) {
        (Some(from), Some(to)) => from <= to,
        _ => is_text(from) && is_text(to),
    }
}

fn integer_bits(data_type: &DataType) -> Option<u8> {
    match data_type {
        DataType::Int8 => Some(8),
        DataType::Int16 => Some(16),
        DataType::Int32 => Some(32),
        DataType::Int64 => Some(64),
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

enum ConvertedValue {
    /// The value in the column's type.
    Value(ScalarValue),
    /// The value equals no value of the column.
    Never,
}

/// Converts `value` to the column's type; `None` if equality in the other type might have another
/// meaning.
fn convert(value: &ScalarValue, to: &DataType) -> Option<ConvertedValue> {
    if value.is_null() {
        return Some(ConvertedValue::Never);
    }
    if let Some(text) = value.try_as_str().flatten() {
        return is_text(to)
            .then(|| ConvertedValue::Value(ScalarValue::Utf8View(Some(text.to_string()))));
    }
    let whole = match value {
        ScalarValue::Int8(Some(value)) => i64::from(*value),
        ScalarValue::Int16(Some(value)) => i64::from(*value),
        ScalarValue::Int32(Some(value)) => i64::from(*value),
        ScalarValue::Int64(Some(value)) => *value,
        other if other.data_type() == *to => return Some(ConvertedValue::Value(other.clone())),
        _ => return None,
    };
    Some(match to {
        DataType::Int16 => i16::try_from(whole).map_or(ConvertedValue::Never, |value| {
            ConvertedValue::Value(ScalarValue::Int16(Some(value)))
        }),
        DataType::Int32 => i32::try_from(whole).map_or(ConvertedValue::Never, |value| {
            ConvertedValue::Value(ScalarValue::Int32(Some(value)))
        }),
        DataType::Int64 => ConvertedValue::Value(ScalarValue::Int64(Some(whole))),
        _ => return None,
    })
}
