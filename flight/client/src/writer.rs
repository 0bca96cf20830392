//! Writers: an application passes rows to a writer, and the server stores each row exactly once.

mod acknowledgement;
mod call;
mod gather;
mod ledger;
mod options;
mod parcel;
mod pieces;

use std::{
    future::Future,
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch},
    task::JoinHandle,
};
use uuid::Uuid;

pub use self::{
    acknowledgement::{Acknowledgement, Delivery},
    options::WriterBuilder,
};
pub(crate) use self::{gather::raw_batch, options::path_of};
use self::{
    gather::{AwaitedEvents, OutcomeReceivers, RawEvent, SharedOutcome, StoreFailure},
    ledger::{Ledger, Limits},
    options::WriterSettings,
    parcel::{Entry, EntryRows, EventPlace},
    pieces::{bytes_of, cut},
};
use crate::{
    error::{Error, ErrorKind, Result},
    pool::Pool,
};

/// The bytes of one semaphore permit. The writer's buffer limit counts in these permits.
const ROOM_BYTES: usize = 1024;
/// Bytes of the buffer limit that a writer reserves at a time for events of `append`, so that not
/// every event acquires a permit.
const GATHERED_ROOM_BYTES: usize = 16 << 10;
/// A writer that continues an existing producer skips this many batch numbers after the producer's
/// last number on the server. Late batches of an earlier process of the producer may still arrive,
/// and must not have the number of a new batch.
const NUMBERS_SKIPPED: u64 = 1 << 20;

/// Writes batches to a table, each row exactly once.
///
/// The writer numbers its batches. Its background task has several batches in flight at a time.
/// After a broken connection or a server restart, the task repeats unacknowledged batches with the
/// same numbers, and the server stores no number twice. The writer merges small batches and splits
/// large batches.
///
/// An error in the rows of a batch appears in its [`Delivery`], or in [`Self::flush`] if the
/// delivery was dropped; all other batches continue. After any other error, and when the retry
/// policy gives up, the writer has ended: [`Self::into_unacknowledged`] returns all batches without
/// a confirmed outcome.
///
/// Tasks may share a writer as `Arc<Writer>`. Dropping a writer ends its task immediately, and
/// buffered rows are lost: call [`Self::close`] first.
///
/// # Examples
/// ```no_run
/// use std::sync::Arc;
/// use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};
///
/// # async fn example(client: stratalog_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let writer = client.writer("rooms").open().await?;
/// let time: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_700_000_000_000_000_000]).with_timezone("UTC"));
/// let room: ArrayRef = Arc::new(StringArray::from(vec!["cellar"]));
/// let degrees: ArrayRef = Arc::new(Float64Array::from(vec![11.5]));
/// writer.write(RecordBatch::try_from_iter([("time", time), ("room", room), ("degrees", degrees)])?).await?;
/// let stored = writer.flush().await?;
/// assert_eq!(stored.rows, 1);
/// writer.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Writer {
    shared: Arc<WriterState>,
    schema: SchemaRef,
    last_sequence: Option<u64>,
    task: Option<JoinHandle<()>>,
}

/// Rows without an acknowledgement: the server may or may not have stored them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UnacknowledgedRows {
    /// The number of the batch, even if the batch was not sent.
    pub sequence: u64,
    /// The rows without an acknowledgement.
    pub rows: RecordBatch,
}

/// An event in the buffer of a writer. The future resolves to the outcome; a caller that does not
/// need the outcome drops the future.
#[derive(Debug)]
pub(crate) struct AppendedEvent {
    answer: SharedOutcome,
    awaited: Arc<AwaitedEvents>,
    at: usize,
    resolved: bool,
}

impl Future for AppendedEvent {
    type Output = std::result::Result<Acknowledgement, StoreFailure>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.answer.poll_unpin(context));
        self.resolved = true;
        Poll::Ready(match outcome {
            Ok(outcome) => outcome.of(self.at),
            Err(_) => Err((Error::closed("writer"), None)),
        })
    }
}

