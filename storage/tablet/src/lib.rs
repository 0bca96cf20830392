//! Tablets: files of checksummed, compressed blocks of events, and an index of the blocks.
//!
//! *What it is*: [`Tablets`], a folder with the files of all tablets. Each file has events of one
//! chronicle in one range of ticks (ChronoLog §4: the hot tier on SSD; ChronicleDB §4: the blocks
//! and inner nodes of its TAB⁺-tree). [`Builder`] writes a file, [`Tablet`] reads a file, and the
//! embedded database sled indexes the blocks of all files.
//!
//! *What it deliberately is not*: the crate does not interpret blocks (no Arrow, no SQL: bytes in,
//! bytes out, like the journal). The crate does not decide which events become a tablet. It does
//! not know which tablets are current: the manifest does.
//!
//! *Data path*:
//! ```text
//!   Builder: block, block, … end ─► <id>.building ─► fsync ─► <id>.tablet ─► fsync of folder
//!                                                                │
//!   Tablet::blocks ◄── sled (tablet, block) ─► head ◄── rebuilt ─┘   for a missing or wrong entry
//!   Tablet::read(head, sections) ─► verified before it is unpacked (CL-6)
//! ```
//! sled is only an index (CL-9): each entry is verified against its file, and missing entries are
//! read from the file. `docs/formats.md` draws the bytes.

mod block;
mod file;
mod index;
mod planes;
mod sabotage;
mod section;
mod store;
mod tablet;

pub use block::{BlockHead, BlockSummary};
pub use file::{Builder, BuiltTablet, TabletId};
#[cfg(feature = "sabotage")]
pub use sabotage::FAULTS;
pub use section::Section;
pub use store::{Tablets, TabletsHold};
pub use tablet::Tablet;
