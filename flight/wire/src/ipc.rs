//! Checks IPC messages before Arrow's decoder reads them. The decoder trusts the positions of
//! buffers, the lengths of arrays and the uncompressed sizes in a message. Wrong numbers would make
//! the decoder panic or allocate too much memory.
//!
//! ```text
//!   header:  type; schema, or nodes (rows, nulls) and buffers (offset, length)
//!   body:    ……│ buffer │………│ i64: uncompressed length, or -1 │ compressed │……
//! ```

mod layout;
mod schema;

use arrow::{
    datatypes::{DataType, Field, Schema},
    ipc::{Buffer, FieldNode, MessageHeader, RecordBatch, root_as_message},
};
use arrow_flight::FlightData;

use self::layout::Layout;

/// Bytes of the length prefix of a buffer in a compressed batch.
const PREFIX_BYTES: usize = 8;

/// The value of the length prefix that marks an uncompressed buffer in a compressed batch.
const NOT_COMPRESSED: i64 = -1;

/// The size limits of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Maximum rows of a batch.
    pub rows_max: u64,
    /// Maximum uncompressed bytes of a batch, and of all dictionaries of a call.
    pub expanded_bytes_max: u64,
}

impl BatchLimits {
    /// The limits for messages of at most `message_bytes_max` bytes. A row has at least 8 bytes,
    /// for its time. Uncompressed data may have at most four times the bytes of the message.
    pub fn of_message(message_bytes_max: usize) -> Self {
        let bytes = message_bytes_max as u64;
        Self { rows_max: bytes / 8, expanded_bytes_max: bytes.saturating_mul(4) }
    }
}

/// The kind of a message, and the properties that the checks of later messages need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MessageContent {
    /// A schema message.
    Schema(Schema),
    /// A message that this reader does not use.
    Nothing,
    /// The values of a dictionary.
    Dictionary { id: i64, bytes: u64, is_delta: bool },
    /// A batch with rows.
    Rows,
}

/// The reason for refusing a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The header of the message is inconsistent with the message.
    Lies(String),
    /// The message exceeds a limit.
    TooLarge(String),
    /// The message is valid, but its content is not supported.
    NotOffered(String),
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lies(what) | Self::TooLarge(what) | Self::NotOffered(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Fault {}

/// Checks a message before decoding. `schema` is the schema that came before the message, if any.
pub(crate) fn check(
    data: &FlightData,
    schema: Option<&Schema>,
    limits: &BatchLimits,
) -> Result<MessageContent, Fault> {
    let message = root_as_message(&data.data_header)
        .map_err(|error| lies(format!("the header is not a message of Arrow IPC: {error}")))?;
    let no_schema = || lies("a batch precedes the schema".to_string());
    match message.header_type() {
        MessageHeader::Schema => {
            schema::check(&message)?;
            let schema = Schema::try_from(data).map_err(|error| lies(error.to_string()))?;
            Ok(MessageContent::Schema(schema))
        }
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch();
            let batch = batch.ok_or_else(|| lies("the header is missing".to_string()))?;
            let fields = schema.ok_or_else(no_schema)?.fields();
            let body = Body { bytes: &data.data_body, limits };
            body.check(batch, fields.iter().map(AsRef::as_ref))?;
            Ok(MessageContent::Rows)
        }
        MessageHeader::DictionaryBatch => {
            let dictionary = message.header_as_dictionary_batch();
            let values = dictionary.and_then(|dictionary| Some((dictionary, dictionary.data()?)));
            let Some((dictionary, values)) = values else {
                return Err(lies("a dictionary has no values".to_string()));
            };
            let id = dictionary.id();
            let field = dictionary_of(schema.ok_or_else(no_schema)?, id).ok_or_else(|| {
                lies(format!("no column of the schema has a dictionary of the number {id}"))
            })?;
            let body = Body { bytes: &data.data_body, limits };
            let bytes = body.check(values, [&field])?;
            Ok(MessageContent::Dictionary { id, bytes, is_delta: dictionary.isDelta() })
        }
        _ => Ok(MessageContent::Nothing),
    }
}

