//! Stories: the cold tier, one immutable, sorted Parquet file each.
//!
//! *What it is*: [`Stories`], a [`Shelf`] of Parquet files, each of which holds events of one
//! chronicle, sorted by (slice, key, tick), where a slice is a window of ticks and one row
//! group (ChronoLog §4: the capacity tier, which has no end). [`Builder`] makes a file,
//! [`Story`] prunes and reads one. Any tool that reads Parquet reads them.
//!
//! *What it deliberately is not*: it does not sort, does not decide what becomes a story or
//! which stories count (that is the manifest's to say), and knows no SQL.
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
//! Every byte is under a checksum that is compared before anything looks at it: those of the
//! rows under that of their block of 64 KiB, and the list of these, with all else that Parquet
//! writes behind the rows, under the one that the manifest holds.

mod annex;
mod block;
mod build;
mod cache;
mod cells;
mod decoded;
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
pub use decoded::{CHUNK_ROWS, Columns, Spot};
pub use key::KeyValues;
pub use objects::{Content, ObjectStatus, Objects, RemoteSettings, environment, without_secrets};
pub use read::{Fetched, Rows};
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
