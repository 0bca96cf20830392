//! The list of a backup's files: a text file, written last.
//!
//! ```text
//!   stratalog backup
//!   version 1
//!   {"name":…,"time_ns":…,"stored_bytes":…,"files":[{"path":…,"object":…,"bytes":…, …}, …]}
//!   crc32c xxxxxxxx          checksum of all earlier lines with their line ends
//! ```

use serde::{Deserialize, Serialize};
use stratalog_model::{Error, ErrorKind, Result};

/// The format version of new lists; also the newest version that can be read.
pub const FORMAT_VERSION: u32 = 1;

const MAGIC: &str = "stratalog backup";

/// The list of a backup: its name, time and files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// The name: the start time of the backup, in a form that sorts by time.
    pub name: String,
    /// The start of the backup, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Bytes of the files that this backup added to the place.
    pub stored_bytes: u64,
    /// The files.
    pub files: Vec<Entry>,
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Path relative to the data directory.
    pub path: String,
    /// Name of the file in the place, relative to `files/`.
    pub object: String,
    /// Length of the file in the place.
    pub bytes: u64,
    /// CRC32C of the file in the place.
    pub checksum: u32,
    /// Length of the file in the data directory; zeros follow the stored bytes.
    pub restored_bytes: u64,
}

impl List {
    /// Sum of the lengths of all files in the place.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Encodes the list as text.
    ///
    /// # Errors
    /// `Internal`.
    pub fn encode(&self) -> Result<String> {
        let json = serde_json::to_string(self)
            .map_err(|error| Error::internal(format!("the list of a backup: {error}")))?;
        debug_assert!(!json.contains('\n'), "the description takes more than one line");
        let text = format!("{MAGIC}\nversion {FORMAT_VERSION}\n{json}\n");
        let checksum = crc32c::crc32c(text.as_bytes());
        Ok(format!("{text}crc32c {checksum:08x}\n"))
    }

    /// Decodes the text of a list; `place` is the path or URL of the list, for messages.
    ///
    /// # Errors
    /// `DataCorrupted` if the text is invalid; `ObjectNotInPrerequisiteState` for a newer format.
    pub fn decode(bytes: &[u8], place: &str) -> Result<Self> {
        let damaged = |what: &str| {
            Error::new(ErrorKind::DataCorrupted, format!("the list {place} is damaged: {what}"))
                .with_hint("choose another backup with --backup; remove an unwanted list by hand")
        };
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("the list is not text"))?;
        let (body, last) = text
            .strip_suffix('\n')
            .and_then(|text| text.rsplit_once('\n'))
            .ok_or_else(|| damaged("the list is cut off"))?;
        let checksum = crc32c::crc32c_append(crc32c::crc32c(body.as_bytes()), b"\n");
        if last != format!("crc32c {checksum:08x}") {
            return Err(damaged("the checksum does not match"));
        }
        let mut lines = body.splitn(3, '\n');
        if lines.next() != Some(MAGIC) {
            return Err(damaged("the file is not the list of a backup"));
        }
        let version = lines.next().and_then(|line| line.strip_prefix("version ")?.parse().ok());
        match version {
            Some(FORMAT_VERSION) => {}
            Some(version) => {
                return Err(Error::new(
                    ErrorKind::ObjectNotInPrerequisiteState,
                    format!("the backup {place} has format version {version}; this version of Stratalog reads version {FORMAT_VERSION}"),
                )
                .with_hint("use the version of Stratalog that wrote the backup, or a newer version"));
            }
            None => return Err(damaged("the list has no version")),
        }
        serde_json::from_str(lines.next().unwrap_or_default())
            .map_err(|error| damaged(&error.to_string()))
    }
}

#[cfg(test)]
mod tests;
