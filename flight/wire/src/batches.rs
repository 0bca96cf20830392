//! Decodes the batches of a client from untrusted Arrow IPC messages, within limits.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use arrow_flight::FlightData;
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream::BoxStream};
use stratalog_model::{
    Error, ErrorKind, Result,
    ipc::{DecodedMessage, IpcDecoder},
};
use tonic::{Code, Status};

use crate::ipc::{self, BatchLimits, Fault, MessageContent};

/// The stream of messages that a client sends in a call.
pub type InboundMessages = BoxStream<'static, Result<FlightData, Status>>;

/// A batch of rows, with the metadata of its message.
#[derive(Debug)]
pub struct ArrivedBatch {
    /// The number of the batch in its call, from 1.
    pub number: u64,
    /// The rows of the batch.
    pub batch: RecordBatch,
    /// The message's `app_metadata`.
    pub metadata: Bytes,
}

/// A reader for the batches in the messages of a call.
pub struct Batches {
    messages: InboundMessages,
    checks: Checks,
    decoder: IpcDecoder,
    schema: Option<SchemaRef>,
    number: u64,
}

/// Checks the messages of a call before Arrow's decoder reads them.
struct Checks {
    limits: BatchLimits,
    schema: Option<Schema>,
    /// The bytes of each dictionary, by its id.
    dictionaries: HashMap<i64, u64>,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Batches {
    /// Reads batches from `messages`. Skips messages that contain only a command.
    pub fn new(
        messages: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
        limits: BatchLimits,
    ) -> Self {
        let checks = Checks { limits, schema: None, dictionaries: HashMap::new() };
        let (messages, decoder) = (messages.boxed(), IpcDecoder::default());
        Self { messages, checks, decoder, schema: None, number: 0 }
    }

    /// The schema of the batches, which the client sends before any batch. `None` if the call ends
    /// without a schema.
    ///
    /// # Errors
    /// The errors of [`Self::next`].
    pub async fn schema(&mut self) -> Result<Option<SchemaRef>> {
        while self.schema.is_none() {
            match self.step().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error),
                Some(Ok(Some(_))) => {
                    return Err(Error::internal("a batch was decoded without a schema"));
                }
                Some(Ok(None)) => {}
            }
        }
        Ok(self.schema.clone())
    }

    /// The next batch; `None` at the end of the call.
    ///
    /// # Errors
    /// `InvalidBinaryRepresentation` for a message that is not valid IPC.
    pub async fn next(&mut self) -> Option<Result<ArrivedBatch>> {
        loop {
            match self.step().await? {
                Err(error) => return Some(Err(error)),
                Ok(Some(arrived)) => return Some(Ok(arrived)),
                Ok(None) => {}
            }
        }
    }

    /// Reads one message. The outer `None` means the end of the call, the inner `None` a message
    /// without rows.
    async fn step(&mut self) -> Option<Result<Option<ArrivedBatch>>> {
        let message = match self.messages.next().await? {
            Ok(message) if message.data_header.is_empty() => return Some(Ok(None)),
            Ok(message) => message,
            Err(status) => return Some(Err(broken_off(&status))),
        };
        if let Err(fault) = self.checks.check(&message) {
            return Some(Err(self.faulty(fault)));
        }
        let FlightData { data_header, data_body, app_metadata: metadata, .. } = message;
        // The decoder panics on some damaged messages. The server turns the panic into an error.
        let decoder = AssertUnwindSafe(|| self.decoder.decode(&data_header, data_body));
        let decoded = match catch_unwind(decoder) {
            Err(_) => return Some(Err(self.unreadable("the message is damaged"))),
            Ok(Err(error)) => return Some(Err(self.unreadable(&error.to_string()))),
            Ok(Ok(decoded)) => decoded,
        };
        match decoded {
            DecodedMessage::Nothing => Some(Ok(None)),
            DecodedMessage::Schema(schema) => {
                if self.schema.as_ref().is_some_and(|before| *before != schema) {
                    return Some(Err(self.unreadable("the schema changes midway")));
                }
                self.schema = Some(schema);
                Some(Ok(None))
            }
            DecodedMessage::Rows(batch) => {
                self.number += 1;
                Some(Ok(Some(ArrivedBatch { number: self.number, batch, metadata })))
            }
        }
    }

    /// The name of the next message in errors.
    fn place(&self) -> String {
        match &self.schema {
            None => "the schema".to_string(),
            Some(_) => format!("batch {}", self.number + 1),
        }
    }

    fn unreadable(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::InvalidBinaryRepresentation,
            format!("{} cannot be read: {what}", self.place()),
        )
        .with_hint("nothing of the batch was stored")
    }

    fn faulty(&self, fault: Fault) -> Error {
        match fault {
            Fault::Lies(what) => self.unreadable(&what),
            Fault::NotOffered(what) => Error::new(ErrorKind::FeatureNotSupported, what),
            Fault::TooLarge(what) => Error::new(
                ErrorKind::LimitExceeded,
                format!("{} is too large: {what}", self.place()),
            )
            .with_hint("send fewer rows in a message, or raise message_bytes_max"),
        }
    }

    /// Collects all batches of the call as parameters of a statement. `None` if the call ends
    /// without a schema.
    ///
    /// # Errors
    /// The errors of [`Self::next`]; `LimitExceeded` for more than `bytes_max` bytes.
    pub async fn all(mut self, bytes_max: usize) -> Result<Option<BoundParameters>> {
        let Some(schema) = self.schema().await? else { return Ok(None) };
        let (mut batches, mut bytes) = (Vec::new(), 0_usize);
        while let Some(arrived) = self.next().await {
            let batch = arrived?.batch;
            bytes = bytes.saturating_add(batch.get_array_memory_size());
            if bytes > bytes_max {
                return Err(Error::new(
                    ErrorKind::LimitExceeded,
                    format!("the parameters take more than {bytes_max} bytes"),
                )
                .with_hint(
                    "bind fewer rows at a time, or use ingestion, which accepts any number of rows",
                ));
            }
            batches.push(batch);
        }
        Ok(Some(BoundParameters { schema, batches }))
    }
}

