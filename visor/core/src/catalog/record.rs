//! The records of the catalog's log. A record contains the complete decision about a command,
//! including all ids and times: a replay computes none of them again (CL-9).
//!
//! One record is the payload of one `FrameKind::Catalog` frame, as JSON:
//! `{"format":1,"change":{"create_chronicle":{…}}}`.

use crate::access::AccessChange;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, ColumnDefinition, ColumnId, Decision, Durability, Error,
    ErrorKind, Granularity, IndexDefinition, LatePolicy, Result, Tiering,
};

/// The newest format that this version can read.
const FORMAT: u32 = 7;

/// The format of changes that every version can read.
const FORMAT_FIRST: u32 = 1;

/// A decided change. The changes in `Several` are applied in order, all or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Change {
    CreateDatabase {
        oid: u32,
        name: String,
    },
    DropDatabase {
        name: String,
    },
    CreateSchema {
        oid: u32,
        database: String,
        name: String,
    },
    DropSchema {
        database: String,
        name: String,
    },
    /// Exists since format 2.
    ReserveChronicle {
        id: ChronicleId,
    },
    CreateChronicle(Box<ChronicleDefinition>),
    DropChronicle {
        id: ChronicleId,
    },
    RenameChronicle {
        id: ChronicleId,
        to: String,
    },
    RenameColumn {
        id: ChronicleId,
        column: ColumnId,
        to: String,
    },
    AddColumn {
        id: ChronicleId,
        column: Box<ColumnDefinition>,
        #[serde(default)]
        key: bool,
    },
    SetOptions {
        id: ChronicleId,
        durability: Option<Durability>,
        late: Option<LatePolicy>,
        #[serde(default)]
        tiering: Option<Tiering>,
        /// Exists since format 4.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        acceptance_window: Option<AcceptanceWindow>,
        /// The granularity of `_group`. Exists since format 5.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        granularity: Option<Granularity>,
    },
    /// Exists since format 3.
    CreateIndex {
        id: ChronicleId,
        index: IndexDefinition,
    },
    /// Exists since format 3.
    DropIndex {
        id: ChronicleId,
        number: u32,
    },
    CommentOnChronicle {
        id: ChronicleId,
        comment: Option<String>,
    },
    CommentOnColumn {
        id: ChronicleId,
        column: ColumnId,
        comment: Option<String>,
    },
    /// Exists since format 7.
    Access(AccessChange),
    Several(Vec<Change>),
    /// Commits the events of the transaction together with the other changes of the record. Exists
    /// since format 6.
    Decide(Decision),
}

/// A new minimum length of the acceptance window; without a length, the default length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AcceptanceWindow {
    pub window_ms: Option<u64>,
}

#[derive(Serialize)]
struct Record<'a> {
    format: u32,
    change: &'a Change,
}

#[derive(Deserialize)]
struct Envelope {
    format: u32,
    change: serde_json::Value,
}

/// The lowest format that can represent a change.
fn format_of(change: &Change) -> u32 {
    match change {
        Change::ReserveChronicle { .. } => 2,
        Change::CreateIndex { .. } | Change::DropIndex { .. } => 3,
        Change::Decide(_) => 6,
        Change::Access(_) => 7,
        Change::SetOptions { granularity: Some(_), .. } => 5,
        // Earlier versions ignore the time source, and would accept any time.
        Change::CreateChronicle(new) if new.time_source.is_clocked() => 4,
        Change::SetOptions { acceptance_window: Some(_), .. } => 4,
        Change::Several(changes) => changes.iter().map(format_of).max().unwrap_or(FORMAT_FIRST),
        _ => FORMAT_FIRST,
    }
}

/// Encodes a change as the payload of a frame.
pub(crate) fn encode(change: &Change) -> Result<Bytes> {
    let format = format_of(change);
    debug_assert!((FORMAT_FIRST..=FORMAT).contains(&format), "no version reads the format");
    match serde_json::to_vec(&Record { format, change }) {
        Ok(json) => Ok(Bytes::from(json)),
        Err(error) => Err(Error::internal(format!("catalog record: {error}"))),
    }
}

/// Decodes a payload whose checksum was verified.
pub(crate) fn decode(payload: &[u8]) -> Result<Change> {
    let damaged = |error: serde_json::Error| {
        Error::new(ErrorKind::DataCorrupted, format!("catalog record is not readable: {error}"))
    };
    let envelope: Envelope = serde_json::from_slice(payload).map_err(damaged)?;
    if !(FORMAT_FIRST..=FORMAT).contains(&envelope.format) {
        return Err(Error::new(
            ErrorKind::ObjectNotInPrerequisiteState,
            format!(
                "the catalog was written by another version of Stratalog (record format {}, this version reads {FORMAT_FIRST} to {FORMAT})",
                envelope.format
            ),
        )
        .with_hint("start the version that wrote this data directory, or a newer version"));
    }
    serde_json::from_value(envelope.change).map_err(damaged)
}
