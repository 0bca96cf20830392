//! The number of decimal places of rounded numerics, like in PostgreSQL: `round(n, 2)` has two,
//! `ceil(n)` has none. DataFusion keeps the scale of the argument.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::{
    common::{DFSchema, Result, ScalarValue, config::ConfigOptions, tree_node::Transformed},
    logical_expr::{Cast, Expr, ExprSchemable, cast, expr_rewriter::FunctionRewrite},
};

use super::floats;

/// The field name of the cast that gives a number one more digit. The name identifies the cast,
/// because a number with 38 digits has the same type before and after the cast.
const ROOM: &str = "room";

/// Rewrite: casts the result of a rounding function to its number of decimal places.
#[derive(Debug)]
pub struct RoundedDigits;

impl FunctionRewrite for RoundedDigits {
    fn name(&self) -> &str {
        "rounded_digits"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
        let digits = match (call.name(), call.args.as_slice()) {
            ("round" | "trunc" | "ceil" | "floor", [_]) => Some(0),
            ("round" | "trunc", [_, digits]) => constant(digits),
            _ => return Ok(Transformed::no(expr)),
        };
        if call.args.first().is_some_and(is_roomy) {
            return Ok(Transformed::no(expr));
        }
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        if let Some(number) = call.args.first_mut() {
            // A quotient has all its digits only after `settled`.
            *number = floats::settled(std::mem::take(number), schema)?;
        }
        let Some(Ok(DataType::Decimal128(precision, scale))) =
            call.args.first().map(|number| number.get_type(schema))
        else {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        };
        // The function keeps the type of its argument, but a rounded value may need one more digit:
        // 99.5 becomes 100.
        let more = u8::from(digits.is_some());
        let roomy = precision.saturating_add(more).min(38);
        if let Some(number) = call.args.first_mut() {
            let field = Field::new(ROOM, DataType::Decimal128(roomy, scale), true);
            let number_given = Box::new(std::mem::take(number));
            *number = Expr::Cast(Cast::new_from_field(number_given, Arc::new(field)));
        }
        let call = Expr::ScalarFunction(call);
        let wanted = match digits {
            Some(digits) => with_digits(precision, scale, digits),
            // If the optimizer later finds a constant number of digits, the type of the call would
            // change; the cast keeps the type.
            None => Some(call.get_type(schema)?),
        };
        Ok(Transformed::yes(match wanted {
            Some(wanted) => cast(call, wanted),
            None => call,
        }))
    }
}

/// Whether a number already has the cast for one more digit, because functions are rewritten
/// repeatedly.
fn is_roomy(number: &Expr) -> bool {
    matches!(number, Expr::Cast(Cast { field, .. }) if field.name() == ROOM)
}

/// A constant number of decimal places; `None` for other expressions. A negative number counts as
/// 0.
fn constant(expr: &Expr) -> Option<i8> {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(digits)), _) => i8::try_from((*digits).max(0)).ok(),
        Expr::Literal(ScalarValue::Int32(Some(digits)), _) => i8::try_from((*digits).max(0)).ok(),
        Expr::Literal(ScalarValue::Int16(Some(digits)), _) => i8::try_from((*digits).max(0)).ok(),
        Expr::Negative(inner) => constant(inner).map(|_| 0),
        Expr::Cast(Cast { expr, .. }) => constant(expr),
        _ => None,
    }
}

/// The numeric type with `digits` decimal places; `None` if the type already has this number of
/// decimal places, or if 38 digits are too few.
fn with_digits(precision: u8, scale: i8, digits: i8) -> Option<DataType> {
    if digits == scale {
        return None;
    }
    // Rounding may carry into one more digit in front of the decimal point.
    let whole = i16::from(precision) - i16::from(scale) + i16::from(digits < scale);
    let precision = u8::try_from((whole + i16::from(digits)).max(1)).ok()?;
    match (precision <= 38, digits < scale) {
        (true, _) => Some(DataType::Decimal128(precision, digits)),
        // A type with fewer decimal places than before always has room.
        (false, true) => Some(DataType::Decimal128(38, digits)),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_find_room() {
        assert_eq!(with_digits(10, 2, 1), Some(DataType::Decimal128(10, 1)));
        assert_eq!(with_digits(10, 2, 0), Some(DataType::Decimal128(9, 0)));
        assert_eq!(with_digits(10, 2, 4), Some(DataType::Decimal128(12, 4)));
        assert_eq!(with_digits(2, 2, 0), Some(DataType::Decimal128(1, 0)));
        assert_eq!(with_digits(38, 0, 4), None);
        assert_eq!(with_digits(38, 1, 0), Some(DataType::Decimal128(38, 0)));
        assert_eq!(with_digits(10, 2, 2), None);
    }
}
