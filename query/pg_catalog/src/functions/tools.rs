//! Functions for administration tools: about indexes, blocks, statistics and files.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Builder, Int64Array, ListBuilder};
use datafusion::common::Result;
use stratalog_functions::{
    failed,
    function::{Arguments, Function, Parameter, text_at, text_rows},
};
use stratalog_model::{ColumnType, Error, ErrorKind};

use super::{Declare, no_text, oid_at, same_boolean, truths};
use crate::{CatalogContext, oid, relation::Relation};

use Parameter::{Integer, Text};

pub(super) fn functions(context: &Arc<CatalogContext>) -> Vec<Function> {
    let declare = Declare { context };
    let mut functions = vec![
        declare.stable(
            "pg_is_wal_replay_paused",
            &[&[]],
            ColumnType::Boolean,
            "False: nothing is replayed.",
            |_, arguments| same_boolean(arguments, false),
        ),
        declare.stable(
            "pg_blocking_pids",
            &[&[Integer]],
            ColumnType::Array(Box::new(ColumnType::Integer)),
            "Empty: no session waits for a lock.",
            |_, arguments| {
                let mut lists = ListBuilder::new(Int32Builder::new());
                (0..arguments.rows).for_each(|_| lists.append(true));
                Ok(Arc::new(lists.finish()))
            },
        ),
        declare.stable(
            "pg_relation_filenode",
            &[&[Integer]],
            ColumnType::BigInt,
            "Number of a table, not the name of a file; NULL for a view.",
            |context, arguments| {
                let state = context.state();
                let numbers = (0..arguments.rows).map(|row| {
                    let number = oid_at(arguments, 0, row)?;
                    let found = number
                        .and_then(|number| Relation::of_oid(&state, &context.database, number));
                    Ok(found.filter(|found| !matches!(found, Relation::System(_))).and(number))
                });
                let numbers: Vec<Option<i64>> = numbers.collect::<Result<_>>()?;
                Ok(Arc::new(Int64Array::from(numbers)))
            },
        ),
        declare.stable(
            "pg_relation_filepath",
            &[&[Integer]],
            ColumnType::Text,
            "NULL: no file contains a single table.",
            |_, arguments| no_text(arguments),
        ),
        declare.stable(
            "pg_indexam_has_property",
            &[&[Integer, Text]],
            ColumnType::Boolean,
            "Whether indexes of a method can do something.",
            |_, arguments| {
                properties(arguments, 1, access_method_can, |number| number == oid::ACCESS_BTREE)
            },
        ),
        declare.stable(
            "pg_index_has_property",
            &[&[Integer, Text]],
            ColumnType::Boolean,
            "Whether an index can do something.",
            |_, arguments| properties(arguments, 1, index_can, is_index),
        ),
        declare.stable(
            "pg_index_column_has_property",
            &[&[Integer, Integer, Text]],
            ColumnType::Boolean,
            "Whether a column of an index can do something.",
            |_, arguments| properties(arguments, 2, index_column_can, is_index),
        ),
        declare.stable(
            "pg_describe_object",
            &[&[Integer, Integer, Integer]],
            ColumnType::Text,
            "A table, column or schema in words; NULL for other objects.",
            described,
        ),
        declare.stable(
            "pg_size_bytes",
            &[&[Text]],
            ColumnType::BigInt,
            "Bytes of a size with a unit, such as '10 MB'.",
            |_, arguments| {
                let texts = arguments.text(0)?;
                let sizes = (0..arguments.rows)
                    .map(|row| text_at(texts, row).map(size_bytes).transpose().map_err(failed));
                let sizes: Vec<Option<i64>> = sizes.collect::<Result<_>>()?;
                Ok(Arc::new(Int64Array::from(sizes)))
            },
        ),
    ];
    // The server does not collect these statistics.
    for name in [
        "pg_stat_get_numscans",
        "pg_stat_get_tuples_returned",
        "pg_stat_get_tuples_fetched",
        "pg_stat_get_tuples_inserted",
        "pg_stat_get_tuples_updated",
        "pg_stat_get_tuples_deleted",
        "pg_stat_get_dead_tuples",
        "pg_stat_get_blocks_fetched",
        "pg_stat_get_blocks_hit",
    ] {
        functions.push(declare.stable(
            name,
            &[&[Integer]],
            ColumnType::BigInt,
            "0: not counted.",
            |_, arguments| super::same_bigint(arguments, 0),
        ));
    }
    functions
}

