//! Sections of a block: the units of packing, verification and reading, such as one column.
//!
//! ```text
//!   bytes ─► words split into planes ─► zstd ─► stored, with a checksum
//!             (all first bytes, then all second bytes, …)
//! ```
//! Similar numbers have similar upper bytes: planes of upper bytes pack to nearly nothing.

use std::cell::RefCell;

use bytes::{Buf, BufMut, Bytes};
use zstd::bulk::{Compressor, Decompressor};

use crate::planes;

/// Bytes of a section's entry in the head of a block.
pub(crate) const ENTRY_BYTES: usize = 16;

/// Level of zstd: the fastest level that still halves codes and floats.
const ZSTD_LEVEL: i32 = 1;

thread_local! {
    static UNPACKING: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// A part of a block to write.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Bytes per word of the section's main part: 1, 2, 4, 8 or 16.
    pub word_bytes: u8,
}

/// The place and the checksum of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SectionHead {
    /// Offset from the beginning of the payload: the sum of the sections before.
    pub(crate) offset: u64,
    pub(crate) stored_bytes: u32,
    pub(crate) unpacked_bytes: u32,
    checksum: u32,
    is_packed: bool,
    word_bytes: u8,
}

/// Packs sections.
pub(crate) struct Packer(Option<Compressor<'static>>);

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    pub(crate) fn new() -> Self {
        // Without memory for a compressor, sections are stored unpacked.
        Self(Compressor::new(ZSTD_LEVEL).ok())
    }

    /// Adds a section to a payload; packs the section if packing makes the section smaller.
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
    /// End of the section, from the beginning of the payload.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.stored_bytes)
    }

    /// ```text
    ///   0  bytes, stored   4  bytes, unpacked   8  CRC32C of the stored bytes
    ///  12  packing: 0 none, 1 zstd   13  bytes of a word   14  zeros
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

    /// Decodes an entry; the reason in case of a failure.
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

    /// Unpacks the stored bytes; the reason in case of a failure. The checksum is verified before
    /// unpacking (CL-6).
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

/// Groups wanted sections for reading: one read for neighbors and small gaps between them.
pub(crate) fn runs<'a>(
    sections: &'a [SectionHead],
    wanted: &[usize],
) -> Option<Vec<(u64, u64, Vec<&'a SectionHead>)>> {
    /// Maximum unused bytes between two sections of one read.
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

/// The heads of a payload's sections, in order.
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
