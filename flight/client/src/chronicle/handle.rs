//! The handle of an acquired chronicle.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use stratalog_model::Granularity;
use tokio::{sync::OnceCell, task::JoinHandle};

use super::{
    acquire::Acquire,
    event::{self, Event},
    range::Range,
    record::{self, Pending, Receipt},
    replay::Replay,
    subscription::{Start, Subscription},
    table::{Table, literal},
};
use crate::{
    client::{Care, Client},
    error::{Error, Result},
    pool::Lease,
    writer::{Acknowledgement, Writer},
};

/// A new comparison of the clocks is not made sooner after the last one.
const SYNCHRONIZED_FOR: Duration = Duration::from_millis(200);

/// The handle of an acquired chronicle: the CID of the paper's Figure 2. Cheap to clone, for any number of
/// tasks at a time.
///
/// It has a connection and a session of its own; what it acquired is held until it is released, or the
/// last clone and all that came from it are dropped. When the connection breaks it goes on over another
/// one; when the server begins anew it acquires again, if nobody else has by then. Nothing that it
/// records is lost or stored twice by that.
///
/// # Examples
/// ```no_run
/// use stratalog_client::{Acquire, Chronolog, Range};
///
/// # async fn example() -> stratalog_client::Result<()> {
/// let log = Chronolog::connect("chronolog://127.0.0.1:50051").await?;
/// let events = log.acquire("events", Acquire::shared()).await?;
/// let receipt = events.record(b"something happened").await?;
/// let newest = events.playback(1).await?;
/// assert_eq!(newest.first().map(|event| event.gsn), receipt.gsn);
/// let mut all = events.replay(&[Range::all()], None).await?;
/// while let Some(event) = all.next().await {
///     println!("{:?}", event?);
/// }
/// events.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Chronicle {
    shared: Arc<Shared>,
}

/// What clones of a handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) table: Table,
    pub(crate) how: Acquire,
    writer: OnceCell<Writer>,
    synchronized: tokio::sync::Mutex<Option<Instant>>,
    _keeper: Task,
}

