//! The types and traits that all crates of Stratalog share.
//!
//! *What it is*: ticks and ranges, ids, the definition of a chronicle, durability levels, errors,
//! the registry of invariants, and the traits between the layers ([`Clock`], [`Disk`], [`Log`],
//! [`Tier`], [`EventStore`]).
//!
//! *What it deliberately is not*: the crate performs no I/O, starts no task, knows no DataFusion
//! and depends on no other crate of the workspace.
//!
//! *Data path*: a front end hands a [`RecordBatch`](arrow::array::RecordBatch) with the schema of a
//! [`ChronicleDefinition`] to an [`EventStore`]. The store turns the batch into [`Frame`]s and
//! submits the frames to a [`Log`]. A reader takes a [`Snapshot`] and scans it through the
//! [`Tier`]s.

pub mod acceptance;
pub mod aggregate;
pub mod batch;
pub mod batch_results;
pub mod chronicle;
pub mod clock;
pub mod collision;
pub mod disk;
pub mod durability;
pub mod error;
pub mod files;
pub mod gsn_range;
pub mod id;
pub mod index;
pub mod invariant;
pub mod ipc;
pub mod log;
pub mod newest;
pub mod option;
pub mod range;
pub mod sabotage;
pub mod store;
pub mod subscribe;
pub mod tick;
pub mod tier;
pub mod tiering;
pub mod types;
pub mod values;

pub use acceptance::Acceptance;
pub use chronicle::{ChronicleDefinition, ColumnDefinition};
pub use clock::{Clock, ClockReading};
pub use collision::{Collision, TakenKeyAction};
pub use disk::{Disk, DiskFile};
pub use durability::Durability;
pub use error::{Error, ErrorKind, Result, Status, Subject};
pub use gsn_range::GsnRange;
pub use id::{
    ChronicleId, ColumnId, Gsn, Lsn, OriginId, PartitionId, ProducerId, SchemaVersion, SegmentId,
    StatementId,
};
pub use index::{IndexDefinition, IndexKind};
pub use log::{Frame, FrameKind, Log};
pub use option::{LatePolicy, TickSource};
pub use range::{TickRange, TickRanges};
pub use store::{
    Acquirers, Append, CommittedAppend, Decision, EventStore, PreparedAppend, Snapshot,
};
pub use tick::{Granularity, Grouping, Tick, TickScale};
pub use tier::{Tier, TierName};
pub use tiering::Tiering;
pub use types::ColumnType;
pub use values::ValueFilter;

/// A boxed future that can be sent between threads.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
