//! Rows of a result as Flight's messages, one batch at a time: a client that reads slowly has the
//! query wait for it.

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
    ipc::{IpcEncoder, batch_bytes},
    made_once::MadeOnce,
};
use tonic::Status;

use crate::{status::refused, wire_types::convert};

/// Messages of a call, on their way out.
pub(crate) type Messages = BoxStream<'static, Result<FlightData, Status>>;

/// Bytes of one message, about: gRPC clients take 4 MiB, and what is sent at once is still in the
/// processor's caches when it is.
const MESSAGE_BYTES: usize = 512 << 10;

/// What subscribers are sent of the last commits.
pub(crate) type Encoded = MadeOnce<Vec<FlightData>>;

/// Batches of a schema that [`outgoing`](crate::wire_types::outgoing) made, as messages; those of batches
/// that others are sent as well are in `shared`.
///
/// # Errors
/// `Internal` for a compression that was not built in.
pub(crate) fn messages(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    compression: Option<CompressionType>,
    shared: Option<Arc<Encoded>>,
) -> Result<Messages> {
    let options = IpcWriteOptions::default().try_with_compression(compression);
    let (mut encoder, first) = IpcEncoder::begin(&schema, options.map_err(Error::from)?);
    let shared = shared.filter(|_| compression.is_none() && !has_dictionaries(&schema));
    let schema = match &shared {
        Some(shared) => shared.shape(&schema),
        None => schema,
    };
    let rows = batches.flat_map(move |batch| {
        let encoded = batch.and_then(|batch| match &shared {
            Some(shared) => shared.get(&batch, &schema, || encode(&mut encoder, &batch, &schema)),
            None => encode(&mut encoder, &batch, &schema),
        });
        stream::iter(match encoded {
            Ok(messages) => messages.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(refused(error))],
        })
    });
    Ok(stream::once(std::future::ready(Ok(first.into()))).chain(rows).boxed())
}

/// Whether messages depend on those before them.
fn has_dictionaries(schema: &SchemaRef) -> bool {
    let nested = |field: &&Field| matches!(field.data_type(), DataType::Dictionary(..));
    schema.flattened_fields().iter().any(nested)
}

/// The messages of a batch: those of the dictionaries that its rows need, and of so many rows at a time
/// as are about a message.
fn encode(
    encoder: &mut IpcEncoder,
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> Result<Vec<FlightData>> {
    let rows = batch.num_rows();
    let parts = batch_bytes(batch).div_ceil(MESSAGE_BYTES).clamp(1, rows.max(1));
    let step = rows.div_ceil(parts).max(1);
    let mut messages = Vec::with_capacity(parts);
    for at in (0..rows).step_by(step) {
        let part = convert(&batch.slice(at, step.min(rows - at)), schema)?;
        let (dictionaries, rows) = encoder.batch(&part).map_err(Error::from)?;
        messages.extend(dictionaries.into_iter().chain([rows]).map(FlightData::from));
    }
    Ok(messages)
}

/// The messages of one batch that is there already.
///
/// # Errors
/// As [`messages`].
pub(crate) fn whole(batch: RecordBatch) -> Result<Messages> {
    let schema = batch.schema();
    messages(schema, stream::iter([Ok(batch)]), None, None)
}
