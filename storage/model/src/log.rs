//! The contract of a durable log of frames. The journal keeps it; the catalog and the
//! keeper build on it.
//!
//! ```text
//!   reserve(bytes) ─► submit(frame) ─► [queue] ─► writer: one write, one fdatasync ─► done(lsn)
//!      waits here when full               frames complete in lsn order, on the writer's thread
//! ```

use std::any::Any;

use bytes::Bytes;

use crate::{
    BoxFuture, ChronicleId, Durability, Error, ErrorKind, Gsn, Lsn, PartitionId, ProducerId,
    Result, SchemaVersion, StatementId, TickRange,
};

/// What a frame says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// Events of one chronicle; payload is an Arrow IPC message group.
    Events = 1,
    /// The statement whose id the frame carries is complete: all its frames count.
    Commit = 2,
    /// Events of `ticks` that were committed before this frame are deleted.
    Delete = 3,
    /// A record of the catalog; payload is JSON.
    Catalog = 4,
    /// A record of the manifest.
    Manifest = 5,
    /// Several statements are complete, together: payload is their ids, eight bytes each, the
    /// lowest first, in the order in which their events count.
    Transaction = 6,
    /// Events of `ticks` up to the gsn that the payload tells, eight bytes, are deleted: the
    /// beginning of a chronicle in the order of commits.
    Trim = 7,
    /// As [`FrameKind::Delete`], of a statement: counts when the statement is complete, at its place
    /// among the frames of the statement.
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

/// One unit of the log, as its writer hands it in and its reader gets it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What the frame says.
    pub kind: FrameKind,
    /// Partition of the chronicle.
    pub partition: PartitionId,
    /// Chronicle concerned; 0 for the catalog and for commits.
    pub chronicle: ChronicleId,
    /// Shape of the payload's events.
    pub schema_version: SchemaVersion,
    /// Statement that the frame belongs to; 0 commits by itself.
    pub statement: StatementId,
    /// Hull of the events' ticks, or the range that a Delete or Trim removes.
    pub ticks: TickRange,
    /// Number of events in the payload.
    pub count: u32,
    /// Arrival number (`_seq`) of the first event.
    pub first_seq: u64,
    /// On the frame that commits: who sent the statement, and its number.
    pub producer: Option<(ProducerId, u64)>,
    /// Encoded outside of the log, stored as it is.
    pub payload: Bytes,
}

impl Frame {
    /// Whether reading this frame makes a statement count.
    pub fn commits(&self) -> bool {
        matches!(self.kind, FrameKind::Commit | FrameKind::Transaction)
            || self.statement == StatementId(0)
    }

    /// The statements of frames before this one that it makes count, in their order.
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

    /// The gsn up to which a Trim deletes.
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

/// A claim on the log's queue; gives the room back when it drops.
pub type Reservation = Box<dyn Any + Send + Sync>;

/// Called once per frame, on the writer's thread, in lsn order. Must not block.
pub type Completion = Box<dyn FnOnce(Result<Lsn>) + Send>;

/// A log of frames with group commit.
pub trait Log: Send + Sync + std::fmt::Debug {
    /// Waits until the queue has room for a frame of `payload_bytes`.
    ///
    /// # Errors
    /// At once, not after waiting: `DiskFull` when the disk lacks room, `Io` when the
    /// writer is poisoned (CL-7), `LimitExceeded` when the frame is larger than the log
    /// takes at all, `Shutdown` after close.
    fn reserve(&self, payload_bytes: usize) -> BoxFuture<'_, Result<Reservation>>;

    /// Hands a frame to the writer. Frames get lsn's in the order of the calls. `done` is
    /// called when the frame has reached `durability`, or when it failed: then no byte of
    /// it will be seen by any reader, now or after a restart. A frame at `Disk` means that
    /// all frames written before it are there too, whatever level they asked for.
    fn submit(
        &self,
        frame: Frame,
        reservation: Reservation,
        durability: Durability,
        done: Completion,
    );

    /// Every frame that is kept, in lsn order, as recovery sees them. Only before the first
    /// `submit`.
    fn replay(&self, visit: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()>;

    /// Gives up what holds frames below `before` only: they are owned elsewhere. Returns the
    /// bytes that are free now; 0 for a log that keeps everything. Blocks.
    ///
    /// # Errors
    /// `Io`: some of it may be left, which is harmless.
    fn release(&self, before: Lsn) -> Result<u64> {
        let _ = before;
        Ok(0)
    }

    /// Numbers for operators.
    fn status(&self) -> LogStatus;

    /// Writes and syncs what was submitted, then refuses more. Blocks.
    fn close(&self) -> Result<()>;
}

/// A log's numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogStatus {
    /// First lsn that is kept, or the next one when there is none.
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
    /// Frames written since the start.
    pub frames: u64,
    /// Write calls since the start (one per group).
    pub writes: u64,
    /// fdatasync calls since the start.
    pub syncs: u64,
    /// Why the writer stopped for good, if it did.
    pub poisoned: Option<String>,
    /// Bytes that recovery cut from a torn tail.
    pub torn_bytes: u64,
}
