//! The interface of a durable log of frames. The journal implements the interface; the catalog and
//! the keeper use it.
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
    /// Events of one chronicle; the payload is a sequence of Arrow IPC messages.
    Events = 1,
    /// Completes the statement whose id is in the frame: all frames of the statement become valid.
    Commit = 2,
    /// Deletes the events in the range `ticks` that were committed before this frame.
    Delete = 3,
    /// A record of the catalog; the payload is JSON.
    Catalog = 4,
    /// A record of the manifest.
    Manifest = 5,
    /// Completes several statements together. The payload is the list of their ids, eight bytes
    /// each, in ascending order. The events are committed in the order of the ids.
    Transaction = 6,
    /// Deletes the events in the range `ticks` with a gsn up to a limit: the oldest events of a
    /// chronicle in commit order. The payload is the limit, eight bytes.
    Trim = 7,
    /// Like [`FrameKind::Delete`], but part of a statement: the delete takes effect when the
    /// statement is complete, in its order among the frames of the statement.
    StatementDelete = 8,
}

/// All kinds of frames.
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
    /// The kind that a byte on disk stands for; `None` for an unknown byte.
    pub fn from_byte(byte: u8) -> Option<Self> {
        KINDS.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// One record of the log, as the writer submits it and the reader receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The kind of the frame.
    pub kind: FrameKind,
    /// Partition to which the chronicle belongs.
    pub partition: PartitionId,
    /// The chronicle of the events or of the delete; 0 for catalog records and for commits.
    pub chronicle: ChronicleId,
    /// Schema version of the events in the payload.
    pub schema_version: SchemaVersion,
    /// The statement to which the frame belongs; 0 if the frame is a complete statement by itself.
    pub statement: StatementId,
    /// The smallest range that contains the events' ticks; for a Delete or Trim, the range to
    /// delete.
    pub ticks: TickRange,
    /// Number of events in the payload.
    pub count: u32,
    /// Arrival number (`_seq`) of the first event.
    pub first_seq: u64,
    /// On a frame that completes a statement: the producer of the statement, and the producer's
    /// number for the statement.
    pub producer: Option<(ProducerId, u64)>,
    /// The content, encoded by the caller; the log stores the bytes unchanged.
    pub payload: Bytes,
}

impl Frame {
    /// Whether this frame completes one or more statements.
    pub fn commits(&self) -> bool {
        matches!(self.kind, FrameKind::Commit | FrameKind::Transaction)
            || self.statement == StatementId(0)
    }

    /// The ids of the statements that this frame completes, in commit order.
    ///
    /// # Errors
    /// `DataCorrupted` if the payload is not a valid list of ids.
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

    /// For a Trim frame: the last gsn that the frame deletes.
    ///
    /// # Errors
    /// `DataCorrupted` if the payload is not a gsn.
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

/// A reservation of space in the log's queue; a drop releases the space.
pub type Reservation = Box<dyn Any + Send + Sync>;

/// The callback for a submitted frame. The log calls it once, on the writer's thread, in lsn order.
/// The callback must not block.
pub type Completion = Box<dyn FnOnce(Result<Lsn>) + Send>;

/// A log of frames with group commit.
pub trait Log: Send + Sync + std::fmt::Debug {
    /// Waits until the queue has space for a frame with a payload of `payload_bytes` bytes.
    ///
    /// # Errors
    /// Returned at once, without waiting: `DiskFull` if the disk lacks space, `Io` if the writer is
    /// poisoned (CL-7), `LimitExceeded` if the frame exceeds the maximum size of the log,
    /// `Shutdown` after close.
    fn reserve(&self, payload_bytes: usize) -> BoxFuture<'_, Result<Reservation>>;

    /// Hands a frame to the writer. Frames get lsn's in the order of the calls. The log calls
    /// `done` when the frame has reached `durability`, or has failed. No reader ever sees any byte
    /// of a failed frame, even after a restart. When a frame has reached `Disk`, all earlier frames
    /// have reached `Disk` too, even if their own level was lower.
    fn submit(
        &self,
        frame: Frame,
        reservation: Reservation,
        durability: Durability,
        done: Completion,
    );

    /// Calls `visit` for every stored frame in lsn order, for recovery. Allowed only before the
    /// first `submit`.
    fn replay(&self, visit: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()>;

    /// Removes the segments that contain only frames below `before`; the caller states that other
    /// tiers own the events of these frames. Returns the number of freed bytes; 0 for a log that
    /// never removes segments. Blocks.
    ///
    /// # Errors
    /// `Io`: some segments may remain; this does no harm.
    fn release(&self, before: Lsn) -> Result<u64> {
        let _ = before;
        Ok(0)
    }

    /// The status for operators.
    fn status(&self) -> LogStatus;

    /// Writes and syncs all submitted frames, then refuses further frames. Blocks.
    fn close(&self) -> Result<()>;
}

/// A segment that receives no more frames, because later frames go into a later segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullSegment {
    /// First lsn of the following segment.
    pub end: Lsn,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// The status of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// The first lsn that the log still stores; for an empty log, the next lsn.
    pub first: Lsn,
    /// Last lsn written.
    pub written: Lsn,
    /// Last lsn made durable by fdatasync.
    pub durable: Lsn,
    /// Bytes of frames waiting in the queue.
    pub queued_bytes: u64,
    /// Bytes of all segment files of the log.
    pub stored_bytes: u64,
    /// Number of segments.
    pub segments: u64,
    /// All segments except the segment that the writer writes to, in lsn order.
    pub full_segments: Arc<[FullSegment]>,
    /// Preallocated bytes for later frames in the segment that the writer writes to.
    pub reserved_bytes: u64,
    /// The lowest argument of [`Log::release`] that removes a segment; `None` if the log has only
    /// the segment that the writer writes to.
    pub releases_from: Option<Lsn>,
    /// Frames written since the start.
    pub frames: u64,
    /// Write calls since the start (one per group).
    pub writes: u64,
    /// fdatasync calls since the start.
    pub syncs: u64,
    /// Why the writer has stopped permanently; `None` while the writer works.
    pub poisoned: Option<String>,
    /// Bytes at the end of the log that recovery cut, because a crash interrupted their write.
    pub torn_bytes: u64,
}

impl LogStatus {
    /// The full segments that contain only frames below `before`: the segments that
    /// [`Log::release`] removes.
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
