//! The keeper's log: frames in segments, group commit, recovery.
//!
//! *What it is*: [`Journal`], the implementation of [`Log`](stratalog_model::Log) on a
//! [`Disk`](stratalog_model::Disk), and [`LocalDisk`], the real disk. The catalog's log is a
//! separate journal. The design follows Scalog's shards and Chariots' FIFO log (F49, F110): one
//! writer per partition, positions without gaps.
//!
//! *What it deliberately is not*: the journal does not interpret payloads (no Arrow, no SQL), and
//! assigns neither ticks nor gsn's. The journal stores producer and statement number, but the
//! engine detects duplicates. The journal runs no async runtime: on a worker thread of the
//! caller's runtime, the journal only announces a blocking call.
//!
//! *Data path*:
//! ```text
//!   reserve ─► submit ─► queue ─► writer: group ─► segment ─► fdatasync ─► completions
//!   (bytes)    (CRC)    (FIFO)    one write (or few)       one per group   in lsn order
//!
//!   open: reads all segment headers and all frames of the last segment; cuts a torn tail
//!   replay: reads every frame of every segment, and verifies it before handing it out
//!   check: like replay, but changes nothing, and continues after damage
//! ```
//! `docs/formats.md` draws the bytes.

mod aligned;
mod check;
mod continuation;
mod defects;
mod direct;
mod extent;
mod frame;
mod gather;
mod journal;
mod local_disk;
mod queue;
mod reader;
mod recovery;
mod required_segments;
mod rotation;
#[cfg(feature = "sabotage")]
mod sabotage;
mod segment;
mod settings;
mod tail;
mod writer;

pub use check::{CheckEvent, JournalFault, LostFrames, Scope, Summary, check};
pub use extent::Extent;
pub use frame::FRAME_OVERHEAD_BYTES;
pub use journal::Journal;
pub use local_disk::LocalDisk;
pub use required_segments::RequiredSegments;
#[cfg(feature = "sabotage")]
pub use sabotage::Sabotage;
pub use segment::{FORMAT_VERSION, SPARE_NAME};
pub use settings::JournalSettings;
