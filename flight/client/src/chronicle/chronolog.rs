//! The connection to a ChronoLog: what the paper calls the Admin and Chronicle APIs.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use stratalog_model::{Granularity, clock::Told};

use super::{
    acquire::{Acquire, Wait},
    handle::{Chronicle, Task},
    table::{self, Table},
    tags::Tags,
};
use crate::{
    acquired::{Acquired, timed},
    client::{Care, Client},
    clock::ClockSync,
    error::{ErrorKind, Result},
    options::ClientBuilder,
    pool::{Lease, Pool},
};

/// How often the clocks are compared.
const SYNCHRONIZED_EVERY: Duration = Duration::from_secs(10);
/// The part of a lease after which it is looked at, and the least that it is: each time is a few round trips.
const LEASE_PARTS: u32 = 3;
const LOOKED_AT_EVERY_MIN: Duration = Duration::from_millis(10);
/// The longest `lock_timeout`: 24 days.
const LOCK_TIMEOUT_MS_MAX: u128 = 2_147_483_647;

/// A connection to Stratalog by ChronoLog's own API: the operations of the paper's Figure 2. Cheap to clone,
/// for any number of tasks at a time.
///
/// While it is there it compares this machine's clock with the server's every ten seconds; neither is
/// changed. It reconnects by itself.
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
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    builder: ClientBuilder,
    /// The sessions of handles, which end with this.
    handles: Mutex<Vec<Weak<Pool>>>,
    _keeper: Task,
}

/// How a chronicle is destroyed, which others may have acquired (F7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Destroy {
    /// Now, or not at all: while somebody has acquired it, that is refused with SQLSTATE 55006.
    #[default]
    Sync,
    /// As soon as the last has released it; nobody can acquire it from now on.
    Async,
    /// Now, whoever has acquired it.
    Force,
}

impl Chronolog {
    /// Connects to `chronolog://[user[:password]@]host[:port][/database]`, logs in, and compares the clocks
    /// (F1). `grpc://` means the same.
    ///
    /// # Errors
    /// `InvalidOption` for what is no such URL; `Login`, `Connection`, `Timeout`.
    pub async fn connect(url: impl Into<String>) -> Result<Self> {
        Self::with(Client::builder().url(url)).await
    }

