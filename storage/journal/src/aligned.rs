//! Buffers aligned to cache lines: Arrow can use the payloads in them without a copy.

use bytes::Bytes;

/// Alignment in memory of the reader's buffers.
const ALIGNMENT: usize = 64;

/// A buffer whose address is a multiple of 64.
pub(crate) struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` bytes of zeros.
    pub(crate) fn zeroed(len: usize) -> Self {
        let bytes = vec![0; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        debug_assert!(start + len <= bytes.len(), "the aligned part is outside of the buffer");
        Self { bytes, start, len }
    }

    /// The bytes, for writing.
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.start + self.len).unwrap_or_default()
    }

    /// Drops the bytes after the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        debug_assert!(len <= self.len, "more bytes are kept than the buffer has");
        self.len = self.len.min(len);
    }

    /// Converts the buffer to shared, immutable bytes.
    pub(crate) fn freeze(self) -> Bytes {
        debug_assert!(self.start + self.len <= self.bytes.len());
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

static ZEROS: [u8; 4096] = [0; 4096];

/// Whether all bytes are 0; compares large chunks for speed.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|chunk| ZEROS.get(..chunk.len()) == Some(chunk))
}

/// Length of `bytes` without trailing zeros.
pub(crate) fn used_len(bytes: &[u8]) -> usize {
    let mut len = bytes.len();
    for chunk in bytes.rchunks(ZEROS.len()) {
        if !is_zero(chunk) {
            let used = len - chunk.iter().rev().take_while(|byte| **byte == 0).count();
            debug_assert!(
                bytes.get(used.saturating_sub(1)).is_some_and(|byte| *byte != 0),
                "the last used byte is zero"
            );
            return used;
        }
        len -= chunk.len();
    }
    debug_assert_eq!(len, 0, "bytes were left out");
    0
}

/// A slice of `len` zeros; `len` is at most 4096.
pub(crate) fn zeros(len: usize) -> &'static [u8] {
    debug_assert!(len <= ZEROS.len(), "{len} zeros in one piece");
    ZEROS.get(..len).unwrap_or(&ZEROS)
}

#[cfg(test)]
mod tests;
