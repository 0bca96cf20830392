//! Stories: the cold tier. Each story is an immutable, sorted Parquet file.
//!
//! *What it is*: [`Stories`], a [`Shelf`] of Parquet files. Each file holds events of one
//! chronicle, sorted by (slice, key, tick). A slice is a window of ticks and one row group
//! (ChronoLog §4: the capacity tier, which has no end). [`Builder`] writes a file, [`Story`]
//! prunes and reads a file. Any Parquet tool reads stories.
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
//! A checksum protects every byte, and is verified before the byte is used. The checksum of each
//! block of 64 KiB protects the rows. The manifest's checksum protects the list of block checksums
//! and all other data that Parquet writes behind the rows.

mod annex;
mod block;
mod build;
mod cache;
mod cells;
mod decoded_columns;
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
mod sharing;
mod shelf;
mod sink;
mod store;
mod story;
mod values;
mod words;

pub use build::{Builder, BuiltStory, GroupSummary, StorySettings};
pub use cells::CellColumn;
pub use decoded_columns::{CHUNK_ROWS, Columns, Finding, FindingKey, StoryEdge};
pub use key::KeyValues;
pub use objects::{Content, ObjectStatus, Objects, RemoteSettings, environment, without_secrets};
pub use read::{FetchedColumns, Rows};
#[cfg(feature = "sabotage")]
pub use sabotage::FAULTS;
pub use schema::{Source, StoryColumn, StorySchema};
pub use select::Selection;
pub use shelf::{
    LocalShelf, ReadShape, RemoteShelf, Shelf, Spool, StoryId, StoryName, make_folder,
};
pub use store::{Stories, StoriesHold};
pub use story::{GroupHead, Story};
pub use values::ColumnValues;
