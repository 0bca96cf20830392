//! ChronoLog's own API: the operations in Figure 2 of the ChronoLog paper, on chronicles of raw
//! events (F1–F25).
//!
//! ```text
//!   Chronolog ──── create, edit, destroy, sync_clock ────► shared sessions
//!       │ acquire
//!       ▼
//!   Chronicle ──── its own connection and session ─► the acquired range
//!       ├ record, append ─► tick by the server's clock ─► Writer ─► Receipt
//!       ├ playback, replay ─► Event …
//!       └ subscribe ─────────► Update …, for ever
//! ```
//!
//! A raw event is opaque bytes and a tick: a row with the columns `time` and `payload`. All
//! operations are SQL over Flight, and for all other clients a chronicle is an ordinary table.

mod acquire;
mod chronolog;
mod event;
mod handle;
mod range;
mod record;
mod replay;
mod subscription;
mod table;
mod tags;

pub use self::{
    acquire::Acquire,
    chronolog::{Chronolog, Destroy},
    event::{Event, Update},
    handle::Chronicle,
    range::Range,
    record::{Pending, Receipt},
    replay::Replay,
    subscription::{Start, Subscription},
    tags::Tags,
};
