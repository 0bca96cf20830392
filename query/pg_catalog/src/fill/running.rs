//! Computes the rows of the system tables about the current activity of sessions: statements,
//! cursors, COPYs.

use std::net::SocketAddr;

use stratalog_model::Result;

use crate::{
    CatalogContext,
    column_type::type_name,
    oid,
    rows::{Rows, Value},
};

pub(super) fn activity(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for session in context.sessions.sessions() {
        let database = context.database_oid(&session.database);
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

pub(super) fn cursors(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for cursor in context.cursors.cursors() {
        rows.push(&[
            ("name", cursor.name.into()),
            ("statement", cursor.statement.into()),
            ("is_holdable", cursor.holds.into()),
            ("is_binary", cursor.is_binary.into()),
            ("is_scrollable", cursor.scrolls.into()),
            ("creation_time", cursor.declared_us.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn prepared_statements(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for prepared in context.prepared.prepared() {
        let types: Vec<String> =
            prepared.parameter_types.iter().map(|oid| type_name(*oid, None)).collect();
        rows.push(&[
            ("name", prepared.name.into()),
            ("statement", prepared.statement.into()),
            ("prepare_time", prepared.prepared_us.into()),
            ("parameter_types", Value::Texts(types)),
            ("from_sql", prepared.from_sql.into()),
            ("generic_plans", 0_i64.into()),
            ("custom_plans", 0_i64.into()),
        ])?;
    }
    Ok(())
}

pub(super) fn copies(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    for session in context.sessions.sessions() {
        let Some(copy) = session.copy else { continue };
        let database = context.database_oid(&session.database);
        rows.push(&[
            ("pid", session.process_id.into()),
            ("datid", database.into()),
            ("datname", session.database.into()),
            ("relid", copy.table.map_or(0, oid::table).into()),
            ("command", copy.command.into()),
            ("type", "PIPE".into()),
            ("bytes_processed", copy.bytes.into()),
            ("bytes_total", 0_i64.into()),
            ("tuples_processed", copy.rows.into()),
            ("tuples_excluded", copy.excluded.into()),
        ])?;
    }
    Ok(())
}

/// Splits the address of a client into address and port. Both are `None` for a client in this
/// process.
pub(crate) fn address_and_port(client: Option<&str>) -> (Option<String>, Option<i64>) {
    match client.and_then(|client| client.parse::<SocketAddr>().ok()) {
        Some(socket) => (Some(socket.ip().to_string()), Some(i64::from(socket.port()))),
        None => (client.map(str::to_string), None),
    }
}
