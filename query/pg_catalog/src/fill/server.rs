//! The server: databases, roles, sessions, settings, functions.

use std::net::SocketAddr;

use stratalog_model::Result;

use crate::{
    CatalogContext, oid,
    rows::{Rows, Value},
};

pub(super) fn access_methods(rows: &mut Rows<'_>) -> Result<()> {
    for (number, name, handler, kind) in [
        (oid::ACCESS_CHRONICLE, "chronicle", "-", "t"),
        (oid::ACCESS_BTREE, "btree", "bthandler", "i"),
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

pub(super) fn activity(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    let state = context.state();
    for session in context.sessions.sessions() {
        let database = state.database(&session.database).map(|database| database.oid);
        let (address, port) = address_and_port(session.client_address.as_deref());
        rows.push(&[
            ("datid", database.into()),
            ("datname", session.database.into()),
            ("pid", session.process_id.into()),
            ("usesysid", oid::ROLE.into()),
            ("usename", session.user.into()),
            ("application_name", session.application_name.into()),
            ("client_addr", address.into()),
            ("client_port", port.into()),
            ("backend_start", session.connected_us.into()),
            ("xact_start", session.transaction_us.into()),
            ("query_start", session.query_us.into()),
            ("state_change", session.query_us.into()),
            ("state", session.state.into()),
            ("query", session.query.into()),
            ("backend_type", "client backend".into()),
        ])?;
    }
    Ok(())
}

/// Where a session comes from; NULLs in process.
pub(crate) fn address_and_port(client: Option<&str>) -> (Option<String>, Option<i64>) {
    match client.and_then(|client| client.parse::<SocketAddr>().ok()) {
        Some(socket) => (Some(socket.ip().to_string()), Some(i64::from(socket.port()))),
        None => (client.map(str::to_string), None),
    }
}

pub(super) fn cursors(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for cursor in context.cursors.cursors() {
        rows.push(&[
            ("name", cursor.name.into()),
            ("statement", cursor.statement.into()),
            ("is_holdable", cursor.holds.into()),
            ("is_binary", false.into()),
            ("is_scrollable", cursor.scrolls.into()),
            ("creation_time", cursor.declared_us.into()),
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
            // Transactions and blocks are not counted.
            ("xact_commit", 0_i64.into()),
            ("xact_rollback", 0_i64.into()),
            ("blks_read", 0_i64.into()),
            ("blks_hit", 0_i64.into()),
        ])?;
    }
    Ok(())
}

/// No session is encrypted by the server.
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

/// Nothing conflicts with a recovery.
pub(super) fn conflicts(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for database in context.state().databases() {
        let mut values =
            vec![("datid", Value::from(database.oid)), ("datname", (&database.name).into())];
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
