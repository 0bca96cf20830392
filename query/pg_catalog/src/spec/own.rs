//! The definitions of the tables of the schema `stratalog`, for operators of the server.

use super::Spec;

/// The tables of the schema `stratalog`, ordered by name.
pub(crate) const OWN: &[Spec] = &[
    Spec {
        name: "acquisitions",
        oid: 14_013,
        columns: "schema text, name text, process_id int4, standing text, mode text, first_tick int8, \
            end_tick int8, first_time timestamptz, end_time timestamptz, since timestamptz, expires \
            timestamptz",
    },
    Spec {
        name: "chronicles",
        oid: 14_000,
        columns: "schema text, name text, id int8, rows int8, first_time timestamptz, last_time \
            timestamptz, bytes int8, series int8, acquirers int4, granularity text, native_granularity text, base timestamptz, base_ns int8, collision \
            text, late text, time_source text, acceptance_window_ms int8, durability text, retention_ms int8, story_rows_max int8, \
            story_bytes_max int8, story_age_max_ms int8, pin_for_ms int8, key_columns text[], tick_column text, columns int4, \
            schema_version int4, created timestamptz, comment text",
    },
    Spec {
        name: "clock",
        oid: 14_012,
        columns: "time timestamptz, epoch int8, steps int8, rate_ppb int8, uncertainty_ns int8, \
            machine_time timestamptz, machine_offset_ns int8, drift_ppb int8, held_ns int8, \
            jumps_held int8, unconfirmed_ns int8, lease timestamptz, alarms text[]",
    },
    Spec {
        name: "journal",
        oid: 14_001,
        columns: "written int8, durable int8, queued_bytes int8, stored_bytes int8, segments int8, \
            frames int8, writes int8, syncs int8, poisoned text, torn_bytes int8",
    },
    Spec {
        name: "keywords",
        oid: 14_011,
        columns: "word text, catcode char, barelabel bool, catdesc text, baredesc text",
    },
    Spec {
        name: "moves",
        oid: 14_007,
        columns: "number int8, schema text, name text, kind text, state text, started timestamptz, \
            ended timestamptz, rows int8, pieces_added int8, pieces_removed int8, error text",
    },
    Spec {
        name: "pieces",
        oid: 14_008,
        columns: "schema text, name text, tier text, number int8, file text, first_time \
            timestamptz, last_time timestamptz, first_tick int8, last_tick int8, rows int8, bytes \
            int8, memory_bytes int8, first_gsn int8, last_gsn int8, schema_version int4, state text",
    },
    Spec { name: "producers", oid: 14_006, columns: "producer text, last_sequence int8" },
    Spec { name: "promises", oid: 14_002, columns: "promise text, text text, broken int8" },
    Spec {
        name: "sessions",
        oid: 14_003,
        columns: "process_id int4, user_name text, database text, application_name text, \
            client_address text, state text, query text, connected timestamptz, query_started \
            timestamptz, transaction_started timestamptz, acquired int8, latency_us int8, window_us int8",
    },
    Spec {
        name: "settings",
        oid: 14_004,
        columns: "name text, value text, reset_value text, changeable bool, description text",
    },
    Spec { name: "storage", oid: 14_014, columns: "kind text, place text, files int8, bytes int8" },
    Spec {
        name: "store",
        oid: 14_005,
        columns: "committed_gsn int8, memory_bytes int8, memory_bytes_max int8, chronicles int8, \
            rows int8",
    },
    Spec {
        name: "tails",
        oid: 14_009,
        columns: "schema text, name text, last_tick int8, last_time timestamptz, last_gsn int8, \
            sealed_tick int8, sealed_time timestamptz",
    },
    Spec {
        name: "tokens",
        oid: 14_016,
        columns: "name text, role text, scope text, created timestamptz, expires timestamptz, \
            last_used timestamptz, is_expired bool",
    },
    Spec {
        name: "watermarks",
        oid: 14_010,
        columns: "schema text, name text, committed int8, through int8, sealed_tick int8, \
            sealed_time timestamptz, tablet_tick int8, tablet_time timestamptz, story_tick int8, \
            story_time timestamptz",
    },
];