impl Drop for AppendedEvent {
    fn drop(&mut self) {
        if !self.resolved {
            self.awaited.drop_one(self.at);
        }
    }
}

/// The state that a writer's task shares with its callers.
#[derive(Debug)]
struct WriterState {
    pool: Arc<Pool>,
    settings: WriterSettings,
    core: Mutex<WriterCore>,
    room: Arc<Semaphore>,
    /// Wakes the task when there may be work.
    wake: Notify,
    progress: watch::Sender<Progress>,
}

#[derive(Debug)]
struct WriterCore {
    ledger: Ledger,
    last_number: u64,
    /// The first batch number that this writer assigns. Only callers of `write_numbered` may use
    /// lower numbers.
    numbers_from: u64,
    closing: bool,
    failed: Option<Error>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    done_through: u64,
    ended: bool,
}

impl Writer {
    fn start(
        pool: Arc<Pool>,
        settings: WriterSettings,
        schema: SchemaRef,
        last_sequence: Option<u64>,
    ) -> Self {
        let room = u32::try_from(settings.buffer_bytes_max / ROOM_BYTES).unwrap_or(u32::MAX);
        let numbers_from = match settings.producer_is_new {
            true => 1,
            false => last_sequence.unwrap_or(0).saturating_add(NUMBERS_SKIPPED),
        };
        let core = WriterCore {
            ledger: Ledger::new(settings.limits.clone()),
            last_number: 0,
            numbers_from,
            closing: false,
            failed: None,
        };
        let shared = Arc::new(WriterState {
            pool,
            settings,
            core: Mutex::new(core),
            room: Arc::new(Semaphore::new(room.max(1) as usize)),
            wake: Notify::new(),
            progress: watch::Sender::new(Progress::default()),
        });
        let task = tokio::spawn(call::run(Arc::clone(&shared)));
        Self { shared, schema, last_sequence, task: Some(task) }
    }

    /// The columns of the table. A written batch may omit columns that have a default. The server
    /// matches the columns of a batch by name.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The id of the producer, the sender of numbered batches. Batch numbers are unique per
    /// producer.
    pub fn producer(&self) -> Uuid {
        self.shared.settings.producer
    }

    /// The producer's highest number on the server when the writer was opened. A caller with its
    /// own batch numbers continues above this number.
    pub fn last_sequence(&self) -> Option<u64> {
        self.last_sequence
    }

    /// Adds a batch to the buffer; waits while the buffer is full. The [`Delivery`] resolves when
    /// the server has stored the batch.
    ///
    /// If the caller drops the future before completion, the batch is not in the buffer.
    ///
    /// # Errors
    /// `Timeout` if the buffer had no room within `write_timeout`; `InvalidBatch` for a row that
    /// exceeds the maximal message size; the error that ended the writer. After an error, the batch
    /// is not in the buffer.
    pub async fn write(&self, batch: RecordBatch) -> Result<Delivery> {
        let settings = &self.shared.settings;
        let Limits { rows_max, bytes_max, .. } = settings.limits;
        let pieces = cut(&batch, rows_max, bytes_max, settings.piece_bytes_max);
        for (rows, bytes) in &pieces {
            self.check_size(rows.len(), *bytes)?;
        }
        self.take(batch, pieces, None).await
    }

    /// Adds a batch with the caller's number to the buffer. The number must be above all earlier
    /// numbers. The writer neither splits nor merges the batch. The server acknowledges a number
    /// that is not above the producer's last number as a duplicate and stores nothing. Thus, after
    /// a crash, a process can repeat all writes with an unknown outcome.
    ///
    /// # Errors
    /// As [`Self::write`]; `InvalidOption` for a number that is not above all earlier numbers;
    /// `InvalidBatch` for a batch that exceeds the maximal message size.
    pub async fn write_numbered(&self, sequence: u64, batch: RecordBatch) -> Result<Delivery> {
        let (rows, bytes) = (batch.num_rows(), bytes_of(&batch));
        self.check_size(rows, bytes)?;
        let whole = (rows > 0).then_some((0..rows, bytes));
        self.take(batch, Vec::from_iter(whole), Some(sequence)).await
    }

