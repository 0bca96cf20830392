//! Transactions over Flight SQL.

use std::sync::Arc;

use arrow_flight::sql::EndTransaction;
use bytes::Bytes;

use crate::{
    cleanup::CleanupTask,
    connection::within,
    error::{Error, Result, unknown_outcome},
    params::IntoParams,
    pool::{Lease, Pool},
    rows::Rows,
    statement::check,
};

/// A transaction: its statements take effect together. A transaction that is dropped without
/// [`Self::commit`] has no effect. The client never repeats a statement of a transaction: after an
/// error the transaction can only be rolled back.
///
/// # Examples
/// ```no_run
/// # async fn example(client: stratalog_client::Client) -> stratalog_client::Result<()> {
/// let transaction = client.begin().await?;
/// transaction.execute("INSERT INTO rooms VALUES (now(), 'hall', 20.5)").await?;
/// transaction.execute("INSERT INTO rooms VALUES (now(), 'attic', 12)").await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Transaction {
    pool: Arc<Pool>,
    lease: Lease,
    id: Option<Bytes>,
}

impl Transaction {
    pub(crate) fn new(pool: Arc<Pool>, lease: Lease, id: Bytes) -> Self {
        Self { pool, lease, id: Some(id) }
    }

    fn id(&self) -> Result<&Bytes> {
        self.id.as_ref().ok_or_else(|| Error::closed("transaction"))
    }

    /// Runs a query in the transaction; see [`Client::query`](crate::Client::query).
    ///
    /// # Errors
    /// As [`Client::query`](crate::Client::query).
    pub async fn query(&self, sql: &str) -> Result<Rows> {
        check(sql, true)?;
        let connection = &self.lease.connection;
        let running = async {
            let info = connection.plan(sql, Some(self.id()?)).await?;
            Rows::read(self.lease.another(), info).await
        };
        within(self.pool.settings.request_timeout, running).await
    }

    /// Runs a query with parameters in the transaction; see
    /// [`Client::query_with`](crate::Client::query_with).
    ///
    /// # Errors
    /// As [`Client::query_with`](crate::Client::query_with).
    pub async fn query_with(&self, sql: &str, params: impl IntoParams) -> Result<Rows> {
        check(sql, true)?;
        let params = params.into_params()?;
        let connection = &self.lease.connection;
        let running = async {
            let handle = connection.prepare(sql, Some(self.id()?)).await?;
            let _closed = self.closing(&handle.id);
            if params.num_columns() > 0 {
                connection.bind(&handle, &params).await?;
            }
            let info = connection.plan_prepared(&handle).await?;
            Rows::read(self.lease.another(), info).await
        };
        within(self.pool.settings.request_timeout, running).await
    }

    /// Runs a statement in the transaction; see [`Client::execute`](crate::Client::execute).
    ///
    /// # Errors
    /// As [`Client::execute`](crate::Client::execute).
    pub async fn execute(&self, sql: &str) -> Result<u64> {
        check(sql, true)?;
        let updated = self.lease.connection.update(sql, Some(self.id()?));
        within(self.pool.settings.request_timeout, updated).await
    }

    /// Runs a statement with parameters in the transaction; see
    /// [`Client::execute_with`](crate::Client::execute_with).
    ///
    /// # Errors
    /// As [`Client::execute_with`](crate::Client::execute_with).
    pub async fn execute_with(&self, sql: &str, params: impl IntoParams) -> Result<u64> {
        check(sql, true)?;
        let params = params.into_params()?;
        let connection = &self.lease.connection;
        let running = async {
            let handle = connection.prepare(sql, Some(self.id()?)).await?;
            let _closed = self.closing(&handle.id);
            connection.update_prepared(&handle, &params).await
        };
        within(self.pool.settings.request_timeout, running).await
    }

    /// Commits the transaction. The call returns when the changes have the durability of their
    /// tables.
    ///
    /// # Errors
    /// After an error of the server the transaction had no effect. After `Connection` and `Timeout`
    /// the outcome is unknown.
    pub async fn commit(mut self) -> Result<()> {
        self.end(EndTransaction::Commit)
            .await
            .map_err(|error| unknown_outcome(error, "the transaction was committed"))
    }

    /// Rolls the transaction back.
    ///
    /// # Errors
    /// Errors of reaching the server; the transaction has no effect in any case.
    pub async fn rollback(mut self) -> Result<()> {
        self.end(EndTransaction::Rollback).await
    }

    async fn end(&mut self, how: EndTransaction) -> Result<()> {
        let id = self.id()?.clone();
        let ended = self.lease.connection.end(id, how);
        let ended = within(self.pool.settings.request_timeout, ended).await;
        // After a definite answer the server has no open transaction to roll back.
        if ended.as_ref().err().is_none_or(|error| error.sqlstate().is_some()) {
            self.id = None;
        }
        ended
    }

    fn closing(&self, handle: &Bytes) -> StatementCloser<'_> {
        StatementCloser { pool: &self.pool, lease: &self.lease, handle: handle.clone() }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.pool.cleanup.enqueue(CleanupTask::RollBack(self.lease.connection.clone(), id));
        }
    }
}

/// Closes a prepared statement on the server when dropped.
struct StatementCloser<'a> {
    pool: &'a Pool,
    lease: &'a Lease,
    handle: Bytes,
}

impl Drop for StatementCloser<'_> {
    fn drop(&mut self) {
        let (connection, handle) = (self.lease.connection.clone(), self.handle.clone());
        self.pool.cleanup.enqueue(CleanupTask::CloseStatement(connection, handle));
    }
}