/// A task that ends with this.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Compares the clocks again and again, which also renews what was acquired.
    pub(crate) fn keeping(client: Client, every: Duration) -> Self {
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                match client.sync_clock().await {
                    Ok(_) => {}
                    Err(error) if error.is_retryable() => {
                        tracing::debug!(%error, "the clocks were not compared");
                    }
                    // It was released, or has run out.
                    Err(_) => return,
                }
            }
        }))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Chronicle {
    /// Of a client that has acquired it.
    pub(crate) fn new(client: Client, table: Table, how: Acquire, keeper: Task) -> Self {
        let shared = Shared {
            client,
            table,
            how,
            writer: OnceCell::new(),
            synchronized: tokio::sync::Mutex::new(None),
            _keeper: keeper,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Its name, as it was acquired.
    pub fn name(&self) -> &str {
        &self.shared.table.name
    }

    /// The unit of its ticks: its *index*, in the paper's words, as it was created. What `_group` counts in may
    /// be coarser since: [`Chronolog::edit`](crate::Chronolog::edit).
    pub fn granularity(&self) -> Granularity {
        self.shared.table.scale.granularity()
    }

    /// The time of tick 0: nanoseconds since 1970, UTC.
    pub fn base_ns(&self) -> i64 {
        self.shared.table.scale.base_ns()
    }

    /// Statements in the session of this handle: they see what it acquired, and no more of it.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// How often the chronicle was not acquired for a while, because the server began anew or could not be
    /// reached for longer than the lease. What is exclusive was not so then: read what others
    /// recorded.
    pub fn lapses(&self) -> u64 {
        self.shared.client.pool.acquired.get().map_or(0, |acquired| acquired.lapses())
    }

    /// Records an event (F14), and returns when it is stored, as durable as was asked for.
    ///
    /// Its tick is computed here, by the server's clock ([`Chronolog::sync_clock`]). Dropped before it
    /// returned, nobody knows whether the event is recorded.
    ///
    /// # Errors
    /// `InvalidBatch` when the server refuses the event: with SQLSTATE SL001 outside of the acceptance
    /// window (F24), after [`Acquire::new_ticks`]; SL002 for a tick that is taken (F25); 44000 outside of what
    /// was acquired. `InvalidOption` for a table that is no chronicle of raw events. `Timeout` when there is no
    /// room; `Closed` after the release; why nothing can be recorded any more.
    ///
    /// [`Chronolog::sync_clock`]: crate::Chronolog::sync_clock
    pub async fn record(&self, payload: impl AsRef<[u8]>) -> Result<Receipt> {
        self.shared.append(payload.as_ref()).await?.await
    }

    /// Records events, each with a tick of its own, in this order, and returns a receipt for each. All of
    /// them are stored or none, and given other ticks together, up to 65,536 events and 4 MiB; more are
    /// stored in parts, of which those that are refused are not recorded again.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_batch<T: AsRef<[u8]>>(&self, payloads: &[T]) -> Result<Vec<Receipt>> {
        if payloads.is_empty() {
            return Ok(Vec::new());
        }
        let sent = self.shared.send(record::column(payloads)?).await?;
        self.shared.settle(sent).await
    }

    /// Records an event, and returns once there is room for it in memory: pipelined. Events are stored in
    /// the order of the calls, but for those that are given another tick.
    ///
    /// # Errors
    /// As [`Self::record`], through the [`Pending`]; here what keeps the event from being taken.
    pub async fn append(&self, payload: impl AsRef<[u8]>) -> Result<Pending> {
        self.shared.append(payload.as_ref()).await
    }

    /// Waits until all events that were appended before are stored: what was acknowledged since the last
    /// time.
    ///
    /// # Errors
    /// `InvalidBatch` when events were refused whose [`Pending`] was dropped, naming the first: all others
    /// are stored. Why nothing can be recorded any more.
    pub async fn flush(&self) -> Result<Acknowledgement> {
        match self.shared.writer.get() {
            Some(writer) => writer.flush().await,
            None => Ok(Acknowledgement::default()),
        }
    }

    /// The newest events, at most so many, the newest first (F17): nothing that is dated later than the
    /// call.
    ///
    /// # Errors
    /// `InvalidOption` for a table that is no chronicle of raw events; `Sql`, `Connection`, `Timeout`.
    pub async fn playback(&self, count: usize) -> Result<Vec<Event>> {
        self.shared.table.raw()?;
        let sql = format!(
            "SELECT _tick, _seq, _gsn, payload FROM playback({}, {count}) \
             ORDER BY _tick DESC, _seq DESC",
            literal(&self.shared.table.quoted)
        );
        self.shared.events(&sql).await
    }

    /// The events of any of the ranges that meet the constraint, in the order of ticks, each once (F18). A
    /// range without an end goes through to the newest event at the call.
    ///
    /// The constraint is a condition of SQL on `time` and `payload`, such as `length(payload) > 100`, and on the
    /// system columns `_tick`, `_group` and `_gsn`.
    ///
    /// # Errors
    /// As [`Self::playback`]; what is wrong with the constraint.
    pub async fn replay(&self, ranges: &[Range], constraint: Option<&str>) -> Result<Replay> {
        Replay::begin(Arc::clone(&self.shared), ranges, constraint).await
    }

    /// The event at a position, whose commit is waited for (F108); `None` when it is another table's.
    ///
    /// # Errors
    /// As [`Self::playback`]; SQLSTATE 72000 when events there were deleted.
    pub async fn read_record(&self, gsn: u64) -> Result<Option<Event>> {
        self.shared.table.raw()?;
        let sql = format!(
            "SELECT _tick, _seq, _gsn, payload FROM read_record({gsn}, {})",
            literal(&self.shared.table.quoted)
        );
        Ok(self.shared.events(&sql).await?.pop())
    }

    /// Events in the order of commits, which is the same for every subscriber: first what there is from
    /// `start` on, then what comes, for ever (F104). It goes on where it was when the connection breaks or the
    /// server begins anew: no event is missed, and none comes twice.
    ///
    /// The constraint is as that of [`Self::replay`].
    ///
    /// # Errors
    /// As [`Self::replay`].
    pub async fn subscribe(&self, start: Start, constraint: Option<&str>) -> Result<Subscription> {
        Subscription::begin(Arc::clone(&self.shared), start, constraint).await
    }

    /// Releases the chronicle (F11), once what was appended is stored; its session ends. Other clones of the
    /// handle are of no use then, nor is what came from them.
    ///
    /// # Errors
    /// As [`Self::flush`], and what the server says. It is released in any case, as soon as the server
    /// knows of it.
    pub async fn release(self) -> Result<()> {
        let flushed = match self.shared.writer.get() {
            Some(writer) => writer.close().await.map(|_| ()),
            None => Ok(()),
        };
        // The end of the session releases everything that it has.
        self.shared.client.pool.close().await;
        flushed
    }

    /// Releases the chronicle by itself when so much time has passed; until then the handle can be used.
    ///
    /// # Errors
    /// `Sql`, `Connection`, `Timeout`; `Closed` when it is released.
    pub async fn release_in(&self, time: Duration) -> Result<()> {
        let pool = &self.shared.client.pool;
        let acquired = pool.acquired.get().ok_or_else(|| Error::closed("acquisition"))?;
        let ended = |lease: Lease| async move { acquired.end_in(&lease.connection, time).await };
        self.shared.client.safely(Care::Pure, ended).await
    }
}

impl Shared {
    /// The writer, which begins with the first event.
    pub(crate) async fn writer(&self) -> Result<&Writer> {
        let opened = self.writer.get_or_try_init(|| async {
            let mut writer = self.client.writer(&self.table.quoted);
            if let Some(durability) = self.how.durability {
                writer = writer.durability(durability);
            }
            // An event does not wait for others: those that come while it is sent go together.
            writer.linger(Duration::ZERO).refuses_whole(self.how.new_ticks > 0).open().await
        });
        opened.await
    }

    /// The raw events that a query gives.
    pub(crate) async fn events(&self, sql: &str) -> Result<Vec<Event>> {
        let mut all = Vec::new();
        for batch in self.client.query(sql).await?.collect().await? {
            let events = event::events(&batch, &self.table)?;
            all.extend(events.into_iter().map(|(event, _)| event));
        }
        Ok(all)
    }

    /// Compares the clocks again, unless that was done just now.
    pub(crate) async fn resynchronize(&self) -> Result<()> {
        let mut synchronized = self.synchronized.lock().await;
        if synchronized.is_none_or(|at| at.elapsed() > SYNCHRONIZED_FOR) {
            self.client.sync_clock().await?;
            *synchronized = Some(Instant::now());
        }
        Ok(())
    }
}
