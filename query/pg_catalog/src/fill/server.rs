//! The server: databases, roles, sessions, settings, functions.

use std::collections::BTreeMap;

use datafusion::execution::SessionStateDefaults;
use stratalog_model::Result;

use crate::{
    CatalogContext, oid,
    rows::{Rows, Value},
};

pub(super) fn access_methods(rows: &mut Rows<'_>) -> Result<()> {
    for (number, name, kind) in
        [(oid::ACCESS_CHRONICLE, "chronicle", "t"), (oid::ACCESS_BTREE, "btree", "i")]
    {
        rows.push(&[
            ("oid", number.into()),
            ("amname", name.into()),
            ("amhandler", "-".into()),
            ("amtype", kind.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn languages(rows: &mut Rows<'_>) -> Result<()> {
    for (number, name) in [(12_i64, "internal"), (14, "sql")] {
        rows.push(&[
            ("oid", number.into()),
            ("lanname", name.into()),
            ("lanowner", oid::ROLE.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn tablespaces(rows: &mut Rows<'_>) -> Result<()> {
    for (number, name) in [(oid::TABLESPACE, "pg_default"), (1_664, "pg_global")] {
        rows.push(&[
            ("oid", number.into()),
            ("spcname", name.into()),
            ("spcowner", oid::ROLE.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn functions(rows: &mut Rows<'_>) -> Result<()> {
    let mut known: BTreeMap<String, (&str, String)> = BTreeMap::new();
    for page in stratalog_functions::documentation() {
        known.insert(page.name, ("f", page.description));
    }
    let mut add = |kind, names: &mut dyn Iterator<Item = &str>| {
        for name in names {
            known.entry(name.to_string()).or_insert((kind, String::new()));
        }
    };
    for function in SessionStateDefaults::default_scalar_functions() {
        let aliases = function.aliases().iter().map(String::as_str);
        add("f", &mut std::iter::once(function.name()).chain(aliases));
    }
    for function in SessionStateDefaults::default_aggregate_functions() {
        let aliases = function.aliases().iter().map(String::as_str);
        add("a", &mut std::iter::once(function.name()).chain(aliases));
    }
    for function in SessionStateDefaults::default_window_functions() {
        add("w", &mut std::iter::once(function.name()));
    }
    for (at, (name, (kind, description))) in known.into_iter().enumerate() {
        rows.push(&[
            ("oid", (oid::FUNCTION_FIRST + i64::try_from(at).unwrap_or(0)).into()),
            ("proname", name.into()),
            ("pronamespace", 11_i64.into()),
            ("proowner", oid::ROLE.into()),
            ("prolang", 12_i64.into()),
            ("prokind", kind.into()),
            ("provolatile", "s".into()),
            ("proparallel", "s".into()),
            ("prorettype", 2_276_i64.into()),
            ("prosrc", description.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn databases(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for database in context.state().databases() {
        rows.push(&[
            ("oid", database.oid.into()),
            ("datname", (&database.name).into()),
            ("datdba", oid::ROLE.into()),
            ("encoding", 6_i64.into()),
            ("datlocprovider", "c".into()),
            ("datallowconn", true.into()),
            ("datconnlimit", (-1_i64).into()),
            ("dattablespace", oid::TABLESPACE.into()),
            ("datcollate", "C".into()),
            ("datctype", "C".into()),
        ])?;
    }
    Ok(())
}

pub(super) fn roles(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    rows.push(&[
        ("oid", oid::ROLE.into()),
        ("rolname", (&context.user).into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", true.into()),
        ("rolcreatedb", true.into()),
        ("rolcanlogin", true.into()),
        ("rolreplication", false.into()),
        ("rolconnlimit", (-1_i64).into()),
        ("rolpassword", "********".into()),
        ("rolbypassrls", true.into()),
    ])
}

pub(super) fn authids(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    rows.push(&[
        ("oid", oid::ROLE.into()),
        ("rolname", (&context.user).into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", true.into()),
        ("rolcreatedb", true.into()),
        ("rolcanlogin", true.into()),
        ("rolbypassrls", true.into()),
        ("rolconnlimit", (-1_i64).into()),
    ])
}

pub(super) fn users(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    rows.push(&user(context))
}

pub(super) fn shadows(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    rows.push(&user(context))
}

fn user(context: &CatalogContext) -> [(&'static str, Value); 6] {
    [
        ("usename", (&context.user).into()),
        ("usesysid", oid::ROLE.into()),
        ("usecreatedb", true.into()),
        ("usesuper", true.into()),
        ("userepl", false.into()),
        ("usebypassrls", true.into()),
    ]
}

pub(super) fn settings(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for setting in context.settings.list() {
        rows.push(&[
            ("name", setting.name.into()),
            ("setting", setting.value.into()),
            ("category", "Stratalog".into()),
            ("short_desc", setting.description.into()),
            ("context", (if setting.changeable { "user" } else { "internal" }).into()),
            ("vartype", "string".into()),
            ("source", "session".into()),
            ("boot_val", (&setting.reset_value).into()),
            ("reset_val", (&setting.reset_value).into()),
            ("pending_restart", false.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn database_numbers(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let sessions = context.sessions.sessions();
    for database in context.state().databases() {
        let connected = sessions.iter().filter(|session| session.database == database.name);
        rows.push(&[
            ("datid", database.oid.into()),
            ("datname", (&database.name).into()),
            ("numbackends", connected.count().into()),
        ])?;
    }
    Ok(())
}
