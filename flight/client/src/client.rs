//! The client: runs statements, and creates prepared statements, transactions and writers.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Instant};

use crate::{
    Prepared, Transaction, WriterBuilder,
    connection::within,
    error::{Result, unknown_outcome},
    options::ClientBuilder,
    params::IntoParams,
    pool::{Lease, Pool},
    retry::{Backoff, RepeatCondition, chance},
    rows::Rows,
    session::{self, OptionValue},
    settings::Settings,
    statement::check,
};

/// A client of a server: cheap to clone, usable by any number of tasks concurrently.
///
/// Each statement is its own transaction and runs on the connection with the fewest calls; use a
/// [`Transaction`] for statements that belong together. The connections close after the last clone
/// and the last object created from the client are dropped.
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

    /// Creates a builder: set options on the builder, then call [`ClientBuilder::connect`].
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) async fn open(settings: Settings) -> Result<Self> {
        let client = Self { pool: Arc::new(Pool::new(settings)) };
        client.with_retries(RepeatCondition::OnlyUnsent, |_| async { Ok(()) }).await?;
        Ok(client)
    }

    /// Runs a query and streams its rows. If a read-only query fails before its columns arrive, the
    /// client sends the query again.
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

    /// Runs a query with values for its parameters `$1`, `$2` … or `?`: an array of
    /// [`Value`](crate::Value)s, or a batch. With a batch the query runs once for each row.
    ///
    /// # Errors
    /// As [`Self::query`]; `InvalidBatch` for parameters that cannot be encoded.
    pub async fn query_with(&self, sql: &str, params: impl IntoParams) -> Result<Rows> {
        let params = params.into_params()?;
        self.prepare(sql).await?.query(params).await
    }

    /// Runs a statement and returns the number of changed rows. After a failure the client sends
    /// the statement again only if it certainly had no effect; see [`Error::is_not_carried_out`].
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

    /// Runs a statement with values for its parameters; several rows of parameters run atomically.
    /// Returns the number of changed rows.
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

    /// Begins a transaction. The statements of the transaction have no effect before
    /// [`Transaction::commit`].
    ///
    /// # Errors
    /// `Connection`, `Timeout`, and errors of the server.
    pub async fn begin(&self) -> Result<Transaction> {
        let begun = |lease: Lease| async {
            let id = within(self.pool.settings.request_timeout, lease.connection.begin()).await?;
            Ok(Transaction::new(Arc::clone(&self.pool), lease, id))
        };
        // If the answer with the transaction's id is lost, the server ends the transaction with the
        // session.
        self.with_retries(RepeatCondition::Pure, begun).await
    }

    /// Creates the options of a writer to `table`. The name is `table` or `schema.table` in SQL
    /// syntax: a name that is not lower case needs quotes.
    pub fn writer(&self, table: &str) -> WriterBuilder {
        WriterBuilder::new(Arc::clone(&self.pool), table)
    }

    /// Sets a session option for all present and future sessions of this client.
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

    /// Sets an option, or resets it if `value` is `None`. Sets the option in one session first: if
    /// the server refuses the option there, no other session gets it.
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

    /// The session options and their values, by name.
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
    /// the same without waiting. Afterwards open objects of this client fail with `Closed`.
    pub async fn close(self) {
        self.pool.close().await;
    }

    /// Runs `work` on a connection. After a failure, runs `work` again within the retry policy if
    /// `care` allows a repetition.
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
            // The client acquires a lost acquisition again only once, because other failures of a
            // statement have the same SQLSTATE.
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
