//! Rows of a result as Flight's messages, one batch at a time: a client that reads slowly has the
//! query wait for it.

use arrow::{
    array::RecordBatch,
    datatypes::SchemaRef,
    ipc::{CompressionType, writer::IpcWriteOptions},
};
use arrow_flight::{
    FlightData,
    encode::{DictionaryHandling, FlightDataEncoderBuilder},
    error::FlightError,
};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream::BoxStream};
use stratalog_model::{Error, Result};
use tonic::Status;

use crate::{
    status::{refused, status},
    wire_types::convert,
};

/// Messages of a call, on their way out.
pub(crate) type Messages = BoxStream<'static, Result<FlightData, Status>>;

/// Bytes of one message, about: gRPC clients take 4 MiB.
const MESSAGE_BYTES: usize = 2 << 20;

/// Batches of a schema that [`outgoing`](crate::wire_types::outgoing) made, as messages.
///
/// # Errors
/// `Internal` for a compression that was not built in.
pub(crate) fn messages(
    schema: SchemaRef,
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    compression: Option<CompressionType>,
) -> Result<Messages> {
    let options = IpcWriteOptions::default().try_with_compression(compression);
    let options = options.map_err(Error::from)?;
    let target = SchemaRef::clone(&schema);
    let batches = batches
        .and_then(move |batch| futures::future::ready(convert(&batch, &target)))
        .map_err(|error| FlightError::Tonic(Box::new(status(&error))));
    let encoded = FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_options(options)
        .with_dictionary_handling(DictionaryHandling::Resend)
        .with_max_flight_data_size(MESSAGE_BYTES)
        .build(batches);
    Ok(encoded.map_err(told).boxed())
}

/// The messages of one batch that is there already.
///
/// # Errors
/// As [`messages`].
pub(crate) fn whole(batch: RecordBatch) -> Result<Messages> {
    let schema = batch.schema();
    messages(schema, futures::stream::iter([Ok(batch)]), None)
}

/// What a client is told of an error of Flight's own.
pub(crate) fn told(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        FlightError::Arrow(error) => refused(Error::from(error)),
        other => refused(Error::internal(format!("a result cannot be written: {other}"))),
    }
}
