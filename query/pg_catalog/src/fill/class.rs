//! Computes the rows of the system tables about schemas, tables, indexes, constraints and comments.

use stratalog_model::Result;
use stratalog_visor_core::{
    access::{Object, RoleId},
    catalog::option_list,
};

use super::functions::default_class;
use crate::{
    CatalogContext, acl,
    column_type::{collation_of, type_oid},
    index::indexes as indexes_of,
    oid::{self, SYSTEM_SCHEMAS},
    relation::key_numbers,
    rows::{Rows, Value},
    spec::SYSTEM_TABLES,
};

/// The oid of the schema with this name; 0 for an unknown name.
pub(super) fn schema_oid(context: &CatalogContext, name: &str) -> i64 {
    system_schema_oid(name).unwrap_or_else(|| {
        let state = context.state();
        state.schema(&context.database, name).map_or(0, |schema| i64::from(schema.oid))
    })
}

fn system_schema_oid(name: &str) -> Option<i64> {
    SYSTEM_SCHEMAS.iter().find(|(schema, _)| *schema == name).map(|(_, oid)| *oid)
}

pub(super) fn namespaces(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for (name, oid) in SYSTEM_SCHEMAS {
        rows.push(&[
            ("oid", (*oid).into()),
            ("nspname", (*name).into()),
            ("nspowner", oid::ROLE.into()),
        ])?;
    }
    let state = context.state();
    for schema in state.schemas(&context.database) {
        let object = state.schema_object(&context.database, &schema.name);
        let owner = object.map_or(RoleId::FOUNDER, |object| state.access().owner(object));
        let list = object.and_then(|object| acl::of_object(&state, object));
        rows.push(&[
            ("oid", schema.oid.into()),
            ("nspname", (&schema.name).into()),
            ("nspowner", owner.0.into()),
            ("nspacl", list.map_or(Value::Null, Value::Texts)),
        ])?;
    }
    Ok(())
}

pub(super) fn of_system_tables(rows: &mut Rows<'_>) -> Result<()> {
    for table in SYSTEM_TABLES.iter() {
        rows.push(&[
            ("oid", table.oid.into()),
            ("relname", table.name.into()),
            ("relnamespace", system_schema_oid(table.schema).into()),
            ("relowner", oid::ROLE.into()),
            ("relam", (if table.kind == "r" { oid::ACCESS_CHRONICLE } else { 0 }).into()),
            ("reltuples", Value::Double(-1.0)),
            ("relpersistence", "p".into()),
            ("relkind", table.kind.into()),
            ("relnatts", table.columns.len().into()),
            ("relispopulated", true.into()),
            ("relreplident", "n".into()),
        ])?;
    }
    Ok(())
}

pub(super) fn of_tables(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let numbers = context.table_numbers();
    let countable = context.countable(&state);
    let schemas: Vec<(String, i64)> = state
        .schemas(&context.database)
        .map(|schema| (schema.name.clone(), i64::from(schema.oid)))
        .collect();
    for chronicle in state.chronicles(&context.database) {
        let number = numbers.iter().find(|status| status.id == chronicle.id);
        let may_count = countable.includes(chronicle.id);
        let (events, bytes) = match number {
            Some(status) if may_count => (status.rows, status.bytes),
            _ => (0, 0),
        };
        let namespace = schemas.iter().find(|(name, _)| *name == chronicle.schema);
        let namespace = namespace.map_or(0, |(_, oid)| *oid);
        let pages = bytes.div_ceil(8_192);
        let object = Object::Chronicle(chronicle.id);
        let owner = state.access().owner(object).0;
        let security = state.access().row_security(chronicle.id);
        #[expect(clippy::cast_precision_loss, reason = "an estimate, as in PostgreSQL")]
        let tuples = Value::Double(if may_count { events as f64 } else { -1.0 });
        rows.push(&[
            ("oid", oid::table(chronicle.id).into()),
            ("relname", (&chronicle.name).into()),
            ("relnamespace", namespace.into()),
            ("reltype", oid::row_type(chronicle.id).into()),
            ("relowner", owner.into()),
            ("relam", oid::ACCESS_CHRONICLE.into()),
            ("relfilenode", oid::table(chronicle.id).into()),
            ("relpages", pages.into()),
            ("reltuples", tuples.clone()),
            ("relhasindex", indexes_of(chronicle).next().is_some().into()),
            ("relpersistence", "p".into()),
            ("relkind", "r".into()),
            ("relnatts", chronicle.columns.len().into()),
            ("relispopulated", true.into()),
            ("relreplident", "d".into()),
            ("relrowsecurity", security.enabled.into()),
            ("relforcerowsecurity", security.forced.into()),
            ("relacl", acl::of_object(&state, object).map_or(Value::Null, Value::Texts)),
            ("reloptions", options(option_list::of_table(chronicle))),
        ])?;
        for index in indexes_of(chronicle) {
            rows.push(&[
                ("oid", index.oid.into()),
                ("relname", index.name.clone().into()),
                ("relnamespace", namespace.into()),
                ("relowner", owner.into()),
                ("relam", index.method.1.into()),
                ("relfilenode", index.oid.into()),
                ("reltuples", tuples.clone()),
                ("relpersistence", "p".into()),
                ("relkind", "i".into()),
                ("relnatts", index.columns.len().into()),
                ("relispopulated", true.into()),
                ("relreplident", "n".into()),
                (
                    "reloptions",
                    match index.primary {
                        true => options(option_list::of_key(chronicle)),
                        false => Value::Null,
                    },
                ),
            ])?;
        }
    }
    Ok(())
}

