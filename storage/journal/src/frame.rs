//! The byte format of a frame. All integers are little-endian.
//!
//! ```text
//!    0  magic "SLFR"          4  CRC32C of bytes 8..128, seeded with the segment header's
//!    8  CRC32C of payload and padding   12  payload bytes
//!   16  lsn                  24  last lsn known durable when this was written
//!   32  kind, flags          34  partition   36 chronicle   40 schema version   44 count
//!   48  first tick           56  tick after the last
//!   64  first_seq            72  statement
//!   80  producer (16)        96  producer sequence       104  zeros (24)
//!  128  payload, then zeros up to a multiple of 128
//! ```
//!
//! Frames start at multiples of 128: a header never crosses the border of a 512-byte sector. After
//! a torn write the header is complete or zeros; any other content is damage.

use bytes::{Buf, BufMut};
use stratalog_model::{
    ChronicleId, Frame, FrameKind, Lsn, PartitionId, ProducerId, SchemaVersion, StatementId, Tick,
    TickRange,
};

/// Maximum difference between the bytes of a frame on disk and its payload bytes.
pub const FRAME_OVERHEAD_BYTES: u64 = HEADER_BYTES + ALIGNMENT - 1;

/// Bytes of a frame's header, which precedes the payload.
pub(crate) const HEADER_BYTES: u64 = 128;
/// Frames start at file offsets that are multiples of this value.
pub(crate) const ALIGNMENT: u64 = 128;
const HEADER: usize = HEADER_BYTES as usize;

const MAGIC: &[u8; 4] = b"SLFR";
/// The kind byte of a mark; see [`Record::Mark`].
const MARK: u8 = 0x80;
/// Kind byte of [`Record::Continued`].
const CONTINUED: u8 = 0x81;
const FLAG_PRODUCER: u8 = 1;

/// Bytes on disk of a frame whose payload has `payload_bytes` bytes.
pub(crate) const fn extent_bytes(payload_bytes: u64) -> u64 {
    let bytes = HEADER_BYTES + payload_bytes.next_multiple_of(ALIGNMENT);
    debug_assert!(
        bytes - payload_bytes <= FRAME_OVERHEAD_BYTES,
        "a frame has more overhead than the constant says"
    );
    bytes
}

/// Number of zeros between the end of a payload and the next frame.
pub(crate) const fn padding_bytes(payload_bytes: usize) -> usize {
    let bytes = payload_bytes.next_multiple_of(ALIGNMENT as usize) - payload_bytes;
    debug_assert!(bytes < ALIGNMENT as usize, "the padding has room for another frame");
    bytes
}

/// CRC32C of a payload and the zeros after it.
pub(crate) fn payload_checksum(payload: &[u8]) -> u32 {
    let padding = crate::aligned::zeros(padding_bytes(payload.len()));
    crc32c::crc32c_append(crc32c::crc32c(payload), padding)
}

/// Whether 128 bytes with an invalid checksum look like the header of frame `lsn`: they have the
/// magic or the lsn, and a few wrong bits cannot break both.
pub(crate) fn resembles(bytes: &[u8], lsn: Lsn) -> bool {
    debug_assert_eq!(bytes.len(), HEADER, "not the length of a header");
    bytes.starts_with(MAGIC) || bytes.get(16..24) == Some(&lsn.0.to_le_bytes())
}

