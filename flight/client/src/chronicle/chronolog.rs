//! The connection to a server through the Admin and Chronicle APIs of the ChronoLog paper.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use stratalog_model::{Granularity, clock::EstimatedTime};

use super::{
    acquire::{Acquire, Wait},
    handle::{Chronicle, Task},
    table::{self, Table},
    tags::Tags,
};
use crate::{
    acquisition::{SessionAcquisition, timed},
    client::Client,
    error::{ErrorKind, Result},
    options::ClientBuilder,
    pool::{Lease, Pool},
    retry::RepeatCondition,
    server_clock::ClockSync,
};

/// The interval at which a connection compares this machine's clock with the server's clock.
const CLOCK_SYNC_INTERVAL: Duration = Duration::from_secs(10);
/// A handle checks its acquisition whenever 1/3 of the lease has passed.
const LEASE_CHECK_PARTS: u32 = 3;
const LEASE_CHECK_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// The longest `lock_timeout` that the server accepts, in milliseconds: 24 days.
const LOCK_TIMEOUT_MS_MAX: u128 = 2_147_483_647;

/// A connection to Stratalog through ChronoLog's own API: the operations in Figure 2 of the
/// ChronoLog paper. Cheap to clone, usable by any number of tasks concurrently.
///
/// Every ten seconds the connection compares this machine's clock with the server's clock, without
/// changing either clock. A broken connection reconnects automatically.
///
/// # Examples
/// ```no_run
/// use stratalog_client::{Acquire, Chronolog, Destroy, Granularity, Tags};
///
/// # async fn example() -> stratalog_client::Result<()> {
/// let log = Chronolog::connect("chronolog://127.0.0.1:50051").await?;
/// log.create("events", Granularity::NANOSECOND, &Tags::new().set("retention", "90d")).await?;
/// let events = log.acquire("events", Acquire::shared()).await?;
/// events.record(b"something happened").await?;
/// events.release().await?;
/// log.destroy("events", Destroy::Sync).await?;
/// log.disconnect().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Chronolog {
    shared: Arc<ChronologState>,
}

#[derive(Debug)]
struct ChronologState {
    client: Client,
    builder: ClientBuilder,
    /// The connection pools of open handles: `disconnect` closes them.
    handles: Mutex<Vec<Weak<Pool>>>,
    _keeper: Task,
}

/// The behaviour of `destroy` if sessions have acquired the chronicle (F7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Destroy {
    /// Destroys the chronicle now; fails with SQLSTATE 55006 if any session has acquired the
    /// chronicle.
    #[default]
    Sync,
    /// Destroys the chronicle when the last session releases it. From now on no session can acquire
    /// the chronicle.
    Async,
    /// Destroys the chronicle now, even if sessions have acquired it.
    Force,
}

