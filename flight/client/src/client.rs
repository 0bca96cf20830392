//! The client: runs statements and creates all other objects.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Instant};

use crate::{
    Prepared, Transaction, WriterBuilder,
    connection::within,
    error::{Error, Result},
    options::{ClientBuilder, Settings},
    params::IntoParams,
    pool::{Lease, Pool},
    retry::{Backoff, chance},
    rows::Rows,
    session::{self, OptionValue},
    statement::{check, is_pure},
};

/// A client of a server: cheap to clone, usable by any number of tasks concurrently.
///
/// Each statement runs alone, on the connection with the fewest calls; use a [`Transaction`] for
/// statements that belong together. The connections end with the last clone and the last object
/// created from it.
///
/// # Examples
/// ```no_run
/// # async fn example() -> stratalog_client::Result<()> {
/// let client = stratalog_client::Client::connect("grpc://127.0.0.1:50051").await?;
/// client.execute("CREATE TABLE IF NOT EXISTS rooms (time timestamptz, room text, degrees double precision)").await?;
/// client.execute_with("INSERT INTO rooms VALUES (now(), $1, $2)", ["hall".into(), 20.5.into()]).await?;
/// let warm = client.query_with("SELECT * FROM rooms WHERE degrees > $1", [18.into()]).await?;
/// for batch in warm.collect().await? {
///     assert_eq!(batch.num_columns(), 3);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    pub(crate) pool: Arc<Pool>,
}