/// The parameters of a prepared statement: one row per execution.
#[derive(Debug)]
pub struct BoundParameters {
    /// The columns of the parameters.
    pub schema: SchemaRef,
    /// The rows of parameters, in batches.
    pub batches: Vec<RecordBatch>,
}

impl BoundParameters {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

impl Checks {
    fn check(&mut self, data: &FlightData) -> Result<(), Fault> {
        let (id, bytes, is_delta) = match ipc::check(data, self.schema.as_ref(), &self.limits)? {
            MessageContent::Dictionary { id, bytes, is_delta } => (id, bytes, is_delta),
            MessageContent::Schema(schema) => {
                self.schema = Some(schema);
                self.dictionaries.clear();
                return Ok(());
            }
            MessageContent::Rows | MessageContent::Nothing => return Ok(()),
        };
        let before = if is_delta { self.dictionaries.get(&id).copied() } else { None };
        self.dictionaries.insert(id, before.unwrap_or(0).saturating_add(bytes));
        let total = self.dictionaries.values().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        if total > self.limits.expanded_bytes_max {
            return Err(Fault::TooLarge(format!(
                "the dictionaries of the call have {total} bytes; the maximum is {} bytes",
                self.limits.expanded_bytes_max
            )));
        }
        Ok(())
    }
}

/// The error for a call that the server ends because the server shuts down.
pub fn shutting_down() -> Error {
    Error::new(ErrorKind::Shutdown, "terminating connection due to administrator command")
        .with_hint("acknowledged batches are stored; send the other batches again after the restart of the server")
}

/// The error for a call that ended with a gRPC status.
pub fn broken_off(status: &Status) -> Error {
    let shutdown = ErrorKind::Shutdown.sqlstate();
    if status
        .metadata()
        .get("sqlstate")
        .is_some_and(|state| state.as_bytes() == shutdown.as_bytes())
    {
        return shutting_down();
    }
    if status.code() == Code::OutOfRange {
        return Error::new(
            ErrorKind::LimitExceeded,
            format!("a message is too large: {}", status.message()),
        )
        .with_hint(
            "send smaller messages, for example with fewer rows, or raise message_bytes_max",
        );
    }
    Error::new(
        ErrorKind::ConnectionFailure,
        format!("the client's stream ended early: {}", status.message()),
    )
}
