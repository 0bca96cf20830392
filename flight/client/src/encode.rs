//! Encodes batches as Flight messages, one data message per batch, because the server acknowledges
//! each batch as a unit.

use arrow::{array::RecordBatch, datatypes::Schema, ipc::writer::IpcWriteOptions};
use arrow_flight::{FlightData, FlightDescriptor};
use bytes::Bytes;
use stratalog_model::ipc::IpcEncoder;

use crate::error::Result;

/// The encoder of one DoPut call.
#[derive(Debug)]
pub(crate) struct Encoder(IpcEncoder);

impl Encoder {
    /// Begins a call: returns the encoder and the first message, with the call's descriptor and
    /// columns.
    pub(crate) fn begin(descriptor: FlightDescriptor, schema: &Schema) -> (Self, FlightData) {
        let (encoder, first) = IpcEncoder::begin(schema, IpcWriteOptions::default());
        (Self(encoder), FlightData::from(first).with_descriptor(descriptor))
    }

    /// Encodes a batch of the call's schema. Returns the messages of the needed dictionaries, then
    /// the message of the batch.
    ///
    /// # Errors
    /// `InvalidBatch` for data that Arrow IPC cannot encode.
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
