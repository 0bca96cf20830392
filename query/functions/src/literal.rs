//! Gives an untyped literal (a constant text) the type of the other operand, as PostgreSQL does.
//!
//! In `time >= '2016-01-01 20:03:37.43 +0000'` the parser of this crate converts the literal to the
//! type of the column. The column itself needs no cast, and a scan can therefore skip stored data
//! by time.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray},
    datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, i256},
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use datafusion::{
    common::{DFSchema, Result, ScalarValue, metadata::FieldMetadata, tree_node::Transformed},
    config::ConfigOptions,
    logical_expr::{
        Between, BinaryExpr, Cast, Expr, ExprSchemable, Operator, TryCast,
        expr_rewriter::FunctionRewrite, planner::RawBinaryExpr,
    },
};
use stratalog_model::ColumnType;
use stratalog_text::{TextStyle, parse_value};

use crate::failed;
pub use crate::style::style_of;

mod lists;

pub use lists::number_rank;

/// An expression rewrite that converts each untyped literal to the type of the other operand, or to
/// the type of the cast around the literal.
#[derive(Debug)]
pub struct TypedLiterals;

/// Parses `text` as a value of `column_type`; a time without a zone is in UTC.
///
/// # Errors
/// PostgreSQL's error for text that is not a value of the type.
pub fn parse(text: &str, column_type: &ColumnType) -> Result<ScalarValue> {
    parse_styled(text, column_type, &TextStyle::default())
}

fn parse_styled(text: &str, column_type: &ColumnType, style: &TextStyle) -> Result<ScalarValue> {
    let array = parse_value(Some(text), column_type, style).map_err(failed)?;
    scalar_of(&array)
}

/// Converts an Arrow array to a scalar: a list array becomes one list value, and any other array
/// becomes the value at index 0.
///
/// [`ScalarValue::try_from_array`] would drop the metadata of a list's element field, and so turn
/// `uuid[]` into an array of bytes.
///
/// # Errors
/// DataFusion has no scalar of the type.
pub fn scalar_of(array: &ArrayRef) -> Result<ScalarValue> {
    match array.as_list_opt::<i32>() {
        Some(list) => Ok(ScalarValue::List(Arc::new(list.clone()))),
        None => ScalarValue::try_from_array(array, 0),
    }
}

/// Parses `text` to a literal expression of `column_type`. `style` has the session's settings, such
/// as the time zone.
///
/// # Errors
/// PostgreSQL's error for text that is not a value of the type.
pub fn read(text: &str, column_type: &ColumnType, style: &TextStyle) -> Result<Expr> {
    let value = parse_styled(text, column_type, style)?;
    let field = column_type.arrow_field("literal", true);
    let metadata = (!field.metadata().is_empty()).then(|| FieldMetadata::new_from_field(&field));
    Ok(Expr::Literal(value, metadata))
}

/// Parses `text` to a literal of `column_type` before the settings of the session are known. If the
/// meaning of `text` depends on these settings, the result is a cast, which [`TypedLiterals`] later
/// converts.
///
/// # Errors
/// PostgreSQL's error for text that is not a value of the type.
pub fn read_early(text: &str, column_type: &ColumnType) -> Result<Expr> {
    if !depends_on_style(column_type) {
        return read(text, column_type, &TextStyle::default());
    }
    let text = Expr::Literal(ScalarValue::Utf8(Some(text.to_string())), None);
    let field = Arc::new(column_type.arrow_field("literal", true));
    Ok(Expr::Cast(Cast::new_from_field(Box::new(text), field)))
}

/// True if the meaning of a text of this type depends on the session's settings, for example on the
/// time zone.
fn depends_on_style(column_type: &ColumnType) -> bool {
    match column_type {
        ColumnType::Date
        | ColumnType::Time
        | ColumnType::Timestamp { .. }
        | ColumnType::TimestampTz { .. }
        | ColumnType::Interval => true,
        ColumnType::Array(element) => depends_on_style(element),
        _ => false,
    }
}

/// The smallest numeric type that holds all digits of the number in `text`. `None` for an exponent,
/// for more than 38 digits, and for text without digits.
pub fn numeric_type(text: &str) -> Option<ColumnType> {
    let text = text.trim();
    let whole = text.trim_start_matches(['+', '-']).bytes().take_while(u8::is_ascii_digit).count();
    let scale = digits_after_point(text);
    let precision = u8::try_from(whole).ok()?.checked_add(scale)?;
    let fits = (1..=38).contains(&precision) && !text.contains(['e', 'E']);
    fits.then_some(ColumnType::Numeric { precision, scale })
}

