//! Batches, each with an acknowledgement.
//!
//! ```text
//!  messages ─► decoded ─► columns of the table ─► waiting ─► one append ─► durable ─► acknowledged
//!                meanwhile, within the limits:         ▲        of all waiting batches, in order
//! ```
//!
//! While an append waits for its sync, later batches are read. All received batches form the next
//! append: a client that does not wait for acknowledgements needs one sync for many batches. Each
//! batch is still atomic and is acknowledged separately, in order. If the batches cannot be stored
//! together, each batch is stored separately: batches before the failing batch are stored, later
//! batches are not.

mod group_append;

use std::{collections::VecDeque, sync::Arc};

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use stratalog_flight_wire::{ArrivedBatch, BatchMetadata, Batches, InboundMessages};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{Ingest, Session};
use tonic::Status;

use self::group_append::{AppendOutcome, store};
use crate::{caller::Caller, ingest::at, status::refused};

/// Acknowledgements as JSON.
pub(crate) type AcknowledgementStream = stream::BoxStream<'static, Result<Bytes, Status>>;

/// Maximum number of waiting batches during an append, and the number of waiting bytes that stops
/// further reads.
const WAITING_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 8 << 20;

/// Batches for the table of a path, acknowledged in order.
///
/// # Errors
/// `UndefinedTable`, `ProtocolViolation`. The error of a batch is reported in order and ends the
/// call: the batches before it are stored.
pub(crate) async fn by_path(
    caller: &Arc<Caller>,
    path: &[String],
    messages: InboundMessages,
) -> Result<AcknowledgementStream> {
    let (named, table) = match path {
        [table] => (None, table.as_str()),
        [schema, table] => (Some(schema.as_str()), table.as_str()),
        _ => {
            return Err(Error::new(
                ErrorKind::ProtocolViolation,
                format!("a path of {} names is not a table", path.len()),
            )
            .with_hint("[table] or [schema, table]"));
        }
    };
    let session = Arc::clone(caller.session());
    let chronicle = session.table(named, table)?;
    let mut batches = Batches::new(messages, caller.settings.batch_limits());
    let Some(schema) = batches.schema().await? else { return Ok(stream::empty().boxed()) };
    let ingest = session.ingest(chronicle, schema).await?;
    let table = Arc::new(IngestTarget { session, ingest, what: format!("rows for {table}") });
    let call = IngestCall {
        caller: Arc::clone(caller),
        batches,
        table,
        waiting: VecDeque::new(),
        waiting_bytes: 0,
        storing: None,
        acknowledgements: VecDeque::new(),
        end: None,
    };
    Ok(stream::unfold(call, |mut call| async move {
        let acknowledgements = call.next().await?;
        Some((acknowledgements.map_err(refused), call))
    })
    .boxed())
}

/// The destination of the rows.
struct IngestTarget {
    session: Arc<Session>,
    ingest: Ingest,
    what: String,
}

/// A batch ready to be stored.
struct WaitingBatch {
    number: u64,
    rows: RecordBatch,
    batch_metadata: BatchMetadata,
}

/// The state of a call.
struct IngestCall {
    caller: Arc<Caller>,
    batches: Batches,
    table: Arc<IngestTarget>,
    waiting: VecDeque<WaitingBatch>,
    waiting_bytes: usize,
    storing: Option<BoxFuture<'static, AppendOutcome>>,
    /// Acknowledgements not yet sent.
    acknowledgements: VecDeque<Bytes>,
    /// The reason for the end of reading: the client's end, or an error.
    end: Option<Result<()>>,
}

impl IngestCall {
    /// The next acknowledgement, or the final error of the call.
    async fn next(&mut self) -> Option<Result<Bytes>> {
        loop {
            if let Some(acknowledgement) = self.acknowledgements.pop_front() {
                return Some(Ok(acknowledgement));
            }
            self.begin();
            let has_room =
                self.waiting.len() < WAITING_MAX && self.waiting_bytes < WAITING_BYTES_MAX;
            let reads = self.end.is_none() && has_room;
            let arrived = match &mut self.storing {
                Some(storing) => tokio::select! {
                    biased;
                    stored = storing => {
                        self.storing = None;
                        self.stored(stored);
                        continue;
                    }
                    arrived = self.batches.next(), if reads => arrived,
                },
                None if reads => self.batches.next().await,
                // The error is reported once, as the last item.
                None => match self.end.replace(Ok(()))? {
                    Ok(()) => return None,
                    Err(error) => return Some(Err(error)),
                },
            };
            self.take(arrived).await;
        }
    }

    /// Begins an append of the waiting batches, unless an append is running.
    fn begin(&mut self) {
        if self.storing.is_some() || self.waiting.is_empty() {
            return;
        }
        let count = group_append::count(&self.waiting);
        let group: Vec<WaitingBatch> = self.waiting.drain(..count).collect();
        let bytes: usize = group.iter().map(|batch| batch.rows.get_array_memory_size()).sum();
        self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes);
        self.storing = Some(store(Arc::clone(&self.table), group).boxed());
    }

    /// Handles a received batch, an error or the end.
    async fn take(&mut self, arrived: Option<Result<ArrivedBatch>>) {
        let arrived = match arrived {
            None => return self.end = Some(Ok(())),
            Some(Err(error)) => return self.end = Some(Err(error)),
            Some(Ok(arrived)) => arrived,
        };
        self.caller.touch();
        let number = arrived.number;
        match self.table.ready(arrived).await {
            Ok(waiting) => {
                self.waiting_bytes += waiting.rows.get_array_memory_size();
                self.waiting.push_back(waiting);
            }
            Err(error) => self.end = Some(Err(at(error, number))),
        }
    }

    /// Handles the end of an append: adds its acknowledgements. After an error, later batches are
    /// not stored.
    fn stored(&mut self, stored: AppendOutcome) {
        self.caller.touch();
        self.acknowledgements.extend(stored.acknowledgements);
        if let Some(error) = stored.error {
            self.waiting.clear();
            self.waiting_bytes = 0;
            self.end = Some(Err(error));
        }
    }
}

impl IngestTarget {
    /// Converts a batch to the table's columns.
    async fn ready(&self, arrived: ArrivedBatch) -> Result<WaitingBatch> {
        let batch_metadata = BatchMetadata::read(&arrived.metadata)?;
        let rows = self.ingest.rows(&arrived.batch).await?;
        Ok(WaitingBatch { number: arrived.number, rows, batch_metadata })
    }
}
