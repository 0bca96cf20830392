//! The same requests through the reference's parser and ours. What we do otherwise is in
//! [`Model::take`] and [`reference`], reason by reason.

use std::collections::{BTreeMap, BTreeSet};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimestampNanosecondType},
};
use influxdb_line_protocol::{FieldValue, ParsedLine, parse_lines, split_lines};
use proptest::{collection::vec, prelude::*, sample::select};
use stratalog_line::{LineLimits, TIME_COLUMN};

use crate::fixture::{Catalog, NOW_NS, read_pieces};

/// A value, so that floats can be compared.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Float(u64),
    Integer(i64),
    Unsigned(u64),
    Text(String),
    Boolean(bool),
}

/// A line: its number, and its table, tick, tags and fields, or why there are none.
type Line = (u64, Result<(String, i64, BTreeMap<String, Value>), String>);

/// What is expected of a parser that sees a new database.
#[derive(Default)]
struct Model {
    kinds: BTreeMap<(String, String), std::mem::Discriminant<Value>>,
    tags: BTreeSet<(String, String)>,
    without_timestamp: i64,
}

impl Model {
    /// What must become of a line that the reference reads. Ours refuses some of these.
    fn take(&mut self, line: &ParsedLine<'_>) -> Result<(String, i64, BTreeMap<String, Value>), String> {
        let table = line.series.measurement.to_string();
        let tick = line.timestamp.unwrap_or(NOW_NS + self.without_timestamp);
        let none = Default::default();
        let tags = line.series.tag_set.as_ref().unwrap_or(&none);
        let mut values = BTreeMap::new();
        let bad_text = |text: &str| text.contains(['\0', '\n']);
        let bad_name = |name: &str| {
            bad_text(name) || name.len() > 63 || name == TIME_COLUMN || name.starts_with('_')
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
                [Value::Integer(0), Value::Unsigned(0)].iter().any(|v| std::mem::discriminant(v) == kind)
            };
            match self.kinds.get(&place) {
                // A column made for one kind of integers takes the other within its range.
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

/// What the reference says of one of its lines; `None` for a blank one or a comment. It knows
/// neither carriage returns nor spaces behind the last field.
fn reference(line: &str) -> Option<Result<ParsedLine<'_>, String>> {
    let plain = parse_lines(line).next()?;
    if plain.is_ok() {
        return Some(plain.map_err(|error| error.to_string()));
    }
    let trimmed = line.strip_suffix('\r').unwrap_or(line).trim_end_matches(' ');
    parse_lines(trimmed).next().map(|parsed| parsed.map_err(|error| error.to_string()))
}

/// Whether a key has a comma, which the reference takes without a backslash too, where ours
/// suspects that a value is missing.
fn has_comma(line: &ParsedLine<'_>) -> bool {
    let tags = line.series.tag_set.iter().flatten();
    tags.map(|(key, _)| key).chain(line.field_set.iter().map(|(key, _)| key)).any(|key| key.contains(','))
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
        // A tag that the series does not have.
        if !(value == Value::Text(String::new()) && !field.is_nullable()) {
            values.insert(field.name().clone(), value);
        }
    }
    values
}

/// Integers of either kind as one.
fn same(ours: &BTreeMap<String, Value>, other: &BTreeMap<String, Value>) -> bool {
    let plain = |value: &Value| match value {
        Value::Unsigned(value) => i64::try_from(*value).map_or(Value::Unsigned(*value), Value::Integer),
        other => other.clone(),
    };
    ours.len() == other.len()
        && ours.iter().zip(other).all(|((a, x), (b, y))| a == b && plain(x) == plain(y))
}

/// All lines that ours reads, in their order.
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

/// Reads the text with both, and compares line by line.
fn compare(text: &str, piece: usize) -> Result<(), TestCaseError> {
    let limits = LineLimits { errors_max: usize::MAX, ..LineLimits::default() };
    let whole = ours(text.as_bytes(), usize::MAX, limits);
    prop_assert_eq!(&ours(text.as_bytes(), piece, limits), &whole, "in pieces of {}", piece);
    // The reference looks for quotes in comments, and goes on behind their first newline.
    let comment = |line: &&str| line.trim_start_matches([' ', '\t', '\n']).starts_with('#');
    prop_assume!(!split_lines(text).filter(comment).any(|line| line.contains('\n')));
    // An escaped newline is no blank line to the reference, if spaces are before it.
    prop_assume!(!text.contains("\n\\\n") && !text.starts_with("\\\n"));

    let mut model = Model::default();
    let mut ours = whole.iter();
    let mut number = 1;
    for line in split_lines(text) {
        let at = number;
        number += 1 + line.matches('\n').count() as u64;
        let Some(read) = reference(line) else { continue };
        let Some((our_number, our_line)) = ours.next() else {
            return Err(TestCaseError::fail(format!("nothing of line {at}: {line:?} {read:?}")));
        };
        prop_assert_eq!(*our_number, at);
        match (read, our_line) {
            (Err(_), Err(_)) => {}
            (Err(error), Ok(row)) => {
                return Err(TestCaseError::fail(format!("{line:?}: {row:?}, but {error}")));
            }
            (Ok(read), Err(_)) if has_comma(&read) => {}
            // The reference overlooks a comma behind the first field.
            (Ok(read), Err(error))
                if read.field_set.len() == 1 && error.contains("a field is missing") => {}
            (Ok(read), ours) => match (model.take(&read), ours) {
                (Ok(expected), Ok(row)) => {
                    prop_assert_eq!((&row.0, row.1), (&expected.0, expected.1), "{:?}", line);
                    prop_assert!(same(&row.2, &expected.2), "{:?}: {:?}, {:?}", line, row, expected);
                }
                (Err(_), Err(_)) => {}
                (expected, ours) => {
                    return Err(TestCaseError::fail(format!("{line:?}: {ours:?}, but {expected:?}")));
                }
            },
        }
    }
    prop_assert!(ours.next().is_none());
    Ok(())
}

/// A name, as it is written.
fn name(also: &'static str) -> impl Strategy<Value = String> {
    let plain = "[a-d][a-d_.0-9é\"=, \\\\]{0,4}[a-dé]|[a-d]|[a-d]|[a-d]|[a-d]{60,66}|time";
    (plain, any::<bool>()).prop_map(move |(name, twice)| {
        let mut raw = String::new();
        for c in name.chars() {
            match c {
                '\\' if twice => raw.push_str("\\\\"),
                c if also.contains(c) => raw.extend(['\\', c]),
                c => raw.push(c),
            }
        }
        raw
    })
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|value| format!("{value}i")),
        (0..100_u32).prop_map(|value| format!("{value}i")),
        any::<u64>().prop_map(|value| format!("{value}u")),
        any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(|v| format!("{v}")),
        "-?[0-9]{1,21}(\\.[0-9]{1,21})?([eE][-+]?[0-9]{1,3})?",
        "[0-9]{1,2}\\.[0-9]{1,3}",
        select(vec!["t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE"])
            .prop_map(String::from),
        "([a-c,= é\n#]|\\\\\"|\\\\\\\\|\\\\[a-c])*".prop_map(|text| format!("\"{text}\"")),
    ]
}

