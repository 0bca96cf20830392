//! The definitions of the views of PostgreSQL 15's `pg_catalog`: name, oid and columns of each.

use super::Spec;

/// The columns that all views about roles have.
const ROLES: &str = "usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, \
    usebypassrls bool, passwd text, valuntil timestamptz, useconfig text[]";

/// The columns that all statistics views about index scans have.
const INDEX_NUMBERS: &str = "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, \
    idx_scan int8, idx_tup_read int8, idx_tup_fetch int8";

/// The columns that all statistics views about scans and changes of tables have.
const TABLE_NUMBERS: &str = "relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, \
    idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, \
    n_tup_hot_upd int8, n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, \
    n_ins_since_vacuum int8, last_vacuum timestamptz, last_autovacuum timestamptz, \
    last_analyze timestamptz, last_autoanalyze timestamptz, vacuum_count int8, \
    autovacuum_count int8, analyze_count int8, autoanalyze_count int8";

/// The columns that all statistics views about function calls have.
const FUNCTION_NUMBERS: &str = "funcid oid, schemaname name, funcname name, calls int8, total_time float8, \
    self_time float8";

/// The columns that all statistics views about tables in the current transaction have.
const TRANSACTION_TABLE_NUMBERS: &str = "relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, \
    idx_scan int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, \
    n_tup_hot_upd int8";

/// The columns that all statistics views about reads of index blocks have.
const INDEX_READS: &str = "relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, \
    idx_blks_read int8, idx_blks_hit int8";

/// The columns that all statistics views about reads of sequence blocks have.
const SEQUENCE_READS: &str =
    "relid oid, schemaname name, relname name, blks_read int8, blks_hit int8";

/// The columns that all statistics views about reads of table blocks have.
const TABLE_READS: &str = "relid oid, schemaname name, relname name, heap_blks_read int8, heap_blks_hit \
    int8, idx_blks_read int8, idx_blks_hit int8, toast_blks_read int8, toast_blks_hit \
    int8, tidx_blks_read int8, tidx_blks_hit int8";

