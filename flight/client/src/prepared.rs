//! Prepared statements.

use arrow::datatypes::SchemaRef;

use crate::{
    cleanup::CleanupTask,
    client::Client,
    command::Handle,
    connection::within,
    error::{Error, Result},
    params::IntoParams,
    pool::Lease,
    retry::RepeatCondition,
    rows::Rows,
    statement::is_pure,
};

/// A statement that the server plans once and runs repeatedly. After a restart of the server, the
/// client prepares the statement again.
#[derive(Debug)]
pub struct Prepared {
    client: Client,
    sql: String,
    on_server: Option<ServerStatement>,
    schema: SchemaRef,
    parameters: SchemaRef,
}

/// The server's side of a prepared statement: the connection, and the server's handle.
#[derive(Debug)]
struct ServerStatement {
    lease: Lease,
    handle: Handle,
}

impl Prepared {
    pub(crate) async fn new(client: Client, sql: &str) -> Result<Self> {
        let on_server = make(&client, sql).await?;
        let (schema, parameters) = (&on_server.handle.schema, &on_server.handle.parameters);
        let (schema, parameters) = (SchemaRef::clone(schema), SchemaRef::clone(parameters));
        Ok(Self { client, sql: sql.to_string(), on_server: Some(on_server), schema, parameters })
    }

    /// The columns of the result; empty for statements without rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The parameters, with the types that the server expects.
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
            let on_server = self.on_server().await?;
            let (lease, handle) = (on_server.lease.another(), on_server.handle.clone());
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
            let on_server = self.on_server().await?;
            let updated = on_server.lease.connection.update_prepared(&on_server.handle, &params);
            let error = match within(time, updated).await {
                Ok(count) => return Ok(count),
                Err(error) => error,
            };
            attempts += 1;
            self.again(error, attempts, false)?;
        }
    }

    async fn on_server(&mut self) -> Result<&ServerStatement> {
        let usable =
            self.on_server.take().filter(|on_server| !on_server.lease.connection.is_suspect());
        let on_server = match usable {
            Some(on_server) => on_server,
            None => make(&self.client, &self.sql).await?,
        };
        Ok(self.on_server.insert(on_server))
    }

    /// Decides whether a failed run may be repeated: returns `Ok` if the caller may try again,
    /// otherwise `error`. If the server no longer knows the statement, the failed attempt had no
    /// effect.
    fn again(&mut self, error: Error, attempts: u32, pure: bool) -> Result<()> {
        if let Some(on_server) = &self.on_server {
            on_server.lease.connection.learn(&error);
        }
        let forgotten = error.sqlstate() == Some("26000");
        if forgotten {
            self.on_server = None;
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

async fn make(client: &Client, sql: &str) -> Result<ServerStatement> {
    let time = client.pool.settings.request_timeout;
    let made = |lease: Lease| async move {
        let handle = within(time, lease.connection.prepare(sql, None)).await;
        let handle = handle.inspect_err(|error| lease.connection.learn(error))?;
        Ok(ServerStatement { lease, handle })
    };
    // Preparing a statement never changes data, so a repetition is safe.
    client.with_retries(RepeatCondition::Pure, made).await
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(ServerStatement { lease, handle }) = self.on_server.take() {
            let task = CleanupTask::CloseStatement(lease.connection.clone(), handle.id);
            self.client.pool.cleanup.enqueue(task);
        }
    }
}
