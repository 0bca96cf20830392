//! The `app_metadata` of a message with rows.

use serde::Deserialize;
use stratalog_model::{Durability, Error, ErrorKind, ProducerId, Result};
use uuid::Uuid;

/// The client's requests for a batch, from the JSON text in the message's `app_metadata`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchMetadata {
    /// The producer, and the producer's number of the batch. The server does not store a batch
    /// again if its number is not above the producer's last number.
    pub producer: Option<(ProducerId, u64)>,
    /// The durability that the rows must have before the server acknowledges them; `None` for the
    /// table's own durability.
    pub durability: Option<Durability>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename = "Written")]
struct MetadataJson {
    producer: Option<String>,
    sequence: Option<u64>,
    durability: Option<String>,
}

impl BatchMetadata {
    /// Parses the metadata of a batch; empty metadata requests nothing.
    ///
    /// # Errors
    /// `InvalidParameterValue`; `InvalidTextRepresentation` for a producer that is not a UUID.
    pub fn read(metadata: &[u8]) -> Result<Self> {
        if metadata.is_empty() {
            return Ok(Self::default());
        }
        let written: MetadataJson = serde_json::from_slice(metadata).map_err(|error| {
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("the metadata of the batch cannot be read: {error}"),
            )
            .with_hint("{\"producer\": \"a UUID\", \"sequence\": 1, \"durability\": \"disk\"}, each member optional")
        })?;
        let producer = match (written.producer, written.sequence) {
            (Some(producer), Some(sequence)) => {
                let producer = Uuid::parse_str(&producer).map_err(|_| {
                    Error::new(
                        ErrorKind::InvalidTextRepresentation,
                        format!("the producer \"{producer}\" is not a UUID"),
                    )
                })?;
                Some((ProducerId(producer.as_u128()), sequence))
            }
            (None, None) => None,
            _ => {
                return Err(Error::new(
                    ErrorKind::InvalidParameterValue,
                    "a producer needs a sequence, and a sequence a producer",
                ));
            }
        };
        let durability = written.durability.map(|text| text.parse::<Durability>()).transpose()?;
        Ok(Self { producer, durability })
    }
}
