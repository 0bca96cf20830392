//! Sections of a block, for example one column each. A section is the smallest part of a block that
//! is compressed, verified and read separately.
//!
//! ```text
//!   bytes ─► words split into planes ─► zstd ─► stored, with a checksum
//!             (all first bytes, then all second bytes, …)
//! ```
//! Similar numbers have similar upper bytes: planes of upper bytes compress to nearly nothing.

use std::cell::RefCell;

use bytes::{Buf, BufMut, Bytes};
use zstd::bulk::{Compressor, Decompressor};

use crate::planes;

/// Size of a section's entry in the head of a block, in bytes.
pub(crate) const ENTRY_BYTES: usize = 16;

/// Compression level of zstd: the fastest level that still halves dictionary codes and floats.
const ZSTD_LEVEL: i32 = 1;

thread_local! {
    static UNPACKING: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// A section of a block, before it is written.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Length of the words in the section, in bytes: 1, 2, 4, 8 or 16. Planes are made of these
    /// words.
    pub word_bytes: u8,
}

/// The entry of a section in the head of its block: place, lengths and checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SectionHead {
    /// Offset from the beginning of the payload, which is the length of all earlier sections.
    pub(crate) offset: u64,
    pub(crate) stored_bytes: u32,
    pub(crate) unpacked_bytes: u32,
    checksum: u32,
    is_packed: bool,
    word_bytes: u8,
}

/// Compresses sections.
pub(crate) struct Packer(Option<Compressor<'static>>);

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    pub(crate) fn new() -> Self {
        // If memory for a compressor is missing, sections are stored uncompressed.
        Self(Compressor::new(ZSTD_LEVEL).ok())
    }

    /// Appends a section to a payload; compresses it if this makes it smaller.
    pub(crate) fn add(&mut self, section: Section<'_>, payload: &mut Vec<u8>) -> SectionHead {
        let word_bytes =
            if planes::WIDTHS.contains(&section.word_bytes) { section.word_bytes } else { 1 };
        let split = (word_bytes > 1).then(|| planes::split(section.bytes, word_bytes));
        let plain = split.as_deref().unwrap_or(section.bytes);
        debug_assert_eq!(plain.len(), section.bytes.len(), "planes and words differ in length");
        let packed = self.0.as_mut().and_then(|packer| packer.compress(plain).ok());
        let packed = packed.filter(|packed| packed.len() < section.bytes.len());
        let stored = packed.as_deref().unwrap_or(section.bytes);
        let offset = payload.len() as u64;
        payload.extend_from_slice(stored);
        debug_assert!(stored.len() <= section.bytes.len(), "a packed section is longer");
        debug_assert!(
            u32::try_from(section.bytes.len()).is_ok(),
            "the section is longer than its field can say"
        );
        let head = SectionHead {
            offset,
            stored_bytes: stored.len() as u32,
            unpacked_bytes: section.bytes.len() as u32,
            checksum: crc32c::crc32c(stored),
            is_packed: packed.is_some(),
            word_bytes: if packed.is_some() { word_bytes } else { 1 },
        };
        debug_assert_eq!(head.end(), payload.len() as u64, "the section is not the last");
        head
    }
}