/// Converts the text literal `literal_expr` to the type of `other`, the other operand of a
/// comparison. `None` if the literal remains text.
///
/// # Errors
/// PostgreSQL's error for text that is not a value of the type.
pub fn with_type_of(
    other: &Expr,
    literal_expr: &Expr,
    schema: &DFSchema,
    style: &TextStyle,
) -> Result<Option<Expr>> {
    let typed = text_of(literal_expr).zip(type_beside(other, schema));
    typed.map(|(text, column_type)| compared_literal(text, &column_type, style)).transpose()
}

/// The text of an untyped literal; `None` for any other expression.
fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(
            ScalarValue::Utf8(Some(text))
            | ScalarValue::Utf8View(Some(text))
            | ScalarValue::LargeUtf8(Some(text)),
            None,
        ) => Some(text),
        _ => None,
    }
}

/// The type of an untyped literal next to the operand `expr`. `None` if the literal remains text.
fn type_beside(expr: &Expr, schema: &DFSchema) -> Option<ColumnType> {
    let (_, field) = expr.to_field(schema).ok()?;
    if field.data_type().is_null() {
        return None;
    }
    match ColumnType::from_arrow_field(&field)? {
        ColumnType::Text => None,
        // DataFusion itself converts literals that are compared with unsigned types. Only oids and
        // counts have unsigned types.
        _ if field.data_type().is_unsigned_integer() => None,
        other => Some(other),
    }
}

/// Converts a text to a literal for a comparison with a value of `column_type`. A numeric literal
/// keeps all its digits, even if `column_type` has fewer.
fn compared_literal(text: &str, column_type: &ColumnType, style: &TextStyle) -> Result<Expr> {
    if matches!(column_type, ColumnType::Numeric { .. })
        && let Some(wide) = wide_number(text)
    {
        return Ok(Expr::Literal(wide, None));
    }
    literal(text, column_type, style)
}

/// A number with 39 to 76 digits as a 256-bit decimal. `None` for other numbers, and for text that
/// is not a number.
fn wide_number(text: &str) -> Option<ScalarValue> {
    let text = text.trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let unsigned = mantissa.strip_prefix(['+', '-']).unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let mut digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    let zeros = usize::try_from(scale.checked_neg()?.max(0)).ok()?;
    let most = usize::from(DECIMAL256_MAX_PRECISION);
    digits.push_str(&"0".repeat(zeros.min(most)));
    let digits = digits.trim_start_matches('0');
    let scale = usize::try_from(scale.max(0)).ok()?;
    let length = digits.len().max(scale);
    if zeros > most || length > most || length <= usize::from(DECIMAL128_MAX_PRECISION) {
        return None;
    }
    let units = if digits.is_empty() { i256::ZERO } else { i256::from_string(digits)? };
    let units = if mantissa.starts_with('-') { units.checked_neg()? } else { units };
    let scale = i8::try_from(scale).ok()?;
    Some(ScalarValue::Decimal256(Some(units), DECIMAL256_MAX_PRECISION, scale))
}

fn literal(text: &str, column_type: &ColumnType, style: &TextStyle) -> Result<Expr> {
    // Rounding the literal to the digits of the column would change the result of the comparison.
    let exact;
    let column_type = match column_type {
        ColumnType::Numeric { .. } => {
            exact = ColumnType::Numeric { precision: 38, scale: digits_after_point(text) };
            &exact
        }
        other => other,
    };
    let value = match finest(column_type) {
        Some(finest) => compared_time(text, column_type, &finest, style)?,
        None => parse_styled(text, column_type, style)?,
    };
    let field = column_type.arrow_field("literal", true);
    let metadata = (!field.metadata().is_empty()).then(|| FieldMetadata::new_from_field(&field));
    Ok(Expr::Literal(value, metadata))
}

/// For a timestamp type with fewer than nine digits after the point, the same type with nine digits
/// (nanoseconds). `None` for other types.
fn finest(column_type: &ColumnType) -> Option<ColumnType> {
    match column_type {
        ColumnType::Timestamp { precision: 0..9 } => Some(ColumnType::Timestamp { precision: 9 }),
        ColumnType::TimestampTz { precision: 0..9 } => {
            Some(ColumnType::TimestampTz { precision: 9 })
        }
        _ => None,
    }
}

