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
    client::Client,
    error::{Error, Result},
    pool::Lease,
    retry::RepeatCondition,
    writer::{Acknowledgement, Writer},
};

/// `resynchronize` does nothing if the client compared the clocks less than this time ago.
const CLOCK_SYNC_INTERVAL_MIN: Duration = Duration::from_millis(200);

/// The handle of an acquired chronicle: the CID in Figure 2 of the ChronoLog paper. Cheap to clone,
/// usable by any number of tasks concurrently.
///
/// The handle has its own connection and session. The session keeps the acquisition until the
/// release, or until the last clone of the handle and all objects created from the handle are
/// dropped. After a broken connection the handle continues over a new connection; after a server
/// restart the handle acquires the chronicle again, unless another session has acquired the
/// chronicle in the meantime. In both cases no recorded event is lost or stored twice.
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
    shared: Arc<HandleState>,
}

/// The state that all clones of a handle share.
#[derive(Debug)]
pub(crate) struct HandleState {
    pub(crate) client: Client,
    pub(crate) table: Table,
    pub(crate) options: Acquire,
    writer: OnceCell<Writer>,
    synchronized: tokio::sync::Mutex<Option<Instant>>,
    _keeper: Task,
}

/// A task that is aborted on drop.
#[derive(Debug)]
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Starts a task that compares the clocks every `every`. Each comparison also renews the
    /// acquisition.
    pub(crate) fn keeping(client: Client, every: Duration) -> Self {
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                match client.sync_clock().await {
                    Ok(_) => {}
                    Err(error) if error.is_retryable() => {
                        tracing::debug!(%error, "the clocks were not compared");
                    }
                    // The acquisition was released, or has run out.
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
    /// Creates a handle for `client`, whose session has acquired `table`. The handle aborts the
    /// task `keeper` when dropped.
    pub(crate) fn new(client: Client, table: Table, options: Acquire, keeper: Task) -> Self {
        let shared = HandleState {
            client,
            table,
            options,
            writer: OnceCell::new(),
            synchronized: tokio::sync::Mutex::new(None),
            _keeper: keeper,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The chronicle's name as the caller of `acquire` wrote it.
    pub fn name(&self) -> &str {
        &self.shared.table.name
    }

    /// The unit of the ticks. The ChronoLog paper calls the unit at creation the *index*. After
    /// [`Chronolog::edit`](crate::Chronolog::edit) the unit of `_group` may be coarser.
    pub fn granularity(&self) -> Granularity {
        self.shared.table.scale.granularity()
    }

    /// The time of tick 0: nanoseconds since 1970, UTC.
    pub fn base_ns(&self) -> i64 {
        self.shared.table.scale.base_ns()
    }

    /// A client for SQL statements in the session of this handle: the statements see only the
    /// acquired range of the chronicle.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// The number of times that the handle lost its acquisition and acquired again, because the
    /// server restarted or was unreachable for longer than the lease. In the meantime other
    /// sessions may have recorded events, even if the acquisition is exclusive.
    pub fn lapses(&self) -> u64 {
        self.shared.client.pool.acquisition.get().map_or(0, |acquisition| acquisition.lapses())
    }

    /// Records an event (F14), and returns when the event is stored with the requested durability.
    ///
    /// The client computes the tick by the server's clock ([`Chronolog::sync_clock`]). If the
    /// future is dropped before it returns, the outcome is unknown.
    ///
    /// # Errors
    /// `InvalidBatch` if the server refuses the event: with SQLSTATE SL001 outside of the
    /// acceptance window (F24), after [`Acquire::new_ticks`]; SL002 if another event already has
    /// the tick (F25); 44000 outside of the acquired range. `InvalidOption` for a table that is not
    /// a chronicle of raw events. `Timeout` without room in the buffer; `Closed` after the release;
    /// the error that ended the recording.
    ///
    /// [`Chronolog::sync_clock`]: crate::Chronolog::sync_clock
    pub async fn record(&self, payload: impl AsRef<[u8]>) -> Result<Receipt> {
        self.shared.append(payload.as_ref()).await?.await
    }

    /// Records events in this order, each with its own tick, and returns one receipt per event. The
    /// server stores up to 65,536 events and 4 MiB atomically; if the server refuses the ticks, the
    /// client assigns new ticks to all of these events and tries again. The client splits a larger
    /// batch, and does not record refused slices of the batch again.
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

    /// Adds an event to the buffer without awaiting the server: waits only while the buffer is
    /// full. The server stores events in the order of the calls, except for events that get a new
    /// tick.
    ///
    /// # Errors
    /// The [`Pending`] reports the errors of [`Self::record`]; this call reports only errors that
    /// occur before the event is in the buffer.
    pub async fn append(&self, payload: impl AsRef<[u8]>) -> Result<Pending> {
        self.shared.append(payload.as_ref()).await
    }

    /// Waits until all events appended before this call are stored. Returns the sum of the
    /// acknowledgements since the previous flush.
    ///
    /// # Errors
    /// `InvalidBatch`, naming the first refused event, if the server refused an event whose
    /// [`Pending`] was dropped; all other events are stored. The error that ended the recording.
    pub async fn flush(&self) -> Result<Acknowledgement> {
        match self.shared.writer.get() {
            Some(writer) => writer.flush().await,
            None => Ok(Acknowledgement::default()),
        }
    }

    /// The newest events, at most `count`, newest first (F17). The result omits events with a time
    /// later than the call.
    ///
    /// # Errors
    /// `InvalidOption` for a table that is not a chronicle of raw events; `Sql`, `Connection`,
    /// `Timeout`.
    pub async fn playback(&self, count: usize) -> Result<Vec<Event>> {
        self.shared.table.raw()?;
        let sql = format!(
            "SELECT _tick, _seq, _gsn, payload FROM playback({}, {count}) \
             ORDER BY _tick DESC, _seq DESC",
            literal(&self.shared.table.quoted)
        );
        self.shared.events(&sql).await
    }

    /// The events of all ranges that meet the constraint, in the order of ticks, each event once
    /// (F18). A range without an end extends to the newest event at the time of the call.
    ///
    /// The constraint is an SQL condition on `time` and `payload`, such as `length(payload) > 100`,
    /// and on the system columns `_tick`, `_group` and `_gsn`.
    ///
    /// # Errors
    /// As [`Self::playback`]; errors in the constraint.
    pub async fn replay(&self, ranges: &[Range], constraint: Option<&str>) -> Result<Replay> {
        Replay::begin(Arc::clone(&self.shared), ranges, constraint).await
    }

    /// The event at position `gsn`; waits for the commit of this position (F108). `None` if the
    /// event at the position belongs to another table.
    ///
    /// # Errors
    /// As [`Self::playback`]; SQLSTATE 72000 if the events at this position were deleted.
    pub async fn read_record(&self, gsn: u64) -> Result<Option<Event>> {
        self.shared.table.raw()?;
        let sql = format!(
            "SELECT _tick, _seq, _gsn, payload FROM read_record({gsn}, {})",
            literal(&self.shared.table.quoted)
        );
        Ok(self.shared.events(&sql).await?.pop())
    }

    /// Events in the order of commits, which is the same for every subscriber: first the history
    /// from `start` on, then new events, without end (F104). After a broken connection or a server
    /// restart the subscription continues at its position: the subscription neither misses nor
    /// repeats an event.
    ///
    /// The constraint works as in [`Self::replay`].
    ///
    /// # Errors
    /// As [`Self::replay`].
    pub async fn subscribe(&self, start: Start, constraint: Option<&str>) -> Result<Subscription> {
        Subscription::begin(Arc::clone(&self.shared), start, constraint).await
    }

    /// Stores the appended events, then releases the chronicle and ends its session (F11). Other
    /// clones of the handle, and objects created from them, become unusable.
    ///
    /// # Errors
    /// As [`Self::flush`], and errors of the server. The server releases the chronicle even after
    /// an error, at the latest when the lease runs out.
    pub async fn release(self) -> Result<()> {
        let flushed = match self.shared.writer.get() {
            Some(writer) => writer.close().await.map(|_| ()),
            None => Ok(()),
        };
        // The end of the session releases all its acquisitions.
        self.shared.client.pool.close().await;
        flushed
    }

    /// Releases the chronicle after `time`; until then the handle stays usable.
    ///
    /// # Errors
    /// `Sql`, `Connection`, `Timeout`; `Closed` after the release.
    pub async fn release_in(&self, time: Duration) -> Result<()> {
        let pool = &self.shared.client.pool;
        let acquisition = pool.acquisition.get().ok_or_else(|| Error::closed("acquisition"))?;
        let ended = |lease: Lease| async move { acquisition.end_in(&lease.connection, time).await };
        self.shared.client.with_retries(RepeatCondition::Pure, ended).await
    }
}

impl HandleState {
    /// The writer of this handle; the first call opens it.
    pub(crate) async fn writer(&self) -> Result<&Writer> {
        let opened = self.writer.get_or_try_init(|| async {
            let mut writer = self.client.writer(&self.table.quoted);
            if let Some(durability) = self.options.durability {
                writer = writer.durability(durability);
            }
            // Without a linger time the writer sends an event immediately. Events that arrive while
            // a batch is being sent form the next batch.
            writer.linger(Duration::ZERO).refuses_whole(self.options.new_ticks > 0).open().await
        });
        opened.await
    }

    /// Runs the query `sql`, and returns the result rows as raw events.
    pub(crate) async fn events(&self, sql: &str) -> Result<Vec<Event>> {
        let mut all = Vec::new();
        for batch in self.client.query(sql).await?.collect().await? {
            let events = event::events(&batch, &self.table)?;
            all.extend(events.into_iter().map(|(event, _)| event));
        }
        Ok(all)
    }

    /// Compares the clocks again, unless the last comparison is recent.
    pub(crate) async fn resynchronize(&self) -> Result<()> {
        let mut synchronized = self.synchronized.lock().await;
        if synchronized.is_none_or(|at| at.elapsed() > CLOCK_SYNC_INTERVAL_MIN) {
            self.client.sync_clock().await?;
            *synchronized = Some(Instant::now());
        }
        Ok(())
    }
}
