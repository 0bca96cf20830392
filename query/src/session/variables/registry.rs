//! The registry of all settings: name, default, accepted values and description.

use super::hint::Hint;

/// The accepted values of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Cannot be changed.
    Fixed,
    /// Any text; truncated after 63 bytes.
    Text,
    /// One of these words, in any case.
    OneOf(&'static [&'static str]),
    /// One of these words, in any case. Other words that PostgreSQL accepts are refused, because
    /// they would have no effect.
    Only(&'static [&'static str]),
    /// on or off.
    Switch,
    /// A switch that accepts only this value.
    SwitchOnly(bool),
    /// A whole number from the first to the second bound.
    Integer(i64, i64),
    /// A time, in milliseconds or with a unit.
    Duration,
    /// A comma-separated list of schema names.
    Names,
    /// A time zone.
    TimeZone,
    /// ISO, with an order of day, month and year.
    DateStyle,
    /// Only UTF8.
    Encoding,
    /// A uuid, or empty.
    Uuid,
    /// A hint to PostgreSQL's planner: accepted, with a notice about the missing effect.
    Hint(Hint),
}

/// The description of a setting, used for the documentation page and for checks of values.
#[derive(Debug, Clone, Copy)]
pub struct SettingPage {
    /// Name, in the case shown to clients.
    pub name: &'static str,
    /// Value of a session without SET.
    pub default: &'static str,
    /// The accepted values.
    pub rule: Rule,
    /// Whether the protocol reports each change to the client.
    pub reported: bool,
    /// A description in one line.
    pub does: &'static str,
}

const fn setting(
    name: &'static str,
    default: &'static str,
    rule: Rule,
    reported: bool,
    does: &'static str,
) -> SettingPage {
    SettingPage { name, default, rule, reported, does }
}

/// The server version shown to clients. The number is the PostgreSQL version whose protocol and
/// catalogs Stratalog follows.
pub const SERVER_VERSION: &str = concat!("15.0 (Stratalog ", env!("CARGO_PKG_VERSION"), ")");

