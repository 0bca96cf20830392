//! The format of a tablet's file: a header, the blocks, and an end record.
//!
//! ```text
//!     0  "SLTABLET"     8  format version (2)   12  zeros
//!    16  tablet        24  chronicle            32  schema version    36  zeros
//!    60  CRC32C of bytes 0..60: the seed of the checksums of the block heads
//!    64  blocks
//!        end record (offsets from its beginning):
//!         0  "SLTE"   4  number of blocks   8  rows   16  offset of the end record
//!        24  checksum of the checksums of all heads
//!        28  CRC32C of bytes 0..28, seeded with the header's checksum
//! ```

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::{Buf, BufMut};
use stratalog_model::{ChronicleId, Disk, DiskFile, Error, ErrorKind, Result, SchemaVersion};

use crate::{
    block::{ALIGNMENT, BlockHead, BlockSummary, HEAD_BYTES_MAX},
    sabotage,
    section::{Packer, Section},
};

/// The format version of new files; also the newest version that can be read.
const FORMAT_VERSION: u32 = 2;
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const END_BYTES: usize = 32;
const MAGIC: &[u8; 8] = b"SLTABLET";
const END_MAGIC: &[u8; 4] = b"SLTE";

/// Suffix of the file name of a complete tablet; the number precedes the suffix.
pub(crate) const SUFFIX: &str = ".tablet";
/// Suffix of the file name of an unfinished tablet.
pub(crate) const BUILDING_SUFFIX: &str = ".building";

/// Maximum uncompressed size of a block's payload, in bytes.
const UNPACKED_BYTES_MAX: usize = 1 << 30;

/// Number of a tablet; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TabletId(pub u64);

impl fmt::Display for TabletId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The manifest's description of a complete tablet. Readers compare the file with this description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltTablet {
    /// Number of the tablet.
    pub id: TabletId,
    /// Chronicle of the events.
    pub chronicle: ChronicleId,
    /// Schema version of the events.
    pub schema_version: SchemaVersion,
    /// Length of the file.
    pub bytes: u64,
    /// Number of blocks.
    pub blocks: u32,
    /// Number of events.
    pub rows: u64,
    /// Checksum of the checksums of all block heads, which include the checksums of the payloads.
    pub checksum: u32,
}

/// The path of a tablet's file.
pub(crate) fn path_of(folder: &Path, id: TabletId, suffix: &str) -> PathBuf {
    folder.join(format!("{:020}{suffix}", id.0))
}

/// The bytes of the header, and its checksum, which is the seed of the checksums of the block
/// heads.
pub(crate) fn header(
    id: TabletId,
    chronicle: ChronicleId,
    schema_version: SchemaVersion,
) -> (Vec<u8>, u32) {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.put_slice(MAGIC);
    out.put_u32_le(FORMAT_VERSION);
    out.put_u32_le(0);
    out.put_u64_le(id.0);
    out.put_u64_le(u64::from(chronicle.0));
    out.put_u32_le(schema_version.0);
    out.resize(HEADER_BYTES - 4, 0);
    let seed = crc32c::crc32c(&out);
    out.put_u32_le(seed);
    debug_assert_eq!(out.len(), HEADER_BYTES);
    (out, seed)
}

/// The bytes of the end record.
fn end(blocks: u32, rows: u64, bytes: u64, checksum: u32, seed: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(END_BYTES);
    out.put_slice(END_MAGIC);
    out.put_u32_le(blocks);
    out.put_u64_le(rows);
    out.put_u64_le(bytes);
    out.put_u32_le(checksum);
    let own = crc32c::crc32c_append(seed, &out);
    out.put_u32_le(own);
    debug_assert_eq!(out.len(), END_BYTES);
    out
}

/// Writes the file of a tablet. If the builder is dropped before [`Builder::finish`], an unfinished
/// file remains, which [`crate::Tablets::open`] removes.
#[derive(Debug)]
pub struct Builder {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    file: Box<dyn DiskFile>,
    seed: u32,
    heads: Vec<BlockHead>,
    packer: Packer,
    built: BuiltTablet,
}

