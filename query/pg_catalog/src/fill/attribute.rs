//! Computes the rows of the system tables about columns and their default values.

use stratalog_model::{ColumnType, Result};
use stratalog_visor_core::access::Object;

use crate::{
    CatalogContext, acl,
    column_type::{base_type, collation_of, element_of_array, type_modifier, type_oid},
    index::indexes,
    oid,
    relation::shown_default,
    rows::{Rows, Value},
    spec::SYSTEM_TABLES,
};

struct Attribute<'a> {
    relation: i64,
    number: usize,
    name: &'a str,
    column_type: &'a ColumnType,
    type_number: i64,
    nullable: bool,
    has_default: bool,
    /// The access list of the column.
    list: Option<Vec<String>>,
}

fn push(rows: &mut Rows<'_>, attribute: &Attribute<'_>) -> Result<()> {
    let type_number = attribute.type_number;
    let base = base_type(type_number);
    let element = element_of_array(type_number);
    let array = element.is_some();
    let collated = collation_of(type_number);
    rows.push(&[
        ("attrelid", attribute.relation.into()),
        ("attname", attribute.name.into()),
        ("atttypid", type_number.into()),
        ("attstattarget", (-1_i64).into()),
        ("attlen", base.map_or(-1, |base| base.length).into()),
        ("attnum", attribute.number.into()),
        ("attndims", i64::from(array).into()),
        ("attcacheoff", (-1_i64).into()),
        ("atttypmod", type_modifier(attribute.column_type).into()),
        ("attbyval", base.is_some_and(|base| base.by_value).into()),
        ("attalign", base.map_or("i", |base| base.align).into()),
        ("attstorage", base.map_or("x", |base| base.storage).into()),
        ("attnotnull", (!attribute.nullable).into()),
        ("atthasdef", attribute.has_default.into()),
        ("attislocal", true.into()),
        ("attcollation", collated.into()),
        ("attacl", attribute.list.clone().map_or(Value::Null, Value::Texts)),
    ])
}

pub(super) fn of_system_tables(rows: &mut Rows<'_>) -> Result<()> {
    for table in SYSTEM_TABLES.iter() {
        for (at, column) in table.columns.iter().enumerate() {
            push(
                rows,
                &Attribute {
                    relation: table.oid,
                    number: at + 1,
                    name: column.name,
                    column_type: &column.column_type,
                    type_number: column.type_number(),
                    nullable: column.nullable,
                    has_default: false,
                    list: None,
                },
            )?;
        }
    }
    Ok(())
}

pub(super) fn of_tables(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database) {
        for (at, column) in chronicle.columns.iter().enumerate() {
            push(
                rows,
                &Attribute {
                    relation: oid::table(chronicle.id),
                    number: at + 1,
                    name: &column.name,
                    column_type: &column.column_type,
                    type_number: type_oid(&column.column_type).into(),
                    nullable: column.nullable,
                    has_default: column.default_sql.is_some(),
                    list: acl::of_column(&state, Object::Chronicle(chronicle.id), column.id),
                },
            )?;
        }
        let indexed = indexes(chronicle).flat_map(|index| {
            let oid = index.oid;
            index.columns.into_iter().enumerate().map(move |(at, column)| (oid, at, column))
        });
        for (relation, at, column) in indexed {
            push(
                rows,
                &Attribute {
                    relation,
                    number: at + 1,
                    name: &column.name,
                    column_type: &column.column_type,
                    type_number: type_oid(&column.column_type).into(),
                    nullable: true,
                    has_default: false,
                    list: None,
                },
            )?;
        }
    }
    Ok(())
}

pub(super) fn defaults(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database) {
        for (at, column) in chronicle.columns.iter().enumerate() {
            if let Some(default) = shown_default(column) {
                rows.push(&[
                    ("oid", oid::default(chronicle.id, column.id).into()),
                    ("adrelid", oid::table(chronicle.id).into()),
                    ("adnum", Value::from(at + 1)),
                    ("adbin", default.into()),
                ])?;
            }
        }
    }
    Ok(())
}
