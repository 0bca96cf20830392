//! The list of all metrics, from which docs/metrics.md is generated.

/// The description of a metric.
#[derive(Debug)]
pub struct Metric {
    /// The name. The samples of a histogram add `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The unit of the values.
    pub unit: &'static str,
    /// What the metric measures.
    pub help: &'static str,
    /// The upper bounds of a histogram's buckets (a value equal to the bound belongs to the
    /// bucket). Durations are in nanoseconds.
    pub buckets: &'static [u64],
}

macro_rules! buckets {
    ($( $name:ident = [ $( $bound:literal ),* ]; )*) => {
        $( const $name: &[u64] = &[ $( $bound ),* ]; )*
    };
}

macro_rules! metrics {
    (@buckets) => { &[] };
    (@buckets $buckets:ident) => { $buckets };
    ($(
        $constant:ident = $name:literal $kind:ident $( ($buckets:ident) )?
        [ $( $label:literal ),* ] $unit:literal $help:literal;
    )*) => {
        $( pub(crate) const $constant: Metric = Metric {
            name: $name,
            kind: stringify!($kind),
            labels: &[ $( $label ),* ],
            unit: $unit,
            help: $help,
            buckets: metrics!(@buckets $( $buckets )?),
        }; )*

        /// Every metric of the server.
        pub const METRICS: &[Metric] = &[ $( $constant, )* ];
    };
}

