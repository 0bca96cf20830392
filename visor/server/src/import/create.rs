//! Makes the CREATE TABLE statement for an input.

use stratalog_model::ColumnType;

use super::{TableNote, quote};
use crate::sql::{error::SqlError, rows::ResultColumn};

/// Usual names of a time column, the most likely first.
const TIME_NAMES: [&str; 8] =
    ["time", "timestamp", "ts", "datetime", "date_time", "time_hour", "date", "day"];

/// The properties of the new table that the command line sets.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// The names of the key columns.
    pub key: Vec<String>,
    /// The name of the time column.
    pub time: Option<String>,
    /// The names and values of the options in WITH.
    pub options: Vec<(String, String)>,
}

impl Shape {
    /// Adds the properties in the note of an exported Parquet file, if the file still has the time
    /// column and the key columns of the note. Flags of the command line take precedence.
    pub fn with_note(mut self, note: Option<TableNote>, columns: &[ResultColumn]) -> Self {
        let has = |name: &String| columns.iter().any(|column| column.name == *name);
        let Some(note) = note.filter(|note| has(&note.time) && note.key.iter().all(has)) else {
            return self;
        };
        let options = note.options();
        let is_same_key = self.key.is_empty() || self.key == note.key;
        if self.key.is_empty() {
            self.key = note.key;
        }
        self.time.get_or_insert(note.time);
        for (name, value) in options {
            // With another key, different events have equal keys, so the collision rule of the note
            // does not apply.
            let applies = is_same_key || name != "collision";
            if applies && !self.options.iter().any(|(given, _)| *given == name) {
                self.options.push((name, value));
            }
        }
        self
    }
}

/// The CREATE TABLE IF NOT EXISTS statement for an input with the columns `columns`. `table` is the
/// quoted name of the table.
///
/// # Errors
/// The input has no column that can be the time column, or a flag names an unknown column.
pub fn create_statement(
    table: &str,
    columns: &[ResultColumn],
    shape: &Shape,
) -> Result<String, SqlError> {
    let names = || columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
    let named = |name: &str, flag: &str| {
        columns.iter().find(|column| column.name == name).ok_or_else(|| SqlError {
            hint: Some(format!("the columns of the input are: {}", names()).into()),
            ..SqlError::local(format!("the input has no column \"{name}\" (--{flag})"))
        })
    };
    let time = match &shape.time {
        Some(name) => named(name, "time")?,
        None => detect_time(columns).ok_or_else(|| SqlError {
            hint: Some(
                format!(
                    "choose the time column with --time, or create the table with CREATE TABLE; the columns are: {}",
                    names()
                )
                .into(),
            ),
            ..SqlError::local("no column of the input contains timestamps or dates")
        })?,
    };
    let time_type = match &time.column_type {
        timestamp if timestamp.is_timestamp() => timestamp.clone(),
        ColumnType::Date => ColumnType::Timestamp { precision: 9 },
        other => {
            return Err(SqlError::local(format!(
                "column \"{}\" (--time) contains {other}, not timestamps or dates",
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
    // Without key columns, rows with equal times are different events: the table must keep all of
    // them.
    let keeps_all =
        shape.key.is_empty() && !shape.options.iter().any(|(name, _)| name == "collision");
    let keeping = keeps_all.then(|| "collision = 'all'".to_string());
    let written =
        |(name, value): &(String, String)| format!("{name} = '{}'", value.replace('\'', "''"));
    let options: Vec<String> = shape.options.iter().map(written).chain(keeping).collect();
    let options = match options.is_empty() {
        true => String::new(),
        false => format!(" WITH ({})", options.join(", ")),
    };
    Ok(format!(
        "CREATE TABLE IF NOT EXISTS {table} (\n{},\n  PRIMARY KEY ({})\n){options}",
        lines.join(",\n"),
        primary.join(", ")
    ))
}

/// Chooses the time column: a timestamp column, or else a date column, whose dates count as
/// midnight. `None` if the input has neither.
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
