//! `GET /metrics`, for Prometheus. The page docs/metrics.md is generated from [`METRICS`].

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    extract::State as Extracted,
    http::{HeaderValue, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use stratalog_model::{clock::ClockStatus, store::StoreStatus};

use crate::state::State;

/// Counters of the protocols.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    bytes: AtomicU64,
    lines: AtomicU64,
    lines_refused: AtomicU64,
    samples: AtomicU64,
    samples_refused: AtomicU64,
    rows: AtomicU64,
    requests_refused: AtomicU64,
    queries: AtomicU64,
    line_connections: AtomicU64,
}

impl Counts {
    pub(crate) fn bytes(&self, count: usize) {
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn lines(&self, taken: u64, refused: u64) {
        self.lines.fetch_add(taken, Ordering::Relaxed);
        self.lines_refused.fetch_add(refused, Ordering::Relaxed);
    }

    pub(crate) fn samples(&self, taken: u64, refused: u64) {
        self.samples.fetch_add(taken, Ordering::Relaxed);
        self.samples_refused.fetch_add(refused, Ordering::Relaxed);
    }

    pub(crate) fn rows(&self, count: u64) {
        self.rows.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.requests_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn query(&self) {
        self.queries.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connected(&self) {
        self.line_connections.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn disconnected(&self) {
        self.line_connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The source of a metric's value.
struct Source<'a> {
    counts: &'a Counts,
    store: &'a StoreStatus,
    sessions: u64,
    running: u64,
    moves_running: u64,
    moves_failed: u64,
    up_ns: i64,
    clock: &'a ClockStatus,
}

/// A metric.
struct Metric {
    name: &'static str,
    /// `counter` or `gauge`.
    kind: &'static str,
    help: &'static str,
    value: fn(&Source<'_>) -> u64,
}

macro_rules! metrics {
    ($( $name:literal $kind:ident $help:literal => $value:expr; )*) => {
        const METRICS: &[Metric] = &[ $( Metric {
            name: $name, kind: stringify!($kind), help: $help, value: $value,
        }, )* ];
    };
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn seconds(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0) / 1_000_000_000
}

metrics! {
    "stratalog_up_seconds" gauge "Seconds since the server started." => |s| seconds(s.up_ns);
    "stratalog_ingest_bytes_total" counter "Bytes of line protocol and telemetry read, after decompression." => |s| load(&s.counts.bytes);
    "stratalog_ingest_lines_total" counter "Lines read." => |s| load(&s.counts.lines);
    "stratalog_ingest_lines_refused_total" counter "Lines refused." => |s| load(&s.counts.lines_refused);
    "stratalog_ingest_samples_total" counter "Samples, data points and log records of telemetry read." => |s| load(&s.counts.samples);
    "stratalog_ingest_samples_refused_total" counter "Samples, data points and log records of telemetry refused." => |s| load(&s.counts.samples_refused);
    "stratalog_ingest_rows_total" counter "Rows stored from line protocol and telemetry." => |s| load(&s.counts.rows);
    "stratalog_ingest_requests_refused_total" counter "Write requests refused completely." => |s| load(&s.counts.requests_refused);
    "stratalog_line_connections" gauge "Open connections of line protocol over TCP." => |s| load(&s.counts.line_connections);
    "stratalog_http_queries_total" counter "Statements received over HTTP." => |s| load(&s.counts.queries);
    "stratalog_sessions" gauge "Open sessions of all protocols." => |s| s.sessions;
    "stratalog_sessions_running" gauge "Sessions with a running statement." => |s| s.running;
    "stratalog_gsn" counter "The highest committed global sequence number." => |s| s.store.committed.0;
    "stratalog_memory_bytes" gauge "Bytes of events in memory." => |s| s.store.memory_bytes;
    "stratalog_memory_bytes_max" gauge "Memory budget for events." => |s| s.store.memory_bytes_max;
    "stratalog_story_cache_bytes" gauge "Bytes of decoded columns of stories in memory." => |s| s.store.story_cache_bytes;
    "stratalog_tables" gauge "Tables with events." => |s| s.store.chronicles.len() as u64;
    "stratalog_rows" gauge "Visible events." => |s| s.store.chronicles.iter().map(|c| c.rows).sum();
    "stratalog_series" gauge "Distinct keys of events in memory." => |s| s.store.chronicles.iter().map(|c| c.series).sum();
    "stratalog_journal_queued_bytes" gauge "Bytes waiting for the journal's writer." => |s| s.store.log.queued_bytes;
    "stratalog_journal_stored_bytes" gauge "Bytes of the journal's segments." => |s| s.store.log.stored_bytes;
    "stratalog_journal_segments" gauge "Segments of the journal." => |s| s.store.log.segments;
    "stratalog_journal_frames_total" counter "Frames written." => |s| s.store.log.frames;
    "stratalog_journal_writes_total" counter "Writes, each of a group of frames." => |s| s.store.log.writes;
    "stratalog_journal_syncs_total" counter "Syncs to disk." => |s| s.store.log.syncs;
    "stratalog_journal_poisoned" gauge "1 if the journal has stopped after a failed write or sync." => |s| u64::from(s.store.log.poisoned.is_some());
    "stratalog_clock_epoch" counter "Starts and fences of the clock." => |s| s.clock.reading.line.epoch;
    "stratalog_clock_held_seconds" gauge "Seconds of a held jump ahead of the machine's clock." => |s| s.clock.held_ns / 1_000_000_000;
    "stratalog_clock_jumps_held_total" counter "Held jumps ahead of the machine's clock." => |s| s.clock.jumps_held;
    "stratalog_clock_unconfirmed_seconds" gauge "Seconds of the unconfirmed lead of the machine's clock over the last run at a start." => |s| s.clock.unconfirmed_ns / 1_000_000_000;
    "stratalog_clock_ahead_seconds" gauge "Seconds by which the issued time is ahead of the machine's clock." => |s| seconds(s.clock.reading.now_ns.saturating_sub(s.clock.wall_ns));
    "stratalog_clock_alarms" gauge "Alarms for an operator, in stratalog.clock." => |s| s.clock.alarms.len() as u64;
    "stratalog_moves_running" gauge "Running moves between tiers." => |s| s.moves_running;
    "stratalog_moves_failed" gauge "Failed moves among the last thousand moves." => |s| s.moves_failed;
}

/// The page.
pub(crate) async fn metrics(Extracted(state): Extracted<Arc<State>>) -> Response {
    let store = state.service.parts().store.status();
    let sessions = state.service.sessions().open();
    let moves = state.service.parts().store.moves();
    let clock = state.service.parts().clock.status();
    let source = Source {
        counts: &state.counts,
        store: &store,
        sessions: sessions.len() as u64,
        running: sessions.iter().filter(|session| session.is_running()).count() as u64,
        moves_running: moves.iter().filter(|one| one.ended_ns.is_none()).count() as u64,
        moves_failed: moves.iter().filter(|one| one.error.is_some()).count() as u64,
        up_ns: clock.reading.now_ns.saturating_sub(state.service.started_ns()),
        clock: &clock,
    };
    let mut page = String::new();
    for metric in METRICS {
        let Metric { name, kind, help, value } = metric;
        // A write to a String cannot fail.
        let _ =
            writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {}", value(&source));
    }
    let mut response = page.into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