    /// Connects with other options than the usual ones. Each handle has one connection besides those of
    /// the builder.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn with(builder: ClientBuilder) -> Result<Self> {
        let client = builder.clone().connect().await?;
        client.sync_clock().await?;
        let keeper = Task::keeping(client.clone(), SYNCHRONIZED_EVERY);
        let handles = Mutex::default();
        Ok(Self { shared: Arc::new(Shared { client, builder, handles, _keeper: keeper }) })
    }

    /// Ends the connection, and releases whatever was acquired over it (F2). Events that were appended and
    /// are not acknowledged may be stored or not: [`Chronicle::flush`] before. Handles are of no use
    /// any more.
    pub async fn disconnect(self) {
        let handles = std::mem::take(&mut *self.shared.handles.lock());
        for pool in handles.iter().filter_map(Weak::upgrade) {
            pool.close().await;
        }
        self.shared.client.pool.close().await;
    }

    /// Compares the clocks: the server's time now (the *base*), and how much this machine's monotonic clock
    /// advances while the server's advances by one (the *drift rate*) (F3). It is done by itself when
    /// connecting, when acquiring, when a tick was refused, and every ten seconds.
    ///
    /// # Errors
    /// `Connection`, `Timeout`.
    pub async fn sync_clock(&self) -> Result<ClockSync> {
        self.shared.client.sync_clock().await
    }

    /// The server's time without a round trip, and how far off it may be; each call tells a later one than
    /// the call before, as [`Client::time`] does.
    pub fn time(&self) -> Option<Told> {
        self.shared.client.time()
    }

    /// Statements of SQL over the same connections.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Creates a chronicle of raw events (F4): a table with the columns `time` and `payload`. `index` is the unit
    /// of its ticks.
    ///
    /// `name` may be `schema.name`, and with quotes where names need them.
    ///
    /// # Errors
    /// `Sql` with SQLSTATE 42P07 when there is a table of the name, 22023 for tags that cannot be;
    /// `InvalidOption` for what is no name; `Connection`, `Timeout`.
    pub async fn create(&self, name: &str, index: Granularity, tags: &Tags) -> Result<()> {
        let sql = tags.create(&table::quoted(name)?, index);
        self.shared.client.execute(&sql).await.map(|_| ())
    }

    /// Changes a chronicle (F6): its tags, then its name. What is not given stays.
    ///
    /// `index` makes the index coarser, to a whole multiple of what it is now: the system column `_group` counts
    /// in it from then on. Ticks, their order and collisions stay as they are.
    ///
    /// # Errors
    /// As [`Self::create`]; 42P01 where there is no such chronicle; 55P02 for a finer index, and for another
    /// collision rule or source of times; 22023 for an index that is no multiple. What was changed before the
    /// error stays changed.
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
    /// `Sql` with SQLSTATE 55006 while it is acquired, 42P01 where there is none; `Connection`, `Timeout`.
    pub async fn destroy(&self, name: &str, how: Destroy) -> Result<()> {
        let how = match how {
            Destroy::Sync => "",
            Destroy::Async => " ASYNC",
            Destroy::Force => " FORCE",
        };
        let sql = format!("DROP CHRONICLE {}{how}", table::quoted(name)?);
        self.shared.client.execute(&sql).await.map(|_| ())
    }

    /// Acquires a chronicle, or any other table (F8–F10): a handle with a session of its own. Waits in turn
    /// where others have it, unless the flags say otherwise.
    ///
    /// # Errors
    /// `Sql` with SQLSTATE 42P01 where there is none, 55P03 where others have it and it does not wait, 40P01
    /// where it would wait for ever; `InvalidOption`; `Login`, `Connection`, `Timeout`.
    pub async fn acquire(&self, name: &str, how: Acquire) -> Result<Chronicle> {
        let statement = how.statement(&table::quoted(name)?)?;
        let client = self.shared.builder.clone().connections(1).connect().await?;
        if let Wait::AtMost(time) = how.wait {
            client.set_option("lock_timeout", lock_timeout(time)).await?;
        }
        let sql = timed(&statement, how.lease, how.wait == Wait::Not);
        let sql = sql.as_str();
        let asked = |lease: Lease| async move {
            // To acquire twice is the same as once.
            lease.connection.update(sql, None).await.map_err(|error| match error.kind() {
                ErrorKind::Connection => error.not_carried_out(),
                _ => error,
            })?;
            Ok(Arc::clone(&lease.connection.session))
        };
        let session = client.safely(Care::OnlyUnsent, asked).await?;
        let acquired = Acquired::new(name.to_string(), statement, how.lease, how.timed, session);
        // There is none yet: nobody else has this client.
        let _ = client.pool.acquired.set(acquired);
        self.shared.remember(&client);
        // Behind it: no tick that is told from then on is before the acquisition (F24).
        client.sync_clock().await?;
        let table = Table::look_up(&client, name).await?;
        let keeper = Task::keeping(client.clone(), looked_at_every(how.lease));
        Ok(Chronicle::new(client, table, how, keeper))
    }
}

/// How often a lease is looked at.
fn looked_at_every(lease: Duration) -> Duration {
    (lease / LEASE_PARTS).clamp(LOOKED_AT_EVERY_MIN, SYNCHRONIZED_EVERY)
}

/// A wait as the session option has it, which is off at 0, and ends at what the server counts to.
fn lock_timeout(time: Duration) -> String {
    format!("{}ms", time.as_millis().clamp(1, LOCK_TIMEOUT_MS_MAX))
}

impl Shared {
    /// The session of a handle is to end with this; those that have ended are forgotten.
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
        assert_eq!(looked_at_every(Duration::from_secs(3)), Duration::from_secs(1));
        assert_eq!(looked_at_every(Duration::MAX), SYNCHRONIZED_EVERY);
        assert_eq!(looked_at_every(Duration::ZERO), LOOKED_AT_EVERY_MIN);
        assert_eq!(lock_timeout(Duration::from_millis(50)), "50ms");
        assert_eq!(lock_timeout(Duration::ZERO), "1ms");
        assert_eq!(lock_timeout(Duration::MAX), "2147483647ms");
    }
}