    /// Adds one event to the buffer; waits while the buffer is full. The writer sends the event
    /// together with earlier unsent events. Only for writers without a linger time.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub(crate) async fn append(
        &self,
        columns: &SchemaRef,
        time_ns: i64,
        payload: &[u8],
    ) -> Result<AppendedEvent> {
        let event = RawEvent { columns, time_ns, payload };
        self.check_size(1, event.bytes())?;
        event.check()?;
        let mut room = None;
        loop {
            let placed = {
                let mut core = self.shared.core.lock();
                core.check_open()?;
                let number = core.last_number.saturating_add(1).max(core.numbers_from);
                let placed = core.ledger.append(number, &event, room.take());
                if placed.is_some() {
                    core.last_number = number;
                }
                placed
            };
            if let Some(EventPlace { awaited, at, is_first }) = placed {
                if is_first {
                    self.shared.wake.notify_one();
                }
                return Ok(AppendedEvent {
                    answer: awaited.answer.clone(),
                    awaited,
                    at,
                    resolved: false,
                });
            }
            room = Some(self.room_for(event.bytes().max(GATHERED_ROOM_BYTES)).await?);
        }
    }

    fn check_size(&self, rows: usize, bytes: usize) -> Result<()> {
        let most = self.shared.settings.piece_bytes_max;
        if bytes <= most {
            return Ok(());
        }
        let what = match rows {
            1 => "a row".to_string(),
            rows => format!("{rows} rows under one number"),
        };
        Err(Error::new(
            ErrorKind::InvalidBatch,
            format!("{what} of {bytes} bytes: a message has at most {most}"),
        )
        .with_hint("message_bytes_max says how large messages may be, on both sides"))
    }

    async fn take(
        &self,
        batch: RecordBatch,
        pieces: Vec<(Range<usize>, usize)>,
        sequence: Option<u64>,
    ) -> Result<Delivery> {
        let all = pieces.iter().map(|(_, bytes)| bytes).sum();
        let room = Arc::new(self.room_for(all).await?);
        let mut core = self.shared.core.lock();
        core.check_open()?;
        if let Some(sequence) = sequence
            && sequence <= core.last_number
        {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                format!("number {sequence} is not above the last number, {}", core.last_number),
            ));
        }
        let mut first = 0;
        let mut receivers = Vec::with_capacity(pieces.len());
        let since = Instant::now();
        let whole = pieces.len() == 1;
        for (rows, bytes) in pieces {
            let number =
                sequence.unwrap_or((core.last_number.saturating_add(1)).max(core.numbers_from));
            first = if first == 0 { number } else { first };
            let name = (!whole)
                .then(|| format!("batch {first}, rows {} to {} of it,", rows.start, rows.end));
            let (sender, receiver) = oneshot::channel();
            receivers.push(receiver);
            core.last_number = number;
            core.ledger.push(Entry {
                number,
                numbered: sequence.is_some(),
                bytes,
                rows: EntryRows::Batch(batch.slice(rows.start, rows.len())),
                name,
                since,
                receivers: OutcomeReceivers::One(sender),
                room: Arc::clone(&room),
            });
        }
        drop(core);
        self.shared.wake.notify_one();
        Ok(Delivery::new(first, receivers))
    }

    /// Waits until `bytes` of the buffer limit are free, and reserves these bytes. If `bytes`
    /// exceeds the limit, reserves the whole limit.
    async fn room_for(&self, bytes: usize) -> Result<OwnedSemaphorePermit> {
        self.shared.core.lock().check_open()?;
        let settings = &self.shared.settings;
        let all = (settings.buffer_bytes_max / ROOM_BYTES).max(1);
        let wanted = u32::try_from((bytes / ROOM_BYTES + 1).min(all)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.shared.room).acquire_many_owned(wanted);
        match tokio::time::timeout(settings.write_timeout, room).await {
            Ok(Ok(room)) => Ok(room),
            Ok(Err(_)) => {
                let core = self.shared.core.lock();
                core.check_open()?;
                Err(Error::closed("writer"))
            }
            Err(_) => Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "the writer to {} has had no room for {bytes} bytes for {} s: {} has not acknowledged the buffered rows",
                    settings.table,
                    settings.write_timeout.as_secs_f64(),
                    self.shared.pool.settings.address.display_url(),
                ),
            )
            .with_hint(
                "check the server; write slower, or give the writer a larger buffer",
            )),
        }
    }

    /// Sends buffered rows without further delay, and returns after all earlier writes are stored.
    /// Returns the sum of the acknowledgements since the previous flush.
    ///
    /// # Errors
    /// `InvalidBatch` if the server refused a batch whose [`Delivery`] was dropped: the error names
    /// the first refused batch, and all other batches are stored. Also the error that ended the
    /// writer.
    pub async fn flush(&self) -> Result<Acknowledgement> {
        let target = {
            let mut core = self.shared.core.lock();
            let target = core.last_number;
            core.ledger.flush(target);
            target
        };
        self.shared.wake.notify_one();
        let mut progress = self.shared.progress.subscribe();
        let reached = |progress: &Progress| progress.done_through >= target || progress.ended;
        // `self` holds the sender, so the wait cannot fail.
        let _ = progress.wait_for(reached).await;
        let mut core = self.shared.core.lock();
        if core.ledger.done_through() < target {
            core.check_open()?;
            return Err(Error::closed("writer"));
        }
        core.ledger.take_outcome()
    }

    /// Flushes as [`Self::flush`] does, then ends the writer: later writes fail with `Closed`.
    ///
    /// # Errors
    /// As [`Self::flush`].
    pub async fn close(&self) -> Result<Acknowledgement> {
        let outcome = self.flush().await;
        self.shared.core.lock().closing = true;
        self.shared.room.close();
        self.shared.wake.notify_one();
        outcome
    }

    /// Ends the writer immediately and returns all unacknowledged rows in order. The server may or
    /// may not have stored these rows. To store each row exactly once, write them with
    /// [`Self::write_numbered`] and the same numbers to another writer of the same producer.
    pub async fn into_unacknowledged(mut self) -> Vec<UnacknowledgedRows> {
        if let Some(task) = self.task.take() {
            task.abort();
            // The task was cancelled on purpose.
            let _ = task.await;
        }
        let all = self.shared.core.lock().ledger.take_all();
        all.into_iter().map(|(sequence, rows)| UnacknowledgedRows { sequence, rows }).collect()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let core = self.shared.core.lock();
            if !core.ledger.is_empty() && core.failed.is_none() {
                let table = &self.shared.settings.table;
                tracing::warn!(%table, "a writer was dropped with unacknowledged rows");
            }
        }
    }
}

impl WriterCore {
    fn check_open(&self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.closing => Err(Error::closed("writer")),
            None => Ok(()),
        }
    }
}

impl WriterState {
    fn report_progress(&self) {
        let done_through = self.core.lock().ledger.done_through();
        self.progress.send_modify(|progress| progress.done_through = done_through);
    }

    fn end(&self, error: Option<Error>) {
        let mut core = self.core.lock();
        if let Some(error) = error {
            core.ledger.fail(&error);
            core.failed = Some(error);
        }
        core.closing = true;
        drop(core);
        self.room.close();
        self.progress.send_modify(|progress| progress.ended = true);
    }

    /// The time after which a missing acknowledgement counts as a broken connection.
    fn acknowledge_timeout(&self) -> Duration {
        self.settings.acknowledge_timeout
    }
}
