//! Direct writes: large synced groups bypass the page cache, because a copy into fresh pages of the
//! cache takes longer than the disk itself.
//!
//! ```text
//!   group:  ░░│ head │■■■■■■■■■■■■■■■■■■│■■■■■■■■■■■■■■■■■■│ tail │   (│: every 4096 bytes)
//!            buffered   direct write       direct write    buffered
//! ```
//! The head and the tail share their 4096-byte blocks with other groups; they are written through
//! the page cache. A sync of the file makes the complete group durable.

use std::io;

use stratalog_model::DiskFile;

/// Alignment of offsets, lengths and addresses of direct writes.
const BLOCK_BYTES: usize = 4096;

/// Size of the staging buffer.
const STAGED_BYTES: usize = 2 << 20;

/// A buffer with the alignment that direct writes need; reused for all groups.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    bytes: Vec<u8>,
    /// Index of the first aligned byte in `bytes`.
    start: usize,
    len: usize,
}

impl Staging {
    /// Copies bytes into the free part of the buffer; returns the number of copied bytes.
    fn take(&mut self, bytes: &[u8]) -> usize {
        if self.bytes.is_empty() {
            self.bytes = vec![0; STAGED_BYTES + BLOCK_BYTES];
            self.start = self.bytes.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        }
        let count = bytes.len().min(STAGED_BYTES - self.len);
        debug_assert!(self.start + self.len + count <= self.bytes.len());
        debug_assert!(count > 0 || bytes.is_empty(), "a full buffer takes no bytes");
        let at = self.start + self.len;
        if let (Some(room), Some(bytes)) = (self.bytes.get_mut(at..at + count), bytes.get(..count))
        {
            room.copy_from_slice(bytes);
        }
        self.len += count;
        count
    }

    fn staged(&self) -> &[u8] {
        let staged = self.bytes.get(self.start..self.start + self.len).unwrap_or_default();
        debug_assert_eq!(staged.len(), self.len, "staged bytes are outside of the buffer");
        staged
    }
}

/// The write of one group.
pub(crate) struct Direct<'a> {
    file: &'a dyn DiskFile,
    staging: &'a mut Staging,
    /// The collected bytes of the head, until they are written.
    head: Vec<u8>,
    head_bytes: usize,
    /// File offset at which the next write begins.
    at: u64,
    writes: u64,
}

impl<'a> Direct<'a> {
    /// Begins a group at a file offset.
    pub(crate) fn begin(file: &'a dyn DiskFile, staging: &'a mut Staging, at: u64) -> Self {
        staging.len = 0;
        let head_bytes = (at.next_multiple_of(BLOCK_BYTES as u64) - at) as usize;
        debug_assert!(head_bytes < BLOCK_BYTES, "the head has a complete block");
        Self { file, staging, head: Vec::new(), head_bytes, at, writes: 0 }
    }

    /// Adds the next bytes of the group.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if self.head_bytes > 0 {
            let count = bytes.len().min(self.head_bytes - self.head.len());
            let (head, rest) = bytes.split_at(count);
            self.head.extend_from_slice(head);
            bytes = rest;
            if self.head.len() == self.head_bytes {
                self.write_head()?;
            }
        }
        debug_assert!(bytes.is_empty() || self.head_bytes == 0, "bytes pass the head");
        while !bytes.is_empty() {
            let count = self.staging.take(bytes);
            bytes = bytes.get(count..).unwrap_or_default();
            if self.staging.len == STAGED_BYTES {
                self.write_staged()?;
            }
        }
        Ok(())
    }

    /// Writes the remaining bytes; returns the end offset of the group and the number of writes.
    pub(crate) fn finish(mut self) -> io::Result<(u64, u64)> {
        self.write_head()?;
        self.write_staged()?;
        Ok((self.at, self.writes))
    }

    fn write_head(&mut self) -> io::Result<()> {
        debug_assert!(self.head.len() <= self.head_bytes, "the head is longer than its block");
        if !self.head.is_empty() {
            debug_assert_eq!(self.staging.len, 0, "staged bytes come before the head");
            self.file.write_all_at(&self.head, self.at)?;
            self.writes += 1;
            self.at += self.head.len() as u64;
        }
        self.head.clear();
        self.head_bytes = 0;
        Ok(())
    }

    fn write_staged(&mut self) -> io::Result<()> {
        let staged = self.staging.staged();
        let (blocks, tail) = staged.split_at(staged.len() / BLOCK_BYTES * BLOCK_BYTES);
        debug_assert!(
            blocks.is_empty() || self.at.is_multiple_of(BLOCK_BYTES as u64),
            "a direct write at {}",
            self.at
        );
        if !blocks.is_empty() {
            self.file.write_direct_at(blocks, self.at)?;
            self.writes += 1;
        }
        if !tail.is_empty() {
            self.file.write_all_at(tail, self.at + blocks.len() as u64)?;
            self.writes += 1;
        }
        self.at += staged.len() as u64;
        self.staging.len = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
