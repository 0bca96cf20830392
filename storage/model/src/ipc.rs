//! Messages of Arrow IPC, without a copy that can be spared: what is decoded lies where its message does,
//! and what is encoded is written once.

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

/// Bytes of a batch from which on its message is given room before it is written: it would be copied
/// again and again while it grows.
const ROOM_BYTES_MIN: usize = 64 << 10;

/// Bytes of the longest value that lies in its view.
const MAX_INLINE_VIEW_LEN: u32 = 12;

/// What a message holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Decoded {
    /// Which columns come.
    Schema(SchemaRef),
    /// Rows of them.
    Rows(RecordBatch),
    /// What only those that follow are about: a dictionary, or nothing.
    Nothing,
}

/// Decodes the messages of one stream.
#[derive(Debug, Default)]
pub struct IpcDecoder {
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl IpcDecoder {
    /// The columns, once they have come.
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// A message: its header as a flatbuffer, and its body. Arrays keep the body as long as they are; of
    /// buffers in it that are not aligned for their type there are copies.
    ///
    /// # Errors
    /// For what is no message, or contradicts itself or those before it. Some damage makes the library
    /// panic: whoever reads from strangers checks before.
    pub fn decode(&mut self, header: &[u8], body: Bytes) -> Result<Decoded, ArrowError> {
        let unread = |what: &str| ArrowError::IpcError(what.to_string());
        let message = root_as_message(header)
            .map_err(|error| ArrowError::IpcError(format!("its header: {error}")))?;
        let version = message.version();
        match message.header_type() {
            MessageHeader::NONE => Ok(Decoded::Nothing),
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(|| unread("no schema"))?;
                let schema = Arc::new(fb_to_schema(schema));
                self.dictionaries.clear();
                self.schema = Some(Arc::clone(&schema));
                Ok(Decoded::Schema(schema))
            }
            MessageHeader::DictionaryBatch => {
                let schema = self.schema.as_ref();
                let schema = schema.ok_or_else(|| unread("a dictionary without a schema"))?;
                let batch = message.header_as_dictionary_batch();
                let batch = batch.ok_or_else(|| unread("no dictionary"))?;
                let body = Buffer::from(body);
                read_dictionary(&body, batch, schema, &mut self.dictionaries, &version)?;
                Ok(Decoded::Nothing)
            }
            MessageHeader::RecordBatch => {
                let schema = self.schema.as_ref().ok_or_else(|| unread("rows without a schema"))?;
                let rows = message.header_as_record_batch().ok_or_else(|| unread("no rows"))?;
                let (body, schema) = (Buffer::from(body), Arc::clone(schema));
                RecordBatchDecoder::try_new(&body, rows, schema, &self.dictionaries, &version)?
                    .with_require_alignment(false)
                    .read_record_batch()
                    .map(Decoded::Rows)
            }
            other => {
                Err(unread(&format!("a message of type {}", other.variant_name().unwrap_or("?"))))
            }
        }
    }
}

/// Encodes the messages of one stream.
#[derive(Debug)]
pub struct IpcEncoder {
    generator: IpcDataGenerator,
    dictionaries: DictionaryTracker,
    options: IpcWriteOptions,
    context: IpcWriteContext,
}

impl IpcEncoder {
    /// An encoder of a schema's batches, and the message of the schema.
    pub fn begin(schema: &Schema, options: IpcWriteOptions) -> (Self, EncodedData) {
        let mut encoder = Self {
            generator: IpcDataGenerator::default(),
            // What changes is sent again.
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

    /// The messages of a batch: of the dictionaries that it needs, then its own.
    ///
    /// # Errors
    /// For what IPC cannot hold.
    pub fn batch(
        &mut self,
        batch: &RecordBatch,
    ) -> Result<(Vec<EncodedData>, EncodedData), ArrowError> {
        // It is kept for the next one then.
        self.context.set_reserve_scratch(batch_bytes(batch) >= ROOM_BYTES_MIN);
        self.generator.encode(batch, &mut self.dictionaries, &self.options, &mut self.context)
    }
}

/// Bytes of the rows of a batch, whatever else lies in its buffers, about.
pub fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(array_bytes).sum()
}

/// Bytes of an array's own rows, of whatever buffers it shares.
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

/// Bytes of views, and of the values that do not lie in them.
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

    fn read(decoder: &mut IpcDecoder, message: EncodedData) -> Decoded {
        decoder.decode(&message.ipc_message, message.arrow_data.into()).unwrap()
    }

    #[test]
    fn what_is_encoded_is_decoded_where_it_lies() {
        let (schema, mut decoder) = (batch("b").schema(), IpcDecoder::default());
        let (mut encoder, first) = IpcEncoder::begin(&schema, IpcWriteOptions::default());
        assert_eq!(read(&mut decoder, first), Decoded::Schema(Arc::clone(&schema)));
        for kind in ["b", "c"] {
            let (dictionaries, rows) = encoder.batch(&batch(kind)).unwrap();
            assert_eq!(dictionaries.len(), 1, "a dictionary that changes is sent again");
            for dictionary in dictionaries {
                assert_eq!(read(&mut decoder, dictionary), Decoded::Nothing);
            }
            let body = Bytes::from(rows.arrow_data);
            let lies = body.as_ptr_range();
            let decoded = decoder.decode(&rows.ipc_message, body).unwrap();
            assert_eq!(decoded, Decoded::Rows(batch(kind)));
            let Decoded::Rows(decoded) = decoded else { unreachable!() };
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
            assert_eq!(decoded, Decoded::Rows(plain.clone()));
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