/// Storage options as an array of texts `name=value`; NULL without options.
fn options(listed: Vec<(&'static str, String)>) -> Value {
    match listed.is_empty() {
        true => Value::Null,
        false => {
            let texts = listed.into_iter().map(|(name, value)| format!("{name}={value}"));
            Value::Texts(texts.collect())
        }
    }
}

pub(super) fn indexes(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database) {
        for index in indexes_of(chronicle) {
            let types: Vec<i64> =
                index.columns.iter().map(|column| type_oid(&column.column_type).into()).collect();
            let collations = types.iter().map(|number| collation_of(*number)).collect();
            let classes = types.iter().map(|number| default_class(*number)).collect();
            rows.push(&[
                ("indexrelid", index.oid.into()),
                ("indrelid", oid::table(chronicle.id).into()),
                ("indnatts", types.len().into()),
                ("indnkeyatts", types.len().into()),
                ("indisunique", index.is_unique().into()),
                ("indisprimary", index.primary.into()),
                ("indimmediate", true.into()),
                ("indisvalid", true.into()),
                ("indisready", true.into()),
                ("indislive", true.into()),
                ("indcollation", Value::Ints(collations)),
                ("indclass", Value::Ints(classes)),
                ("indoption", Value::Ints(vec![0; types.len()])),
                ("indkey", Value::Ints(index.numbers())),
            ])?;
        }
    }
    Ok(())
}

pub(super) fn constraints(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database).filter(|chronicle| chronicle.primary_key) {
        rows.push(&[
            ("oid", oid::constraint(chronicle.id).into()),
            ("conname", chronicle.key_name().into()),
            ("connamespace", schema_oid(context, &chronicle.schema).into()),
            ("contype", "p".into()),
            ("convalidated", true.into()),
            ("conrelid", oid::table(chronicle.id).into()),
            ("conindid", oid::index(chronicle.id).into()),
            ("confupdtype", " ".into()),
            ("confdeltype", " ".into()),
            ("confmatchtype", " ".into()),
            ("conislocal", true.into()),
            ("connoinherit", true.into()),
            ("conkey", Value::Ints(key_numbers(chronicle))),
        ])?;
    }
    Ok(())
}

pub(super) fn index_view(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for chronicle in state.chronicles(&context.database) {
        for index in indexes_of(chronicle) {
            rows.push(&[
                ("schemaname", (&chronicle.schema).into()),
                ("tablename", (&chronicle.name).into()),
                ("indexname", index.name.clone().into()),
                ("indexdef", index.definition().into()),
            ])?;
        }
    }
    Ok(())
}

pub(super) fn table_view(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    let access = state.access();
    let mut push = |schema: &str, name: &str, owner: RoleId, indexed: bool, secured: bool| {
        rows.push(&[
            ("schemaname", schema.into()),
            ("tablename", name.into()),
            ("tableowner", access.role_name(owner).into()),
            ("hasindexes", indexed.into()),
            ("hasrules", false.into()),
            ("hastriggers", false.into()),
            ("rowsecurity", secured.into()),
        ])
    };
    for table in SYSTEM_TABLES.iter().filter(|table| table.kind == "r") {
        push(table.schema, table.name, RoleId::FOUNDER, false, false)?;
    }
    for chronicle in state.chronicles(&context.database) {
        let owner = access.owner(Object::Chronicle(chronicle.id));
        let indexed = indexes_of(chronicle).next().is_some();
        let secured = access.row_security(chronicle.id).enabled;
        push(&chronicle.schema, &chronicle.name, owner, indexed, secured)?;
    }
    Ok(())
}

pub(super) fn comments(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for chronicle in context.state().chronicles(&context.database) {
        let mut push = |number: usize, comment: &str| {
            rows.push(&[
                ("objoid", oid::table(chronicle.id).into()),
                ("classoid", oid::CLASS.into()),
                ("objsubid", number.into()),
                ("description", comment.into()),
            ])
        };
        if let Some(comment) = &chronicle.comment {
            push(0, comment)?;
        }
        for (at, column) in chronicle.columns.iter().enumerate() {
            if let Some(comment) = &column.comment {
                push(at + 1, comment)?;
            }
        }
    }
    for (number, comment) in
        [(oid::PUBLIC, "standard public schema"), (oid::SYSTEM_CATALOG, "system catalog schema")]
    {
        rows.push(&[
            ("objoid", number.into()),
            ("classoid", oid::NAMESPACE.into()),
            ("description", comment.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn table_numbers(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let numbers = context.table_numbers();
    let state = context.state();
    let countable = context.countable(&state);
    for chronicle in state.chronicles(&context.database) {
        let number = numbers.iter().find(|status| status.id == chronicle.id);
        let event_count = number.map_or(0, |status| status.rows);
        rows.push(&[
            ("relid", oid::table(chronicle.id).into()),
            ("schemaname", (&chronicle.schema).into()),
            ("relname", (&chronicle.name).into()),
            ("seq_scan", 0_i64.into()),
            ("seq_tup_read", 0_i64.into()),
            ("n_live_tup", countable.includes(chronicle.id).then_some(event_count).into()),
            ("n_dead_tup", 0_i64.into()),
        ])?;
    }
    Ok(())
}

/// Fills views about block reads. The server does not count reads of blocks, so every count is 0.
pub(super) fn table_reads(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for chronicle in context.state().chronicles(&context.database) {
        let mut values = vec![
            ("relid", Value::from(oid::table(chronicle.id))),
            ("schemaname", (&chronicle.schema).into()),
            ("relname", (&chronicle.name).into()),
        ];
        let counts = ["heap_blks_read", "heap_blks_hit"];
        values.extend(counts.map(|count| (count, Value::Int(0))));
        let of_index = ["idx_blks_read", "idx_blks_hit"];
        values.extend(of_index.map(|count| (count, Value::Int(0))));
        rows.push(&values)?;
    }
    Ok(())
}