/// All settings, sorted by name.
#[rustfmt::skip] // a table: one setting a line
pub const SETTINGS: &[SettingPage] = &[
    setting("application_name", "", Rule::Text, true, "name that the client gives itself, shown in pg_stat_activity"),
    setting("bytea_output", "hex", Rule::OneOf(&["hex", "escape"]), false, "text form of bytea"),
    setting("check_function_bodies", "on", Rule::Switch, false, "without effect: functions cannot be created"),
    setting("client_encoding", "UTF8", Rule::Encoding, true, "encoding of text on the wire; always UTF8"),
    setting("client_min_messages", "notice", Rule::OneOf(&["notice", "warning", "error"]), false, "least severe messages sent to the client"),
    setting("constraint_exclusion", "partition", Rule::Hint(Hint::Word(&["partition", "on", "off"])), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("cpu_index_tuple_cost", "0.005", Rule::Hint(Hint::Cost), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("cpu_operator_cost", "0.0025", Rule::Hint(Hint::Cost), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("cpu_tuple_cost", "0.01", Rule::Hint(Hint::Cost), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("cursor_tuple_fraction", "0.1", Rule::Hint(Hint::Cost), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("DateStyle", "ISO, MDY", Rule::DateStyle, true, "order of day, month and year in ambiguous dates; output is ISO"),
    setting("default_statistics_target", "100", Rule::Hint(Hint::Count(1, 10000)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("default_table_access_method", "heap", Rule::OneOf(&["heap", "chronicle"]), false, "without effect: the only access method has the name heap in PostgreSQL and chronicle in dumps of Stratalog"),
    setting("default_tablespace", "", Rule::OneOf(&[""]), false, "always empty: tablespaces are not supported"),
    setting("default_transaction_deferrable", "off", Rule::SwitchOnly(false), false, "always off"),
    setting("default_transaction_isolation", "repeatable read", Rule::Only(&["read committed", "read uncommitted", "repeatable read"]), false, "repeatable read: all statements of a block read one snapshot; read committed: each statement reads its own snapshot"),
    setting("default_transaction_read_only", "off", Rule::Switch, true, "on: new blocks are read-only"),
    setting("effective_cache_size", "4GB", Rule::Hint(Hint::Size(8192, 1)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("effective_io_concurrency", "1", Rule::Hint(Hint::Count(0, 1000)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_async_append", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_bitmapscan", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_gathermerge", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_hashagg", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_hashjoin", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_incremental_sort", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_indexonlyscan", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_indexscan", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_material", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_memoize", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_mergejoin", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_nestloop", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_parallel_append", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_parallel_hash", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_partition_pruning", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_partitionwise_aggregate", "off", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_partitionwise_join", "off", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_seqscan", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_sort", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("enable_tidscan", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("escape_string_warning", "on", Rule::Fixed, false, "always on"),
    setting("extra_float_digits", "1", Rule::Integer(-15, 3), false, "digits of floats in text form"),
    setting("force_parallel_mode", "off", Rule::Hint(Hint::Word(&["off", "on", "regress"])), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("from_collapse_limit", "8", Rule::Hint(Hint::Count(1, 2147483647)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("geqo", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("geqo_threshold", "12", Rule::Hint(Hint::Count(2, 2147483647)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("hash_mem_multiplier", "2", Rule::Hint(Hint::Cost), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("idle_in_transaction_session_timeout", "0", Rule::Duration, false, "ends a session that stays idle for longer within a block; 0 for no limit"),
    setting("idle_session_timeout", "0", Rule::Duration, false, "ends a session that stays idle for longer outside of a block; 0 for no limit"),
    setting("in_hot_standby", "off", Rule::Fixed, true, "always off"),
    setting("integer_datetimes", "on", Rule::Fixed, true, "always on"),
    setting("IntervalStyle", "postgres", Rule::OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]), true, "text form of intervals"),
    setting("is_superuser", "on", Rule::Fixed, true, "on for a superuser, and for everybody until the first password is set"),
    setting("jit", "off", Rule::SwitchOnly(false), false, "always off"),
    setting("join_collapse_limit", "8", Rule::Hint(Hint::Count(1, 2147483647)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("lc_collate", "C", Rule::Fixed, false, "text is ordered by its bytes"),
    setting("lc_ctype", "C.UTF-8", Rule::Fixed, false, "case conversion follows Unicode"),
    setting("lc_messages", "C", Rule::Fixed, false, "messages are in English"),
    setting("lock_timeout", "0", Rule::Duration, false, "cancels an ACQUIRE that waits longer for other sessions; 0 for no limit. `statement_timeout` limits the wait for a key that another block holds"),
    setting("maintenance_work_mem", "64MB", Rule::Hint(Hint::Size(1024, 1024)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("max_identifier_length", "63", Rule::Fixed, false, "bytes of a name, at most"),
    setting("max_index_keys", "32", Rule::Fixed, false, "maximum number of columns in a primary key, for clients"),
    setting("max_parallel_maintenance_workers", "2", Rule::Hint(Hint::Count(0, 1024)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("max_parallel_workers", "8", Rule::Hint(Hint::Count(0, 1024)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("max_parallel_workers_per_gather", "2", Rule::Hint(Hint::Count(0, 1024)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("min_parallel_index_scan_size", "512kB", Rule::Hint(Hint::Size(8192, 0)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("min_parallel_table_scan_size", "8MB", Rule::Hint(Hint::Size(8192, 0)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("parallel_leader_participation", "on", Rule::Hint(Hint::Switch), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("parallel_setup_cost", "1000", Rule::Hint(Hint::Cost), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("parallel_tuple_cost", "0.1", Rule::Hint(Hint::Cost), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("plan_cache_mode", "auto", Rule::Hint(Hint::Word(&["auto", "force_generic_plan", "force_custom_plan"])), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("random_page_cost", "4", Rule::Hint(Hint::Cost), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("role", "none", Rule::Fixed, false, "the role of SET ROLE; none for the role of the session"),
    setting("row_security", "on", Rule::Switch, false, "off: a statement that row policies would change is an error"),
    setting("search_path", "\"$user\", public", Rule::Names, false, "schemas that are searched for unqualified names"),
    setting("seq_page_cost", "1", Rule::Hint(Hint::Cost), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("server_encoding", "UTF8", Rule::Fixed, true, "always UTF8"),
    setting("server_version", SERVER_VERSION, Rule::Fixed, true, "PostgreSQL version for clients"),
    setting("server_version_num", "150000", Rule::Fixed, false, "the same, as a number"),
    setting("session_authorization", "", Rule::Fixed, true, "role of the session; SET SESSION AUTHORIZATION changes it"),
    setting("standard_conforming_strings", "on", Rule::SwitchOnly(true), true, "always on: a backslash in '…' is a backslash"),
    setting("statement_timeout", "0", Rule::Duration, false, "cancels a statement that runs longer; 0 for no limit"),
    setting("stratalog.authentication", "trust", Rule::Fixed, false, "trust: clients of this machine connect without a password, as superusers, until the first password is set; password: every client logs in"),
    setting("stratalog.fraction_digits", "6", Rule::Integer(0, 9), false, "digits of the seconds' fraction of times in results as text; drivers read 6. The digits beyond are cut. COPY in text and CSV has all 9"),
    setting("stratalog.producer", "", Rule::Uuid, false, "producer of the next writing statement, for retries"),
    setting("stratalog.producer_sequence", "0", Rule::Integer(0, i64::MAX), false, "number of the next writing statement"),
    setting("stratalog.round_trip_us", "0", Rule::Integer(0, 60_000_000), false, "twice the latency of the session, measured by its client: tables with time_source = 'client' accept events of this age, up to ten times their acceptance_window"),
    setting("subscribe_wait", "1s", Rule::Duration, false, "maximum wait of a FETCH for the first row from a cursor for SUBSCRIBE"),
    setting("synchronize_seqscans", "on", Rule::Switch, false, "without effect: scans are independent"),
    setting("synchronous_commit", "on", Rule::SwitchOnly(true), false, "always on: see the table option durability"),
    setting("temp_buffers", "8MB", Rule::Hint(Hint::Size(8192, 100)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("TimeZone", "UTC", Rule::TimeZone, true, "time zone for input and output of timestamptz"),
    setting("transaction_deferrable", "off", Rule::SwitchOnly(false), false, "always off"),
    setting("transaction_isolation", "repeatable read", Rule::Only(&["read committed", "read uncommitted", "repeatable read"]), false, "repeatable read: all statements of a block read one snapshot; read committed: each statement reads its own snapshot"),
    setting("transaction_read_only", "off", Rule::Switch, false, "whether the block refuses to write"),
    setting("work_mem", "4MB", Rule::Hint(Hint::Size(1024, 64)), false, "a hint to PostgreSQL's planner; SET reports that the hint has no effect"),
    setting("xmloption", "content", Rule::OneOf(&["content", "document"]), false, "without effect: the type xml does not exist"),
];

/// Finds a setting by name, in any case; `timezone` and `time zone` are the same setting.
pub fn find(name: &str) -> Option<&'static SettingPage> {
    SETTINGS.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
}