/// Parses a time for a comparison with a column. The result has the column's unit if this unit
/// holds all digits of the text, and nanoseconds otherwise. Therefore `'00:00:00.5'` equals no time
/// of a column in seconds.
fn compared_time(
    text: &str,
    column_type: &ColumnType,
    finest: &ColumnType,
    style: &TextStyle,
) -> Result<ScalarValue> {
    let rounded = parse_styled(text, column_type, style)?;
    // A time far from 1970 is out of the range of nanoseconds in 64 bits.
    let Ok(exact) = parse_styled(text, finest, style) else { return Ok(rounded) };
    let widened = rounded.cast_to(&exact.data_type());
    Ok(if widened.is_ok_and(|widened| widened == exact) { rounded } else { exact })
}

/// The number of digits after the decimal point in `text`, limited to 38.
fn digits_after_point(text: &str) -> u8 {
    let text = text.trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse().unwrap_or(0)),
        None => (text, 0),
    };
    let fraction = mantissa.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let digits = i64::try_from(digits).unwrap_or(i64::MAX).saturating_sub(exponent);
    u8::try_from(digits.clamp(0, 38)).unwrap_or(38)
}

/// True if the operator is a comparison.
pub fn compares(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// The name of a custom operator that replaces IS DISTINCT FROM with a text literal. The
/// statement's rewrite inserts this operator, and the planner replaces it again.
pub const DISTINCT: &str = "IS DISTINCT FROM";
/// The name of the custom operator that replaces IS NOT DISTINCT FROM; see [`DISTINCT`].
pub const NOT_DISTINCT: &str = "IS NOT DISTINCT FROM";

/// The DataFusion operator for the custom operator [`DISTINCT`] or [`NOT_DISTINCT`]; `None` for any
/// other operator.
pub(crate) fn distinct_operator(op: &BinaryOperator) -> Option<Operator> {
    match op {
        BinaryOperator::Custom(name) if name == DISTINCT => Some(Operator::IsDistinctFrom),
        BinaryOperator::Custom(name) if name == NOT_DISTINCT => Some(Operator::IsNotDistinctFrom),
        _ => None,
    }
}

/// Converts a literal that must have its type before the planner checks the expression, and returns
/// the new operator and operands. The planner refuses to compare text with some types, for example
/// uuid and jsonb. Literals in arithmetic are converted, too: in `time + '1 hour'` to an interval,
/// and in `v + '1'` to a number. `None` if nothing is to be converted.
///
/// # Errors
/// PostgreSQL's error for text that is not a value of the type.
pub(crate) fn typed_early(
    binary: &RawBinaryExpr,
    schema: &DFSchema,
) -> Result<Option<(Operator, Expr, Expr)>> {
    let operator = match binary.op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        ref other => match distinct_operator(other) {
            Some(operator) => operator,
            None => return Ok(None),
        },
    };
    let (text, on_left) = match (text_of(&binary.left), text_of(&binary.right)) {
        (None, Some(text)) => (text, false),
        (Some(text), None) => (text, true),
        _ => return Ok(None),
    };
    let other = if on_left { &binary.right } else { &binary.left };
    let column_type = match (type_beside(other, schema), operator) {
        (Some(ColumnType::Timestamp { .. } | ColumnType::TimestampTz { .. }), Operator::Plus) => {
            ColumnType::Interval
        }
        (Some(ColumnType::Interval), Operator::Multiply | Operator::Divide) => ColumnType::Double,
        (Some(known), op) if op.is_numerical_operators() => match known {
            ColumnType::SmallInt
            | ColumnType::Integer
            | ColumnType::BigInt
            | ColumnType::Real
            | ColumnType::Double
            | ColumnType::Numeric { .. }
            | ColumnType::Interval => known,
            _ => return Ok(None),
        },
        (None, op) if op.is_numerical_operators() => return Ok(None),
        (
            Some(
                known @ (ColumnType::Boolean
                | ColumnType::Interval
                | ColumnType::Uuid
                | ColumnType::Bytea
                | ColumnType::Jsonb),
            ),
            _,
        ) => known,
        (
            Some(known @ ColumnType::Array(_)),
            Operator::IsDistinctFrom | Operator::IsNotDistinctFrom,
        ) => known,
        _ => return Ok(None),
    };
    let typed = match depends_on_style(&column_type) {
        true => read_early(text, &column_type)?,
        false => literal(text, &column_type, &TextStyle::default())?,
    };
    Ok(Some(if on_left {
        (operator, typed, binary.right.clone())
    } else {
        (operator, binary.left.clone(), typed)
    }))
}

