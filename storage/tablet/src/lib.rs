//! Tablets: files of checksummed, compressed blocks of events, and an index of them.
//!
//! *What it is*: [`Tablets`], a folder of block files, each of which holds events of one
//! chronicle in one window of ticks (ChronoLog §4: the hot tier on SSD; ChronicleDB §4:
//! the blocks and inner nodes of its TAB⁺-tree). [`Builder`] makes a file, [`Tablet`] reads
//! one, and a sled database remembers what the blocks of all files hold.
//!
//! *What it deliberately is not*: it does not look into blocks (it knows no Arrow and no
//! SQL: bytes in, bytes out, like the journal), does not decide what becomes a tablet, and
//! does not know which tablets count: that is the manifest's to say.
//!
//! *Data path*:
//! ```text
//!   Builder: block, block, … end ─► <id>.building ─► fsync ─► <id>.tablet ─► fsync of folder
//!                                                                │
//!   Tablet::blocks ◄── sled (tablet, block) ─► head ◄── rebuilt ─┘   whenever sled is not right
//!   Tablet::read(head, sections) ─► verified before it is unpacked (CL-6)
//! ```
//! sled is an index and nothing more (CL-9): what it says is checked against the file that it
//! is about, and what it does not say is read from there. `docs/formats.md` draws the bytes.

mod block;
mod file;
mod index;
mod planes;
mod sabotage;
mod section;
mod store;
mod tablet;

pub use block::{BlockHead, BlockSummary};
pub use file::{Builder, Built, TabletId};
#[cfg(feature = "sabotage")]
pub use sabotage::FAULTS;
pub use section::Section;
pub use store::{Tablets, TabletsHold};
pub use tablet::Tablet;
