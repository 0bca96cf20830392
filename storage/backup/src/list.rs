//! What belongs to a backup: a text file of its own, written last.
//!
//! ```text
//!   stratalog backup
//!   version 1
//!   {"name":…,"time_ns":…,"stored_bytes":…,"files":[{"path":…,"object":…,"bytes":…, …}, …]}
//!   crc32c xxxxxxxx          of the lines before, their line ends included
//! ```

use serde::{Deserialize, Serialize};
use stratalog_model::{Error, ErrorKind, Result};

/// The format that this version writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: &str = "stratalog backup";

/// What belongs to a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// Its name: when it was made, in a way that sorts.
    pub name: String,
    /// Nanoseconds since 1970 when it was begun.
    pub time_ns: i64,
    /// Bytes that the place did not have before.
    pub stored_bytes: u64,
    /// Its files.
    pub files: Vec<Entry>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where it belongs, below the data directory.
    pub path: String,
    /// Its name in the place, below `files/`.
    pub object: String,
    /// Length there.
    pub bytes: u64,
    /// CRC32C of these bytes.
    pub checksum: u32,
    /// Length in the data directory; what is behind the bytes is zeros.
    pub restored_bytes: u64,
}

impl List {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The text of the file.
    ///
    /// # Errors
    /// `Internal`.
    pub fn encode(&self) -> Result<String> {
        let json = serde_json::to_string(self)
            .map_err(|error| Error::internal(format!("the list of a backup: {error}")))?;
        let text = format!("{MAGIC}\nversion {FORMAT_VERSION}\n{json}\n");
        let checksum = crc32c::crc32c(text.as_bytes());
        Ok(format!("{text}crc32c {checksum:08x}\n"))
    }

    /// Reads the text; `place` is where it lies.
    ///
    /// # Errors
    /// `DataCorrupted`; `ObjectNotInPrerequisiteState` for a newer format.
    pub fn decode(bytes: &[u8], place: &str) -> Result<Self> {
        let damaged = |what: &str| {
            Error::new(ErrorKind::DataCorrupted, format!("the list {place} is damaged: {what}"))
                .with_hint("choose another backup with --backup; remove this list by hand if it shall not be kept")
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text"))?;
        let (body, last) = text
            .strip_suffix('\n')
            .and_then(|text| text.rsplit_once('\n'))
            .ok_or_else(|| damaged("it is cut off"))?;
        let checksum = crc32c::crc32c_append(crc32c::crc32c(body.as_bytes()), b"\n");
        if last != format!("crc32c {checksum:08x}") {
            return Err(damaged("its checksum does not match"));
        }
        let mut lines = body.splitn(3, '\n');
        if lines.next() != Some(MAGIC) {
            return Err(damaged("this is no list of a backup"));
        }
        let version = lines.next().and_then(|line| line.strip_prefix("version ")?.parse().ok());
        match version {
            Some(FORMAT_VERSION) => {}
            Some(version) => {
                return Err(Error::new(
                    ErrorKind::ObjectNotInPrerequisiteState,
                    format!("the backup {place} has format version {version}; this version of Stratalog reads version {FORMAT_VERSION}"),
                )
                .with_hint("use the version of Stratalog that wrote it, or a newer one"));
            }
            None => return Err(damaged("it has no version")),
        }
        serde_json::from_str(lines.next().unwrap_or_default())
            .map_err(|error| damaged(&error.to_string()))
    }
}

#[cfg(test)]
mod tests;
