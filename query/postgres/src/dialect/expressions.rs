//! Rewrites expressions to which the planner gives another meaning than PostgreSQL.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, CharacterLength, DataType, Expr, Subscript,
    UnaryOperator, Value, ValueWithSpan,
};

use stratalog_functions::with_backslashes;

use crate::names::fold;
use crate::parse::call;

/// Maximum number of decimal digits of a numeric constant; a longer constant becomes a float.
const DIGITS_MAX: usize = 76;

/// Rewrites one expression.
pub fn respell(expr: &mut Expr) {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, .. } => {
            fold_signs(expr);
            keep_smallest(expr);
            number(expr);
        }
        Expr::Value(ValueWithSpan { value: Value::Number(_, _), .. }) => number(expr),
        Expr::IsNull(inner) | Expr::IsNotNull(inner) if matches!(**inner, Expr::Tuple(_)) => {
            null_row(expr);
        }
        Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
            escape(pattern, escape_char);
        }
        Expr::Cast { .. } => {
            type_empty_array(expr);
            cut_to_length(expr);
            read_byte(expr);
        }
        Expr::CompoundFieldAccess { root, access_chain } => {
            let of_value = matches!(root.as_ref(), Expr::Nested(_));
            empty_of_dimensions(access_chain);
            for access in access_chain {
                match access {
                    AccessExpr::Subscript(Subscript::Index { .. }) => {}
                    // The planner expects the field name as a string constant.
                    AccessExpr::Dot(part) => {
                        if let (true, Expr::Identifier(name)) = (of_value, &*part) {
                            let name = Value::SingleQuotedString(fold(name));
                            *part = Expr::Value(name.into());
                        }
                    }
                    // A missing lower bound means the first element, and a missing upper bound the
                    // last element.
                    AccessExpr::Subscript(Subscript::Slice {
                        lower_bound, upper_bound, ..
                    }) => {
                        let number =
                            |text: &str| Expr::Value(Value::Number(text.to_string(), false).into());
                        lower_bound.get_or_insert_with(|| number("1"));
                        upper_bound.get_or_insert_with(|| number("2147483647"));
                    }
                }
            }
        }
        _ => {}
    }
}

/// Replaces several subscripts that include a slice by one empty slice: `a[1:2][1:2]` is empty,
/// because arrays have one dimension.
fn empty_of_dimensions(access_chain: &mut Vec<AccessExpr>) {
    let is_slice =
        |access: &AccessExpr| matches!(access, AccessExpr::Subscript(Subscript::Slice { .. }));
    let are_subscripts =
        access_chain.iter().all(|access| matches!(access, AccessExpr::Subscript(_)));
    if access_chain.len() < 2 || !are_subscripts || !access_chain.iter().any(is_slice) {
        return;
    }
    let number = |text: &str| Some(Expr::Value(Value::Number(text.to_string(), false).into()));
    let nothing =
        Subscript::Slice { lower_bound: number("1"), upper_bound: number("0"), stride: None };
    *access_chain = vec![AccessExpr::Subscript(nothing)];
}

/// Rewrites `ARRAY[]::int[]` to `'{}'::int[]`, because only the cast shows the type of the empty
/// array.
fn type_empty_array(expr: &mut Expr) {
    if let Expr::Cast { expr: inner, .. } = expr
        && let Expr::Array(array) = inner.as_ref()
        && array.elem.is_empty()
    {
        **inner = Expr::Value(Value::SingleQuotedString("{}".to_string()).into());
    }
}

/// Shortens the operand of a cast to `varchar(n)` to n characters, and of a cast to `char` to one
/// character. A cast to `char(n)` would also append blanks; the rewrite leaves it unchanged.
fn cut_to_length(expr: &mut Expr) {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr: inner, data_type, .. } =
        expr
    else {
        return;
    };
    let length = match data_type {
        DataType::Varchar(Some(CharacterLength::IntegerLength { length, .. }))
        | DataType::CharacterVarying(Some(CharacterLength::IntegerLength { length, .. }))
        | DataType::CharVarying(Some(CharacterLength::IntegerLength { length, .. })) => *length,
        DataType::Char(None)
        | DataType::Character(None)
        | DataType::Char(Some(CharacterLength::IntegerLength { length: 1, .. }))
        | DataType::Character(Some(CharacterLength::IntegerLength { length: 1, .. })) => 1,
        _ => return,
    };
    *data_type = DataType::Text;
    let length = Expr::Value(Value::Number(length.to_string(), false).into());
    let whole = Expr::Cast {
        kind: CastKind::DoubleColon,
        expr: Box::new(take(inner)),
        data_type: DataType::Text,
        array: false,
        format: None,
    };
    if let Some(cut) = call("left", vec![whole, length]) {
        **inner = cut;
    }
}

/// Reduces the constant of a cast to `"char"` to one byte: its first byte, or the byte of an octal
/// escape `\ooo`. The rewrite writes a byte outside of ASCII as `\ooo`.
fn read_byte(expr: &mut Expr) {
    let Expr::Cast { expr: inner, data_type: DataType::Custom(name, _), .. } = expr else {
        return;
    };
    let is_byte = name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .is_some_and(|last| last.quote_style.is_some() && last.value == "char");
    if let (true, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. })) =
        (is_byte, inner.as_mut())
    {
        let octal = text.strip_prefix('\\').filter(|digits| digits.len() == 3);
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        *text = match octal.or(text.bytes().next()) {
            None | Some(0) => String::new(),
            Some(byte) if byte.is_ascii() => char::from(byte).to_string(),
            Some(byte) => format!("\\{byte:o}"),
        };
    }
}

fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

/// Moves the signs before a number, also through parentheses, into the constant: `-(-2147483648)`
/// is the constant 2147483648, and not a negated integer.
fn fold_signs(expr: &mut Expr) {
    let (mut signs, mut inner) = (0_u32, &*expr);
    let value = loop {
        match inner {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                signs = signs.wrapping_add(1);
                inner = expr;
            }
            Expr::Nested(expr) => inner = expr,
            Expr::Value(value @ ValueWithSpan { value: Value::Number(_, _), .. }) => break value,
            _ => return,
        }
    };
    let value = Expr::Value(value.clone());
    *expr = match signs % 2 {
        0 => value,
        _ => Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(value) },
    };
}

/// Makes the smallest bigint, -9223372036854775808, a bigint, although the number without the sign
/// is out of range.
fn keep_smallest(expr: &mut Expr) {
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner } = expr
        && let Expr::Value(ValueWithSpan { value: Value::Number(text, settled), .. }) =
            inner.as_mut()
    {
        *settled |= format!("-{text}").parse::<i64>().is_ok();
    }
}

/// Makes a constant outside of the range of numeric a float, and a whole number outside of the
/// range of bigint a numeric.
fn number(expr: &mut Expr) {
    let Expr::Value(ValueWithSpan { value: Value::Number(text, settled), .. }) = expr else {
        return;
    };
    if *settled {
        return;
    }
    if text
        .bytes()
        .any(|byte| !byte.is_ascii_digit() && !matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+'))
    {
        return;
    }
    let digits = text.trim_start_matches('0').bytes().filter(u8::is_ascii_digit).count();
    if text.contains(['e', 'E']) || digits > DIGITS_MAX {
        let value = Expr::Value(Value::SingleQuotedString(std::mem::take(text)).into());
        *expr = Expr::Cast {
            kind: CastKind::DoubleColon,
            expr: Box::new(value),
            data_type: DataType::DoublePrecision,
            array: false,
            format: None,
        };
    } else if !text.contains('.') && text.parse::<i64>().is_err() {
        text.push('.');
    }
}

/// Rewrites IS NULL and IS NOT NULL of a row: a row is null if all values are null, and not null if
/// no value is null.
fn null_row(expr: &mut Expr) {
    let (inner, is_null) = match expr {
        Expr::IsNull(inner) => (inner, true),
        Expr::IsNotNull(inner) => (inner, false),
        _ => return,
    };
    let Expr::Tuple(values) = inner.as_mut() else { return };
    let all = std::mem::take(values)
        .into_iter()
        .map(|value| {
            let value = Box::new(Expr::Nested(Box::new(value)));
            if is_null { Expr::IsNull(value) } else { Expr::IsNotNull(value) }
        })
        .reduce(|before, value| Expr::BinaryOp {
            left: Box::new(before),
            op: BinaryOperator::And,
            right: Box::new(value),
        });
    if let Some(all) = all {
        *expr = Expr::Nested(Box::new(all));
    }
}

/// Rewrites a pattern for the usual escape character: `LIKE 'a#%' ESCAPE '#'` becomes `LIKE 'a\%'`.
fn escape(pattern: &mut Expr, escape_char: &mut Option<ValueWithSpan>) {
    let Some(ValueWithSpan { value: Value::SingleQuotedString(escape), .. }) = &*escape_char else {
        return;
    };
    let mut characters = escape.chars();
    let (first, more) = (characters.next(), characters.next());
    if more.is_some() || first == Some('\\') {
        return;
    }
    if let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = pattern {
        *text = with_backslashes(text, first);
    } else {
        let escape = Expr::Value(Value::SingleQuotedString(escape.clone()).into());
        let Some(read) = call("like_escape", vec![pattern.clone(), escape]) else { return };
        *pattern = read;
    }
    *escape_char = None;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn expressions_are_read_as_in_postgresql() {
        for (sql, wanted) in [
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775808."),
            ("1e300", "'1e300'::DOUBLE PRECISION"),
            ("(a, b) IS NULL", "((a) IS NULL AND (b) IS NULL)"),
            ("(a, b) IS NOT NULL", "((a) IS NOT NULL AND (b) IS NOT NULL)"),
            ("a LIKE 'x#_%' ESCAPE '#'", r"a LIKE 'x\_%'"),
            (r"a LIKE 'x\_%' ESCAPE ''", r"a LIKE 'x\\_%'"),
            ("a LIKE b || '%' ESCAPE '/'", "a LIKE like_escape(b || '%', '/')"),
            ("a[-1]", "a[-1]"),
            ("a[2]", "a[2]"),
            ("a[i]", "a[i]"),
        ] {
            let mut expr = parse::expression(sql).unwrap();
            respell(&mut expr);
            assert_eq!(expr.to_string(), wanted);
        }
    }
}
