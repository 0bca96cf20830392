//! Compares this parser with the reference's parser on the same requests. The intended differences
//! are in [`Model::take`], [`reference`] and [`compare`], each with its reason.

use std::collections::{BTreeMap, BTreeSet};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimestampNanosecondType},
};
use influxdb_line_protocol::{FieldValue, ParsedLine, parse_lines, split_lines};
use stratalog_line::{LineLimits, TIME_COLUMN};
use stratalog_model::chronicle::SYSTEM_COLUMNS;

use crate::fixture::{Catalog, NOW_NS, read_pieces};

/// A value that can be compared, even if it is a float.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Float(u64),
    Integer(i64),
    Unsigned(u64),
    Text(String),
    Boolean(bool),
}

/// A line: its number, and its table, tick, tags and fields, or the reason for its refusal.
pub type Line = (u64, Result<(String, i64, BTreeMap<String, Value>), String>);

/// A model of a parser with a new database.
#[derive(Default)]
struct Model {
    kinds: BTreeMap<(String, String), std::mem::Discriminant<Value>>,
    tags: BTreeSet<(String, String)>,
    without_timestamp: i64,
}

impl Model {
    /// The result that the model expects for a line which the reference accepts. This parser
    /// refuses some of these lines.
    fn take(
        &mut self,
        line: &ParsedLine<'_>,
    ) -> Result<(String, i64, BTreeMap<String, Value>), String> {
        let table = line.series.measurement.to_string();
        let tick = line.timestamp.unwrap_or(NOW_NS + self.without_timestamp);
        let none = Default::default();
        let tags = line.series.tag_set.as_ref().unwrap_or(&none);
        let mut values = BTreeMap::new();
        let bad_text = |text: &str| text.contains(['\0', '\n']);
        let bad_name = |name: &str| {
            bad_text(name)
                || name.len() > 63
                || name == TIME_COLUMN
                || SYSTEM_COLUMNS.contains(&name)
        };
        if bad_text(&table) || table.len() > 63 {
            return Err("measurement".to_string());
        }
        for (key, value) in tags {
            if bad_name(key) || bad_text(value) {
                return Err("tag".to_string());
            }
            if values.insert(key.to_string(), Value::Text(value.to_string())).is_some() {
                return Err("tag twice".to_string());
            }
        }
        let mut kinds = Vec::new();
        for (key, value) in &line.field_set {
            let value = match value {
                FieldValue::F64(value) if !value.is_finite() => return Err("infinite".to_string()),
                FieldValue::F64(value) => Value::Float(value.to_bits()),
                FieldValue::I64(value) => Value::Integer(*value),
                FieldValue::U64(value) => Value::Unsigned(*value),
                FieldValue::String(value) if value.contains('\0') => return Err("nul".to_string()),
                FieldValue::String(value) => Value::Text(value.to_string()),
                FieldValue::Boolean(value) => Value::Boolean(*value),
            };
            if bad_name(key) {
                return Err("field".to_string());
            }
            let place = (table.clone(), key.to_string());
            let kind = std::mem::discriminant(&value);
            let number = |kind| {
                [Value::Integer(0), Value::Unsigned(0)]
                    .iter()
                    .any(|v| std::mem::discriminant(v) == kind)
            };
            match self.kinds.get(&place) {
                // A column for one kind of integers takes the other kind within its range.
                Some(known) if number(*known) && number(kind) => {
                    let unsigned = *known == std::mem::discriminant(&Value::Unsigned(0));
                    let fits = match value {
                        Value::Unsigned(value) => unsigned || i64::try_from(value).is_ok(),
                        _ => true,
                    };
                    if !fits {
                        return Err("range".to_string());
                    }
                }
                Some(known) if *known != kind => return Err("kind".to_string()),
                _ => {}
            }
            if self.tags.contains(&place) {
                return Err("field that is a tag".to_string());
            }
            if values.insert(key.to_string(), value).is_some() {
                return Err("field twice".to_string());
            }
            kinds.push((place, kind));
        }
        for (key, _) in tags {
            if self.kinds.contains_key(&(table.clone(), key.to_string())) {
                return Err("tag that is a field".to_string());
            }
        }
        for (place, kind) in kinds {
            self.kinds.entry(place).or_insert(kind);
        }
        self.without_timestamp += i64::from(line.timestamp.is_none());
        self.tags.extend(tags.iter().map(|(key, _)| (table.clone(), key.to_string())));
        Ok((table, tick, values))
    }
}

/// The reference's result for one of its lines; `None` for a blank line or a comment. The reference
/// knows neither carriage returns nor spaces behind the last field.
fn reference(line: &str) -> Option<Result<ParsedLine<'_>, String>> {
    let plain = parse_lines(line).next()?;
    if plain.is_ok() {
        return Some(plain.map_err(|error| error.to_string()));
    }
    let trimmed = line.strip_suffix('\r').unwrap_or(line).trim_end_matches(' ');
    parse_lines(trimmed).next().map(|parsed| parsed.map_err(|error| error.to_string()))
}

/// True if a key has a comma. The reference also takes a comma without a backslash; this parser
/// suspects a missing value.
fn has_comma(line: &ParsedLine<'_>) -> bool {
    let tags = line.series.tag_set.iter().flatten();
    tags.map(|(key, _)| key)
        .chain(line.field_set.iter().map(|(key, _)| key))
        .any(|key| key.contains(','))
}

