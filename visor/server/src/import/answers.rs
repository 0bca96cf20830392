//! Queries about tables, and receivers for their results.

use super::TableName;
use crate::sql::{
    connection::{Connection, Receiver},
    error::SqlError,
    rows::{ResultColumn, TextRows},
};

/// True if a table exists.
pub(super) async fn exists(
    table: &TableName,
    connection: &mut Connection,
) -> Result<bool, SqlError> {
    let quoted = table.quoted().replace('\'', "''");
    let question = format!("SELECT CASE WHEN to_regclass('{quoted}') IS NULL THEN 0 ELSE 1 END");
    let mut answer = NumberReceiver(0);
    connection.run(&question, &mut answer).await?;
    Ok(answer.0 > 0)
}

/// The oid of a table. A table that is dropped and created again gets another oid.
pub(super) async fn oid_of(
    table: &TableName,
    connection: &mut Connection,
) -> Result<u32, SqlError> {
    let quoted = table.quoted();
    let question = format!("SELECT '{}'::regclass::oid", quoted.replace('\'', "''"));
    let mut answer = NumberReceiver(0);
    connection.run(&question, &mut answer).await?;
    match u32::try_from(answer.0) {
        Ok(oid) if oid > 0 => Ok(oid),
        _ => Err(SqlError::local(format!("the server returned no oid of {quoted}"))),
    }
}

/// Receives a result that is a single number; 0 if the result has no row.
pub(super) struct NumberReceiver(pub(super) u64);

impl Receiver for NumberReceiver {
    fn columns(&mut self, _columns: &[ResultColumn]) -> std::io::Result<()> {
        Ok(())
    }
    fn rows(&mut self, rows: &TextRows) -> std::io::Result<()> {
        let cell = rows.iter().next().and_then(|mut row| row.next().flatten());
        if let Some(text) = cell {
            self.0 = text.parse().map_err(std::io::Error::other)?;
        }
        Ok(())
    }
    fn bytes(&mut self, _bytes: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}

/// Ignores the result of a statement.
pub(super) struct IgnoringReceiver;

impl Receiver for IgnoringReceiver {
    fn columns(&mut self, _columns: &[ResultColumn]) -> std::io::Result<()> {
        Ok(())
    }
    fn rows(&mut self, _rows: &TextRows) -> std::io::Result<()> {
        Ok(())
    }
    fn bytes(&mut self, _bytes: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
}
