//! The file that Parquet's writer writes to. Counts the bytes and computes the block checksums.

use std::io::{self, Write};

use stratalog_model::DiskFile;

use crate::{block::BLOCK_BYTES, sabotage};

/// Bytes per write.
const BUFFER_BYTES: usize = 1 << 20;

/// A file writer with block checksums.
#[derive(Debug)]
pub(crate) struct Sink {
    file: Box<dyn DiskFile>,
    /// File offset of the first byte in the buffer.
    written: u64,
    buffer: Vec<u8>,
    checksums: Vec<u32>,
    /// Checksum and length of the current block so far; after the blocks, of the tail so far.
    running: (u32, u64),
    tail_at: Option<u64>,
    failure: Option<io::Error>,
}

impl Sink {
    pub(crate) fn new(file: Box<dyn DiskFile>) -> Self {
        Self {
            file,
            written: 0,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            checksums: Vec::new(),
            running: (0, 0),
            tail_at: None,
            failure: None,
        }
    }

    /// Number of bytes so far, including buffered bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Ends the last block at the current offset. Returns this offset, and the checksums of all
    /// blocks.
    pub(crate) fn begin_tail(&mut self) -> (u64, &[u32]) {
        if self.running.1 > 0 {
            self.checksums.push(self.running.0);
        }
        self.running = (0, 0);
        let at = self.bytes();
        debug_assert!(self.tail_at.is_none(), "the tail begins twice");
        debug_assert_eq!(self.checksums.len() as u64, at.div_ceil(BLOCK_BYTES));
        self.tail_at = Some(at);
        self.assert_consistent();
        (at, &self.checksums)
    }

    /// Checksum of the bytes since [`Self::begin_tail`].
    pub(crate) fn tail_checksum(&self) -> u32 {
        debug_assert!(self.tail_at.is_some(), "no tail has begun");
        self.running.0
    }

    /// Writes the buffered bytes, and makes the file durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.write_out()?;
        if sabotage::active("story-unsynced") {
            return Ok(());
        }
        self.file.sync_all()
    }

    /// The cause of the last failed write, because Parquet's error does not contain it.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }

    fn add_to_checksums(&mut self, mut bytes: &[u8]) {
        if self.tail_at.is_some() {
            self.running.0 = crc32c::crc32c_append(self.running.0, bytes);
            return;
        }
        while !bytes.is_empty() {
            debug_assert!(self.running.1 < BLOCK_BYTES, "a block without room");
            let room = (BLOCK_BYTES - self.running.1) as usize;
            let (part, rest) = bytes.split_at(room.min(bytes.len()));
            self.running.0 = crc32c::crc32c_append(self.running.0, part);
            self.running.1 += part.len() as u64;
            if self.running.1 == BLOCK_BYTES {
                self.checksums.push(self.running.0);
                self.running = (0, 0);
            }
            bytes = rest;
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        if let Err(error) = self.file.write_all_at(&self.buffer, self.written) {
            let copy = io::Error::new(error.kind(), error.to_string());
            self.failure = Some(error);
            return Err(copy);
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.assert_consistent();
        Ok(())
    }

    fn assert_consistent(&self) {
        debug_assert!(self.running.1 < BLOCK_BYTES, "a whole block without a checksum");
        debug_assert!(self.tail_at.is_none() || self.running.1 == 0, "a block in the tail");
        debug_assert!(self.tail_at.is_none_or(|at| at <= self.bytes()), "the tail begins nowhere");
        debug_assert!(
            self.tail_at.is_some()
                || self.checksums.len() as u64 * BLOCK_BYTES + self.running.1 == self.bytes(),
            "the checksums are of other bytes"
        );
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES && !self.buffer.is_empty() {
            self.write_out()?;
        }
        self.add_to_checksums(bytes);
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_out()?;
        }
        debug_assert!(self.buffer.len() < BUFFER_BYTES, "a full buffer stays");
        self.assert_consistent();
        Ok(bytes.len())
    }

    /// Does nothing: [`Sink::sync`] makes the file durable.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