/// Whether a change of one byte gives 128 bytes with an invalid checksum a valid one. If so, a few
/// bits are wrong, and the write was not interrupted: returns `Some` with the payload length of the
/// corrected header.
pub(crate) fn mended(bytes: &[u8], seed: u32) -> Option<u32> {
    debug_assert_eq!(bytes.len(), HEADER, "not the length of a header");
    let mut tried = bytes.to_vec();
    for at in 0..tried.len() {
        let Some(was) = tried.get(at).copied() else { continue };
        for value in (0..=u8::MAX).filter(|value| *value != was) {
            tried.iter_mut().skip(at).take(1).for_each(|byte| *byte = value);
            if let ParsedRecord::Header(header, _) = Header::parse(&tried, seed) {
                return Some(header.payload_bytes);
            }
        }
        tried.iter_mut().skip(at).take(1).for_each(|byte| *byte = was);
    }
    debug_assert!(tried.as_slice() == bytes, "a tried change was not taken back");
    None
}

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// A frame of the log.
    Frame(FrameKind),
    /// A durability mark, not a frame: when the mark was written, all frames up to `durable` were
    /// durable. The mark's lsn is the lsn of the next frame.
    Mark,
    /// A mark that is the last record of its segment: the log continues in the next segment.
    Continued,
}

/// The header of a frame: the frame's fields except the payload, plus fields of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) record: Record,
    pub(crate) partition: PartitionId,
    pub(crate) chronicle: ChronicleId,
    pub(crate) schema_version: SchemaVersion,
    pub(crate) count: u32,
    pub(crate) lsn: Lsn,
    /// All frames up to this lsn were fdatasynced before this header was written.
    pub(crate) durable: Lsn,
    pub(crate) ticks: TickRange,
    pub(crate) first_seq: u64,
    pub(crate) statement: StatementId,
    pub(crate) producer: Option<(ProducerId, u64)>,
    pub(crate) payload_bytes: u32,
    pub(crate) payload_checksum: u32,
}

/// The result of parsing 128 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ParsedRecord {
    /// Only zeros: nothing was written here.
    Blank,
    /// Neither zeros nor a header with a valid checksum.
    Damaged,
    /// A valid header, with the header's checksum.
    Header(Header, u32),
    /// A header with a valid checksum, but with contents that this version does not know.
    Unknown,
}

impl Header {
    /// The header for `frame` at the position `lsn`; all frames up to `durable` are durable.
    pub(crate) fn of(frame: &Frame, payload_checksum: u32, lsn: Lsn, durable: Lsn) -> Self {
        debug_assert!(
            u32::try_from(frame.payload.len()).is_ok(),
            "the payload is longer than its field can say"
        );
        Self {
            record: Record::Frame(frame.kind),
            partition: frame.partition,
            chronicle: frame.chronicle,
            schema_version: frame.schema_version,
            count: frame.count,
            lsn,
            durable,
            ticks: frame.ticks,
            first_seq: frame.first_seq,
            statement: frame.statement,
            producer: frame.producer,
            payload_bytes: u32::try_from(frame.payload.len()).unwrap_or(u32::MAX),
            payload_checksum,
        }
    }

    /// A mark that precedes the frame `next`: all frames up to `durable` are durable.
    pub(crate) fn mark(partition: PartitionId, next: Lsn, durable: Lsn) -> Self {
        debug_assert!(durable < next, "a mark attests a frame behind itself");
        Self {
            record: Record::Mark,
            partition,
            chronicle: ChronicleId(0),
            schema_version: SchemaVersion(0),
            count: 0,
            lsn: next,
            durable,
            ticks: TickRange::EMPTY,
            first_seq: 0,
            statement: StatementId(0),
            producer: None,
            payload_bytes: 0,
            payload_checksum: 0,
        }
    }

    /// A mark at the end of a segment: the frame `next` is in the next segment.
    pub(crate) fn continued(partition: PartitionId, next: Lsn, durable: Lsn) -> Self {
        Self { record: Record::Continued, ..Self::mark(partition, next, durable) }
    }

    /// Bytes of the frame on disk.
    pub(crate) fn extent(&self) -> u64 {
        extent_bytes(u64::from(self.payload_bytes))
    }