fn is_index(number: i64) -> bool {
    number >= oid::index(stratalog_model::ChronicleId(0)) && number < i64::from(u32::MAX)
}

/// Computes a function like `pg_index_has_property`. For each existing object in argument 0, the
/// result is the answer for the property whose name is in argument `at`. Otherwise, the result is
/// NULL.
fn properties(
    arguments: &Arguments<'_>,
    at: usize,
    answers: fn(&str) -> Option<bool>,
    exists: fn(i64) -> bool,
) -> Result<ArrayRef> {
    let names = arguments.text(at)?;
    truths(arguments, |row| {
        let object = oid_at(arguments, 0, row)?.filter(|number| exists(*number));
        Ok(object.zip(text_at(names, row)).and_then(|(_, name)| answers(&name.to_lowercase())))
    })
}

fn access_method_can(property: &str) -> Option<bool> {
    match property {
        "can_order" | "can_unique" | "can_multi_col" | "can_exclude" | "can_include" => Some(true),
        _ => None,
    }
}

fn index_can(property: &str) -> Option<bool> {
    match property {
        "clusterable" | "index_scan" | "backward_scan" => Some(true),
        "bitmap_scan" => Some(false),
        _ => None,
    }
}

fn index_column_can(property: &str) -> Option<bool> {
    match property {
        "asc" | "nulls_last" | "orderable" | "returnable" | "search_array" | "search_nulls" => {
            Some(true)
        }
        "desc" | "nulls_first" | "distance_orderable" => Some(false),
        _ => None,
    }
}

fn described(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let state = context.state();
    let path = context.search_path(&state);
    text_rows(arguments.rows, |row| {
        let (Some(class), Some(object), Some(part)) =
            (oid_at(arguments, 0, row)?, oid_at(arguments, 1, row)?, oid_at(arguments, 2, row)?)
        else {
            return Ok(None);
        };
        if class == oid::NAMESPACE {
            let mut schemas = state.schemas(&context.database);
            let schema = schemas.find(|schema| i64::from(schema.oid) == object);
            return Ok(schema.map(|schema| format!("schema {}", schema.name)));
        }
        if class != oid::CLASS {
            return Ok(None);
        }
        let Some(relation) = Relation::of_oid(&state, &context.database, object) else {
            return Ok(None);
        };
        let kind = match &relation {
            Relation::Index(..) => "index",
            Relation::Table(_) => "table",
            Relation::System(table) if table.kind == "v" => "view",
            Relation::System(_) => "table",
        };
        let name = format!("{kind} {}", relation.display(&state, &context.database, &path));
        let column = usize::try_from(part).ok().and_then(|part| part.checked_sub(1));
        Ok(match (column, &relation) {
            (None, _) => Some(name),
            (Some(at), Relation::Table(chronicle)) => {
                chronicle.columns.get(at).map(|column| format!("column {} of {name}", column.name))
            }
            (Some(_), _) => None,
        })
    })
}

/// Parses a size such as `10`, `1.5 kB` or `-2 GB` to a number of bytes.
fn size_bytes(text: &str) -> stratalog_model::Result<i64> {
    let invalid =
        || Error::new(ErrorKind::InvalidParameterValue, format!("invalid size: \"{text}\""));
    let trimmed = text.trim();
    let end = trimmed
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-')))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let number: f64 = number.parse().map_err(|_| invalid())?;
    let power = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" | "bytes" => 0,
        "kb" => 1,
        "mb" => 2,
        "gb" => 3,
        "tb" => 4,
        "pb" => 5,
        _ => {
            let units =
                "Valid units are \"bytes\", \"B\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".";
            return Err(invalid().with_hint(units));
        }
    };
    #[expect(clippy::cast_possible_truncation, reason = "sizes beyond are refused")]
    match (number * 1024_f64.powi(power)).round() {
        bytes if bytes.abs() < 9.2e18 => Ok(bytes as i64),
        _ => Err(Error::new(ErrorKind::NumericOutOfRange, "bigint out of range")),
    }
}
