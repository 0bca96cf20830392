//! Sizes of tables and databases.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Int64Array, new_empty_array},
    compute::cast,
    datatypes::{DataType, Decimal128Type},
};
use datafusion::common::Result;
use stratalog_functions::function::{Arguments, Function, Parameter, text_at};
use stratalog_model::{ColumnType, TierName};

use super::{Declare, same_bigint, text_of_oid, text_rows};
use crate::{CatalogContext, relation::Relation};

use Parameter::{Any, Integer, Numeric, Text};

pub(super) fn functions(context: &Arc<CatalogContext>) -> Vec<Function> {
    let declare = Declare { context };
    vec![
        declare.stable(
            "pg_relation_size",
            &[&[Any], &[Any, Text]],
            ColumnType::BigInt,
            "Bytes of a table.",
            table_bytes,
        ),
        declare.stable(
            "pg_table_size",
            &[&[Any]],
            ColumnType::BigInt,
            "Bytes of a table.",
            table_bytes,
        ),
        declare.stable(
            "pg_total_relation_size",
            &[&[Any]],
            ColumnType::BigInt,
            "Bytes of a table.",
            table_bytes,
        ),
        declare.stable(
            "pg_indexes_size",
            &[&[Any]],
            ColumnType::BigInt,
            "0: keys take no room of their own.",
            |_, arguments| same_bigint(arguments, 0),
        ),
        declare.stable(
            "pg_database_size",
            &[&[Any]],
            ColumnType::BigInt,
            "Bytes of the tables of a database.",
            database_bytes,
        ),
        declare.stable(
            "pg_tablespace_size",
            &[&[Any]],
            ColumnType::BigInt,
            "Bytes of all tables and of the journal.",
            |context, arguments| {
                let pieces = context.store.pieces().into_iter();
                let files = pieces.filter(|piece| piece.tier != TierName::Journal);
                let bytes = context.store.status().log.stored_bytes
                    + files.map(|piece| piece.bytes).sum::<u64>();
                same_bigint(arguments, i64::try_from(bytes).unwrap_or(i64::MAX))
            },
        ),
        declare.stable(
            "pg_size_pretty",
            &[&[Integer], &[Numeric]],
            ColumnType::Text,
            "Bytes in a unit that people read.",
            |_, arguments| match arguments.arrays.first().map(|bytes| bytes.data_type()) {
                Some(DataType::Decimal128(_, _)) => pretty_numerics(arguments),
                _ => text_of_oid(arguments, |bytes| Some(pretty(i128::from(bytes)))),
            },
        ),
    ]
}

fn table_bytes(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let state = context.state();
    let path = context.search_path(&state);
    let numbers = context.table_numbers();
    let given = arguments.array(0)?;
    let as_numbers = given.as_primitive_opt::<arrow::datatypes::Int64Type>();
    let as_texts = given.as_string_view_opt();
    let bytes: Int64Array = (0..arguments.rows)
        .map(|row| {
            let relation = match (as_numbers, as_texts) {
                (Some(oids), _) if !oids.is_null(row) => {
                    Relation::of_oid(&state, &context.database, oids.value(row))?
                }
                (_, Some(names)) => {
                    Relation::of_name(&state, &context.database, &path, text_at(names, row)?)?
                }
                _ => return None,
            };
            let bytes = match relation {
                Relation::Table(chronicle) => numbers
                    .iter()
                    .find(|status| status.id == chronicle.id)
                    .map_or(0, |status| status.bytes),
                Relation::Index(..) | Relation::System(_) => 0,
            };
            Some(i64::try_from(bytes).unwrap_or(i64::MAX))
        })
        .collect();
    Ok(Arc::new(bytes))
}

fn database_bytes(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let state = context.state();
    let numbers = context.table_numbers();
    let given = arguments.array(0)?;
    let as_numbers = given.as_primitive_opt::<arrow::datatypes::Int64Type>();
    let as_texts = given.as_string_view_opt();
    let bytes: Int64Array = (0..arguments.rows)
        .map(|row| {
            let database = match (as_numbers, as_texts) {
                (Some(oids), _) if !oids.is_null(row) => {
                    state.databases().find(|database| i64::from(database.oid) == oids.value(row))
                }
                (_, Some(names)) => text_at(names, row).and_then(|name| state.database(name)),
                _ => None,
            }?;
            let bytes: u64 = state
                .chronicles(&database.name)
                .filter_map(|chronicle| numbers.iter().find(|status| status.id == chronicle.id))
                .map(|status| status.bytes)
                .sum();
            Some(i64::try_from(bytes).unwrap_or(i64::MAX))
        })
        .collect();
    Ok(Arc::new(bytes))
}

/// Sums of bytes, which are numerics.
fn pretty_numerics(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let whole = match arguments.arrays.first() {
        Some(bytes) => cast(bytes, &DataType::Decimal128(38, 0))?,
        None => new_empty_array(&DataType::Decimal128(38, 0)),
    };
    let whole = whole.as_primitive::<Decimal128Type>();
    text_rows(arguments.rows, |row| Ok(whole.is_valid(row).then(|| pretty(whole.value(row)))))
}

/// Bytes as PostgreSQL prints them: up to 10,240 of a unit before the next one is used.
fn pretty(bytes: i128) -> String {
    let mut value = bytes;
    let mut unit = "bytes";
    for next in ["kB", "MB", "GB", "TB", "PB"] {
        // The limits grow by half a unit, since the value is rounded on its way up.
        if value.abs() < 10_240 {
            break;
        }
        value = (value + value.signum() * 512) / 1_024;
        unit = next;
    }
    format!("{value} {unit}")
}

#[cfg(test)]
mod tests;