    /// Appends the header's bytes to `out`; returns the checksum of the header.
    pub(crate) fn encode(&self, seed: u32, out: &mut Vec<u8>) -> u32 {
        let mut body = [0_u8; HEADER - 8];
        let mut fields = body.as_mut_slice();
        fields.put_u32_le(self.payload_checksum);
        fields.put_u32_le(self.payload_bytes);
        fields.put_u64_le(self.lsn.0);
        fields.put_u64_le(self.durable.0);
        fields.put_u8(match self.record {
            Record::Frame(kind) => kind as u8,
            Record::Mark => MARK,
            Record::Continued => CONTINUED,
        });
        fields.put_u8(if self.producer.is_some() { FLAG_PRODUCER } else { 0 });
        fields.put_u16_le(self.partition.0);
        fields.put_u32_le(self.chronicle.0);
        fields.put_u32_le(self.schema_version.0);
        fields.put_u32_le(self.count);
        fields.put_i64_le(self.ticks.start.0);
        fields.put_i64_le(self.ticks.end.0);
        fields.put_u64_le(self.first_seq);
        fields.put_u64_le(self.statement.0);
        let (producer, sequence) = self.producer.unwrap_or_default();
        fields.put_u128_le(producer.0);
        fields.put_u64_le(sequence);
        let checksum = crc32c::crc32c_append(seed, &body);
        let start = out.len();
        out.put_slice(MAGIC);
        out.put_u32_le(checksum);
        out.put_slice(&body);
        debug_assert_eq!(out.len() - start, HEADER);
        debug_assert_eq!(
            Self::parse(out.get(start..).unwrap_or_default(), seed),
            ParsedRecord::Header(*self, checksum),
            "the header reads back differently"
        );
        checksum
    }

    /// Parses a header of 128 bytes. Uses only magic and checksum before the checksum is verified
    /// (CL-6).
    pub(crate) fn parse(bytes: &[u8], seed: u32) -> ParsedRecord {
        let Some((magic, rest)) = bytes.split_first_chunk::<4>() else {
            return ParsedRecord::Damaged;
        };
        let Some((checksum, body)) = rest.split_first_chunk::<4>() else {
            return ParsedRecord::Damaged;
        };
        let Some(body) = body.first_chunk::<{ HEADER - 8 }>() else { return ParsedRecord::Damaged };
        if magic != MAGIC {
            let blank = bytes.get(..HEADER).is_some_and(crate::aligned::is_zero);
            return if blank { ParsedRecord::Blank } else { ParsedRecord::Damaged };
        }
        let checksum = u32::from_le_bytes(*checksum);
        if crc32c::crc32c_append(seed, body) != checksum {
            return ParsedRecord::Damaged;
        }
        let mut fields = body.as_slice();
        let payload_checksum = fields.get_u32_le();
        let payload_bytes = fields.get_u32_le();
        let lsn = Lsn(fields.get_u64_le());
        let durable = Lsn(fields.get_u64_le());
        let kind = fields.get_u8();
        let flags = fields.get_u8();
        let partition = PartitionId(fields.get_u16_le());
        let chronicle = ChronicleId(fields.get_u32_le());
        let schema_version = SchemaVersion(fields.get_u32_le());
        let count = fields.get_u32_le();
        let start = Tick(fields.get_i64_le());
        let ticks = TickRange::new(start, Tick(fields.get_i64_le()));
        let first_seq = fields.get_u64_le();
        let statement = StatementId(fields.get_u64_le());
        let producer = ProducerId(fields.get_u128_le());
        let sequence = fields.get_u64_le();
        let record = match FrameKind::from_byte(kind) {
            Some(kind) => Record::Frame(kind),
            None if kind == MARK => Record::Mark,
            None if kind == CONTINUED => Record::Continued,
            None => return ParsedRecord::Unknown,
        };
        if flags & !FLAG_PRODUCER != 0 {
            return ParsedRecord::Unknown;
        }
        let producer = (flags & FLAG_PRODUCER != 0).then_some((producer, sequence));
        let header = Header {
            record,
            partition,
            chronicle,
            schema_version,
            count,
            lsn,
            durable,
            ticks,
            first_seq,
            statement,
            producer,
            payload_bytes,
            payload_checksum,
        };
        ParsedRecord::Header(header, checksum)
    }
}

#[cfg(test)]
mod tests;