/// The views of `pg_catalog`, ordered by name.
pub(crate) const VIEWS: &[Spec] = &[
    Spec {
        name: "pg_available_extension_versions",
        oid: 12085,
        columns: "name name, version text, installed bool, superuser bool, trusted bool, \
            relocatable bool, schema name, requires name[], comment text",
    },
    Spec {
        name: "pg_available_extensions",
        oid: 12081,
        columns: "name name, default_version text, installed_version text, comment text",
    },
    Spec {
        name: "pg_backend_memory_contexts",
        oid: 12138,
        columns: "name text, ident text, parent text, level int4, total_bytes int8, total_nblocks \
            int8, free_bytes int8, free_chunks int8, used_bytes int8",
    },
    Spec { name: "pg_config", oid: 12130, columns: "name text, setting text" },
    Spec {
        name: "pg_cursors",
        oid: 12077,
        columns: "name text, statement text, is_holdable bool, is_binary bool, is_scrollable bool, \
            creation_time timestamptz",
    },
    Spec {
        name: "pg_file_settings",
        oid: 12110,
        columns: "sourcefile text, sourceline int4, seqno int4, name text, setting text, applied \
            bool, error text",
    },
    Spec { name: "pg_group", oid: 12010, columns: "groname name, grosysid oid, grolist oid[]" },
    Spec {
        name: "pg_hba_file_rules",
        oid: 12114,
        columns: "line_number int4, type text, database text[], user_name text[], address text, \
            netmask text, auth_method text, options text[], error text",
    },
    Spec {
        name: "pg_ident_file_mappings",
        oid: 12118,
        columns: "line_number int4, map_name text, sys_name text, pg_username text, error text",
    },
    Spec {
        name: "pg_indexes",
        oid: 12043,
        columns: "schemaname name, tablename name, indexname name, tablespace name, indexdef text",
    },
    Spec {
        name: "pg_locks",
        oid: 12073,
        columns: "locktype text, database oid, relation oid, page int4, tuple int2, virtualxid \
            text, transactionid xid, classid oid, objid oid, objsubid int2, virtualtransaction \
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
        columns: "name text, statement text, prepare_time timestamptz, parameter_types regtype[], \
            from_sql bool, generic_plans int8, custom_plans int8",
    },
    Spec {
        name: "pg_prepared_xacts",
        oid: 12090,
        columns: "transaction xid, gid text, prepared timestamptz, owner name, database name",
    },
    Spec {
        name: "pg_publication_tables",
        oid: 12068,
        columns: "pubname name, schemaname name, tablename name, attnames name[], rowfilter text",
    },
    Spec {
        name: "pg_replication_origin_status",
        oid: 12332,
        columns: "local_id oid, external_id text, remote_lsn pg_lsn, local_lsn pg_lsn",
    },
    Spec {
        name: "pg_replication_slots",
        oid: 12257,
        columns: "slot_name name, plugin name, slot_type text, datoid oid, database name, \
            temporary bool, active bool, active_pid int4, xmin xid, catalog_xmin xid, restart_lsn \
            pg_lsn, confirmed_flush_lsn pg_lsn, wal_status text, safe_wal_size int8, two_phase \
            bool",
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
        columns: "schemaname name, sequencename name, sequenceowner name, data_type regtype, \
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
    Spec { name: "pg_shadow", oid: 12005, columns: ROLES },
    Spec {
        name: "pg_shmem_allocations",
        oid: 12134,
        columns: "name text, off int8, size int8, allocated_size int8",
    },
    Spec {
        name: "pg_stat_activity",
        oid: 12222,
        columns: "datid oid, datname name, pid int4, leader_pid int4, usesysid oid, usename name, \
            application_name text, client_addr inet, client_hostname text, client_port int4, \
            backend_start timestamptz, xact_start timestamptz, query_start timestamptz, \
            state_change timestamptz, wait_event_type text, wait_event text, state text, \
            backend_xid xid, backend_xmin xid, query_id int8, query text, backend_type text",
    },
    Spec { name: "pg_stat_all_indexes", oid: 12183, columns: INDEX_NUMBERS },
    Spec { name: "pg_stat_all_tables", oid: 12142, columns: TABLE_NUMBERS },
    Spec {
        name: "pg_stat_archiver",
        oid: 12285,
        columns: "archived_count int8, last_archived_wal text, last_archived_time timestamptz, \
            failed_count int8, last_failed_wal text, last_failed_time timestamptz, stats_reset \
            timestamptz",
    },
    Spec {
        name: "pg_stat_bgwriter",
        oid: 12289,
        columns: "checkpoints_timed int8, checkpoints_req int8, checkpoint_write_time float8, \
            checkpoint_sync_time float8, buffers_checkpoint int8, buffers_clean int8, \
            maxwritten_clean int8, buffers_backend int8, buffers_backend_fsync int8, buffers_alloc \
            int8, stats_reset timestamptz",
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
        name: "pg_stat_database_conflicts",
        oid: 12271,
        columns: "datid oid, datname name, confl_tablespace int8, confl_lock int8, confl_snapshot \
            int8, confl_bufferpin int8, confl_deadlock int8",
    },
    Spec {
        name: "pg_stat_gssapi",
        oid: 12253,
        columns: "pid int4, gss_authenticated bool, principal text, encrypted bool",
    },
    Spec {
        name: "pg_stat_progress_analyze",
        oid: 12297,
        columns: "pid int4, datid oid, datname name, relid oid, phase text, sample_blks_total \
            int8, sample_blks_scanned int8, ext_stats_total int8, ext_stats_computed int8, \
            child_tables_total int8, child_tables_done int8, current_child_table_relid oid",
    },
    Spec {
        name: "pg_stat_progress_basebackup",
        oid: 12317,
        columns: "pid int4, phase text, backup_total int8, backup_streamed int8, tablespaces_total \
            int8, tablespaces_streamed int8",
    },
    Spec {
        name: "pg_stat_progress_cluster",
        oid: 12307,
        columns: "pid int4, datid oid, datname name, relid oid, command text, phase text, \
            cluster_index_relid oid, heap_tuples_scanned int8, heap_tuples_written int8, \
            heap_blks_total int8, heap_blks_scanned int8, index_rebuild_count int8",
    },
    Spec {
        name: "pg_stat_progress_copy",
        oid: 12322,
        columns: "pid int4, datid oid, datname name, relid oid, command text, type text, \
            bytes_processed int8, bytes_total int8, tuples_processed int8, tuples_excluded int8",
    },
    Spec {
        name: "pg_stat_progress_create_index",
        oid: 12312,
        columns: "pid int4, datid oid, datname name, relid oid, index_relid oid, command text, \
            phase text, lockers_total int8, lockers_done int8, current_locker_pid int8, \
            blocks_total int8, blocks_done int8, tuples_total int8, tuples_done int8, \
            partitions_total int8, partitions_done int8",
    },
    Spec {
        name: "pg_stat_progress_vacuum",
        oid: 12302,
        columns: "pid int4, datid oid, datname name, relid oid, phase text, heap_blks_total int8, \
            heap_blks_scanned int8, heap_blks_vacuumed int8, index_vacuum_count int8, \
            max_dead_tuples int8, num_dead_tuples int8",
    },
    Spec {
        name: "pg_stat_recovery_prefetch",
        oid: 12240,
        columns: "stats_reset timestamptz, prefetch int8, hit int8, skip_init int8, skip_new int8, \
            skip_fpw int8, skip_rep int8, wal_distance int4, block_distance int4, io_depth int4",
    },
    Spec {
        name: "pg_stat_replication",
        oid: 12227,
        columns: "pid int4, usesysid oid, usename name, application_name text, client_addr inet, \
            client_hostname text, client_port int4, backend_start timestamptz, backend_xmin xid, \
            state text, sent_lsn pg_lsn, write_lsn pg_lsn, flush_lsn pg_lsn, replay_lsn pg_lsn, \
            write_lag interval, flush_lag interval, replay_lag interval, sync_priority int4, \
            sync_state text, reply_time timestamptz",
    },
    Spec {
        name: "pg_stat_replication_slots",
        oid: 12262,
        columns: "slot_name text, spill_txns int8, spill_count int8, spill_bytes int8, stream_txns \
            int8, stream_count int8, stream_bytes int8, total_txns int8, total_bytes int8, \
            stats_reset timestamptz",
    },
    Spec {
        name: "pg_stat_slru",
        oid: 12232,
        columns: "name text, blks_zeroed int8, blks_hit int8, blks_read int8, blks_written int8, \
            blks_exists int8, flushes int8, truncates int8, stats_reset timestamptz",
    },
    Spec {
        name: "pg_stat_ssl",
        oid: 12249,
        columns: "pid int4, ssl bool, version text, cipher text, bits int4, client_dn text, \
            client_serial numeric, issuer_dn text",
    },
    Spec {
        name: "pg_stat_subscription",
        oid: 12244,
        columns: "subid oid, subname name, pid int4, relid oid, received_lsn pg_lsn, \
            last_msg_send_time timestamptz, last_msg_receipt_time timestamptz, latest_end_lsn \
            pg_lsn, latest_end_time timestamptz",
    },
    Spec {
        name: "pg_stat_subscription_stats",
        oid: 12336,
        columns: "subid oid, subname name, apply_error_count int8, sync_error_count int8, \
            stats_reset timestamptz",
    },
    Spec { name: "pg_stat_sys_indexes", oid: 12188, columns: INDEX_NUMBERS },
    Spec { name: "pg_stat_sys_tables", oid: 12152, columns: TABLE_NUMBERS },
    Spec { name: "pg_stat_user_functions", oid: 12275, columns: FUNCTION_NUMBERS },
    Spec { name: "pg_stat_user_indexes", oid: 12192, columns: INDEX_NUMBERS },
    Spec { name: "pg_stat_user_tables", oid: 12161, columns: TABLE_NUMBERS },
    Spec {
        name: "pg_stat_wal",
        oid: 12293,
        columns: "wal_records int8, wal_fpi int8, wal_bytes numeric, wal_buffers_full int8, \
            wal_write int8, wal_sync int8, wal_write_time float8, wal_sync_time float8, \
            stats_reset timestamptz",
    },
    Spec {
        name: "pg_stat_wal_receiver",
        oid: 12236,
        columns: "pid int4, status text, receive_start_lsn pg_lsn, receive_start_tli int4, \
            written_lsn pg_lsn, flushed_lsn pg_lsn, received_tli int4, last_msg_send_time \
            timestamptz, last_msg_receipt_time timestamptz, latest_end_lsn pg_lsn, latest_end_time \
            timestamptz, slot_name text, sender_host text, sender_port int4, conninfo text",
    },
    Spec { name: "pg_stat_xact_all_tables", oid: 12147, columns: TRANSACTION_TABLE_NUMBERS },
    Spec { name: "pg_stat_xact_sys_tables", oid: 12157, columns: TRANSACTION_TABLE_NUMBERS },
    Spec { name: "pg_stat_xact_user_functions", oid: 12280, columns: FUNCTION_NUMBERS },
    Spec { name: "pg_stat_xact_user_tables", oid: 12166, columns: TRANSACTION_TABLE_NUMBERS },
    Spec { name: "pg_statio_all_indexes", oid: 12196, columns: INDEX_READS },
    Spec { name: "pg_statio_all_sequences", oid: 12209, columns: SEQUENCE_READS },
    Spec { name: "pg_statio_all_tables", oid: 12170, columns: TABLE_READS },
    Spec { name: "pg_statio_sys_indexes", oid: 12201, columns: INDEX_READS },
    Spec { name: "pg_statio_sys_sequences", oid: 12214, columns: SEQUENCE_READS },
    Spec { name: "pg_statio_sys_tables", oid: 12175, columns: TABLE_READS },
    Spec { name: "pg_statio_user_indexes", oid: 12205, columns: INDEX_READS },
    Spec { name: "pg_statio_user_sequences", oid: 12218, columns: SEQUENCE_READS },
    Spec { name: "pg_statio_user_tables", oid: 12179, columns: TABLE_READS },
    Spec {
        name: "pg_stats",
        oid: 12053,
        columns: "schemaname name, tablename name, attname name, inherited bool, null_frac float4, \
            avg_width int4, n_distinct float4, most_common_vals anyarray, most_common_freqs \
            float4[], histogram_bounds anyarray, correlation float4, most_common_elems anyarray, \
            most_common_elem_freqs float4[], elem_count_histogram float4[]",
    },
    Spec {
        name: "pg_stats_ext",
        oid: 12058,
        columns: "schemaname name, tablename name, statistics_schemaname name, statistics_name \
            name, statistics_owner name, attnames name[], exprs text[], kinds char[], inherited \
            bool, n_distinct pg_ndistinct, dependencies pg_dependencies, most_common_vals text[], \
            most_common_val_nulls bool[], most_common_freqs float8[], most_common_base_freqs \
            float8[]",
    },
    Spec {
        name: "pg_stats_ext_exprs",
        oid: 12063,
        columns: "schemaname name, tablename name, statistics_schemaname name, statistics_name \
            name, statistics_owner name, expr text, inherited bool, null_frac float4, avg_width \
            int4, n_distinct float4, most_common_vals anyarray, most_common_freqs float4[], \
            histogram_bounds anyarray, correlation float4, most_common_elems anyarray, \
            most_common_elem_freqs float4[], elem_count_histogram float4[]",
    },
    Spec {
        name: "pg_tables",
        oid: 12033,
        columns: "schemaname name, tablename name, tableowner name, tablespace name, hasindexes \
            bool, hasrules bool, hastriggers bool, rowsecurity bool",
    },
    Spec {
        name: "pg_timezone_abbrevs",
        oid: 12122,
        columns: "abbrev text, utc_offset interval, is_dst bool",
    },
    Spec {
        name: "pg_timezone_names",
        oid: 12126,
        columns: "name text, abbrev text, utc_offset interval, is_dst bool",
    },
    Spec { name: "pg_user", oid: 12014, columns: ROLES },
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