impl Builder {
    /// Creates the file of a tablet.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub(crate) fn create(
        disk: &Arc<dyn Disk>,
        folder: &Path,
        id: TabletId,
        chronicle: ChronicleId,
        schema_version: SchemaVersion,
    ) -> Result<Self> {
        let path = path_of(folder, id, BUILDING_SUFFIX);
        let failed = |error| Error::io(format!("cannot create {}", path.display()), error);
        let (header, seed) = header(id, chronicle, schema_version);
        let file = disk.create(&path).map_err(failed)?;
        file.write_all_at(&header, 0).map_err(failed)?;
        let bytes = HEADER_BYTES as u64;
        let built =
            BuiltTablet { id, chronicle, schema_version, bytes, blocks: 0, rows: 0, checksum: 0 };
        Ok(Self {
            disk: Arc::clone(disk),
            folder: folder.to_path_buf(),
            file,
            seed,
            heads: Vec::new(),
            packer: Packer::new(),
            built,
        })
    }

    /// Size of the file so far, in bytes.
    pub fn bytes(&self) -> u64 {
        self.built.bytes
    }

    /// Adds a block. A section is compressed if compression makes it smaller.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `LimitExceeded` for a payload over 1 GiB, or for a head over 16 MiB (keys,
    /// statistics and section entries).
    pub fn push(&mut self, summary: BlockSummary, sections: &[Section<'_>]) -> Result<()> {
        debug_assert!(summary.rows > 0, "a block without events");
        debug_assert!(summary.ticks.0 <= summary.ticks.1, "the ticks are not in order");
        debug_assert!(summary.gsns.0 <= summary.gsns.1, "the gsns are not in order");
        debug_assert!(summary.keys.0 <= summary.keys.1, "the keys are not in order");
        debug_assert!(
            self.heads.last().is_none_or(|before| before.summary.keys.1 <= summary.keys.0),
            "the blocks are not in the order of their keys"
        );
        let head_bytes = BlockHead::head_bytes_of(&summary, sections.len());
        let unpacked_bytes: usize = sections.iter().map(|section| section.bytes.len()).sum();
        if unpacked_bytes > UNPACKED_BYTES_MAX || head_bytes > HEAD_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "a block of {unpacked_bytes} bytes, with {head_bytes} bytes about them, is \
                     too large"
                ),
            ));
        }
        let mut payload = Vec::with_capacity(unpacked_bytes / 4);
        let packed = sections.iter().map(|section| self.packer.add(*section, &mut payload));
        let head = BlockHead {
            offset: self.built.bytes,
            number: self.built.blocks,
            head_bytes: head_bytes as u32,
            sections: packed.collect(),
            payload_bytes: payload.len() as u32,
            unpacked_bytes: unpacked_bytes as u32,
            summary,
        };
        let (mut bytes, checksum) = head.encode(self.seed);
        debug_assert_eq!(bytes.len(), head_bytes, "the head of block {}", head.number);
        debug_assert!(head.offset.is_multiple_of(ALIGNMENT as u64));
        debug_assert!(head.sections.is_sorted_by(|a, b| a.end() <= b.offset));
        debug_assert_eq!(
            head.sections.last().map_or(0, |section| section.end()),
            u64::from(head.payload_bytes),
            "the sections end before or behind the end of their payload"
        );
        bytes.extend_from_slice(&payload);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        debug_assert_eq!(bytes.len() as u64, head.bytes(), "a reader looks elsewhere");
        self.file.write_all_at(&bytes, head.offset).map_err(|error| self.failed("write", error))?;
        self.built.checksum = crc32c::crc32c_append(self.built.checksum, &checksum.to_le_bytes());
        self.built.bytes += bytes.len() as u64;
        self.built.blocks += 1;
        self.built.rows += u64::from(head.summary.rows);
        self.heads.push(head);
        Ok(())
    }

    /// Completes the tablet: writes the end record, makes the file durable, renames it to its final
    /// name, and makes the name durable. A manifest may name the tablet only after this.
    ///
    /// # Errors
    /// `DiskFull`, `Io`. After an error the tablet does not exist.
    pub fn finish(mut self) -> Result<(BuiltTablet, Vec<BlockHead>)> {
        debug_assert_eq!(self.heads.len() as u64, u64::from(self.built.blocks));
        debug_assert_eq!(
            self.heads.iter().map(|head| u64::from(head.summary.rows)).sum::<u64>(),
            self.built.rows
        );
        let built = &mut self.built;
        let end = end(built.blocks, built.rows, built.bytes, built.checksum, self.seed);
        let at = built.bytes;
        built.bytes += END_BYTES as u64;
        let id = built.id;
        self.file.write_all_at(&end, at).map_err(|error| self.failed("write", error))?;
        let late = sabotage::active("edit-before-tablet");
        if !late && !sabotage::active("tablet-unsynced") {
            self.file.sync_all().map_err(|error| self.failed("sync", error))?;
        }
        let (from, to) =
            (path_of(&self.folder, id, BUILDING_SUFFIX), path_of(&self.folder, id, SUFFIX));
        self.disk.rename(&from, &to).map_err(|error| self.failed("rename", error))?;
        if !late && !sabotage::active("tablet-name-unsynced") {
            self.disk.sync_dir(&self.folder).map_err(|error| self.failed("sync", error))?;
        }
        Ok((self.built, self.heads))
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        let path = path_of(&self.folder, self.built.id, BUILDING_SUFFIX);
        Error::io(format!("cannot {what} {}", path.display()), error)
    }
}

