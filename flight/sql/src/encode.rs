//! Encodes the rows of a result as Flight messages, batch by batch. If the client reads slowly, the
//! query waits.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, SchemaRef},
    ipc::{CompressionType, writer::IpcWriteOptions},
};
use arrow_flight::FlightData;
use futures::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use stratalog_model::{
    Error, Result,
    batch_results::BatchResults,
    ipc::{IpcEncoder, batch_bytes},
};
use tonic::Status;

use crate::{status::refused, wire_types::convert};

/// The outgoing messages of a call.
pub(crate) type Messages = BoxStream<'static, Result<FlightData, Status>>;

/// Approximate bytes of a message. gRPC clients accept 4 MiB; a message of this smaller size is
/// still in the processor's caches when it is sent.
const MESSAGE_BYTES: usize = 512 << 10;

/// A cache of the encoded messages of the last commits, shared by all subscribers.
pub(crate) type EncodedCommits = BatchResults<Vec<FlightData>>;

/// Encodes batches as messages. `schema` is a result of [`outgoing`](crate::wire_types::outgoing).
/// `shared` is the cache with the messages of commits that several subscribers read.
///
/// # Errors
/// `Internal` for a compression that the server does not support.
pub(crate) fn messages(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    compression: Option<CompressionType>,
    shared: Option<Arc<EncodedCommits>>,
) -> Result<Messages> {
    let options = IpcWriteOptions::default().try_with_compression(compression);
    let (mut encoder, first) = IpcEncoder::begin(&schema, options.map_err(Error::from)?);
    let shared = shared.filter(|_| compression.is_none() && !has_dictionaries(&schema));
    let schema = match &shared {
        Some(shared) => shared.shape(&schema),
        None => schema,
    };
    let shares = shared.is_some();
    let steps = batches.flat_map(move |batch| match batch {
        // Subscribers share the messages of a whole batch, so the batch is not split.
        Ok(batch) if shares => stream::iter(vec![Ok(batch)]).left_stream(),
        Ok(batch) => stream::iter(parts(batch).map(Ok)).right_stream(),
        Err(error) => stream::iter(vec![Err(error)]).left_stream(),
    });
    let rows = steps.flat_map(move |step| {
        let encoded = step.and_then(|step| match &shared {
            Some(shared) => shared.get(&step, &schema, || {
                let parts = parts(step.clone()).map(|part| encode(&mut encoder, &part, &schema));
                Ok(parts.collect::<Result<Vec<_>>>()?.concat())
            }),
            None => encode(&mut encoder, &step, &schema),
        });
        stream::iter(match encoded {
            Ok(messages) => messages.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(refused(error))],
        })
    });
    Ok(stream::once(std::future::ready(Ok(first.into()))).chain(rows).boxed())
}

/// True if the schema has dictionary columns. The messages then depend on earlier messages, and
/// subscribers cannot share them.
fn has_dictionaries(schema: &SchemaRef) -> bool {
    let nested = |field: &&Field| matches!(field.data_type(), DataType::Dictionary(..));
    schema.flattened_fields().iter().any(nested)
}

/// Splits a batch into parts of about [`MESSAGE_BYTES`].
fn parts(batch: RecordBatch) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let parts = batch_bytes(&batch).div_ceil(MESSAGE_BYTES).clamp(1, rows.max(1));
    let step = rows.div_ceil(parts).max(1);
    (0..rows).step_by(step).map(move |at| batch.slice(at, step.min(rows - at)))
}

/// Encodes a batch. Returns the messages of the needed dictionaries, then the message of the rows.
fn encode(
    encoder: &mut IpcEncoder,
    rows: &RecordBatch,
    schema: &SchemaRef,
) -> Result<Vec<FlightData>> {
    let (dictionaries, rows) = encoder.batch(&convert(rows, schema)?).map_err(Error::from)?;
    Ok(dictionaries.into_iter().chain([rows]).map(FlightData::from).collect())
}

/// Encodes a result of a single batch.
///
/// # Errors
/// The errors of [`messages`].
pub(crate) fn whole(batch: RecordBatch) -> Result<Messages> {
    let schema = batch.schema();
    messages(schema, stream::iter([Ok(batch)]), None, None)
}
