//! Messages of Arrow IPC without avoidable copies: decoded arrays share the buffer of the message,
//! and the encoder writes each message once.

use std::{collections::HashMap, sync::Arc};

use arrow::{
    array::{Array as _, ArrayRef, AsArray as _, GenericByteViewArray, RecordBatch},
    buffer::Buffer,
    datatypes::{ByteViewType, DataType, Schema, SchemaRef},
    error::ArrowError,
    ipc::{
        MessageHeader,
        convert::fb_to_schema,
        reader::{RecordBatchDecoder, read_dictionary},
        root_as_message,
        writer::{
            DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteContext, IpcWriteOptions,
        },
    },
};
use bytes::Bytes;

/// Minimum size of a batch for which the encoder reserves its buffer in advance. Without the
/// reservation, a growing buffer would be copied again and again.
const ROOM_BYTES_MIN: usize = 64 << 10;

/// Maximum length, in bytes, of a value that Arrow stores inside its view.
const MAX_INLINE_VIEW_LEN: u32 = 12;

/// The content of a decoded message.
#[derive(Debug, Clone, PartialEq)]
pub enum DecodedMessage {
    /// The schema of the stream.
    Schema(SchemaRef),
    /// A batch of rows.
    Rows(RecordBatch),
    /// No rows: the message is empty, or contains a dictionary for later messages.
    Nothing,
}

/// Decodes the messages of one Arrow IPC stream.
#[derive(Debug, Default)]
pub struct IpcDecoder {
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl IpcDecoder {
    /// The schema of the stream; `None` before the schema message.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Decodes one message. `header` is the flatbuffer of the message, `body` its data. The decoded
    /// arrays share the memory of `body`. Buffers with a wrong alignment for their type are copied.
    ///
    /// # Errors
    /// An error for an invalid message, and for a message that contradicts itself or earlier
    /// messages. For some kinds of damage the Arrow library panics: the caller must check messages
    /// from untrusted peers first.
    pub fn decode(&mut self, header: &[u8], body: Bytes) -> Result<DecodedMessage, ArrowError> {
        debug_assert!(
            self.schema.is_some() || self.dictionaries.is_empty(),
            "dictionaries without a schema"
        );
        let unread = |what: &str| ArrowError::IpcError(what.to_string());
        let message = root_as_message(header)
            .map_err(|error| ArrowError::IpcError(format!("its header: {error}")))?;
        let version = message.version();
        match message.header_type() {
            MessageHeader::NONE => Ok(DecodedMessage::Nothing),
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(|| unread("no schema"))?;
                let schema = Arc::new(fb_to_schema(schema));
                self.dictionaries.clear();
                self.schema = Some(Arc::clone(&schema));
                Ok(DecodedMessage::Schema(schema))
            }
            MessageHeader::DictionaryBatch => {
                let schema = self.schema.as_ref();
                let schema = schema.ok_or_else(|| unread("a dictionary without a schema"))?;
                let batch = message.header_as_dictionary_batch();
                let batch = batch.ok_or_else(|| unread("no dictionary"))?;
                let body = Buffer::from(body);
                read_dictionary(&body, batch, schema, &mut self.dictionaries, &version)?;
                Ok(DecodedMessage::Nothing)
            }
            MessageHeader::RecordBatch => {
                let schema = self.schema.as_ref().ok_or_else(|| unread("rows without a schema"))?;
                let rows = message.header_as_record_batch().ok_or_else(|| unread("no rows"))?;
                let (body, schema) = (Buffer::from(body), Arc::clone(schema));
                RecordBatchDecoder::try_new(&body, rows, schema, &self.dictionaries, &version)?
                    .with_require_alignment(false)
                    .read_record_batch()
                    .map(DecodedMessage::Rows)
            }
            other => {
                Err(unread(&format!("a message of type {}", other.variant_name().unwrap_or("?"))))
            }
        }
    }
}

/// Encodes the messages of one Arrow IPC stream.
#[derive(Debug)]
pub struct IpcEncoder {
    generator: IpcDataGenerator,
    dictionaries: DictionaryTracker,
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl IpcEncoder {
    /// Makes an encoder for batches with the schema `schema`. Also returns the schema message.
    pub fn begin(schema: &Schema, options: IpcWriteOptions) -> (Self, EncodedData) {
        let mut encoder = Self {
            generator: IpcDataGenerator::default(),
            // `false`: a dictionary may be replaced; the encoder then sends it again.
            dictionaries: DictionaryTracker::new(false),
            options,
            context: IpcWriteContext::default(),
        };
        let first = encoder.generator.schema_to_bytes_with_dictionary_tracker(
            schema,
            &mut encoder.dictionaries,
            &encoder.options,
        );
        (encoder, first)
    }

    /// Encodes a batch: first the messages of its dictionaries, then the message of the batch.
    ///
    /// # Errors
    /// An error for data that Arrow IPC cannot represent.
    pub fn batch(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<(Vec<EncodedData>, EncodedData), ArrowError> {
        // `context` keeps the reserved buffer for the next batch.
        self.context.set_reserve_scratch(batch_bytes(batch) >= ROOM_BYTES_MIN);
        self.generator.encode(batch, &mut self.dictionaries, &self.options, &mut self.context)
    }
}

/// The approximate bytes of the rows of a batch. Other data in the same buffers, which may be
/// shared with other batches, does not count.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(array_bytes).sum()
}

/// The bytes of the rows of an array. Other data in the same buffers does not count.
pub fn array_bytes(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::Utf8View => view_bytes(array.as_string_view()),
        DataType::BinaryView => view_bytes(array.as_binary_view()),
        _ => {
            let data = array.to_data();
            data.get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
        }
    }
}

