//! Large groups that are synced go to the disk past the system's memory: a copy there, in pages that are
//! touched for the first time, takes longer than the disk does.
//!
//! ```text
//!   group:  ░░│ head │■■■■■■■■■■■■■■■■■■│■■■■■■■■■■■■■■■■■■│ tail │     │ every 4096 bytes
//!             written      staged, direct     staged, direct    written
//! ```
//! The blocks at both ends have bytes of other groups as well, and are written as any others. A sync of
//! the file makes all of it durable.

use std::io;

use stratalog_model::DiskFile;

/// What offsets, lengths and addresses of direct writes are multiples of.
const BLOCK_BYTES: usize = 4096;

/// Bytes that are staged before they are written.
const STAGED_BYTES: usize = 2 << 20;

/// Memory from which the disk can read, kept from group to group.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    bytes: Vec<u8>,
    /// Where it is aligned.
    start: usize,
    len: usize,
}

impl Staging {
    /// Takes what there is room for; how much that is.
    fn take(&mut self, bytes: &[u8]) -> usize {
        if self.bytes.is_empty() {
            self.bytes = vec![0; STAGED_BYTES + BLOCK_BYTES];
            self.start = self.bytes.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        }
        let count = bytes.len().min(STAGED_BYTES - self.len);
        let at = self.start + self.len;
        if let (Some(room), Some(bytes)) = (self.bytes.get_mut(at..at + count), bytes.get(..count))
        {
            room.copy_from_slice(bytes);
        }
        self.len += count;
        count
    }

    fn staged(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// A group on its way.
pub(crate) struct Direct<'a> {
    file: &'a dyn DiskFile,
    staging: &'a mut Staging,
    /// Bytes up to the first block's end, until they are written.
    head: Vec<u8>,
    head_bytes: usize,
    /// Where what is staged goes.
    at: u64,
    writes: u64,
}

impl<'a> Direct<'a> {
    /// A group that begins at an offset.
    pub(crate) fn begin(file: &'a dyn DiskFile, staging: &'a mut Staging, at: u64) -> Self {
        staging.len = 0;
        let head_bytes = (at.next_multiple_of(BLOCK_BYTES as u64) - at) as usize;
        Self { file, staging, head: Vec::new(), head_bytes, at, writes: 0 }
    }

    /// The next bytes of it.
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
        while !bytes.is_empty() {
            let count = self.staging.take(bytes);
            bytes = bytes.get(count..).unwrap_or_default();
            if self.staging.len == STAGED_BYTES {
                self.write_staged()?;
            }
        }
        Ok(())
    }

    /// Writes what is left; the offset of its end, and how many writes it took.
    pub(crate) fn finish(mut self) -> io::Result<(u64, u64)> {
        self.write_head()?;
        self.write_staged()?;
        Ok((self.at, self.writes))
    }

    fn write_head(&mut self) -> io::Result<()> {
        if !self.head.is_empty() {
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
