//! Metrics whose values are read from the state of the server when the page is generated.

use std::fmt::Write as _;

use stratalog_model::{clock::ClockStatus, store::StoreStatus};

use crate::{Metric, catalogue};

/// The state of the server at the time of the page.
#[derive(Debug)]
pub struct ServerStatus<'a> {
    /// The status of the store.
    pub store: &'a StoreStatus,
    /// The status of the clock.
    pub clock: &'a ClockStatus,
    /// The number of open sessions.
    pub sessions: u64,
    /// The number of sessions with a running statement.
    pub sessions_running: u64,
    /// The number of running moves.
    pub moves_running: u64,
    /// The number of failed moves among the last thousand moves.
    pub moves_failed: u64,
    /// The end of the TLS certificate's validity, in nanoseconds since 1970; `None` without TLS.
    pub certificate_expires_ns: Option<i64>,
    /// Nanoseconds since the start of the server.
    pub up_ns: i64,
}

type Value = fn(&ServerStatus<'_>) -> u64;

/// These metrics with the function that reads each value, in the order of the page.
const VALUES: &[(Metric, Value)] = &[
    (catalogue::UP, |s| seconds(s.up_ns)),
    (catalogue::SESSIONS, |s| s.sessions),
    (catalogue::SESSIONS_RUNNING, |s| s.sessions_running),
    (catalogue::GSN, |s| s.store.committed.0),
    (catalogue::MEMORY, |s| s.store.memory_bytes),
    (catalogue::MEMORY_MAX, |s| s.store.memory_bytes_max),
    (catalogue::STORY_CACHE, |s| s.store.story_cache_bytes),
    (catalogue::TABLES, |s| s.store.chronicles.len() as u64),
    (catalogue::VISIBLE_ROWS, |s| s.store.chronicles.iter().map(|c| c.rows).sum()),
    (catalogue::SERIES, |s| s.store.chronicles.iter().map(|c| c.series).sum()),
    (catalogue::JOURNAL_QUEUED, |s| s.store.log.queued_bytes),
    (catalogue::JOURNAL_STORED, |s| s.store.log.stored_bytes),
    (catalogue::JOURNAL_SEGMENTS, |s| s.store.log.segments),
    (catalogue::JOURNAL_FRAMES, |s| s.store.log.frames),
    (catalogue::JOURNAL_WRITES, |s| s.store.log.writes),
    (catalogue::JOURNAL_SYNCS, |s| s.store.log.syncs),
    (catalogue::JOURNAL_POISONED, |s| u64::from(s.store.log.poisoned.is_some())),
    (catalogue::CLOCK_EPOCH, |s| s.clock.reading.line.epoch),
    (catalogue::CLOCK_HELD, |s| s.clock.held_ns / 1_000_000_000),
    (catalogue::CLOCK_JUMPS_HELD, |s| s.clock.jumps_held),
    (catalogue::CLOCK_UNCONFIRMED, |s| s.clock.unconfirmed_ns / 1_000_000_000),
    (catalogue::CLOCK_AHEAD, |s| seconds(s.clock.reading.now_ns.saturating_sub(s.clock.wall_ns))),
    (catalogue::CLOCK_ALARMS, |s| s.clock.alarms.len() as u64),
    (catalogue::MOVES_RUNNING, |s| s.moves_running),
    (catalogue::MOVES_FAILED, |s| s.moves_failed),
    (catalogue::CERTIFICATE_EXPIRES, |s| s.certificate_expires_ns.map_or(0, seconds)),
];

fn seconds(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0) / 1_000_000_000
}

/// Appends these metrics to a page. The registry cannot contain them, because it would append
/// `_total` to the names of all counters, and some of these counters have names without it.
pub(crate) fn write(status: &ServerStatus<'_>, page: &mut String) {
    for (Metric { name, kind, help, .. }, value) in VALUES {
        let value = value(status);
        // A write to a String cannot fail.
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
}
