//! Constants whose meaning depends on the session's time zone.

use std::ops::ControlFlow;

use arrow::array::Array;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Statement, Value, ValueWithSpan};
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::{TextStyle, parse_value};

use super::walk;

/// Refuses a statement that was prepared in another zone, if a constant of the statement may be a
/// time that the two zones read otherwise. PostgreSQL reads constants once, when a statement is
/// prepared; here they are read again when the statement is planned anew.
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
    let message = "the statement was prepared in another time zone, which its constants depend on";
    Err(Error::new(ErrorKind::FeatureNotSupported, message)
        .with_hint("prepare the statement again, or write times with their zone"))
}

fn is_zoned(data_type: &DataType) -> bool {
    matches!(crate::types::column_type(data_type), Ok(ColumnType::TimestampTz { .. }))
}

/// Whether a text is a time, and different times in the two zones.
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