impl Chronolog {
    /// Connects to `chronolog://[user[:password]@]host[:port][/database]`, logs in, and compares
    /// the clocks (F1). The scheme `grpc://` is equivalent.
    ///
    /// # Errors
    /// `InvalidOption` for an invalid URL; `Login`, `Connection`, `Timeout`.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Self::with(Client::builder().url(url)).await
    }

    /// Connects with custom options. Each handle opens one connection of its own; these connections
    /// do not count toward the builder's limit.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn with(builder: ClientBuilder) -> Result<Self> {
        let client = builder.clone().connect().await?;
        client.sync_clock().await?;
        let keeper = Task::keeping(client.clone(), CLOCK_SYNC_INTERVAL);
        let handles = Mutex::default();
        Ok(Self { shared: Arc::new(ChronologState { client, builder, handles, _keeper: keeper }) })
    }

    /// Ends the connection, and releases all chronicles acquired through the connection (F2).
    /// Appended events without an acknowledgement may or may not be stored: call
    /// [`Chronicle::flush`] first. All handles become unusable.
    pub async fn disconnect(self) {
        let handles = std::mem::take(&mut *self.shared.handles.lock());
        for pool in handles.iter().filter_map(Weak::upgrade) {
            pool.close().await;
        }
        self.shared.client.pool.close().await;
    }

    /// Compares the clocks and returns the server's present time (the *base*) and the *drift rate*:
    /// the advance of this machine's monotonic clock per unit of the server's clock (F3). The
    /// client also compares the clocks when connecting, when acquiring, after a refused tick, and
    /// every ten seconds.
    ///
    /// # Errors
    /// `Connection`, `Timeout`.
    pub async fn sync_clock(&self) -> Result<ClockSync> {
        self.shared.client.sync_clock().await
    }

    /// An estimate of the server's time, computed without a round trip, and the maximal error.
    /// `None` before the first comparison of the clocks. Each call returns a later time than the
    /// previous call, with the exception that [`Client::time`] describes.
    pub fn time(&self) -> Option<EstimatedTime> {
        self.shared.client.time()
    }

    /// A client for SQL statements over the same connections.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Creates a chronicle of raw events (F4): a table with the columns `time` and `payload`.
    /// `index` is the unit of its ticks.
    ///
    /// `name` is `table` or `schema.table` in SQL syntax: a name that is not lower case needs
    /// quotes.
    ///
    /// # Errors
    /// `Sql` with SQLSTATE 42P07 if a table of this name exists, 22023 for invalid tags;
    /// `InvalidOption` for an invalid name; `Connection`, `Timeout`.
    pub async fn create(&self, name: &str, index: Granularity, tags: &Tags) -> Result<()> {
        let sql = tags.create(&table::quoted(name)?, index);
        self.shared.client.execute(&sql).await.map(|_| ())
    }

    /// Changes a chronicle (F6): its tags, then its name. Omitted attributes stay unchanged.
    ///
    /// `index` replaces the index by a coarser unit, a whole multiple of the present unit: from
    /// then on the system column `_group` counts in the new unit. Ticks, their order and collisions
    /// stay unchanged.
    ///
    /// # Errors
    /// As [`Self::create`]; 42P01 if the chronicle does not exist; 55P02 for a finer index, and for
    /// a changed collision rule or source of times; 22023 for an index that is not a multiple of
    /// the present index. Changes made before the error stay in effect.
    pub async fn edit(
        &self,
        name: &str,
        new_name: Option<&str>,
        index: Option<Granularity>,
        tags: &Tags,
    ) -> Result<()> {
        let quoted = table::quoted(name)?;
        if let Some(sql) = tags.edit(&quoted, index) {
            self.shared.client.execute(&sql).await?;
        }
        if let Some(new_name) = new_name {
            let sql = format!("ALTER TABLE {quoted} RENAME TO {}", table::quoted(new_name)?);
            self.shared.client.execute(&sql).await?;
        }
        Ok(())
    }

    /// Destroys a chronicle with all of its events (F7).
    ///
    /// # Errors
    /// `Sql` with SQLSTATE 55006 while a session has acquired the chronicle, 42P01 if the chronicle
    /// does not exist; `Connection`, `Timeout`.
    pub async fn destroy(&self, name: &str, how: Destroy) -> Result<()> {
        let how = match how {
            Destroy::Sync => "",
            Destroy::Async => " ASYNC",
            Destroy::Force => " FORCE",
        };
        let sql = format!("DROP CHRONICLE {}{how}", table::quoted(name)?);
        self.shared.client.execute(&sql).await.map(|_| ())
    }

    /// Acquires a chronicle, or any other table (F8–F10), and returns a handle with its own
    /// session. If other sessions have acquired the chronicle, the call waits in a queue, unless
    /// `how` forbids or limits the wait.
    ///
    /// # Errors
    /// `Sql` with SQLSTATE 42P01 if the table does not exist, 55P03 if other sessions have acquired
    /// the table and `how` forbids or limits the wait, 40P01 for a deadlock; `InvalidOption`;
    /// `Login`, `Connection`, `Timeout`.
    pub async fn acquire(&self, name: &str, how: Acquire) -> Result<Chronicle> {
        let statement = how.statement(&table::quoted(name)?)?;
        let client = self.shared.builder.clone().connections(1).connect().await?;
        if let Wait::AtMost(time) = how.wait {
            client.set_option("lock_timeout", lock_timeout(time)).await?;
        }
        let sql = timed(&statement, how.lease, how.wait == Wait::Not);
        let sql = sql.as_str();
        let send_acquire = |lease: Lease| async move {
            // A repeated ACQUIRE has the same effect as a single ACQUIRE.
            lease.connection.update(sql, None).await.map_err(|error| match error.kind() {
                ErrorKind::Connection => error.not_carried_out(),
                _ => error,
            })?;
            Ok(Arc::clone(&lease.connection.session))
        };
        let session = client.with_retries(RepeatCondition::OnlyUnsent, send_acquire).await?;
        let acquisition =
            SessionAcquisition::new(name.to_string(), statement, how.lease, how.timed, session);
        // The client is new and not shared yet, so the cell is empty.
        let _ = client.pool.acquisition.set(acquisition);
        self.shared.remember(&client);
        // Compares the clocks after the ACQUIRE, so that no tick of the new handle lies before the
        // acquisition (F24).
        client.sync_clock().await?;
        let table = Table::look_up(&client, name).await?;
        let keeper = Task::keeping(client.clone(), lease_check_interval(how.lease));
        Ok(Chronicle::new(client, table, how, keeper))
    }
}

/// The interval at which a handle checks an acquisition with the given lease.
fn lease_check_interval(lease: Duration) -> Duration {
    (lease / LEASE_CHECK_PARTS).clamp(LEASE_CHECK_INTERVAL_MIN, CLOCK_SYNC_INTERVAL)
}

/// Formats a waiting time as a value of the session option `lock_timeout`. The value is at least 1
/// ms, because 0 would disable the timeout, and at most the server's limit.
fn lock_timeout(time: Duration) -> String {
    format!("{}ms", time.as_millis().clamp(1, LOCK_TIMEOUT_MS_MAX))
}

impl ChronologState {
    /// Registers the connection pool of a new handle, so that `disconnect` can close the pool. Also
    /// removes the pools of dropped handles from the list.
    fn remember(&self, client: &Client) {
        let mut handles = self.handles.lock();
        handles.retain(|pool| pool.strong_count() > 0);
        handles.push(Arc::downgrade(&client.pool));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_what_the_server_takes() {
        assert_eq!(lease_check_interval(Duration::from_secs(3)), Duration::from_secs(1));
        assert_eq!(lease_check_interval(Duration::MAX), CLOCK_SYNC_INTERVAL);
        assert_eq!(lease_check_interval(Duration::ZERO), LEASE_CHECK_INTERVAL_MIN);
        assert_eq!(lock_timeout(Duration::from_millis(50)), "50ms");
        assert_eq!(lock_timeout(Duration::ZERO), "1ms");
        assert_eq!(lock_timeout(Duration::MAX), "2147483647ms");
    }
}
