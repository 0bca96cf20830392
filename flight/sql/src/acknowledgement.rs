//! Stores the batches of a client, and acknowledges each batch.
//!
//! ```text
//!  messages ─► decode ─► convert to the ─► wait ─► append all ─► fsync ─► acknowledge each batch
//!                        table's columns    ▲      waiting batches
//!                                           └ continues while an append runs, within limits
//! ```
//!
//! While an append waits for its fsync, the call reads later batches, which form the next append.
//! Thus many batches of a client that does not wait for acknowledgements need only one fsync. Each
//! batch stays atomic and gets its own acknowledgement, in order. If a group of batches cannot be
//! stored together, the server stores the batches one by one, up to the first batch that fails.

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

/// The acknowledgements of a call, as JSON.
pub(crate) type AcknowledgementStream = stream::BoxStream<'static, Result<Bytes, Status>>;

/// Maximum number of batches that wait while an append runs.
const WAITING_MAX: usize = 64;
/// The call stops reading while batches with this many bytes wait.
const WAITING_BYTES_MAX: usize = 8 << 20;

/// Stores the batches of a call in the table `path`: the table's name, or schema and name.
/// Acknowledges each batch, in order.
///
/// # Errors
/// `UndefinedTable`, `ProtocolViolation`. The error of a batch is the last item of the stream and
/// ends the call; the batches before it are stored.
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

/// The session and the table in which the batches are stored.
struct IngestTarget {
    session: Arc<Session>,
    ingest: Ingest,
    what: String,
}

/// A batch that is converted to the columns of the table and waits to be stored.
struct WaitingBatch {
    number: u64,
    rows: RecordBatch,
    batch_metadata: BatchMetadata,
}

/// The state of a call that stores batches.
struct IngestCall {
    caller: Arc<Caller>,
    batches: Batches,
    table: Arc<IngestTarget>,
    waiting: VecDeque<WaitingBatch>,
    waiting_bytes: usize,
    storing: Option<BoxFuture<'static, AppendOutcome>>,
    /// Acknowledgements that are not yet sent to the client.
    acknowledgements: VecDeque<Bytes>,
    /// Set when the call reads no further batches: `Ok` after the client has ended the call, or the
    /// error that ends the call.
    end: Option<Result<()>>,
}

impl IngestCall {
    /// Returns the next acknowledgement. After the last acknowledgement, returns the error that
    /// ended the call, if there is one.
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
                // The call returns the error once, after all acknowledgements.
                None => match self.end.replace(Ok(()))? {
                    Ok(()) => return None,
                    Err(error) => return Some(Err(error)),
                },
            };
            self.take(arrived).await;
        }
    }

    /// Begins an append of waiting batches, unless an append is running.
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

    /// Handles the next item from the client: a batch, an error, or the end.
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

    /// Handles the result of an append: queues its acknowledgements. After an error the call stores
    /// no further batch.
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