// The ranges of the buckets: a request takes from tens of microseconds (a cached point query) to
// minutes (a report). A sync takes from tens of microseconds (an SSD with a capacitor) to a second
// (a busy hard disk). Planning takes at most seconds. A move takes from milliseconds (a small
// flush) to an hour (a large archive). A group has from one event to `group_bytes_max`, 8 MiB. A
// result has from no row to all rows of a table.
buckets! {
    REQUEST_NS = [50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 50_000_000, 250_000_000, 1_000_000_000, 5_000_000_000, 30_000_000_000, 120_000_000_000];
    PLANNING_NS = [10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 50_000_000, 250_000_000, 1_000_000_000];
    SYNC_NS = [25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 25_000_000, 100_000_000, 500_000_000, 2_000_000_000];
    MOVE_NS = [5_000_000, 20_000_000, 100_000_000, 500_000_000, 2_000_000_000, 10_000_000_000, 60_000_000_000, 300_000_000_000, 1_800_000_000_000];
    ROWS = [0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    GROUP_EVENTS = [1, 2, 5, 10, 50, 100, 500, 1_000, 10_000, 100_000];
    GROUP_BYTES = [256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216];
    MOVE_BYTES = [65_536, 1_048_576, 8_388_608, 33_554_432, 134_217_728, 536_870_912, 2_147_483_648];
}

metrics! {
    UP = "stratalog_up_seconds" gauge [] "seconds" "Seconds since the server started.";
    INGEST_BYTES = "stratalog_ingest_bytes_total" counter [] "bytes" "Bytes of line protocol and telemetry read, after decompression.";
    INGEST_LINES = "stratalog_ingest_lines_total" counter [] "lines" "Lines read.";
    INGEST_LINES_REFUSED = "stratalog_ingest_lines_refused_total" counter [] "lines" "Lines refused.";
    INGEST_SAMPLES = "stratalog_ingest_samples_total" counter [] "samples" "Samples, data points and log records of telemetry read.";
    INGEST_SAMPLES_REFUSED = "stratalog_ingest_samples_refused_total" counter [] "samples" "Samples, data points and log records of telemetry refused.";
    INGEST_ROWS = "stratalog_ingest_rows_total" counter [] "rows" "Rows stored from line protocol and telemetry.";
    INGEST_REQUESTS_REFUSED = "stratalog_ingest_requests_refused_total" counter [] "requests" "Write requests refused completely.";
    LINE_CONNECTIONS = "stratalog_line_connections" gauge [] "connections" "Open connections of line protocol over TCP.";
    HTTP_QUERIES = "stratalog_http_queries_total" counter [] "statements" "Statements received over HTTP.";
    SESSIONS = "stratalog_sessions" gauge [] "sessions" "Open sessions of all protocols.";
    SESSIONS_RUNNING = "stratalog_sessions_running" gauge [] "sessions" "Sessions with a running statement.";
    GSN = "stratalog_gsn" counter [] "events" "The highest committed global sequence number.";
    MEMORY = "stratalog_memory_bytes" gauge [] "bytes" "Bytes of events in memory.";
    MEMORY_MAX = "stratalog_memory_bytes_max" gauge [] "bytes" "Memory budget for events.";
    STORY_CACHE = "stratalog_story_cache_bytes" gauge [] "bytes" "Bytes of decoded columns of stories in memory.";
    TABLES = "stratalog_tables" gauge [] "tables" "Tables with events.";
    VISIBLE_ROWS = "stratalog_rows" gauge [] "events" "Visible events.";
    SERIES = "stratalog_series" gauge [] "keys" "Distinct keys of events in memory.";
    JOURNAL_QUEUED = "stratalog_journal_queued_bytes" gauge [] "bytes" "Bytes waiting for the journal's writer.";
    JOURNAL_STORED = "stratalog_journal_stored_bytes" gauge [] "bytes" "Bytes of the journal's segments.";
    JOURNAL_SEGMENTS = "stratalog_journal_segments" gauge [] "segments" "Segments of the journal.";
    JOURNAL_FRAMES = "stratalog_journal_frames_total" counter [] "frames" "Frames written.";
    JOURNAL_WRITES = "stratalog_journal_writes_total" counter [] "writes" "Writes, each of a group of frames.";
    JOURNAL_SYNCS = "stratalog_journal_syncs_total" counter [] "syncs" "Syncs to disk.";
    JOURNAL_POISONED = "stratalog_journal_poisoned" gauge [] "0 or 1" "1 if the journal has stopped after a failed write or sync.";
    CLOCK_EPOCH = "stratalog_clock_epoch" counter [] "epochs" "Starts and fences of the clock.";
    CLOCK_HELD = "stratalog_clock_held_seconds" gauge [] "seconds" "Seconds of a held jump ahead of the machine's clock.";
    CLOCK_JUMPS_HELD = "stratalog_clock_jumps_held_total" counter [] "jumps" "Held jumps ahead of the machine's clock.";
    CLOCK_UNCONFIRMED = "stratalog_clock_unconfirmed_seconds" gauge [] "seconds" "Seconds of the unconfirmed lead of the machine's clock over the last run at a start.";
    CLOCK_AHEAD = "stratalog_clock_ahead_seconds" gauge [] "seconds" "Seconds by which the issued time is ahead of the machine's clock.";
    CLOCK_ALARMS = "stratalog_clock_alarms" gauge [] "alarms" "Alarms for an operator, in stratalog.clock.";
    MOVES_RUNNING = "stratalog_moves_running" gauge [] "moves" "Running moves between tiers.";
    MOVES_FAILED = "stratalog_moves_failed" gauge [] "moves" "Failed moves among the last thousand moves.";
    CERTIFICATE_EXPIRES = "stratalog_tls_certificate_expires_timestamp_seconds" gauge [] "seconds" "End of the TLS certificate's validity, in seconds since 1970; 0 for a server without a certificate.";
    DOOR_CONNECTIONS = "stratalog_door_connections" gauge ["door"] "connections" "Open connections, before and after their login.";
    DOOR_CONNECTIONS_ACCEPTED = "stratalog_door_connections_accepted_total" counter ["door"] "connections" "Accepted connections, including connections that were refused later.";
    DOOR_CONNECTIONS_REFUSED = "stratalog_door_connections_refused_total" counter ["door"] "connections" "Connections that the server closed at their start-up, after a long silence, or to make room for other connections.";
    DOOR_REQUEST_SECONDS = "stratalog_door_request_seconds" histogram (REQUEST_NS) ["door", "request"] "seconds" "Duration of a request, from its arrival to the last byte of its answer. A subscription over HTTP does not count; a subscription over another door is a request until its end.";
    DOOR_ERRORS = "stratalog_door_errors_total" counter ["door", "class"] "errors" "Errors sent to clients, by the first two characters of the SQLSTATE.";
    QUERY_PLANNING_SECONDS = "stratalog_query_planning_seconds" histogram (PLANNING_NS) ["step"] "seconds" "Duration of planning; a statement with a cached plan has no observation.";
    QUERY_EXECUTION_SECONDS = "stratalog_query_execution_seconds" histogram (REQUEST_NS) ["statement"] "seconds" "Duration of a statement, from the start of its execution to its last row or its error, including the time that the client takes to read. Subscriptions and COPY FROM do not count.";
    QUERY_ROWS = "stratalog_query_rows" histogram (ROWS) [] "rows" "Rows returned by a statement with a result.";
    QUERY_CANCELLED = "stratalog_query_cancelled_total" counter [] "statements" "Statements that a client, a timeout or the end of a session cancelled.";
    QUERY_MEMORY_REFUSED = "stratalog_query_memory_refused_total" counter [] "statements" "Statements that ended because a memory budget was used up.";
    JOURNAL_SYNC_SECONDS = "stratalog_journal_sync_seconds" histogram (SYNC_NS) ["log"] "seconds" "Duration of a sync to disk.";
    JOURNAL_GROUP_EVENTS = "stratalog_journal_group_events" histogram (GROUP_EVENTS) ["log"] "events" "Events of a group that the journal writes at once. The catalog and the manifest write records, without events.";
    JOURNAL_GROUP_BYTES = "stratalog_journal_group_bytes" histogram (GROUP_BYTES) ["log"] "bytes" "Bytes of a group that the journal writes at once.";
    JOURNAL_APPENDS_WAITING = "stratalog_journal_appends_waiting" gauge ["log"] "appends" "Appends that wait for room in the journal's queue.";
    MOVE_SECONDS = "stratalog_move_seconds" histogram (MOVE_NS) ["kind"] "seconds" "Duration of a move between tiers that moved events, or failed.";
    MOVED_BYTES = "stratalog_move_bytes" histogram (MOVE_BYTES) ["kind"] "bytes" "Bytes of the tablets or stories that a move wrote.";
    MOVE_FAILURES = "stratalog_move_failures_total" counter ["kind"] "moves" "Failed moves since the start.";
}
