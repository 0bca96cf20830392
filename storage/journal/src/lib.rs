//! The keeper's log: frames in segments, group commit, recovery.
//!
//! *What it is*: [`Journal`], the implementation of [`Log`](stratalog_model::Log) on a
//! [`Disk`](stratalog_model::Disk), and [`LocalDisk`], the real one. The catalog's log is
//! a journal of its own. The design follows Scalog's shards and Chariots' FIFO log (F49,
//! F110): one writer per partition, positions without gaps.
//!
//! *What it deliberately is not*: it does not look into payloads (it knows no Arrow and
//! no SQL), assigns neither ticks nor gsn's, does not recognize duplicates (it stores who
//! sent what; the engine compares), and runs no async runtime: on a worker of the caller's
//! it only says that it is going to block.
//!
//! *Data path*:
//! ```text
//!   reserve ─► submit ─► queue ─► writer: group ─► segment ─► fdatasync ─► completions
//!   (bytes)    (CRC)    (FIFO)    one write (or few)         one a group    in lsn order
//!
//!   open: headers of all segments, all frames of the last one, judge and cut its tail
//!   replay: every frame of every segment, verified before it is handed out
//!   check: the same without changing anything, and on behind what does not hold
//! ```
//! `docs/formats.md` draws the bytes.

mod aligned;
mod check;
mod continuation;
mod direct;
mod extent;
mod frame;
mod gather;
mod journal;
mod local_disk;
mod queue;
mod reader;
mod recovery;
mod rotation;
#[cfg(feature = "sabotage")]
mod sabotage;
mod segment;
mod settings;
mod tail;
mod writer;

pub use check::{Fault, Lost, Scope, Sight, Summary, check};
pub use extent::Extent;
pub use frame::FRAME_OVERHEAD_BYTES;
pub use journal::{Beginning, Journal};
pub use local_disk::LocalDisk;
#[cfg(feature = "sabotage")]
pub use sabotage::Sabotage;
pub use segment::FORMAT_VERSION;
pub use settings::JournalSettings;

/// Whether a deliberate defect is switched on; always `false` in a product build, where
/// its name does not even exist.
#[cfg(feature = "sabotage")]
macro_rules! sabotaged {
    ($settings:expr, $name:ident) => {
        $settings.sabotage == Some(crate::sabotage::Sabotage::$name)
    };
}
#[cfg(not(feature = "sabotage"))]
macro_rules! sabotaged {
    ($settings:expr, $name:ident) => {{
        let _ = &$settings;
        false
    }};
}
pub(crate) use sabotaged;
