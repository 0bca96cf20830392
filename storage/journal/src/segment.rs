//! The name and the header of a segment. All integers are little-endian.
//!
//! ```text
//!      0  "STRATLOG"          8  format version       12  zeros
//!     16  partition          18  zeros               24  number (from 1)
//!     32  first lsn          40  preallocated bytes (length of the file); 0 if not preallocated
//!     48  checksum of the last frame header of the previous segment; 0 in the first segment
//!     52  zeros            4092  CRC32C of bytes 0..4092
//!   4096  frames
//! ```
//!
//! All versions keep magic, version and checksum in the same places: a newer format is
//! distinguishable from damage.

use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut};
use stratalog_model::{Error, ErrorKind, Lsn, PartitionId, Result, SegmentId};

/// The format version of new segments; also the newest version that can be read.
pub const FORMAT_VERSION: u32 = 1;

/// Bytes before the first frame.
pub(crate) const HEADER_BYTES: u64 = 4096;
const HEADER: usize = HEADER_BYTES as usize;

const MAGIC: &[u8; 8] = b"STRATLOG";
const SUFFIX: &str = ".journal";

/// File name of a segment made in advance, which is not yet part of the log.
pub const SPARE_NAME: &str = "spare.journal";
/// Name of the lock file, which locks out a second process.
pub(crate) const LOCK_NAME: &str = "lock";

/// The header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) partition: PartitionId,
    pub(crate) number: SegmentId,
    pub(crate) first_lsn: Lsn,
    /// Length of a preallocated file, else 0. The length never changes: if the file is shorter,
    /// another program has cut it.
    pub(crate) preallocated: u64,
    /// Checksum of the last frame header of the previous segment.
    pub(crate) previous_checksum: u32,
}

impl SegmentHeader {
    /// The bytes of the header, and its checksum; the checksum is the seed of the frames'
    /// checksums.
    pub(crate) fn encode(&self) -> (Vec<u8>, u32) {
        debug_assert_ne!(self.number, SegmentId(0), "segments count from 1");
        debug_assert_ne!(self.first_lsn, Lsn(0), "frames count from 1");
        debug_assert!(
            self.preallocated == 0 || self.preallocated >= HEADER_BYTES,
            "the file has no room for its header"
        );
        let mut out = Vec::with_capacity(HEADER);
        out.put_slice(MAGIC);
        out.put_u32_le(FORMAT_VERSION);
        out.put_u32_le(0);
        out.put_u16_le(self.partition.0);
        out.put_bytes(0, 6);
        out.put_u64_le(self.number.0);
        out.put_u64_le(self.first_lsn.0);
        out.put_u64_le(self.preallocated);
        out.put_u32_le(self.previous_checksum);
        out.resize(HEADER - 4, 0);
        let checksum = crc32c::crc32c(&out);
        out.put_u32_le(checksum);
        debug_assert_eq!(out.len(), HEADER);
        (out, checksum)
    }

    /// Verifies and parses a header of 4096 bytes; returns it with its checksum. `path` is for
    /// messages.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<(Self, u32)> {
        let damaged = |what: &str| {
            Err(Error::new(
                ErrorKind::DataCorrupted,
                format!("journal segment {} is damaged at offset 0: {what}", path.display()),
            )
            .with_hint("restore the file from a backup"))
        };
        let Some((body, checksum)) = bytes.split_last_chunk::<4>() else {
            return damaged("the header is cut off");
        };
        if body.len() != HEADER - 4 {
            return damaged("the header is cut off");
        }
        let stored = u32::from_le_bytes(*checksum);
        if crc32c::crc32c(body) != stored {
            return damaged("the checksum of the header does not match");
        }
        let mut fields = body;
        let mut magic = [0; 8];
        fields.copy_to_slice(&mut magic);
        if &magic != MAGIC {
            return damaged("the file is not a journal segment");
        }
        let version = fields.get_u32_le();
        if version != FORMAT_VERSION {
            return Err(Error::new(
                ErrorKind::ObjectNotInPrerequisiteState,
                format!(
                    "journal segment {} has format version {version}; this version of Stratalog reads version {FORMAT_VERSION}",
                    path.display()
                ),
            )
            .with_hint("start the version of Stratalog that wrote the segment, or a newer version"));
        }
        fields.advance(4);
        let partition = PartitionId(fields.get_u16_le());
        fields.advance(6);
        let header = Self {
            partition,
            number: SegmentId(fields.get_u64_le()),
            first_lsn: Lsn(fields.get_u64_le()),
            preallocated: fields.get_u64_le(),
            previous_checksum: fields.get_u32_le(),
        };
        Ok((header, stored))
    }
}

/// A segment on disk.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
    /// Seed of the frames' checksums.
    pub(crate) seed: u32,
    /// Number of bytes of the file that frames may use, header included.
    pub(crate) bytes: u64,
}

/// Name of the file of segment `number`.
pub(crate) fn file_name(number: SegmentId) -> String {
    let name = format!("{:020}{SUFFIX}", number.0);
    debug_assert_eq!(parse_name(&name), Some(number), "the name has another number");
    name
}

/// The number in a segment's file name; `None` for other names.
pub(crate) fn parse_name(name: &str) -> Option<SegmentId> {
    let digits = name.strip_suffix(SUFFIX)?;
    let valid = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|number| *number > 0)?;
    valid.then_some(SegmentId(number))
}

#[cfg(test)]
mod tests;