fn values_of(batch: &RecordBatch, row: usize) -> BTreeMap<String, Value> {
    let mut values = BTreeMap::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if column.is_null(row) || field.name() == TIME_COLUMN {
            continue;
        }
        let value = match field.data_type() {
            DataType::Float64 => {
                Value::Float(column.as_primitive::<Float64Type>().value(row).to_bits())
            }
            DataType::Int64 => Value::Integer(column.as_primitive::<Int64Type>().value(row)),
            DataType::Decimal128(..) => {
                let value = column.as_primitive::<Decimal128Type>().value(row);
                match u64::try_from(value) {
                    Ok(value) => Value::Unsigned(value),
                    Err(_) => Value::Integer(value.try_into().unwrap()),
                }
            }
            DataType::Utf8View => Value::Text(column.as_string_view().value(row).to_string()),
            DataType::Boolean => Value::Boolean(column.as_boolean().value(row)),
            other => panic!("{other}"),
        };
        // A tag that the series lacks.
        if value != Value::Text(String::new()) || field.is_nullable() {
            values.insert(field.name().clone(), value);
        }
    }
    values
}

/// Compares values; integers of both kinds are equal.
fn same(ours: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>) -> bool {
    let plain = |value: &Value| match value {
        Value::Unsigned(value) => {
            i64::try_from(*value).map_or(Value::Unsigned(*value), Value::Integer)
        }
        other => other.clone(),
    };
    ours.len() == other.len()
        && ours.iter().zip(other).all(|((a, x), (b, y))| a == b && plain(x) == plain(y))
}

/// The results of this parser for all lines, in order.
pub fn ours(text: &[u8], piece: usize, limits: LineLimits) -> Vec<Line> {
    let mut catalog = Catalog::default();
    let outcome = read_pieces(&catalog, text, piece, limits);
    let mut lines: Vec<Line> = Vec::new();
    assert_eq!(outcome.errors.len() as u64, outcome.lines_failed);
    lines.extend(outcome.errors.into_iter().map(|error| (error.line, Err(error.to_string()))));
    let mut rows_ok = 0;
    for rows in outcome.tables {
        let definition = catalog.made_for(&rows);
        let table = rows.measurement().to_string();
        let numbers: Vec<u64> = (0..rows.rows()).map(|row| rows.line(row).unwrap()).collect();
        assert_eq!((rows.first_line(), rows.last_line()), (numbers[0], *numbers.last().unwrap()));
        let batch = rows.into_batch(&definition).unwrap();
        let tick = definition.position(definition.tick_column).unwrap();
        let ticks = batch.column(tick).as_primitive::<TimestampNanosecondType>().clone();
        for (row, line) in numbers.into_iter().enumerate() {
            rows_ok += 1;
            lines.push((line, Ok((table.clone(), ticks.value(row), values_of(&batch, row)))));
        }
    }
    assert_eq!(rows_ok, outcome.lines_ok);
    lines.sort_by_key(|(line, _)| *line);
    lines
}

/// Reads the text with both parsers, whole and in pieces, and compares line by line; `Err`
/// describes a difference without a reason.
pub fn compare(text: &str, piece: usize, limits: LineLimits) -> Result<(), String> {
    let whole = ours(text.as_bytes(), usize::MAX, limits);
    if ours(text.as_bytes(), piece, limits) != whole {
        return Err(format!("not the same in pieces of {piece}"));
    }
    // The reference also looks for quotes in comments, and continues behind their first newline.
    let comment = |line: &&str| line.trim_start_matches([' ', '\t', '\n']).starts_with('#');
    if split_lines(text).filter(comment).any(|line| line.contains('\n')) {
        return Ok(());
    }
    let mut model = Model::default();
    let mut ours = whole.iter();
    let mut number = 1;
    for line in split_lines(text) {
        let at = number;
        number += 1 + line.matches('\n').count() as u64;
        let Some(read) = reference(line) else { continue };
        let Some((our_number, ours)) = ours.next() else {
            return Err(format!("nothing of line {at}, {line:?}: {read:?}"));
        };
        let differs = |expected: &dyn std::fmt::Debug| {
            Err(format!("line {our_number} of {text:?}: {ours:?}, but {expected:?} of line {at}"))
        };
        if *our_number != at {
            return differs(&read);
        }
        let read = match (read, ours) {
            (Err(_), Err(_)) => continue,
            (Err(error), Ok(_)) => return differs(&error),
            (Ok(read), Err(_)) if has_comma(&read) => continue,
            // The reference overlooks a comma behind the first field.
            (Ok(read), Err(error))
                if read.field_set.len() == 1 && error.contains("a field is missing") =>
            {
                continue;
            }
            (Ok(read), _) => read,
        };
        match (model.take(&read), ours) {
            (Ok(expected), Ok(row)) => {
                if (&row.0, row.1) != (&expected.0, expected.1) || !same(&row.2, &expected.2) {
                    return differs(&expected);
                }
            }
            (Err(_), Err(_)) => {}
            (expected, _) => return differs(&expected),
        }
    }
    match ours.next() {
        Some(more) => Err(format!("{more:?} of nothing")),
        None => Ok(()),
    }
}
