//! Functions that return the size of tables and databases in bytes.

use std::sync::Arc;

use arrow::{
    array::{Array as _, ArrayRef, AsArray, Int64Array, new_null_array},
    compute::cast,
    datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type},
};
use datafusion::common::Result;
use stratalog_functions::function::{Arguments, Function, Parameter, text_at};
use stratalog_model::ColumnType;

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
            "0: keys need no separate space.",
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
            "Bytes of all tables and of the journal; NULL without membership in pg_monitor.",
            |context, arguments| {
                if context.check_monitor().is_err() {
                    return Ok(new_null_array(&DataType::Int64, arguments.rows));
                }
                let pieces = context.store.pieces().into_iter();
                let files = pieces.filter(|piece| piece.tier.has_pieces());
                let bytes = context.store.status().log.stored_bytes
                    + files.map(|piece| piece.bytes).sum::<u64>();
                same_bigint(arguments, i64::try_from(bytes).unwrap_or(i64::MAX))
            },
        ),
        declare.stable(
            "pg_size_pretty",
            &[&[Integer], &[Numeric]],
            ColumnType::Text,
            "Bytes in a readable unit.",
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
    let countable = context.countable(&state);
    bytes_of(arguments, |named| {
        let relation = match named {
            Named::Oid(oid) => Relation::of_oid(&state, &context.database, oid)?,
            Named::Name(name) => Relation::of_name(&state, &context.database, &path, name)?,
        };
        Some(match relation {
            Relation::Table(chronicle) if !countable.includes(chronicle.id) => return None,
            Relation::Table(chronicle) => numbers
                .iter()
                .find(|status| status.id == chronicle.id)
                .map_or(0, |status| status.bytes),
            Relation::Index(..) | Relation::System(_) => 0,
        })
    })
}

fn database_bytes(context: &CatalogContext, arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let state = context.state();
    let numbers = context.table_numbers();
    let countable = context.countable(&state);
    bytes_of(arguments, |named| {
        let name = match named {
            Named::Oid(oid) => {
                state.database_names().find(|(number, _)| i64::from(*number) == oid)?.1
            }
            Named::Name(name) => name,
        };
        let database = state.database_meant(name)?;
        let bytes = state
            .chronicles(&database.name)
            .filter(|chronicle| countable.includes(chronicle.id))
            .filter_map(|chronicle| numbers.iter().find(|status| status.id == chronicle.id))
            .map(|status| status.bytes);
        Some(bytes.sum())
    })
}

/// The object whose size is requested: its name or oid.
enum Named<'a> {
    Oid(i64),
    Name(&'a str),
}

/// Calls `bytes` for each value of argument 0. The result is NULL for a NULL argument, and for an
/// object that `bytes` does not find.
fn bytes_of(
    arguments: &Arguments<'_>,
    bytes: impl Fn(Named<'_>) -> Option<u64>,
) -> Result<ArrayRef> {
    let given = arguments.array(0)?;
    let as_numbers = given.as_primitive_opt::<arrow::datatypes::Int64Type>();
    let as_texts = given.as_string_view_opt();
    let of_row = |row| {
        let named = match (as_numbers, as_texts) {
            (Some(oids), _) if !oids.is_null(row) => Named::Oid(oids.value(row)),
            (_, Some(names)) => Named::Name(text_at(names, row)?),
            _ => return None,
        };
        Some(i64::try_from(bytes(named)?).unwrap_or(i64::MAX))
    };
    Ok(Arc::new((0..arguments.rows).map(of_row).collect::<Int64Array>()))
}

/// Computes `pg_size_pretty` for numerics. A sum of bytes has the type numeric.
fn pretty_numerics(arguments: &Arguments<'_>) -> Result<ArrayRef> {
    let Some(bytes) = arguments.arrays.first() else {
        return text_rows(arguments.rows, |_| Ok(None));
    };
    let scale = match bytes.data_type() {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    let bytes = cast(bytes, &DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale))?;
    let bytes = bytes.as_primitive::<Decimal128Type>();
    let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
    text_rows(arguments.rows, |row| {
        Ok(bytes.is_valid(row).then(|| {
            let whole = match scale {
                ..=-1 => bytes.value(row).saturating_mul(unit),
                _ => bytes.value(row) / unit,
            };
            match whole.unsigned_abs() < FEW_BYTES {
                true => format!("{} bytes", bytes.value_as_string(row)),
                false => pretty(whole),
            }
        }))
    })
}

/// The number of bytes below which a size is printed in bytes.
const FEW_BYTES: u128 = 10_240;

/// Formats a number of bytes as PostgreSQL does: in the smallest unit in which the number is below
/// about 10,240, rounded half away from zero.
fn pretty(bytes: i128) -> String {
    if bytes.unsigned_abs() < FEW_BYTES {
        return format!("{bytes} bytes");
    }
    let mut halves = bytes / 512;
    let mut unit = "kB";
    for next in ["MB", "GB", "TB", "PB"] {
        if halves.unsigned_abs() < 2 * FEW_BYTES - 1 {
            break;
        }
        halves /= 1_024;
        unit = next;
    }
    format!("{} {unit}", (halves + halves.signum()) / 2)
}

#[cfg(test)]
mod tests;
