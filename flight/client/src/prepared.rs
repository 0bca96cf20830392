//! Prepared statements.

use arrow::datatypes::SchemaRef;

use crate::{
    cleanup::Errand,
    client::{Care, Client},
    command::Handle,
    connection::within,
    error::{Error, Result},
    params::IntoParams,
    pool::Lease,
    rows::Rows,
    statement::is_pure,
};

/// A statement that is planned once and run repeatedly. After a restart of the server, the client
/// prepares it again.
#[derive(Debug)]
pub struct Prepared {
    client: Client,
    sql: String,
    kept: Option<Kept>,
    schema: SchemaRef,
    parameters: SchemaRef,
}

/// The connection and handle of a prepared statement.
#[derive(Debug)]
struct Kept {
    lease: Lease,
    handle: Handle,
}

impl Prepared {
    pub(crate) async fn new(client: Client, sql: &str) -> Result<Self> {
        let kept = make(&client, sql).await?;
        let (schema, parameters) = (&kept.handle.schema, &kept.handle.parameters);
        let (schema, parameters) = (SchemaRef::clone(schema), SchemaRef::clone(parameters));
        Ok(Self { client, sql: sql.to_string(), kept: Some(kept), schema, parameters })
    }

    /// The columns of the result; empty for statements without rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The parameters, with the types expected by the server.
    pub fn parameters(&self) -> &SchemaRef {
        &self.parameters
    }

    /// Runs the query for each row of `params`; returns the rows of all runs in order.
    ///
    /// # Errors
    /// As [`Client::query_with`].
    pub async fn query(&mut self, params: impl IntoParams) -> Result<Rows> {
        let params = params.into_params()?;
        let time = self.client.pool.settings.request_timeout;
        let mut attempts = 0;
        loop {
            let kept = self.kept().await?;
            let (lease, handle) = (kept.lease.another(), kept.handle.clone());
            let running = async {
                if params.num_columns() > 0 {
                    lease.connection.bind(&handle, &params).await?;
                }
                let info = lease.connection.plan_prepared(&handle).await?;
                Rows::read(lease, info).await
            };
            let error = match within(time, running).await {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            attempts += 1;
            self.again(error, attempts, is_pure(&self.sql))?;
        }
    }

    /// Runs the statement for each row of `params`, atomically; returns the number of changed rows.
    ///
    /// # Errors
    /// As [`Client::execute_with`].
    pub async fn execute(&mut self, params: impl IntoParams) -> Result<u64> {
        let params = params.into_params()?;
        let time = self.client.pool.settings.request_timeout;
        let mut attempts = 0;
        loop {
            let kept = self.kept().await?;
            let updated = kept.lease.connection.update_prepared(&kept.handle, &params);
            let error = match within(time, updated).await {
                Ok(count) => return Ok(count),
                Err(error) => error,
            };
            attempts += 1;
            self.again(error, attempts, false)?;
        }
    }

    async fn kept(&mut self) -> Result<&Kept> {
        let usable = self.kept.take().filter(|kept| !kept.lease.connection.is_suspect());
        let kept = match usable {
            Some(kept) => kept,
            None => make(&self.client, &self.sql).await?,
        };
        Ok(self.kept.insert(kept))
    }

    /// Returns `Ok` for another attempt after an error. If the server no longer knows the
    /// statement, nothing was done.
    fn again(&mut self, error: Error, attempts: u32, pure: bool) -> Result<()> {
        if let Some(kept) = &self.kept {
            kept.lease.connection.learn(&error);
        }
        let forgotten = error.sqlstate() == Some("26000");
        if forgotten {
            self.kept = None;
        }
        let passes = error.is_retryable() || error.is_session_lost();
        let safe = forgotten || error.is_not_carried_out() || (pure && passes);
        if safe && attempts < self.client.pool.settings.retry.attempts_max.min(8) {
            tracing::debug!(%error, "preparing again");
            return Ok(());
        }
        Err(error)
    }
}

async fn make(client: &Client, sql: &str) -> Result<Kept> {
    let time = client.pool.settings.request_timeout;
    let made = |lease: Lease| async move {
        let handle = within(time, lease.connection.prepare(sql, None)).await;
        let handle = handle.inspect_err(|error| lease.connection.learn(error))?;
        Ok(Kept { lease, handle })
    };
    // Preparing never changes data, whatever the statement.
    client.safely(Care::Pure, made).await
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(Kept { lease, handle }) = self.kept.take() {
            let errand = Errand::CloseStatement(lease.connection.clone(), handle.id);
            self.client.pool.cleanup.leave(errand);
        }
    }
}