/// If `beside` is an array, and `expr` is a text literal, converts the literal to an array of the
/// same type. Returns any other expression unchanged.
///
/// # Errors
/// PostgreSQL's error for text that is not an array of the type.
pub(crate) fn array_beside(expr: &Expr, beside: &Expr, schema: &DFSchema) -> Result<Expr> {
    match (text_of(expr), type_beside(beside, schema)) {
        (Some(text), Some(column_type @ ColumnType::Array(_))) => read_early(text, &column_type),
        _ => Ok(expr.clone()),
    }
}

impl FunctionRewrite for TypedLiterals {
    fn name(&self) -> &str {
        "typed_literals"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        match expr {
            Expr::BinaryExpr(binary) if compares(binary.op) => binary_expr(binary, schema, config),
            Expr::InList(list) => lists::in_list(list, schema, config),
            Expr::Between(between) => between_expr(between, schema, config),
            Expr::Cast(cast) => cast_expr(cast, config),
            Expr::TryCast(TryCast { expr, field }) => {
                let column_type = ColumnType::from_arrow_field(&field);
                let typed = text_of(&expr).zip(column_type).and_then(|(text, column_type)| {
                    literal(text, &column_type, &style_of(config)).ok()
                });
                Ok(match typed {
                    Some(typed) => Transformed::yes(typed),
                    None => Transformed::no(Expr::TryCast(TryCast { expr, field })),
                })
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn binary_expr(
    mut binary: BinaryExpr,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let typed = match (text_of(&binary.left), text_of(&binary.right)) {
        (None, Some(text)) => type_beside(&binary.left, schema)
            .map(|column_type| compared_literal(text, &column_type, &style_of(config)))
            .transpose()?
            .map(|typed| (false, typed)),
        (Some(text), None) => type_beside(&binary.right, schema)
            .map(|column_type| compared_literal(text, &column_type, &style_of(config)))
            .transpose()?
            .map(|typed| (true, typed)),
        _ => None,
    };
    Ok(match typed {
        None => Transformed::no(Expr::BinaryExpr(binary)),
        Some((left, typed)) => {
            if left {
                binary.left = Box::new(typed);
            } else {
                binary.right = Box::new(typed);
            }
            Transformed::yes(Expr::BinaryExpr(binary))
        }
    })
}

fn between_expr(
    mut between: Between,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let Some(column_type) = type_beside(&between.expr, schema) else {
        return Ok(Transformed::no(Expr::Between(between)));
    };
    let style = style_of(config);
    let mut changed = false;
    for bound in [&mut between.low, &mut between.high] {
        if let Some(typed) =
            text_of(bound).map(|text| compared_literal(text, &column_type, &style)).transpose()?
        {
            **bound = typed;
            changed = true;
        }
    }
    Ok(if changed {
        Transformed::yes(Expr::Between(between))
    } else {
        Transformed::no(Expr::Between(between))
    })
}

/// Replaces the cast of a literal by the parsed value. For a text that is known only at execution,
/// the cast remains; for uuid and jsonb, a function of this crate parses the text then.
fn cast_expr(cast: Cast, config: &ConfigOptions) -> Result<Transformed<Expr>> {
    match (text_of(&cast.expr), ColumnType::from_arrow_field(&cast.field)) {
        (Some(_), None | Some(ColumnType::Text)) | (None, _) => {
            Ok(Transformed::no(Expr::Cast(cast)))
        }
        (Some(text), Some(column_type)) => {
            let value = parse_styled(text, &column_type, &style_of(config))?;
            // The type of the cast may have details that [`ColumnType`] does not represent.
            let value = if value.data_type() == *cast.field.data_type() {
                value
            } else {
                value.cast_to(cast.field.data_type())?
            };
            let metadata = FieldMetadata::new_from_field(&cast.field);
            let metadata = (!metadata.is_empty()).then_some(metadata);
            Ok(Transformed::yes(Expr::Literal(value, metadata)))
        }
    }
}
