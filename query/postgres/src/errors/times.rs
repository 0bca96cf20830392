//! Formats times in error messages.

use arrow::{array::Int64Array, compute::cast};
use stratalog_model::ColumnType;
use stratalog_text::{TextStyle, write_value};

/// Formats a time, in nanoseconds since 1970, as a timestamptz in the session's style.
pub fn shown_time(ns: i64, style: &TextStyle) -> String {
    let field = ColumnType::TimestampTz { precision: 6 }.arrow_field("time", false);
    let microseconds = Int64Array::from(vec![ns.div_euclid(1_000)]);
    let shown = cast(&microseconds, field.data_type()).ok();
    let shown = shown.and_then(|time| write_value(&time, 0, &field, style).ok().flatten());
    shown.unwrap_or_else(|| format!("{ns} ns after 1970"))
}
