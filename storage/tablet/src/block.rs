//! The format of a block: a head with a summary, then the events. All integers are little-endian.
//!
//! ```text
//!     0  "SLTB"               4  CRC32C of the head from byte 8 on, seeded with the tablet's seed
//!     8  sections            12  payload bytes        16  payload bytes, uncompressed
//!    20  head bytes          24  number in the file   28  rows
//!    32  first tick          40  last tick            48  first gsn      56  last gsn
//!    64  bytes of first key  68  bytes of last key    72  bytes of statistics
//!    76  zeros
//!    96  first key, last key, statistics, 16 bytes for each section, zeros up to a multiple of 16
//!        payload: the sections, zeros up to a multiple of 16
//! ```

use bytes::{Buf, BufMut, Bytes};
use stratalog_model::{Tick, TickRange};

use crate::section::{self, ENTRY_BYTES, SectionHead};

/// Bytes of the fixed part of a head, before its keys.
pub(crate) const FIXED_BYTES: usize = 96;
/// Heads and payloads start at multiples of this value.
pub(crate) const ALIGNMENT: usize = 16;
/// Maximum bytes of a head.
pub(crate) const HEAD_BYTES_MAX: usize = 16 << 20;

const MAGIC: &[u8; 4] = b"SLTB";

/// The summary of a block's events. All values are exact.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockSummary {
    /// Number of events; at least one.
    pub rows: u32,
    /// Lowest and highest tick.
    pub ticks: (i64, i64),
    /// Lowest and highest gsn.
    pub gsns: (u64, u64),
    /// Keys of the first and the last event: the lowest and the highest key of the block.
    pub keys: (Bytes, Bytes),
    /// Statistics of the columns, as the builder's caller encodes them.
    pub statistics: Bytes,
}

impl BlockSummary {
    /// The smallest range around the ticks.
    pub fn hull(&self) -> TickRange {
        TickRange::new(Tick(self.ticks.0), Tick(self.ticks.1).next())
    }
}

/// The head of a block: its place in the file, and the summary of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHead {
    /// Offset of the head in the file.
    pub offset: u64,
    /// Number in the file, from 0.
    pub number: u32,
    /// The summary of the events.
    pub summary: BlockSummary,
    pub(crate) head_bytes: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) unpacked_bytes: u32,
    pub(crate) sections: Vec<SectionHead>,
}

impl BlockHead {
    /// Size of the block on disk, in bytes: head and payload.
    pub fn bytes(&self) -> u64 {
        let bytes = u64::from(self.head_bytes)
            + u64::from(self.payload_bytes).next_multiple_of(ALIGNMENT as u64);
        debug_assert!(bytes.is_multiple_of(ALIGNMENT as u64), "the next block is not aligned");
        bytes
    }

    /// Number of sections in the payload.
    pub fn sections(&self) -> usize {
        self.sections.len()
    }

    /// Size of the sections with the numbers `wanted` on disk, in bytes.
    pub fn stored_bytes(&self, wanted: &[usize]) -> u64 {
        debug_assert!(
            wanted.iter().all(|at| *at < self.sections.len()),
            "the block has no such section"
        );
        let sections = wanted.iter().filter_map(|at| self.sections.get(*at));
        sections.map(|section| u64::from(section.stored_bytes)).sum()
    }

    /// Uncompressed size of the payload, in bytes.
    pub fn unpacked_bytes(&self) -> usize {
        self.unpacked_bytes as usize
    }

