//! Reads the frames of one segment in large reads; payloads share the memory of the read buffer.

use std::io;

use bytes::Bytes;
use stratalog_model::{DiskFile, Frame};

use crate::{
    aligned::AlignedBuffer,
    frame::{self, Header, ParsedRecord, Record},
    segment::{self, Segment},
};

/// Bytes per read.
const CHUNK_BYTES: u64 = 4 << 20;

/// The result of one step of the reader.
#[derive(Debug)]
pub(crate) enum Step {
    /// A frame or a mark with valid checksums. The reader has moved to the next record.
    Record {
        /// Offset of the record.
        offset: u64,
        header: Header,
        /// Checksum of the header itself.
        checksum: u32,
        payload: Bytes,
    },
    /// No valid record. The reader does not move.
    Stop(Stop),
}

/// Why the reader found no valid record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Zeros, or the end of the file.
    Blank,
    /// A header with an invalid checksum.
    DamagedHeader,
    /// A header with a valid checksum, but with contents that this version does not know.
    Unknown,
    /// A valid header, but the payload's checksum is wrong.
    DamagedPayload(Header),
    /// A valid header, but the payload would end after the end of the file.
    Overrun(Header),
}

/// Reads the records of a segment one after another.
pub(crate) struct FrameReader<'a> {
    file: &'a dyn DiskFile,
    seed: u32,
    /// End of the readable bytes.
    end: u64,
    offset: u64,
    chunk: Bytes,
    chunk_at: u64,
    /// Sabotage: skips the payload checksum.
    pub(crate) checksums_ignored: bool,
}

impl<'a> FrameReader<'a> {
    /// A reader at the first frame of a segment.
    pub(crate) fn new(file: &'a dyn DiskFile, segment: &Segment) -> Self {
        Self {
            end: segment.bytes,
            file,
            seed: segment.seed,
            offset: segment::HEADER_BYTES,
            chunk: Bytes::new(),
            chunk_at: segment::HEADER_BYTES,
            checksums_ignored: false,
        }
    }

    /// Offset of the next record.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Continues at an offset after damage.
    pub(crate) fn resume_at(&mut self, offset: u64) {
        debug_assert!(offset > self.offset, "the reader does not advance");
        self.offset = offset;
        self.chunk = Bytes::new();
        self.chunk_at = offset;
    }

    /// Reads the next record.
    pub(crate) fn step(&mut self) -> io::Result<Step> {
        let bytes = self.view(frame::HEADER_BYTES)?;
        if bytes.len() as u64 != frame::HEADER_BYTES {
            let blank = crate::aligned::is_zero(&bytes);
            return Ok(Step::Stop(if blank { Stop::Blank } else { Stop::DamagedHeader }));
        }
        let (header, checksum) = match Header::parse(&bytes, self.seed) {
            ParsedRecord::Blank => return Ok(Step::Stop(Stop::Blank)),
            ParsedRecord::Damaged => return Ok(Step::Stop(Stop::DamagedHeader)),
            ParsedRecord::Unknown => return Ok(Step::Stop(Stop::Unknown)),
            ParsedRecord::Header(header, checksum) => (header, checksum),
        };
        if self.offset.saturating_add(header.extent()) > self.end {
            return Ok(Step::Stop(Stop::Overrun(header)));
        }
        let mut extent = self.view(header.extent())?;
        if extent.len() as u64 != header.extent() {
            return Ok(Step::Stop(Stop::Overrun(header)));
        }
        let mut payload = extent.split_off(frame::HEADER_BYTES as usize);
        if crc32c::crc32c(&payload) != header.payload_checksum && !self.checksums_ignored {
            return Ok(Step::Stop(Stop::DamagedPayload(header)));
        }
        payload.truncate(header.payload_bytes as usize);
        debug_assert_eq!(payload.len(), header.payload_bytes as usize);
        let offset = self.offset;
        self.offset += header.extent();
        debug_assert!(self.offset <= self.end, "a frame ends behind its segment");
        debug_assert!(offset < self.offset, "a record without a length");
        Ok(Step::Record { offset, header, checksum, payload })
    }

    /// The next `len` bytes; fewer at the end of the file.
    fn view(&mut self, len: u64) -> io::Result<Bytes> {
        let len = len.min(self.end.saturating_sub(self.offset));
        debug_assert!(self.chunk_at <= self.offset, "the chunk begins behind the reader");
        let mut from = (self.offset - self.chunk_at).min(self.chunk.len() as u64);
        if self.chunk.len() as u64 - from < len {
            self.fill(from, len)?;
            from = 0;
        }
        let to = (from + len).min(self.chunk.len() as u64);
        debug_assert!(from <= to, "the view begins behind its end");
        Ok(self.chunk.slice(from as usize..to as usize))
    }

    /// Keeps the buffered bytes from `from` on, and reads further bytes until `len` bytes are
    /// available.
    fn fill(&mut self, from: u64, len: u64) -> io::Result<()> {
        debug_assert_eq!(
            self.offset.checked_sub(self.chunk_at),
            Some(from),
            "the kept bytes do not begin at the reader"
        );
        let wanted = len.max(CHUNK_BYTES).min(self.end.saturating_sub(self.offset));
        let left = self.chunk.slice(from as usize..);
        debug_assert!(left.len() as u64 <= wanted, "a chunk without room for the bytes at hand");
        let mut buffer = AlignedBuffer::zeroed(wanted as usize);
        if let Some(head) = buffer.as_mut().get_mut(..left.len()) {
            head.copy_from_slice(&left);
        }
        let mut filled = left.len();
        while let Some(rest) = buffer.as_mut().get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, self.offset + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        debug_assert!(left.len() <= filled, "bytes at hand are lost");
        debug_assert!(filled as u64 <= wanted, "the file gave more bytes than wanted");
        buffer.truncate(filled);
        self.chunk = buffer.freeze();
        self.chunk_at = self.offset;
        Ok(())
    }
}

/// Converts a header with its payload to a frame; `None` for a mark.
pub(crate) fn frame_of(header: &Header, payload: Bytes) -> Option<Frame> {
    let Record::Frame(kind) = header.record else { return None };
    Some(Frame {
        kind,
        partition: header.partition,
        chronicle: header.chronicle,
        schema_version: header.schema_version,
        statement: header.statement,
        ticks: header.ticks,
        count: header.count,
        first_seq: header.first_seq,
        producer: header.producer,
        payload,
    })
}
