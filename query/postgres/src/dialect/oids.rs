//! Constants of type oid. An oid of PostgreSQL has 32 bits; a negative number means the unsigned
//! number with the same bits. The planner's oid is a bigint.

use datafusion::sql::sqlparser::ast::{DataType, Expr, UnaryOperator, Value, ValueWithSpan};
use stratalog_model::{Error, ErrorKind, Result};

/// In `constant::oid`, replaces a negative constant by the unsigned number with the same 32 bits.
/// Other expressions stay unchanged.
///
/// # Errors
/// `NumericOutOfRange` for a constant that has more than 32 bits.
pub fn respell(expr: &mut Expr) -> Result<()> {
    let Expr::Cast { expr: inner, data_type: DataType::Custom(name, _), .. } = expr else {
        return Ok(());
    };
    let is_oid = name.0.last().and_then(|part| part.as_ident());
    if !is_oid.is_some_and(|name| name.value.eq_ignore_ascii_case("oid")) {
        return Ok(());
    }
    let Some((number, is_text)) = constant(inner) else { return Ok(()) };
    let oid = match (u32::try_from(number), i32::try_from(number)) {
        (Ok(oid), _) => oid,
        (Err(_), Ok(signed)) => signed.cast_unsigned(),
        (Err(_), Err(_)) => {
            let message = match is_text {
                true => format!("value \"{number}\" is out of range for type oid"),
                false => "OID out of range".to_string(),
            };
            return Err(Error::new(ErrorKind::NumericOutOfRange, message));
        }
    };
    if number < 0 {
        **inner = Expr::value(Value::Number(oid.to_string(), false));
    }
    Ok(())
}

/// The value of a constant; the flag is true for a quoted constant. `None` for other expressions.
fn constant(expr: &Expr) -> Option<(i64, bool)> {
    match expr {
        Expr::Nested(inner) => constant(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let (number, is_text) = constant(expr)?;
            (!is_text).then_some((number.checked_neg()?, false))
        }
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            Some((digits.parse().ok()?, false))
        }
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => {
            Some((text.trim().parse().ok()?, true))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn oids_have_thirty_two_bits() {
        for (sql, wanted) in [
            ("4294967295::oid", "4294967295::oid"),
            ("(-1)::oid", "4294967295::oid"),
            ("'-1'::oid", "4294967295::oid"),
            ("a::oid", "a::oid"),
        ] {
            let mut expr = parse::expression(sql).unwrap();
            respell(&mut expr).unwrap();
            assert_eq!(expr.to_string(), wanted);
        }
        for sql in ["4294967296::oid", "'4294967296'::oid", "(-2147483649)::oid"] {
            let mut expr = parse::expression(sql).unwrap();
            assert_eq!(respell(&mut expr).unwrap_err().kind(), ErrorKind::NumericOutOfRange);
        }
    }
}