    /// Encodes the head; returns its bytes and its checksum.
    pub(crate) fn encode(&self, seed: u32) -> (Vec<u8>, u32) {
        let summary = &self.summary;
        let mut out = Vec::with_capacity(self.head_bytes as usize);
        out.put_slice(MAGIC);
        out.put_u32_le(0);
        out.put_u32_le(self.sections.len() as u32);
        out.put_u32_le(self.payload_bytes);
        out.put_u32_le(self.unpacked_bytes);
        out.put_u32_le(self.head_bytes);
        out.put_u32_le(self.number);
        out.put_u32_le(summary.rows);
        out.put_i64_le(summary.ticks.0);
        out.put_i64_le(summary.ticks.1);
        out.put_u64_le(summary.gsns.0);
        out.put_u64_le(summary.gsns.1);
        out.put_u32_le(summary.keys.0.len() as u32);
        out.put_u32_le(summary.keys.1.len() as u32);
        out.put_u32_le(summary.statistics.len() as u32);
        out.resize(FIXED_BYTES, 0);
        out.put_slice(&summary.keys.0);
        out.put_slice(&summary.keys.1);
        out.put_slice(&summary.statistics);
        self.sections.iter().for_each(|section| section.encode(&mut out));
        debug_assert!(
            out.len() <= self.head_bytes as usize,
            "the parts of a head are longer than the head"
        );
        out.resize(self.head_bytes as usize, 0);
        let checksum = crc32c::crc32c_append(seed, out.get(8..).unwrap_or(&[]));
        if let Some(slot) = out.get_mut(4..8) {
            slot.copy_from_slice(&checksum.to_le_bytes());
        }
        (out, checksum)
    }

    /// Size of a head with this summary and this number of sections, in bytes.
    pub(crate) fn head_bytes_of(summary: &BlockSummary, sections: usize) -> usize {
        let parts = summary.keys.0.len() + summary.keys.1.len() + summary.statistics.len();
        (FIXED_BYTES + parts + sections * ENTRY_BYTES).next_multiple_of(ALIGNMENT)
    }

    /// The length of the head whose first bytes are `fixed`; `None` if `fixed` is not the beginning
    /// of a head.
    pub(crate) fn head_bytes_in(fixed: &[u8]) -> Option<usize> {
        let bytes = fixed.get(20..24)?.try_into().map(u32::from_le_bytes).ok()? as usize;
        let fits =
            (FIXED_BYTES..=HEAD_BYTES_MAX).contains(&bytes) && bytes.is_multiple_of(ALIGNMENT);
        (fixed.starts_with(MAGIC) && fits).then_some(bytes)
    }

    /// Decodes the head at file offset `offset`. Returns the head and its checksum, or the reason
    /// why the bytes are invalid.
    pub(crate) fn decode(head: &[u8], offset: u64, seed: u32) -> Result<(Self, u32), &'static str> {
        if Self::head_bytes_in(head) != Some(head.len()) {
            return Err("the block is missing");
        }
        let stored = head.get(4..8).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        let checksum = crc32c::crc32c_append(seed, head.get(8..).unwrap_or(&[]));
        if stored != Some(checksum) {
            return Err("the checksum of a block's head does not match");
        }
        let mut fields = head.get(8..).unwrap_or(&[]);
        let sections = fields.get_u32_le() as usize;
        let payload_bytes = fields.get_u32_le();
        let unpacked_bytes = fields.get_u32_le();
        let head_bytes = fields.get_u32_le();
        let number = fields.get_u32_le();
        let rows = fields.get_u32_le();
        let ticks = (fields.get_i64_le(), fields.get_i64_le());
        let gsns = (fields.get_u64_le(), fields.get_u64_le());
        let lengths = [(); 3].map(|()| fields.get_u32_le() as usize);
        let mut at = FIXED_BYTES;
        let mut part = |bytes: usize| -> Result<Bytes, &'static str> {
            let end = at.saturating_add(bytes);
            let part = head.get(at..end).ok_or("a block's head is shorter than its parts")?;
            at = end;
            Ok(Bytes::copy_from_slice(part))
        };
        let [first, last, statistics] = lengths;
        let keys = (part(first)?, part(last)?);
        let statistics = part(statistics)?;
        let sections = section::decode_all(&part(sections.saturating_mul(ENTRY_BYTES))?)?;
        let ends = sections.last().map_or(0, SectionHead::end);
        let unpacked: u64 = sections.iter().map(|section| u64::from(section.unpacked_bytes)).sum();
        if ends != u64::from(payload_bytes) || unpacked != u64::from(unpacked_bytes) {
            return Err("the sections of a block differ from its payload");
        }
        debug_assert_eq!(head_bytes as usize, head.len(), "the head has two lengths");
        let summary = BlockSummary { rows, ticks, gsns, keys, statistics };
        let head =
            Self { offset, number, summary, head_bytes, payload_bytes, unpacked_bytes, sections };
        Ok((head, checksum))
    }
}
