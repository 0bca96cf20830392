//! The contract of a durable log of frames. The journal implements the log; the catalog and the
//! keeper use the log.
//!
//! ```text
//!   reserve(bytes) ─► submit(frame) ─► [queue] ─► writer: one write, one fdatasync ─► done(lsn)
//!      waits here when full               frames complete in lsn order, on the writer's thread
//! ```

use std::{any::Any, sync::Arc};

use bytes::Bytes;

use crate::{
    BoxFuture, ChronicleId, Durability, Error, ErrorKind, Gsn, Lsn, PartitionId, ProducerId,
    Result, SchemaVersion, StatementId, TickRange,
};

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Events of one chronicle; payload is an Arrow IPC message group.
    Events = 1,
    /// The statement with the frame's id is complete: all frames of the statement count.
    Commit = 2,
    /// Deletes the events of `ticks` that were committed before this frame.
    Delete = 3,
    /// A record of the catalog; payload is JSON.
    Catalog = 4,
    /// A record of the manifest.
    Manifest = 5,
    /// Several statements are complete together. The payload is the list of their ids, eight bytes
    /// each, in ascending order. The events count in the order of the ids.
    Transaction = 6,
    /// Deletes the events of `ticks` up to a gsn: the beginning of a chronicle in the order of
    /// commits. The payload is the gsn, eight bytes.
    Trim = 7,
    /// Like [`FrameKind::Delete`], but within a statement: the delete counts when the statement is
    /// complete, at its place among the frames of the statement.
    StatementDelete = 8,
}

/// Every kind.
const KINDS: [FrameKind; 8] = [
    FrameKind::Events,
    FrameKind::Commit,
    FrameKind::Delete,
    FrameKind::Catalog,
    FrameKind::Manifest,
    FrameKind::Transaction,
    FrameKind::Trim,
    FrameKind::StatementDelete,
];

impl FrameKind {
    /// The kind of a byte on disk.
    pub fn from_byte(byte: u8) -> Option<Self> {
        KINDS.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One unit of the log, for the writer and for the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// Partition of the chronicle.
    pub partition: PartitionId,
    /// Chronicle concerned; 0 for the catalog and for commits.
    pub chronicle: ChronicleId,
    /// Shape of the payload's events.
    pub schema_version: SchemaVersion,
    /// The statement of the frame; 0: the frame commits itself.
    pub statement: StatementId,
    /// Hull of the events' ticks, or the range of a Delete or Trim.
    pub ticks: TickRange,
    /// Number of events in the payload.
    pub count: u32,
    /// Arrival number (`_seq`) of the first event.
    pub first_seq: u64,
    /// On the frame that commits: the producer of the statement, and the number of the statement.
    pub producer: Option<(ProducerId, u64)>,
    /// Encoded outside of the log, stored unchanged.
    pub payload: Bytes,
}

impl Frame {
    /// Whether this frame makes a statement count.
    pub fn commits(&self) -> bool {
        matches!(self.kind, FrameKind::Commit | FrameKind::Transaction)
            || self.statement == StatementId(0)
    }

    /// The statements that this frame completes, in their order.
    ///
    /// # Errors
    /// `DataCorrupted` for a payload that is no list of ids.
    pub fn completes(&self) -> Result<Vec<StatementId>> {
        match self.kind {
            FrameKind::Commit => Ok(vec![self.statement]),
            FrameKind::Transaction => match self.payload.as_chunks() {
                (ids, []) => {
                    Ok(ids.iter().map(|id| StatementId(u64::from_le_bytes(*id))).collect())
                }
                _ => Err(Error::new(
                    ErrorKind::DataCorrupted,
                    format!("a list of statements has {} bytes", self.payload.len()),
                )),
            },
            _ => Ok(Vec::new()),
        }
    }