impl Client {
    /// Connects with default options to `grpc://[user[:password]@]host[:port][/database]`.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Self::builder().url(url).connect().await
    }

    /// Options, then [`ClientBuilder::connect`].
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        let client = Self { pool: Arc::new(Pool::new(settings)) };
        client.with_retries(RepeatCondition::OnlyUnsent, |_| async { Ok(()) }).await?;
        Ok(client)
    }

    /// Runs a query and streams its rows. A read-only query is sent again if it fails before its
    /// columns arrive.
    ///
    /// # Errors
    /// `Sql` for refusals by the server, `Connection`, `Timeout`; `InvalidOption` for a statement
    /// that belongs to a single session, such as SET.
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn query(&self, sql: &str) -> Result<Rows> {
        check(sql, false)?;
        self.with_retries(RepeatCondition::of(sql), |lease| self.run_query(lease, sql)).await
    }

    async fn run_query(&self, lease: Lease, sql: &str) -> Result<Rows> {
        let connection = lease.connection.clone();
        let running = async {
            let info = lease.connection.plan(sql, None).await?;
            Rows::read(lease, info).await
        };
        let rows = within(self.pool.settings.request_timeout, running).await;
        rows.inspect_err(|error| connection.learn(error))
    }

    /// As [`Self::query`], with parameters `$1`, `$2` … or `?`: an array of
    /// [`Value`](crate::Value)s, or a batch; the query runs once for each row of the batch.
    ///
    /// # Errors
    /// As [`Self::query`]; `InvalidBatch` for parameters that cannot be encoded.
    pub async fn query_with(&self, sql: &str, params: impl IntoParams) -> Result<Rows> {
        let params = params.into_params()?;
        self.prepare(sql).await?.query(params).await
    }

    /// Runs a statement and returns the number of changed rows. The client sends the statement
    /// again only if the server certainly did nothing; otherwise see [`Error::is_not_carried_out`].
    ///
    /// # Errors
    /// As [`Self::query`].
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn execute(&self, sql: &str) -> Result<u64> {
        check(sql, false)?;
        self.with_retries(RepeatCondition::OnlyUnsent, |lease| async move {
            let updated = lease.connection.update(sql, None);
            let updated = within(self.pool.settings.request_timeout, updated).await;
            updated.inspect_err(|error| lease.connection.learn(error))
        })
        .await
        .map_err(|error| unknown_outcome(error, "the statement was carried out"))
    }

    /// As [`Self::execute`], with parameters; several rows of parameters run atomically.
    ///
    /// # Errors
    /// As [`Self::execute`]; `InvalidBatch` for parameters that cannot be encoded.
    pub async fn execute_with(&self, sql: &str, params: impl IntoParams) -> Result<u64> {
        let params = params.into_params()?;
        self.prepare(sql).await?.execute(params).await
    }

    /// Prepares a statement for repeated use.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub async fn prepare(&self, sql: &str) -> Result<Prepared> {
        check(sql, false)?;
        Prepared::new(self.clone(), sql).await
    }

    /// Begins a transaction. Without a commit, it has no effect.
    ///
    /// # Errors
    /// `Connection`, `Timeout`, and errors of the server.
    pub async fn begin(&self) -> Result<Transaction> {
        let begun = |lease: Lease| async {
            let id = within(self.pool.settings.request_timeout, lease.connection.begin()).await?;
            Ok(Transaction::new(Arc::clone(&self.pool), lease, id))
        };
        // A transaction whose id was lost ends with the session.
        self.with_retries(RepeatCondition::Pure, begun).await
    }

    /// Options of a writer to a table; `schema.table`, with quotes if names need quotes.
    pub fn writer(&self, table: &str) -> WriterBuilder {
        WriterBuilder::new(Arc::clone(&self.pool), table)
    }

    /// Sets a session option, for each connection of this client from now on.
    ///
    /// # Errors
    /// `InvalidOption` if the server refuses the option; then nothing changes.
    pub async fn set_option(
        &self,
        name: impl Into<String>,
        value: impl Into<OptionValue>,
    ) -> Result<()> {
        self.set(name.into(), Some(value.into())).await
    }

    /// Resets a session option to the server's default.
    ///
    /// # Errors
    /// As [`Self::set_option`].
    pub async fn reset_option(&self, name: impl Into<String>) -> Result<()> {
        self.set(name.into(), None).await
    }

    /// Tries the option on one session first: if that session refuses it, no session gets it.
    async fn set(&self, name: String, value: Option<OptionValue>) -> Result<()> {
        let options = [(name.clone(), value.clone())].into();
        let set = |lease: Lease| {
            let options = Clone::clone(&options);
            async move { lease.connection.set(&options).await }
        };
        self.with_retries(RepeatCondition::Pure, set).await?;
        self.pool.request_option(name, value);
        Ok(())
    }

    /// The session options, by name.
    ///
    /// # Errors
    /// `Connection`, `Timeout`.
    pub async fn options(&self) -> Result<BTreeMap<String, OptionValue>> {
        let fetch = |lease: Lease| async move {
            session::parse_options(&lease.connection.act("GetSessionOptions", Vec::new()).await?)
        };
        self.with_retries(RepeatCondition::Pure, fetch).await
    }

    /// Ends the sessions on the server and waits for the server's answer. Dropping the client does
    /// the same without waiting. Open objects of this client fail with `Closed`.
    pub async fn close(self) {
        self.pool.close().await;
    }

    /// Runs `work` on a connection, and retries within the policy if a retry is safe.
    pub(crate) async fn with_retries<T, F: Future<Output = Result<T>>>(
        &self,
        care: RepeatCondition,
        work: impl Fn(Lease) -> F,
    ) -> Result<T> {
        let mut backoff = Backoff::new(self.pool.settings.retry.clone());
        let mut regained = false;
        loop {
            let tried = match self.pool.take().await {
                Ok(lease) => work(lease).await,
                Err(error) if error.is_retryable() => Err(error.not_carried_out()),
                Err(error) => return Err(error),
            };
            let error = match tried {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let passes = error.is_retryable() || error.is_session_lost();
            // Only one such retry: other conditions of a statement have the same SQLSTATE.
            let regains = !regained && self.pool.regains(&error);
            regained |= regains;
            let again =
                error.is_not_carried_out() || (care == RepeatCondition::Pure && passes) || regains;
            if !again {
                return Err(error);
            }
            let now = Instant::now();
            let Some(wait) = backoff.failed(now, chance()) else {
                return Err(error.during(backoff.summary(now)));
            };
            tracing::debug!(%error, ?wait, "trying again");
            tokio::time::sleep(wait).await;
        }
    }
}

/// The condition for repeating a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatCondition {
    /// Retry after any transient failure: a repetition has the same effect as a single run.
    Pure,
    /// Retry only if the statement certainly did nothing.
    OnlyUnsent,
}

impl RepeatCondition {
    pub(crate) fn of(sql: &str) -> Self {
        if is_pure(sql) { RepeatCondition::Pure } else { RepeatCondition::OnlyUnsent }
    }
}

/// Adds a hint to an error that leaves the outcome unknown.
pub(crate) fn unknown_outcome(error: Error, what: &str) -> Error {
    if error.is_retryable() && error.sqlstate().is_none() && !error.is_not_carried_out() {
        return error
            .with_hint(format!("the outcome is unknown: check whether {what} before a retry"));
    }
    error
}
