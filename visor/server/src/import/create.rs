//! The CREATE TABLE of an input.

use stratalog_model::ColumnType;

use super::quote;
use crate::sql::{error::SqlError, rows::ResultColumn};

/// Names that a time column usually has, likeliest first.
const TIME_NAMES: [&str; 8] =
    ["time", "timestamp", "ts", "datetime", "date_time", "time_hour", "date", "day"];

/// What the command line says about the table.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// Key columns.
    pub key: Vec<String>,
    /// Time column.
    pub time: Option<String>,
}

/// CREATE TABLE IF NOT EXISTS for an input of `columns`; `table` is quoted already.
///
/// # Errors
/// No column that could be the time, or a name that no column has.
pub fn create_statement(
    table: &str,
    columns: &[ResultColumn],
    shape: &Shape,
) -> Result<String, SqlError> {
    let names = || columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    let named = |name: &str, flag: &str| {
        columns.iter().find(|column| column.name == name).ok_or_else(|| SqlError {
            hint: Some(format!("its columns are: {}", names()).into()),
            ..SqlError::local(format!("the input has no column \"{name}\" (--{flag})"))
        })
    };
    let time = match &shape.time {
        Some(name) => named(name, "time")?,
        None => detect_time(columns).ok_or_else(|| SqlError {
            hint: Some(
                format!(
                    "name one with --time, or make the table with CREATE TABLE; the columns are: {}",
                    names()
                )
                .into(),
            ),
            ..SqlError::local("no column of the input holds timestamps or dates")
        })?,
    };
    let time_type = match &time.column_type {
        timestamp if timestamp.is_timestamp() => timestamp.clone(),
        ColumnType::Date => ColumnType::Timestamp { precision: 9 },
        other => {
            return Err(SqlError::local(format!(
                "column \"{}\" (--time) holds {other}, no timestamps or dates",
                time.name
            )));
        }
    };
    for key in &shape.key {
        named(key, "key")?;
    }
    let lines: Vec<String> = columns
        .iter()
        .map(|column| {
            let is_time = column.name == time.name;
            let column_type = if is_time { &time_type } else { &column.column_type };
            let required = is_time || shape.key.contains(&column.name);
            let suffix = if required { " NOT NULL" } else { "" };
            format!("  {} {column_type}{suffix}", quote(&column.name))
        })
        .collect();
    let primary: Vec<String> =
        shape.key.iter().chain([&time.name]).map(|name| quote(name)).collect();
    // Without key columns several rows may have the same time, and all are kept.
    let options = if shape.key.is_empty() { " WITH (collision = 'all')" } else { "" };
    Ok(format!(
        "CREATE TABLE IF NOT EXISTS {table} (\n{},\n  PRIMARY KEY ({})\n){options}",
        lines.join(",\n"),
        primary.join(", ")
    ))
}

/// A column of timestamps; in an input that has none, one of dates, each of which is taken
/// as its midnight.
fn detect_time(columns: &[ResultColumn]) -> Option<&ResultColumn> {
    likeliest(columns, ColumnType::is_timestamp)
        .or_else(|| likeliest(columns, |column_type| *column_type == ColumnType::Date))
}

fn likeliest(columns: &[ResultColumn], fits: fn(&ColumnType) -> bool) -> Option<&ResultColumn> {
    let fitting = || columns.iter().filter(|column| fits(&column.column_type));
    TIME_NAMES
        .iter()
        .find_map(|name| fitting().find(|column| column.name.eq_ignore_ascii_case(name)))
        .or_else(|| fitting().next())
}