impl SectionHead {
    /// Offset of the section's end from the beginning of the payload.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.stored_bytes)
    }

    /// Encodes the entry:
    ///
    /// ```text
    ///   0  stored bytes   4  uncompressed bytes   8  CRC32C of the stored bytes
    ///  12  compression: 0 none, 1 zstd   13  bytes of a word   14  zeros
    /// ```
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        debug_assert!(
            self.is_packed || self.stored_bytes == self.unpacked_bytes,
            "an unpacked section has two lengths"
        );
        let start = out.len();
        out.put_u32_le(self.stored_bytes);
        out.put_u32_le(self.unpacked_bytes);
        out.put_u32_le(self.checksum);
        out.put_u8(u8::from(self.is_packed));
        out.put_u8(self.word_bytes);
        out.put_u16_le(0);
        debug_assert_eq!(out.len() - start, ENTRY_BYTES, "an entry has another length");
    }

    /// Decodes an entry. Returns the reason if the entry is invalid.
    pub(crate) fn decode(mut entry: &[u8], offset: u64) -> std::result::Result<Self, &'static str> {
        if entry.len() != ENTRY_BYTES {
            return Err("a section is cut off");
        }
        let (stored_bytes, unpacked_bytes) = (entry.get_u32_le(), entry.get_u32_le());
        let checksum = entry.get_u32_le();
        let is_packed = match entry.get_u8() {
            0 if stored_bytes == unpacked_bytes => false,
            1 => true,
            _ => return Err("the compression of a section is unknown to this version"),
        };
        let word_bytes = entry.get_u8();
        if word_bytes != 1 && !planes::WIDTHS.contains(&word_bytes) {
            return Err("the words of a section are unknown to this version");
        }
        Ok(Self { offset, stored_bytes, unpacked_bytes, checksum, is_packed, word_bytes })
    }

    /// Verifies the checksum of the stored bytes, then decompresses them (CL-6). Returns the reason
    /// if the bytes are invalid.
    pub(crate) fn unpack(&self, stored: Bytes) -> std::result::Result<Bytes, &'static str> {
        if stored.len() != self.stored_bytes as usize || crc32c::crc32c(&stored) != self.checksum {
            return Err("the checksum of a section does not match");
        }
        if !self.is_packed {
            return Ok(stored);
        }
        let plain = unpack(&stored, self.unpacked_bytes as usize).ok();
        let plain = plain.filter(|plain| plain.len() == self.unpacked_bytes as usize);
        let plain = plain.ok_or("a section cannot be decompressed")?;
        Ok(match self.word_bytes {
            1 => plain.into(),
            word_bytes => planes::join(&plain, word_bytes).into(),
        })
    }
}

fn unpack(stored: &[u8], bytes: usize) -> std::io::Result<Vec<u8>> {
    UNPACKING.with_borrow_mut(|unpacking| match unpacking {
        Some(decompressor) => decompressor.decompress(stored, bytes),
        None => unpacking.insert(Decompressor::new()?).decompress(stored, bytes),
    })
}

/// Groups the sections to read, so that one read covers neighboring sections and small gaps between
/// them.
pub(crate) fn runs<'a>(
    sections: &'a [SectionHead],
    wanted: &[usize],
) -> Option<Vec<(u64, u64, Vec<&'a SectionHead>)>> {
    /// Maximum unneeded bytes between two sections that one read covers.
    const GAP_BYTES_MAX: u64 = 16 << 10;
    let mut runs: Vec<(u64, u64, Vec<&SectionHead>)> = Vec::new();
    for at in wanted {
        let section = sections.get(*at)?;
        match runs.last_mut() {
            Some((_, end, of))
                if section.offset >= *end && section.offset - *end <= GAP_BYTES_MAX =>
            {
                *end = section.end();
                of.push(section);
            }
            _ => runs.push((section.offset, section.end(), vec![section])),
        }
    }
    debug_assert!(runs.iter().all(|(start, end, _)| start <= end), "a run begins behind its end");
    debug_assert_eq!(
        runs.iter().map(|(_, _, of)| of.len()).sum::<usize>(),
        wanted.len(),
        "a wanted section is in no run"
    );
    Some(runs)
}

/// Decodes the entries of all sections of a block, in order.
pub(crate) fn decode_all(table: &[u8]) -> std::result::Result<Vec<SectionHead>, &'static str> {
    debug_assert!(table.len().is_multiple_of(ENTRY_BYTES), "the table has a part of an entry");
    let mut offset = 0;
    let sections = table.chunks(ENTRY_BYTES).map(|entry| {
        let section = SectionHead::decode(entry, offset)?;
        offset = section.end();
        Ok(section)
    });
    sections.collect()
}