/// A field with the type of the values of dictionary `id`; `None` if the schema has no such
/// dictionary.
fn dictionary_of(schema: &Schema, id: i64) -> Option<Field> {
    #[expect(deprecated, reason = "where the decoder keeps a dictionary's number, it is read here")]
    let fields = schema.fields_with_dict_id(id);
    let field = fields.first()?;
    let DataType::Dictionary(_, values) = field.data_type() else { return None };
    Some(Field::new(field.name(), values.as_ref().clone(), true))
}

/// The body of a message, which contains the buffers, and the limits for it.
struct Body<'a> {
    bytes: &'a [u8],
    limits: &'a BatchLimits,
}

impl Body<'_> {
    /// Checks the rows of a batch, or the values of a dictionary. Returns the number of
    /// uncompressed bytes.
    fn check<'f>(
        &self,
        batch: RecordBatch<'_>,
        fields: impl IntoIterator<Item = &'f Field>,
    ) -> Result<u64, Fault> {
        let rows = u64::try_from(batch.length())
            .map_err(|_| lies(format!("the batch declares {} rows", batch.length())))?;
        if rows > self.limits.rows_max {
            return Err(Fault::TooLarge(format!(
                "the batch has {rows} rows; the maximum of a message is {} rows",
                self.limits.rows_max
            )));
        }
        let compressed = batch.compression().is_some();
        let mut buffers = Vec::new();
        for (at, buffer) in batch.buffers().iter().flatten().enumerate() {
            let bytes = expanded_bytes(buffer, self.bytes, compressed)
                .map_err(|what| lies(format!("buffer {} {what}", at + 1)))?;
            buffers.push(bytes);
        }
        let expanded = buffers.iter().fold(0_u64, |sum, bytes| sum.saturating_add(*bytes));
        if expanded > self.limits.expanded_bytes_max {
            return Err(Fault::TooLarge(format!(
                "the batch has {expanded} uncompressed bytes; the maximum of a message is {} bytes",
                self.limits.expanded_bytes_max
            )));
        }
        // A value has at least one bit, so the bytes limit the number of values.
        let values_max = expanded.saturating_mul(8).max(self.limits.rows_max);
        for (at, node) in batch.nodes().iter().flatten().enumerate() {
            check_node(node, values_max)
                .map_err(|what| lies(format!("array {} {what}", at + 1)))?;
        }
        for count in batch.variadicBufferCounts().iter().flatten() {
            if usize::try_from(count).map_or(true, |count| count > buffers.len()) {
                return Err(lies(format!(
                    "a column declares {count} buffers, but the batch has {}",
                    buffers.len()
                )));
            }
        }
        Layout::new(batch, buffers).check(fields).map_err(Fault::Lies)?;
        Ok(expanded)
    }
}

fn check_node(node: &FieldNode, values_max: u64) -> Result<(), String> {
    let (length, nulls) = (node.length(), node.null_count());
    if u64::try_from(length).map_or(true, |length| length > values_max) {
        return Err(format!("declares {length} values, too many for this message"));
    }
    if !(0..=length).contains(&nulls) {
        return Err(format!("declares {nulls} nulls among {length} values"));
    }
    Ok(())
}

/// The uncompressed length of a buffer, in bytes.
fn expanded_bytes(buffer: &Buffer, body: &[u8], compressed: bool) -> Result<u64, String> {
    let outside = || {
        format!(
            "lies at byte {}, {} bytes long, in a body of {}",
            buffer.offset(),
            buffer.length(),
            body.len()
        )
    };
    let start = usize::try_from(buffer.offset()).map_err(|_| outside())?;
    let length = usize::try_from(buffer.length()).map_err(|_| outside())?;
    let end = start.checked_add(length).ok_or_else(outside)?;
    let bytes = body.get(start..end).ok_or_else(outside)?;
    if !compressed || bytes.is_empty() {
        return Ok(length as u64);
    }
    let prefix = bytes.first_chunk::<PREFIX_BYTES>();
    let prefix = prefix.ok_or_else(|| format!("is compressed and has {length} bytes"))?;
    match i64::from_le_bytes(*prefix) {
        NOT_COMPRESSED => Ok((length - PREFIX_BYTES) as u64),
        expanded => {
            u64::try_from(expanded).map_err(|_| format!("declares {expanded} uncompressed bytes"))
        }
    }
}

fn lies(what: String) -> Fault {
    Fault::Lies(what)
}

#[cfg(test)]
mod tests;
