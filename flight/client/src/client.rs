//! The client: statements, and where everything else begins.

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

/// A client of one server: cheap to clone, for any number of tasks at a time.
///
/// Each statement is carried out by itself, on whichever connection is quietest; what belongs together
/// is a [`Transaction`]. With the last clone, and all that came from it, the connections end.
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
    /// Connects with the options as they are: `grpc://[user[:password]@]host[:port][/database]`.
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
        client.safely(Care::OnlyUnsent, |_| async { Ok(()) }).await?;
        Ok(client)
    }

    /// Carries out a query; its rows come as they are read. A query that only reads is sent again when
    /// it fails before its columns are there.
    ///
    /// # Errors
    /// `Sql` for what the server refuses, `Connection`, `Timeout`; `InvalidOption` for a statement that
    /// belongs to one session, such as SET.
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn query(&self, sql: &str) -> Result<Rows> {
        check(sql, false)?;
        self.safely(Care::of(sql), |lease| self.run_query(lease, sql)).await
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

    /// As [`Self::query`], with parameters `$1`, `$2` … or `?`: an array of [`Value`](crate::Value)s,
    /// or a batch, for each of whose rows the query is carried out.
    ///
    /// # Errors
    /// As [`Self::query`]; `InvalidBatch` for parameters that cannot be sent.
    pub async fn query_with(&self, sql: &str, params: impl IntoParams) -> Result<Rows> {
        let params = params.into_params()?;
        self.prepare(sql).await?.query(params).await
    }

    /// Carries out a statement; how many rows it changed. It is sent again only when it is certain that
    /// the server did nothing; otherwise [`Error::is_not_carried_out`] tells.
    ///
    /// # Errors
    /// As [`Self::query`].
    #[tracing::instrument(level = "debug", skip_all)]
    pub async fn execute(&self, sql: &str) -> Result<u64> {
        check(sql, false)?;
        self.safely(Care::OnlyUnsent, |lease| async move {
            let updated = lease.connection.update(sql, None);
            let updated = within(self.pool.settings.request_timeout, updated).await;
            updated.inspect_err(|error| lease.connection.learn(error))
        })
        .await
        .map_err(|error| unknown_outcome(error, "the statement was carried out"))
    }

    /// As [`Self::execute`], with parameters; of several rows, all are carried out or none.
    ///
    /// # Errors
    /// As [`Self::execute`]; `InvalidBatch` for parameters that cannot be sent.
    pub async fn execute_with(&self, sql: &str, params: impl IntoParams) -> Result<u64> {
        let params = params.into_params()?;
        self.prepare(sql).await?.execute(params).await
    }

    /// Prepares a statement, to carry it out often.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub async fn prepare(&self, sql: &str) -> Result<Prepared> {
        check(sql, false)?;
        Prepared::new(self.clone(), sql).await
    }

    /// Begins a transaction. Unless it is committed, nothing of it happens.
    ///
    /// # Errors
    /// `Connection`, `Timeout`, and what the server says.
    pub async fn begin(&self) -> Result<Transaction> {
        let begun = |lease: Lease| async {
            let id = within(self.pool.settings.request_timeout, lease.connection.begin()).await?;
            Ok(Transaction::new(Arc::clone(&self.pool), lease, id))
        };
        // A transaction that nobody knows of ends with the session.
        self.safely(Care::Pure, begun).await
    }

    /// Options of a writer to a table; `schema.table`, with quotes where names need them.
    pub fn writer(&self, table: &str) -> WriterBuilder {
        WriterBuilder::new(Arc::clone(&self.pool), table)
    }

    /// Sets a session option, for each connection of this client from now on.
    ///
    /// # Errors
    /// `InvalidOption` when the server does not take it; then all is as before.
    pub async fn set_option(
        &self,
        name: impl Into<String>,
        value: impl Into<OptionValue>,
    ) -> Result<()> {
        self.set(name.into(), Some(value.into())).await
    }

    /// Gives a session option the server's own value again.
    ///
    /// # Errors
    /// As [`Self::set_option`].
    pub async fn reset_option(&self, name: impl Into<String>) -> Result<()> {
        self.set(name.into(), None).await
    }

    /// A session tries it first: what it does not take, none is given.
    async fn set(&self, name: String, value: Option<OptionValue>) -> Result<()> {
        let options = [(name.clone(), value.clone())].into();
        let set = |lease: Lease| {
            let options = Clone::clone(&options);
            async move { lease.connection.set(&options).await }
        };
        self.safely(Care::Pure, set).await?;
        self.pool.want(name, value);
        Ok(())
    }

    /// The session options, by name.
    ///
    /// # Errors
    /// `Connection`, `Timeout`.
    pub async fn options(&self) -> Result<BTreeMap<String, OptionValue>> {
        let asked = |lease: Lease| async move {
            session::told(&lease.connection.act("GetSessionOptions", Vec::new()).await?)
        };
        self.safely(Care::Pure, asked).await
    }

    /// Ends the sessions on the server, and waits until it knows. Dropping the client does the same
    /// without waiting. What came from this client and is still open fails with `Closed`.
    pub async fn close(self) {
        self.pool.close().await;
    }

    /// Does something on a connection, and again where that is safe, within the policy.
    pub(crate) async fn safely<T, F: Future<Output = Result<T>>>(
        &self,
        care: Care,
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
            // Once: other states that a statement needs have the same SQLSTATE.
            let regains = !regained && self.pool.regains(&error);
            regained |= regains;
            let again = error.is_not_carried_out() || (care == Care::Pure && passes) || regains;
            if !again {
                return Err(error);
            }
            let now = Instant::now();
            let Some(wait) = backoff.failed(now, chance()) else {
                return Err(error.during(backoff.told(now)));
            };
            tracing::debug!(%error, ?wait, "trying again");
            tokio::time::sleep(wait).await;
        }
    }
}

/// When something may be done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    /// Whenever it fails for a reason that passes: twice is the same as once.
    Pure,
    /// When it is certain that nothing was done.
    OnlyUnsent,
}

impl Care {
    pub(crate) fn of(sql: &str) -> Self {
        if is_pure(sql) { Care::Pure } else { Care::OnlyUnsent }
    }
}

/// An error after which nobody knows what was done says so.
pub(crate) fn unknown_outcome(error: Error, what: &str) -> Error {
    if error.is_retryable() && error.sqlstate().is_none() && !error.is_not_carried_out() {
        return error.with_hint(format!("whether {what} is not known: look before doing it again"));
    }
    error
}
