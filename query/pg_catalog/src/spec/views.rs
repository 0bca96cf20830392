//! Names, oids and columns of the views of PostgreSQL 15's `pg_catalog`.

use super::Spec;

/// The tables, by name.
pub(crate) const VIEWS: &[Spec] = &[
    Spec {
        name: "pg_available_extensions",
        oid: 12081,
        columns: "name name, default_version text, installed_version text, comment text",
    },
    Spec {
        name: "pg_cursors",
        oid: 12077,
        columns: "name text, statement text, is_holdable bool, is_binary bool, is_scrollable bool, \
            creation_time timestamptz",
    },
    Spec { name: "pg_group", oid: 12010, columns: "groname name, grosysid oid, grolist oid[]" },
    Spec {
        name: "pg_indexes",
        oid: 12043,
        columns: "schemaname name, tablename name, indexname name, tablespace name, indexdef text",
    },
    Spec {
        name: "pg_locks",
        oid: 12073,
        columns: "locktype text, database oid, relation oid, page int4, tuple int2, virtualxid \
            text, transactionid int8, classid oid, objid oid, objsubid int2, virtualtransaction \
            text, pid int4, mode text, granted bool, fastpath bool, waitstart timestamptz",
    },
    Spec {
        name: "pg_matviews",
        oid: 12038,
        columns: "schemaname name, matviewname name, matviewowner name, tablespace name, \
            hasindexes bool, ispopulated bool, definition text",
    },
    Spec {
        name: "pg_policies",
        oid: 12018,
        columns: "schemaname name, tablename name, policyname name, permissive text, roles name[], \
            cmd text, qual text, with_check text",
    },
    Spec {
        name: "pg_prepared_statements",
        oid: 12095,
        columns: "name text, statement text, prepare_time timestamptz, parameter_types text[], \
            from_sql bool, generic_plans int8, custom_plans int8",
    },
    Spec {
        name: "pg_prepared_xacts",
        oid: 12090,
        columns: "transaction int8, gid text, prepared timestamptz, owner name, database name",
    },
    Spec {
        name: "pg_publication_tables",
        oid: 12068,
        columns: "pubname name, schemaname name, tablename name, attnames name[], rowfilter text",
    },
    Spec {
        name: "pg_replication_slots",
        oid: 12257,
        columns: "slot_name name, plugin name, slot_type text, datoid oid, database name, \
            temporary bool, active bool, active_pid int4, xmin int8, catalog_xmin int8, \
            restart_lsn text, confirmed_flush_lsn text, wal_status text, safe_wal_size int8, \
            two_phase bool",
    },
    Spec {
        name: "pg_roles",
        oid: 12000,
        columns: "rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb \
            bool, rolcanlogin bool, rolreplication bool, rolconnlimit int4, rolpassword text, \
            rolvaliduntil timestamptz, rolbypassrls bool, rolconfig text[], oid oid",
    },
    Spec {
        name: "pg_rules",
        oid: 12023,
        columns: "schemaname name, tablename name, rulename name, definition text",
    },
    Spec {
        name: "pg_seclabels",
        oid: 12099,
        columns: "objoid oid, classoid oid, objsubid int4, objtype text, objnamespace oid, objname \
            text, provider text, label text",
    },
    Spec {
        name: "pg_sequences",
        oid: 12048,
        columns: "schemaname name, sequencename name, sequenceowner name, data_type text, \
            start_value int8, min_value int8, max_value int8, increment_by int8, cycle bool, \
            cache_size int8, last_value int8",
    },
    Spec {
        name: "pg_settings",
        oid: 12104,
        columns: "name text, setting text, unit text, category text, short_desc text, extra_desc \
            text, context text, vartype text, source text, min_val text, max_val text, enumvals \
            text[], boot_val text, reset_val text, sourcefile text, sourceline int4, \
            pending_restart bool",
    },
    Spec {
        name: "pg_shadow",
        oid: 12005,
        columns: "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, \
            usebypassrls bool, passwd text, valuntil timestamptz, useconfig text[]",
    },
    Spec {
        name: "pg_stat_activity",
        oid: 12222,
        columns: "datid oid, datname name, pid int4, leader_pid int4, usesysid oid, usename name, \
            application_name text, client_addr text, client_hostname text, client_port int4, \
            backend_start timestamptz, xact_start timestamptz, query_start timestamptz, \
            state_change timestamptz, wait_event_type text, wait_event text, state text, \
            backend_xid int8, backend_xmin int8, query_id int8, query text, backend_type text",
    },
    Spec {
        name: "pg_stat_all_indexes",
        oid: 12183,
        columns: "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, \
            idx_scan int8, idx_tup_read int8, idx_tup_fetch int8",
    },
    Spec {
        name: "pg_stat_all_tables",
        oid: 12142,
        columns: "relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, \
            idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, \
            n_tup_hot_upd int8, n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, \
            n_ins_since_vacuum int8, last_vacuum timestamptz, last_autovacuum timestamptz, \
            last_analyze timestamptz, last_autoanalyze timestamptz, vacuum_count int8, \
            autovacuum_count int8, analyze_count int8, autoanalyze_count int8",
    },
    Spec {
        name: "pg_stat_database",
        oid: 12266,
        columns: "datid oid, datname name, numbackends int4, xact_commit int8, xact_rollback int8, \
            blks_read int8, blks_hit int8, tup_returned int8, tup_fetched int8, tup_inserted int8, \
            tup_updated int8, tup_deleted int8, conflicts int8, temp_files int8, temp_bytes int8, \
            deadlocks int8, checksum_failures int8, checksum_last_failure timestamptz, \
            blk_read_time float8, blk_write_time float8, session_time float8, active_time float8, \
            idle_in_transaction_time float8, sessions int8, sessions_abandoned int8, \
            sessions_fatal int8, sessions_killed int8, stats_reset timestamptz",
    },
    Spec {
        name: "pg_stat_gssapi",
        oid: 12253,
        columns: "pid int4, gss_authenticated bool, principal text, encrypted bool",
    },
    Spec {
        name: "pg_stat_progress_copy",
        oid: 12322,
        columns: "pid int4, datid oid, datname name, relid oid, command text, type text, \
            bytes_processed int8, bytes_total int8, tuples_processed int8, tuples_excluded int8",
    },
    Spec {
        name: "pg_stat_replication",
        oid: 12227,
        columns: "pid int4, usesysid oid, usename name, application_name text, client_addr text, \
            client_hostname text, client_port int4, backend_start timestamptz, backend_xmin int8, \
            state text, sent_lsn text, write_lsn text, flush_lsn text, replay_lsn text, write_lag \
            text, flush_lag text, replay_lag text, sync_priority int4, sync_state text, reply_time \
            timestamptz",
    },
    Spec {
        name: "pg_stat_ssl",
        oid: 12249,
        columns: "pid int4, ssl bool, version text, cipher text, bits int4, client_dn text, \
            client_serial int8, issuer_dn text",
    },
    Spec {
        name: "pg_stat_sys_indexes",
        oid: 12188,
        columns: "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, \
            idx_scan int8, idx_tup_read int8, idx_tup_fetch int8",
    },
    Spec {
        name: "pg_stat_sys_tables",
        oid: 12152,
        columns: "relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, \
            idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, \
            n_tup_hot_upd int8, n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, \
            n_ins_since_vacuum int8, last_vacuum timestamptz, last_autovacuum timestamptz, \
            last_analyze timestamptz, last_autoanalyze timestamptz, vacuum_count int8, \
            autovacuum_count int8, analyze_count int8, autoanalyze_count int8",
    },
    Spec {
        name: "pg_stat_user_functions",
        oid: 12275,
        columns: "funcid oid, schemaname name, funcname name, calls int8, total_time float8, \
            self_time float8",
    },
    Spec {
        name: "pg_stat_user_indexes",
        oid: 12192,
        columns: "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, \
            idx_scan int8, idx_tup_read int8, idx_tup_fetch int8",
    },
    Spec {
        name: "pg_stat_user_tables",
        oid: 12161,
        columns: "relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, \
            idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, \
            n_tup_hot_upd int8, n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, \
            n_ins_since_vacuum int8, last_vacuum timestamptz, last_autovacuum timestamptz, \
            last_analyze timestamptz, last_autoanalyze timestamptz, vacuum_count int8, \
            autovacuum_count int8, analyze_count int8, autoanalyze_count int8",
    },
    Spec {
        name: "pg_statio_user_indexes",
        oid: 12205,
        columns: "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, \
            idx_blks_read int8, idx_blks_hit int8",
    },
    Spec {
        name: "pg_statio_user_sequences",
        oid: 12218,
        columns: "relid oid, schemaname name, relname name, blks_read int8, blks_hit int8",
    },
    Spec {
        name: "pg_statio_user_tables",
        oid: 12179,
        columns: "relid oid, schemaname name, relname name, heap_blks_read int8, heap_blks_hit \
            int8, idx_blks_read int8, idx_blks_hit int8, toast_blks_read int8, toast_blks_hit \
            int8, tidx_blks_read int8, tidx_blks_hit int8",
    },
    Spec {
        name: "pg_stats",
        oid: 12053,
        columns: "schemaname name, tablename name, attname name, inherited bool, null_frac float4, \
            avg_width int4, n_distinct float4, most_common_vals text, most_common_freqs float4[], \
            histogram_bounds text, correlation float4, most_common_elems text, \
            most_common_elem_freqs float4[], elem_count_histogram float4[]",
    },
    Spec {
        name: "pg_stats_ext",
        oid: 12058,
        columns: "schemaname name, tablename name, statistics_schemaname name, statistics_name \
            name, statistics_owner name, attnames name[], exprs text[], kinds char[], inherited \
            bool, n_distinct text, dependencies text, most_common_vals text[], \
            most_common_val_nulls bool[], most_common_freqs float8[], most_common_base_freqs \
            float8[]",
    },
    Spec {
        name: "pg_tables",
        oid: 12033,
        columns: "schemaname name, tablename name, tableowner name, tablespace name, hasindexes \
            bool, hasrules bool, hastriggers bool, rowsecurity bool",
    },
    Spec {
        name: "pg_user",
        oid: 12014,
        columns: "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, \
            usebypassrls bool, passwd text, valuntil timestamptz, useconfig text[]",
    },
    Spec {
        name: "pg_user_mappings",
        oid: 12327,
        columns: "umid oid, srvid oid, srvname name, umuser oid, usename name, umoptions text[]",
    },
    Spec {
        name: "pg_views",
        oid: 12028,
        columns: "schemaname name, viewname name, viewowner name, definition text",
    },
];