fn line() -> impl Strategy<Value = String> {
    let tags = vec((name(",= "), name(",= ")), 0..4);
    let fields = vec((name(",= "), value()), 1..5);
    let stamp = prop_oneof![Just(String::new()), "  ?-?[0-9]{1,19}", " 1700000000[0-9]{9}", " {1,2}"];
    let spaces = (select(vec!["", "", "", " ", "\t "]), "  ?", select(vec!["\n", "\n", "\r\n", " \n"]));
    (name(", "), tags, fields, stamp, spaces).prop_map(
        |(measurement, tags, fields, stamp, (before, between, end))| {
            let tags: String = tags.iter().map(|(key, value)| format!(",{key}={value}")).collect();
            let fields: Vec<_> =
                fields.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("{before}{measurement}{tags}{between}{}{stamp}{end}", fields.join(","))
        },
    )
}

fn request() -> impl Strategy<Value = String> {
    let other = select(vec!["\n", "  \n", "# a comment\n", "#\n", "\r\n"]).prop_map(String::from);
    let lines = vec(prop_oneof![9 => line(), 1 => other], 0..8);
    (lines, any::<bool>()).prop_map(|(lines, cut)| {
        // The same series come again, so that they are known.
        let mut text = lines.concat();
        text.push_str(&lines.concat());
        if cut {
            text.pop();
        }
        text
    })
}

/// A request with some bytes of it changed.
fn damaged() -> impl Strategy<Value = String> {
    let edits = vec((any::<prop::sample::Index>(), 0..3_u8, "[a ,=\"\\\\\n\r\t0-9iuteE.#\0-]"), 1..6);
    (request(), edits).prop_map(|(request, edits)| {
        let mut text: Vec<char> = request.chars().collect();
        for (at, edit, with) in edits {
            let at = at.index(text.len() + 1);
            let with = with.chars().next().unwrap();
            match edit {
                0 => text.insert(at, with),
                1 if at < text.len() => drop(text.remove(at)),
                _ if at < text.len() => text[at] = with,
                _ => {}
            }
        }
        text.into_iter().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn well_made_requests_are_read_alike(text in request(), piece in 1..200_usize) {
        compare(&text, piece)?;
    }

    #[test]
    fn damaged_requests_are_read_alike(text in damaged(), piece in 1..200_usize) {
        compare(&text, piece)?;
    }

    #[test]
    fn garbage_is_read_alike(text in "[am ,=\"\\\\\n\r1iutf.]{0,80}", piece in 1..20_usize) {
        compare(&text, piece)?;
    }
}
