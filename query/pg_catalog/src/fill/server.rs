//! Computes the rows of the system tables about the server: databases, sessions, settings.

use stratalog_model::Result;
use stratalog_visor_core::access::Object;

use crate::{
    CatalogContext, acl, oid,
    rows::{Rows, Value},
};

pub(super) fn access_methods(rows: &mut Rows<'_>) -> Result<()> {
    for (number, name, handler, kind) in [
        (oid::ACCESS_CHRONICLE, "chronicle", "-", "t"),
        (oid::ACCESS_BTREE, "btree", "bthandler", "i"),
        (oid::ACCESS_BLOOM, "bloom", "-", "i"),
        (oid::ACCESS_INVERTED, "inverted", "-", "i"),
    ] {
        rows.push(&[
            ("oid", number.into()),
            ("amname", name.into()),
            ("amhandler", handler.into()),
            ("amtype", kind.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn languages(rows: &mut Rows<'_>) -> Result<()> {
    for (number, name) in oid::LANGUAGES {
        rows.push(&[
            ("oid", number.into()),
            ("lanname", name.into()),
            ("lanowner", oid::ROLE.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn tablespaces(rows: &mut Rows<'_>) -> Result<()> {
    for (number, name) in oid::TABLESPACES {
        rows.push(&[
            ("oid", number.into()),
            ("spcname", name.into()),
            ("spcowner", oid::ROLE.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn databases(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for (number, name) in state.database_names() {
        let object = Object::Database(number);
        rows.push(&[
            ("oid", number.into()),
            ("datname", name.into()),
            ("datdba", state.access().owner(object).0.into()),
            ("datacl", acl::of_object(&state, object).map_or(Value::Null, Value::Texts)),
            ("encoding", 6_i64.into()),
            ("datlocprovider", "c".into()),
            ("datistemplate", (name == "template1").into()),
            ("datallowconn", true.into()),
            ("datconnlimit", (-1_i64).into()),
            ("dattablespace", oid::TABLESPACE.into()),
            ("datcollate", "C".into()),
            ("datctype", "C".into()),
        ])?;
    }
    Ok(())
}

pub(super) fn settings(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for setting in context.settings.list() {
        let changed = setting.value != setting.reset_value;
        rows.push(&[
            ("name", setting.name.into()),
            ("setting", setting.value.into()),
            ("unit", setting.unit.into()),
            ("category", "Stratalog".into()),
            ("short_desc", setting.description.into()),
            ("context", (if setting.changeable { "user" } else { "internal" }).into()),
            ("vartype", setting.kind.into()),
            ("source", (if changed { "session" } else { "default" }).into()),
            ("min_val", setting.range.map(|(least, _)| least.to_string()).into()),
            ("max_val", setting.range.map(|(_, most)| most.to_string()).into()),
            ("enumvals", setting.words.map_or(Value::Null, Value::Texts)),
            ("boot_val", (&setting.reset_value).into()),
            ("reset_val", (&setting.reset_value).into()),
            ("pending_restart", false.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn database_numbers(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let sessions = context.sessions.sessions();
    for (number, name) in context.state().database_names() {
        let connected = sessions.iter().filter(|session| session.database == name);
        rows.push(&[
            ("datid", number.into()),
            ("datname", name.into()),
            ("numbackends", connected.count().into()),
            // The server does not count transactions and blocks.
            ("xact_commit", 0_i64.into()),
            ("xact_rollback", 0_i64.into()),
            ("blks_read", 0_i64.into()),
            ("blks_hit", 0_i64.into()),
        ])?;
    }
    Ok(())
}

/// Fills `pg_stat_ssl` and `pg_stat_gssapi`: each session is shown as not encrypted.
pub(super) fn encryption(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let column = rows.first_of(&["ssl", "gss_authenticated"]);
    for session in context.sessions.sessions() {
        let mut values = vec![("pid", session.process_id.into()), (column, false.into())];
        if column == "gss_authenticated" {
            values.push(("encrypted", false.into()));
        }
        rows.push(&values)?;
    }
    Ok(())
}

/// Fills `pg_stat_database_conflicts`. A statement never conflicts with recovery, so every count is
/// 0.
pub(super) fn conflicts(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for (number, name) in context.state().database_names() {
        let mut values = vec![("datid", Value::from(number)), ("datname", name.into())];
        let columns = [
            "confl_tablespace",
            "confl_lock",
            "confl_snapshot",
            "confl_bufferpin",
            "confl_deadlock",
        ];
        values.extend(columns.map(|column| (column, Value::Int(0))));
        rows.push(&values)?;
    }
    Ok(())
}
