//! Batches that a client sends: decoded from IPC that nobody vouches for, within a budget.

use std::panic::AssertUnwindSafe;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::{
    FlightData,
    decode::{DecodedPayload, FlightDataDecoder},
    error::FlightError,
};
use bytes::Bytes;
use futures::{FutureExt as _, Stream, StreamExt as _, stream::BoxStream};
use stratalog_model::{Error, ErrorKind, Result};
use tonic::{Code, Status};

/// Messages of a call, on their way in.
pub(crate) type Inbound = BoxStream<'static, Result<FlightData, Status>>;

/// A batch, and what its message says besides.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// Its number in the call, from 1.
    pub(crate) number: u64,
    /// The rows.
    pub(crate) batch: RecordBatch,
    /// The message's `app_metadata`.
    pub(crate) metadata: Bytes,
}

/// The batches of a call.
pub(crate) struct Batches {
    decoder: FlightDataDecoder,
    schema: Option<SchemaRef>,
    number: u64,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Batches {
    /// Those of `messages`. Messages that carry no data, only a command, are passed over.
    pub(crate) fn new(
        messages: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
    ) -> Self {
        let with_data = messages.filter(|message| {
            let has_data = message.as_ref().map_or(true, |data| !data.data_header.is_empty());
            futures::future::ready(has_data)
        });
        let with_data =
            with_data.map(|message| message.map_err(|error| FlightError::Tonic(Box::new(error))));
        Self { decoder: FlightDataDecoder::new(with_data), schema: None, number: 0 }
    }

    /// The schema, when there is one: it comes before any batch.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub(crate) async fn schema(&mut self) -> Result<Option<SchemaRef>> {
        while self.schema.is_none() {
            match self.step().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(error),
                Some(Ok(Some(_))) => {
                    return Err(Error::new(
                        ErrorKind::ProtocolViolation,
                        "a batch came before the schema",
                    ));
                }
                Some(Ok(None)) => {}
            }
        }
        Ok(self.schema.clone())
    }

    /// The next batch.
    ///
    /// # Errors
    /// `InvalidBinaryRepresentation` for messages that are no IPC, or lie about what they hold.
    pub(crate) async fn next(&mut self) -> Option<Result<Arrived>> {
        loop {
            match self.step().await? {
                Err(error) => return Some(Err(error)),
                Ok(Some(arrived)) => return Some(Ok(arrived)),
                Ok(None) => {}
            }
        }
    }

    /// One message; `None` in it for a schema.
    async fn step(&mut self) -> Option<Result<Option<Arrived>>> {
        let at = self.number + 1;
        let unreadable = |what: String| {
            Error::new(
                ErrorKind::InvalidBinaryRepresentation,
                format!("batch {at} cannot be read: {what}"),
            )
            .with_hint("nothing of this batch was stored")
        };
        // The decoder validates; that it panics on some damage is a defect that must stay here.
        let decoded = AssertUnwindSafe(self.decoder.next()).catch_unwind().await;
        let decoded = match decoded {
            Err(_) => return Some(Err(unreadable("it is damaged".to_string()))),
            Ok(None) => return None,
            Ok(Some(Err(FlightError::Tonic(status)))) if status.code() == Code::OutOfRange => {
                return Some(Err(Error::new(
                    ErrorKind::LimitExceeded,
                    format!("a message is too large: {}", status.message()),
                )
                .with_hint("send fewer rows in a message, or raise message_bytes_max")));
            }
            Ok(Some(Err(FlightError::Tonic(status)))) => {
                return Some(Err(Error::new(
                    ErrorKind::ConnectionFailure,
                    format!("the client's stream broke off: {}", status.message()),
                )));
            }
            Ok(Some(Err(error))) => return Some(Err(unreadable(error.to_string()))),
            Ok(Some(Ok(decoded))) => decoded,
        };
        let metadata = decoded.app_metadata();
        match decoded.payload {
            DecodedPayload::None => Some(Ok(None)),
            DecodedPayload::Schema(schema) => {
                if self.schema.as_ref().is_some_and(|before| *before != schema) {
                    return Some(Err(unreadable("the schema changes midway".to_string())));
                }
                self.schema = Some(schema);
                Some(Ok(None))
            }
            DecodedPayload::RecordBatch(batch) => {
                self.number += 1;
                Some(Ok(Some(Arrived { number: self.number, batch, metadata })))
            }
        }
    }

    /// All of them, for parameters.
    ///
    /// # Errors
    /// As [`Self::next`]; `LimitExceeded`.
    pub(crate) async fn all(mut self, bytes_max: usize) -> Result<Option<Bound>> {
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
                .with_hint("bind fewer rows at a time, or use ingestion, which takes any number"));
            }
            batches.push(batch);
        }
        Ok(Some(Bound { schema, batches }))
    }
}

/// Parameters of a prepared statement, a row for each time that it is carried out.
#[derive(Debug)]
pub(crate) struct Bound {
    /// Their columns.
    pub(crate) schema: SchemaRef,
    /// The rows.
    pub(crate) batches: Vec<RecordBatch>,
}

impl Bound {
    /// How many there are.
    pub(crate) fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}
