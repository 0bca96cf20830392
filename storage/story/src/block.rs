//! Checksums of the blocks of a story file: a reader can verify any byte range without the rest of
//! the file.
//!
//! ```text
//!   0        64 KiB    128 KiB            tail_at                     bytes
//!   │ block 0 │ block 1 │ … │ last, shorter │ page index, footer, "PAR1" │
//!   └──── a checksum each, in the footer ───┴─── one checksum, in the ───┘
//!                                                    manifest
//! ```

use std::ops::Range;

use base64::{Engine, engine::general_purpose::STANDARD};

/// Size of a block in bytes.
pub(crate) const BLOCK_BYTES: u64 = 64 << 10;

/// The checksums (CRC32C) of the blocks, which cover all bytes before the tail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Blocks {
    checksums: Vec<u32>,
    /// File offset where the last block ends and the tail begins.
    end: u64,
}

impl Blocks {
    /// The checksums of a file whose tail begins at offset `end`; `None` if their number does not
    /// match.
    pub(crate) fn new(checksums: Vec<u32>, end: u64) -> Option<Self> {
        (checksums.len() as u64 == end.div_ceil(BLOCK_BYTES)).then_some(Self { checksums, end })
    }

    /// File offset where the last block ends and the tail begins.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes in memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.checksums.len() * size_of::<u32>()
    }

    /// The smallest range of whole blocks that contains `range`.
    pub(crate) fn around(&self, range: &Range<u64>) -> Range<u64> {
        debug_assert!(range.start < range.end, "no block lies around an empty range");
        debug_assert!(range.end <= self.end, "the range reaches into the tail");
        let start = range.start / BLOCK_BYTES * BLOCK_BYTES;
        let end = range.end.next_multiple_of(BLOCK_BYTES).min(self.end);
        debug_assert!(start <= range.start && range.end <= end, "the blocks leave out bytes");
        start..end
    }

    /// Verifies whole blocks: `bytes` begin at the file offset `start`. On failure, returns the
    /// byte range of the first damaged block.
    pub(crate) fn verify(&self, start: u64, bytes: &[u8]) -> Result<(), Range<u64>> {
        debug_assert!(start.is_multiple_of(BLOCK_BYTES), "no block begins at {start}");
        debug_assert_eq!(
            self.checksums.len() as u64,
            self.end.div_ceil(BLOCK_BYTES),
            "a block without a checksum"
        );
        let first = (start / BLOCK_BYTES) as usize;
        let blocks = bytes.chunks(BLOCK_BYTES as usize);
        for (number, block) in (first..).zip(blocks) {
            if self.checksums.get(number) != Some(&crc32c::crc32c(block)) {
                let at = number as u64 * BLOCK_BYTES;
                return Err(at..(at + BLOCK_BYTES).min(self.end));
            }
        }
        Ok(())
    }

    /// Encodes checksums in base64.
    pub(crate) fn encode(checksums: &[u32]) -> String {
        let bytes: Vec<u8> = checksums.iter().flat_map(|checksum| checksum.to_le_bytes()).collect();
        STANDARD.encode(bytes)
    }

    /// Decodes checksums from base64; `None` for invalid text.
    pub(crate) fn decode(text: &str, end: u64) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        let (words, rest) = bytes.as_chunks::<4>();
        let checksums = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        rest.is_empty().then(|| Self::new(checksums, end))?
    }
}

#[cfg(test)]
mod tests;
