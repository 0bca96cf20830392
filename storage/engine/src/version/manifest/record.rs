//! Encodes edits and states for the log: a byte with the format version, then JSON.
//!
//! Format 2 adds `raised` (deletes with a separate gsn) and `lost`. A reader that knows only format
//! 1 would ignore both, and would show deleted events.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};
use stratalog_model::{Error, ErrorKind, Result};

use super::state::{Edit, ManifestState};

const FORMAT: u8 = 2;

/// The oldest format that can be read. Fields that this format lacks are empty.
const FORMAT_MIN: u8 = 1;

pub fn of_edit(edit: &Edit) -> Result<Bytes> {
    encode(edit).map(Bytes::from)
}

pub fn edit(payload: &[u8]) -> Result<Edit> {
    decode(payload)
}

pub fn of_snapshot(state: &ManifestState) -> Result<Vec<u8>> {
    encode(state)
}

pub fn snapshot(payload: &[u8]) -> Result<ManifestState> {
    decode(payload)
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut out = vec![FORMAT];
    serde_json::to_writer(&mut out, value)
        .map_err(|error| Error::internal(format!("a record of the manifest: {error}")))?;
    Ok(out)
}

fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T> {
    match payload.split_first() {
        Some((FORMAT_MIN..=FORMAT, json)) => serde_json::from_slice(json).map_err(|error| {
            Error::new(ErrorKind::DataCorrupted, format!("a record cannot be read: {error}"))
        }),
        Some((format, _)) => Err(Error::new(
            ErrorKind::ObjectNotInPrerequisiteState,
            format!("a record has format {format}, this version of Stratalog reads {FORMAT_MIN} to {FORMAT}"),
        )
        .with_hint("start the version of Stratalog that wrote the record, or a newer version")),
        None => Err(Error::new(ErrorKind::DataCorrupted, "a record is empty")),
    }
}
