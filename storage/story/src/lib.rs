//! Stories: the cold tier. Each story is an immutable, sorted Parquet file.
//!
//! *What it is*: [`Stories`], the Parquet files on a [`Shelf`]. Each file has events of one
//! chronicle, sorted by (slice, key, tick). A slice is a time window, stored as one row group
//! (ChronoLog §4: the capacity tier, which has no end). [`Builder`] writes a file; [`Story`] reads
//! a file and skips data that cannot match. Any Parquet tool can read stories.
//!
//! *What it deliberately is not*: the crate does not sort, does not decide which events become a
//! story, does not know the current stories (the manifest does), and knows no SQL.
//!
//! *Data path*:
//! ```text
//!   Builder: slice, slice, … footer ─► spool/<id>.building ─► fsync ─► Shelf::put ─► read back
//!                                                                        │
//!        LocalShelf: rename, fsync of folders ◄── or ──► RemoteShelf: S3, GCS, Azure
//!                                                                        │
//!   Story::select (page index) ─► may_hold (Bloom filters) ─► fetch: blocks, verified (CL-6)
//!                                                              └─► decode: RecordBatch
//! ```
//! Readers verify a checksum of every byte before they use it. The rows have a checksum for each
//! block of 64 KiB. All other data after the rows, including the list of block checksums, has one
//! checksum in the manifest.

mod annex;
mod block;
mod build;
mod cache;
mod cells;
mod decoded_columns;
mod description;
mod digest;
mod encoding;
mod footer;
mod form;
pub mod kernel;
mod key;
mod objects;
mod order;
mod plan;
mod read;
mod runs_of_text;
mod sabotage;
mod schema;
mod select;
mod settings;
mod sharing;
mod shelf;
mod sink;
mod store;
mod story;
mod values;
mod words;

pub use build::Builder;
pub use cells::CellColumn;
pub use decoded_columns::{CHUNK_ROWS, Columns, Finding, FindingKey, StoryEdge};
pub use description::{BuiltStory, GroupSummary};
pub use key::KeyValues;
pub use objects::{Content, ObjectStatus, Objects, RemoteSettings, environment, without_secrets};
pub use read::{FetchedColumns, Rows};
#[cfg(feature = "sabotage")]
pub use sabotage::FAULTS;
pub use schema::{Source, StoryColumn, StorySchema};
pub use select::Selection;
pub use settings::StorySettings;
pub use shelf::{
    LocalShelf, ReadShape, RemoteShelf, Shelf, Spool, StoryId, StoryName, make_folder,
};
pub use store::{Stories, StoriesHold};
pub use story::{GroupHead, Story};
pub use values::ColumnValues;
