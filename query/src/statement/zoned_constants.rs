//! Checks for constants whose meaning depends on the session's time zone.

use std::ops::ControlFlow;

use arrow::array::Array;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Statement, Value, ValueWithSpan};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_postgres::{types, walk};
use stratalog_text::{TextStyle, parse_value};

/// Refuses a new plan of a prepared statement after a change of the session's time zone, if a
/// constant of the statement may be a time with different meanings in the two zones. PostgreSQL
/// reads constants only once, when it prepares the statement; a new plan in Stratalog would read
/// the constants again.
///
/// # Errors
/// `FeatureNotSupported`.
pub fn check(statement: &Statement, before: &TextStyle, now: &TextStyle) -> Result<()> {
    let mut differs = false;
    let _ = walk::expressions(statement, |expr| {
        let text = match expr {
            Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text,
            Expr::TypedString(typed) => match &typed.value.value {
                Value::SingleQuotedString(text) if is_zoned(&typed.data_type) => text,
                _ => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        differs |= depends(text, before, now);
        if differs { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if !differs {
        return Ok(());
    }
    let message = "the statement was prepared in another time zone, and its constants depend on the time zone";
    Err(Error::new(ErrorKind::FeatureNotSupported, message)
        .with_hint("prepare the statement again, or write times with a zone"))
}

fn is_zoned(data_type: &DataType) -> bool {
    matches!(types::column_type(data_type), Ok(ColumnType::TimestampTz { .. }))
}

/// True if a text is a time that denotes different instants in the two zones.
fn depends(text: &str, before: &TextStyle, now: &TextStyle) -> bool {
    if text.eq_ignore_ascii_case("now") {
        return false;
    }
    let read = |style: &TextStyle| {
        let time = parse_value(Some(text), &ColumnType::TimestampTz { precision: 6 }, style);
        time.ok().map(|time| time.to_data())
    };
    match (read(before), read(now)) {
        (Some(before), Some(now)) => before != now,
        _ => false,
    }
}
