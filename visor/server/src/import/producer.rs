//! The producer of an import. By the producer, the server recognizes batches already stored.

use uuid::Uuid;

use super::answers::NumberReceiver;
use crate::sql::{connection::Connection, error::SqlError};

/// The producer of an import: a name, and the id under which the server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    /// The name from the command line, or a random name.
    pub name: String,
    /// The id that the server knows.
    pub id: Uuid,
}

impl Producer {
    /// The producer for a name and the oid of a table. Equal arguments always give the same id.
    pub fn new(name: Option<&str>, table: u32) -> Self {
        let name = name.map_or_else(|| Uuid::new_v4().to_string(), str::to_string);
        let id = Uuid::from_u128(fnv1a(format!("{table} {name}").as_bytes()));
        Self { name, id }
    }

    /// The number of rows that the server has stored for this producer.
    pub(super) async fn rows_stored(&self, connection: &mut Connection) -> Result<u64, SqlError> {
        let question =
            format!("SELECT last_sequence FROM stratalog.producers WHERE producer = '{}'", self.id);
        let mut answer = NumberReceiver(0);
        connection.run(&question, &mut answer).await?;
        Ok(answer.0)
    }
}

/// The FNV-1a hash with 128 bits, which is the same on every machine and in every release.
fn fnv1a(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
