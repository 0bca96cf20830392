//! Errors for the sender of a refused event, in PostgreSQL's wording.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, TimestampNanosecondArray},
    util::display::{ArrayFormatter, FormatOptions},
};
use stratalog_model::{
    ChronicleDefinition, ColumnType, Error, ErrorKind, Result, Subject, Tick, TickSource,
};

/// Checks that the columns of `rows` match the chronicle, and that NOT NULL columns have no NULL.
///
/// # Errors
/// `DatatypeMismatch`, `NotNullViolation`.
pub fn check_rows(definition: &ChronicleDefinition, rows: &RecordBatch) -> Result<()> {
    let mismatch = |detail: String| {
        Error::new(
            ErrorKind::DatatypeMismatch,
            format!("rows do not have the shape of \"{}\"", definition.name),
        )
        .with_detail(detail)
    };
    if rows.num_columns() != definition.columns.len() {
        return Err(mismatch(format!(
            "{} columns were given, the table has {}",
            rows.num_columns(),
            definition.columns.len()
        )));
    }
    for (array, column) in rows.columns().iter().zip(&definition.columns) {
        let wanted = column.column_type.arrow_type();
        if array.data_type() != &wanted {
            return Err(mismatch(format!(
                "column \"{}\" was given as {}, but its type {} is stored as {wanted}",
                column.name,
                array.data_type(),
                column.column_type
            )));
        }
        if !column.nullable && array.null_count() > 0 {
            return Err(definition.not_null_violation(&column.name));
        }
    }
    Ok(())
}

/// The error for row `row` if an earlier event has the same collision key.
pub fn duplicate_key(definition: &ChronicleDefinition, columns: &[ArrayRef], row: usize) -> Error {
    let key = definition.key_columns.iter().chain([&definition.tick_column]);
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for id in key {
        let Some(at) = definition.position(*id) else { continue };
        if let (Some(column), Some(array)) = (definition.columns.get(at), columns.get(at)) {
            names.push(column.name.as_str());
            values.push(value_text(array, row, &column.column_type));
        }
    }
    let constraint = definition.key_name();
    if definition.time_source == TickSource::Client {
        // Under `TickSource::Client` the client chose the tick, and can choose another tick.
        return Error::new(
            ErrorKind::TickTaken,
            format!("the time of an event is taken by another event in \"{}\"", definition.name),
        )
        .with_subject(Subject { constraint: Some(constraint), ..definition.subject() })
        .with_detail(format!("Key ({})=({}) already exists.", names.join(", "), values.join(", ")))
        .with_hint("send the event with a new time");
    }
    Error::new(
        ErrorKind::UniqueViolation,
        format!("duplicate key value violates unique constraint \"{constraint}\""),
    )
    .with_subject(Subject { constraint: Some(constraint), ..definition.subject() })
    .with_detail(format!("Key ({})=({}) already exists.", names.join(", "), values.join(", ")))
}

/// The error for an event whose earlier event has values in columns that were added after
/// `definition`.
pub fn columns_added(definition: &ChronicleDefinition) -> Error {
    Error::new(
        ErrorKind::SerializationFailure,
        format!(
            "could not serialize access: another session has added columns to \"{}\"",
            definition.name
        ),
    )
    .with_subject(definition.subject())
    .with_hint("send the statement again")
}

/// The error for row `row`, whose tick is before `from`, the first accepted tick.
pub fn early(
    definition: &ChronicleDefinition,
    columns: &[ArrayRef],
    row: usize,
    from: i64,
) -> Error {
    let (time, name) = (time_text(definition, columns, row), &definition.name);
    outside(definition, format!("event of {time} is too old to be accepted in \"{name}\""))
        .with_detail(format!("Events are accepted from {} on.", tick_text(definition, from)))
}

/// The error for row `row`, whose tick is after `until`, the last accepted tick.
pub fn ahead(
    definition: &ChronicleDefinition,
    columns: &[ArrayRef],
    row: usize,
    until: i64,
) -> Error {
    let (time, name) = (time_text(definition, columns, row), &definition.name);
    outside(definition, format!("event of {time} is too far ahead to be accepted in \"{name}\""))
        .with_detail(format!("Events are accepted up to {}.", tick_text(definition, until)))
}