/// Verifies the header and the end record of a file. Returns their contents, or the reason why they
/// are invalid.
pub(crate) fn inspect(
    header_bytes: &[u8],
    end_bytes: &[u8],
    len: u64,
) -> Result<(BuiltTablet, u32), String> {
    let Some((body, stored)) = header_bytes.split_last_chunk::<4>() else {
        return Err("the header is cut off".to_string());
    };
    let seed = u32::from_le_bytes(*stored);
    if body.len() + 4 != HEADER_BYTES || crc32c::crc32c(body) != seed {
        return Err("the checksum of the header does not match".to_string());
    }
    let mut fields = body;
    let mut magic = [0; 8];
    fields.copy_to_slice(&mut magic);
    let version = fields.get_u32_le();
    if &magic != MAGIC {
        return Err("the file is not a tablet".to_string());
    }
    if version != FORMAT_VERSION {
        return Err(format!(
            "the tablet has format version {version}; this version of Stratalog reads version {FORMAT_VERSION}"
        ));
    }
    fields.advance(4);
    let id = TabletId(fields.get_u64_le());
    let chronicle = fields.get_u64_le();
    let schema_version = SchemaVersion(fields.get_u32_le());
    let Some((body, own)) = end_bytes.split_last_chunk::<4>() else {
        return Err("the end is cut off".to_string());
    };
    if crc32c::crc32c_append(seed, body) != u32::from_le_bytes(*own) || !body.starts_with(END_MAGIC)
    {
        return Err("the checksum of the end does not match".to_string());
    }
    let mut fields = body.get(4..).unwrap_or(&[]);
    let (blocks, rows) = (fields.get_u32_le(), fields.get_u64_le());
    let (before, checksum) = (fields.get_u64_le(), fields.get_u32_le());
    if before.checked_add(END_BYTES as u64) != Some(len) {
        return Err(format!("the end is at {before}, but the file has {len} bytes"));
    }
    let chronicle = ChronicleId(
        chronicle.try_into().map_err(|_| "the chronicle number is impossible".to_string())?,
    );
    Ok((BuiltTablet { id, chronicle, schema_version, bytes: len, blocks, rows, checksum }, seed))
}
