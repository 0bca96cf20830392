//! Batches as Flight's messages, one message each: a batch that is sent is acknowledged as one.

use arrow::{
    array::RecordBatch,
    datatypes::Schema,
    ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions},
};
use arrow_flight::{FlightData, FlightDescriptor};
use bytes::Bytes;

use crate::error::Result;

/// The messages of one call.
#[derive(Debug)]
pub(crate) struct Encoder {
    generator: IpcDataGenerator,
    dictionaries: DictionaryTracker,
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl Encoder {
    /// Begins a call with the message that says what it is about, and which columns come.
    pub(crate) fn begin(descriptor: FlightDescriptor, schema: &Schema) -> (Self, FlightData) {
        let mut encoder = Self {
            generator: IpcDataGenerator::default(),
            dictionaries: DictionaryTracker::new(false),
            options: IpcWriteOptions::default(),
            context: IpcWriteContext::default(),
        };
        let first = encoder.generator.schema_to_bytes_with_dictionary_tracker(
            schema,
            &mut encoder.dictionaries,
            &encoder.options,
        );
        let first = FlightData::from(first).with_descriptor(descriptor);
        (encoder, first)
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
        let (dictionaries, rows) = self.generator.encode(
            batch,
            &mut self.dictionaries,
            &self.options,
            &mut self.context,
        )?;
        let mut messages: Vec<FlightData> =
            dictionaries.into_iter().map(FlightData::from).collect();
        messages.push(FlightData::from(rows).with_app_metadata(metadata));
        Ok(messages)
    }
}