/// The error for an event that `collision = 'next'` would move past `until`, the last accepted
/// tick. A retry at a later time may succeed.
pub fn window_full(definition: &ChronicleDefinition, until: i64) -> Error {
    let name = &definition.name;
    outside(definition, format!("no tick is free in \"{name}\" before the acceptance window ends"))
        .with_detail(format!("The window ends at {}.", tick_text(definition, until)))
        .with_hint(
            "send fewer events of a series at once, or send the events later, or create the table with a finer granularity, more key columns or a longer acceptance_window",
        )
}

fn outside(definition: &ChronicleDefinition, message: String) -> Error {
    Error::new(ErrorKind::OutsideWindow, message).with_subject(definition.subject()).with_hint(
        "compare the clocks again (SyncClock, stratalog.clock), and send the event with a new time",
    )
}

/// The error for given times in a chronicle whose server assigns the times, if the chronicle
/// already has events.
pub fn begun(definition: &ChronicleDefinition) -> Error {
    let column = definition.tick().map(|tick| tick.name.clone()).unwrap_or_default();
    let name = &definition.name;
    Error::new(
        ErrorKind::GeneratedAlways,
        format!("cannot insert a non-DEFAULT value into column \"{column}\""),
    )
    .with_subject(Subject { column: Some(column), ..definition.subject() })
    .with_detail(format!(
        "Table \"{name}\" has time_source = 'server', and has had rows. COPY keeps given times only in a table without earlier rows."
    ))
    .with_hint("omit the column in COPY, or restore the rows into a new table")
}

/// The time at which a tick starts, in UTC, for a message.
fn tick_text(definition: &ChronicleDefinition, tick: i64) -> String {
    let time =
        definition.scale.time_ns_of(Tick(tick)).map(|ns| TimestampNanosecondArray::from(vec![ns]));
    let text = time.map(|time| {
        let time: ArrayRef = Arc::new(time.with_timezone("UTC"));
        value_text(&time, 0, &ColumnType::TimestampTz { precision: 9 })
    });
    text.unwrap_or_else(|| format!("tick {tick}"))
}

fn time_text(definition: &ChronicleDefinition, columns: &[ArrayRef], row: usize) -> String {
    let at = definition.position(definition.tick_column);
    let time = at.and_then(|at| {
        Some(value_text(columns.get(at)?, row, &definition.columns.get(at)?.column_type))
    });
    time.unwrap_or_default()
}

/// The error for row `row`, which is late; `highest` is the highest tick of the chronicle, and the
/// first tick that is not late.
pub fn late(
    definition: &ChronicleDefinition,
    columns: &[ArrayRef],
    row: usize,
    highest: i64,
) -> Error {
    let time = time_text(definition, columns, row);
    let start = tick_text(definition, highest);
    Error::new(ErrorKind::LateEvent, format!("event of {time} is late in \"{}\"", definition.name))
        .with_detail(format!(
            "The highest tick of the table is {highest} ({start}), and the table refuses events with lower ticks (late = 'reject')."
        ))
        .with_hint("ALTER TABLE … SET (late = 'accept') stores late events in their place")
}

/// The error of `collision = 'next'` if no later tick is free.
pub fn no_tick_left(definition: &ChronicleDefinition) -> Error {
    Error::new(
        ErrorKind::DatetimeOverflow,
        format!("no tick is free after the given tick in \"{}\"", definition.name),
    )
}

fn value_text(array: &ArrayRef, row: usize, column_type: &ColumnType) -> String {
    debug_assert!(row < array.len(), "a row behind the column");
    let options = FormatOptions::default()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f+00"));
    let text = match ArrayFormatter::try_new(array, &options) {
        Ok(formatter) => formatter.value(row).try_to_string().unwrap_or_default(),
        Err(_) => String::new(),
    };
    match column_type {
        ColumnType::Boolean => text.get(..1).unwrap_or("").to_string(),
        ColumnType::Uuid if text.len() == 32 => {
            let part = |start: usize, end: usize| text.get(start..end).unwrap_or("");
            [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
        }
        _ => text,
    }
}
