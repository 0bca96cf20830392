//! Conditions for the equality of keys.

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, Result, metadata::FieldMetadata},
    logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast, when},
    scalar::ScalarValue,
};

/// Conditions that each pair is equal, with NULL equal to NULL. DataFusion's join setting for equal
/// NULLs is not usable: the optimizer drops the setting, or applies it to other conditions.
pub fn key_equalities(
    pairs: impl Iterator<Item = (Expr, Expr)>,
    schema: &DFSchema,
) -> Result<Vec<Expr>> {
    let mut conditions = Vec::new();
    for (mut left, mut right) in pairs {
        let (_, field) = right.to_field(schema)?;
        let is_interval = matches!(field.data_type(), DataType::Interval(_));
        let mut data_type = field.data_type().clone();
        // Some types have distinct values that compare as equal. For keys, such values are compared
        // by their text.
        let as_text = is_interval || !field.metadata().is_empty() && data_type.is_string();
        if as_text {
            data_type = DataType::Utf8View;
            left = cast(left, data_type.clone());
            right = cast(right, data_type.clone());
        }
        if !field.is_nullable() {
            conditions.push(left.eq(right));
            continue;
        }
        match ScalarValue::new_default(&data_type) {
            Ok(default) => {
                conditions.push(left.clone().is_null().eq(right.clone().is_null()));
                let metadata = (!as_text).then(|| FieldMetadata::new_from_field(&field));
                let default = Expr::Literal(default, metadata);
                let known =
                    |expr: Expr| when(expr.clone().is_null(), default.clone()).otherwise(expr);
                conditions.push(known(left)?.eq(known(right)?));
            }
            Err(_) => conditions.push(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(left),
                Operator::IsNotDistinctFrom,
                Box::new(right),
            ))),
        }
    }
    Ok(conditions)
}