/// The bytes of the views, plus the bytes of values stored outside of the views.
pub fn view_bytes<T: ByteViewType>(views: &GenericByteViewArray<T>) -> usize {
    let long = views.lengths().filter(|length| *length > MAX_INLINE_VIEW_LEN);
    views.len() * size_of::<u128>() + long.map(|length| length as usize).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{BinaryArray, DictionaryArray, Int64Array, StringArray, StringViewArray},
        datatypes::{Field, Int8Type},
    };

    use super::*;

    fn batch(kind: &str) -> RecordBatch {
        let words: DictionaryArray<Int8Type> = ["a", kind, "a"].into_iter().collect();
        let columns: [(&str, ArrayRef, bool); 3] = [
            ("n", Arc::new(Int64Array::from(vec![1, 2, 3])), false),
            (
                "payload",
                Arc::new(BinaryArray::from_iter_values([vec![7; 5000], vec![], vec![9]])),
                false,
            ),
            ("kind", Arc::new(words), false),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    fn read(decoder: &mut IpcDecoder, message: EncodedData) -> DecodedMessage {
        decoder.decode(&message.ipc_message, message.arrow_data.into()).unwrap()
    }

    #[test]
    fn what_is_encoded_is_decoded_where_it_lies() {
        let (schema, mut decoder) = (batch("b").schema(), IpcDecoder::default());
        let (mut encoder, first) = IpcEncoder::begin(&schema, IpcWriteOptions::default());
        assert_eq!(read(&mut decoder, first), DecodedMessage::Schema(Arc::clone(&schema)));
        for kind in ["b", "c"] {
            let (dictionaries, rows) = encoder.batch(&batch(kind)).unwrap();
            assert_eq!(dictionaries.len(), 1, "a dictionary that changes is sent again");
            for dictionary in dictionaries {
                assert_eq!(read(&mut decoder, dictionary), DecodedMessage::Nothing);
            }
            let body = Bytes::from(rows.arrow_data);
            let lies = body.as_ptr_range();
            let decoded = decoder.decode(&rows.ipc_message, body).unwrap();
            assert_eq!(decoded, DecodedMessage::Rows(batch(kind)));
            let DecodedMessage::Rows(decoded) = decoded else { unreachable!() };
            let payload: &BinaryArray = decoded.column(1).as_binary();
            assert!(lies.contains(&payload.values().as_ptr()));
        }
    }

    #[test]
    fn what_is_not_aligned_is_read_too() {
        let plain = batch("b").project(&[0, 1]).unwrap();
        let (mut encoder, first) = IpcEncoder::begin(&plain.schema(), IpcWriteOptions::default());
        let (_, rows) = encoder.batch(&plain).unwrap();
        for shift in 0..9 {
            let mut shifted = vec![0; shift];
            shifted.extend_from_slice(&rows.arrow_data);
            let mut decoder = IpcDecoder::default();
            decoder.decode(&first.ipc_message, Bytes::new()).unwrap();
            let body = Bytes::from(shifted).slice(shift..);
            let decoded = decoder.decode(&rows.ipc_message, body).unwrap();
            assert_eq!(decoded, DecodedMessage::Rows(plain.clone()));
        }
    }

    #[test]
    fn messages_out_of_their_order_are_refused() {
        let (schema, mut decoder) = (batch("b").schema(), IpcDecoder::default());
        let (mut encoder, _) = IpcEncoder::begin(&schema, IpcWriteOptions::default());
        let (dictionaries, rows) = encoder.batch(&batch("b")).unwrap();
        for message in dictionaries.into_iter().chain([rows]) {
            let refused = decoder.decode(&message.ipc_message, message.arrow_data.into());
            assert!(refused.unwrap_err().to_string().contains("without a schema"));
        }
        assert!(decoder.decode(b"no message", Bytes::new()).is_err());
    }

    #[test]
    fn bytes_are_those_of_the_rows() {
        let many: ArrayRef = Arc::new(StringArray::from_iter_values(vec!["x".repeat(100); 1000]));
        let few = many.slice(10, 2);
        assert!(array_bytes(&few) < 300, "{}", array_bytes(&few));
        let views: ArrayRef = Arc::new(StringViewArray::from_iter_values(vec!["x".repeat(100); 3]));
        assert_eq!(array_bytes(&views), 3 * 116);
        let one = RecordBatch::try_new(
            Arc::new(Schema::new(vec![Field::new("a", DataType::Utf8View, false)])),
            vec![views],
        );
        assert_eq!(batch_bytes(&one.unwrap()), 3 * 116);
    }
}
