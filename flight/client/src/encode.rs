//! Batches as Flight's messages, one message each: a batch that is sent is acknowledged as one.

use arrow::{array::RecordBatch, datatypes::Schema, ipc::writer::IpcWriteOptions};
use arrow_flight::{FlightData, FlightDescriptor};
use bytes::Bytes;
use stratalog_model::ipc::IpcEncoder;

use crate::error::Result;

/// The messages of one call.
#[derive(Debug)]
pub(crate) struct Encoder(IpcEncoder);

impl Encoder {
    /// Begins a call with the message that says what it is about, and which columns come.
    pub(crate) fn begin(descriptor: FlightDescriptor, schema: &Schema) -> (Self, FlightData) {
        let (encoder, first) = IpcEncoder::begin(schema, IpcWriteOptions::default());
        (Self(encoder), FlightData::from(first).with_descriptor(descriptor))
    }

    /// A batch of that schema: messages of the dictionaries that it needs, then its own.
    ///
    /// # Errors
    /// `InvalidBatch` for what IPC cannot hold.
    pub(crate) fn batch(
        &mut self,
        batch: &RecordBatch,
        metadata: Bytes,
    ) -> Result<Vec<FlightData>> {
        let (dictionaries, rows) = self.0.batch(batch)?;
        let mut messages: Vec<FlightData> =
            dictionaries.into_iter().map(FlightData::from).collect();
        messages.push(FlightData::from(rows).with_app_metadata(metadata));
        Ok(messages)
    }
}