    /// The last gsn that a Trim deletes.
    ///
    /// # Errors
    /// `DataCorrupted` for a payload that is no gsn.
    pub fn trims(&self) -> Result<Gsn> {
        match self.payload.as_chunks() {
            ([bytes], []) => Ok(Gsn(u64::from_le_bytes(*bytes))),
            _ => Err(Error::new(
                ErrorKind::DataCorrupted,
                format!("the gsn of a TRIM has {} bytes", self.payload.len()),
            )),
        }
    }
}

/// A claim on room in the log's queue; drop releases the room.
pub type Reservation = Box<dyn Any + Send + Sync>;

/// The callback of a frame: called once, on the writer's thread, in lsn order. Must not block.
pub type Completion = Box<dyn FnOnce(Result<Lsn>) + Send>;

/// A log of frames with group commit.
pub trait Log: Send + Sync + std::fmt::Debug {
    /// Waits until the queue has room for a frame of `payload_bytes`.
    ///
    /// # Errors
    /// Immediate, without a wait: `DiskFull` if the disk lacks room, `Io` if the writer is poisoned
    /// (CL-7), `LimitExceeded` if the frame exceeds the maximum size of the log, `Shutdown` after
    /// close.
    fn reserve(&self, payload_bytes: usize) -> BoxFuture<'_, Result<Reservation>>;

    /// Hands a frame to the writer. Frames get lsn's in the order of the calls. The log calls
    /// `done` when the frame has reached `durability` or has failed. No reader ever sees any byte
    /// of a failed frame, now or after a restart. When a frame has reached `Disk`, all earlier
    /// frames have reached `Disk` too, whatever their level.
    fn submit(
        &self,
        frame: Frame,
        reservation: Reservation,
        durability: Durability,
        done: Completion,
    );

    /// Visits every kept frame in lsn order, for recovery. Only before the first `submit`.
    fn replay(&self, visit: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()>;

    /// Frees the storage of segments with only frames below `before`: another tier owns their
    /// events. Returns the freed bytes; 0 for a log that keeps everything. Blocks.
    ///
    /// # Errors
    /// `Io`: some segments may remain, without harm.
    fn release(&self, before: Lsn) -> Result<u64> {
        let _ = before;
        Ok(0)
    }

    /// The status for operators.
    fn status(&self) -> LogStatus;

    /// Writes and syncs all submitted frames, then refuses more. Blocks.
    fn close(&self) -> Result<()>;
}

/// A segment behind which frames go into a later segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullSegment {
    /// First lsn of the next segment.
    pub end: Lsn,
    /// Length of the file.
    pub bytes: u64,
}

/// The status of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// The first lsn that the log keeps, or the next lsn of an empty log.
    pub first: Lsn,
    /// Last lsn written.
    pub written: Lsn,
    /// Last lsn fdatasynced.
    pub durable: Lsn,
    /// Bytes waiting in the queue.
    pub queued_bytes: u64,
    /// Bytes of all segments in use.
    pub stored_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// All segments except the segment in use, in lsn order.
    pub full_segments: Arc<[FullSegment]>,
    /// Bytes reserved for later frames in the segment in use.
    pub reserved_bytes: u64,
    /// The lowest argument of [`Log::release`] that frees a segment; `None` if the log has only the
    /// segment in use.
    pub releases_from: Option<Lsn>,
    /// Frames written since the start.
    pub frames: u64,
    /// Write calls since the start (one per group).
    pub writes: u64,
    /// fdatasync calls since the start.
    pub syncs: u64,
    /// The reason for the permanent stop of the writer; `None` while the writer works.
    pub poisoned: Option<String>,
    /// Bytes that recovery cut from a torn tail.
    pub torn_bytes: u64,
}

impl LogStatus {
    /// The full segments with only frames below `before`: [`Log::release`] frees them.
    pub fn releasable(&self, before: Lsn) -> &[FullSegment] {
        debug_assert!(self.full_segments.is_sorted_by_key(|segment| segment.end));
        debug_assert!(
            self.releases_from.is_none_or(|from| {
                self.full_segments.first().is_some_and(|segment| segment.end == from)
            }),
            "the first full segment has another end than the first release"
        );
        let count = self.full_segments.partition_point(|segment| segment.end <= before);
        self.full_segments.get(..count).unwrap_or_default()
    }
}
