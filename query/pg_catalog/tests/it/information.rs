use crate::fixture::{rows, session};

#[tokio::test]
async fn the_standard_views() {
    let session = session().await;
    assert_eq!(
        rows(
            &session,
            "SELECT column_name, data_type, is_nullable, udt_name, numeric_precision, datetime_precision \
             FROM information_schema.columns WHERE table_name = 'cpu' ORDER BY ordinal_position"
        )
        .await,
        [
            "time|timestamp with time zone|NO|timestamptz||9",
            "host|text|NO|text||",
            "region|text|YES|text||",
            "usage|double precision|YES|float8|53|",
            "n|numeric|YES|numeric|10|",
        ]
    );
    assert_eq!(
        rows(&session, "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')").await,
        ["other|log", "public|cpu"]
    );
    assert_eq!(
        rows(
            &session,
            "SELECT kcu.column_name, kcu.ordinal_position FROM information_schema.table_constraints tc \
             JOIN information_schema.key_column_usage kcu USING (constraint_schema, constraint_name) \
             WHERE tc.constraint_type = 'PRIMARY KEY' AND tc.table_name = 'cpu' ORDER BY 2"
        )
        .await,
        ["host|1", "time|2"]
    );
}

#[tokio::test]
async fn the_tables_of_the_system_itself() {
    let session = session().await;
    assert_eq!(
        rows(&session, "SELECT schema, name, rows, bytes, series, collision, key_columns FROM stratalog.chronicles ORDER BY 1 DESC").await,
        ["public|cpu|10|12288|2|first|[host]", "other|log|10|0|0|all|[]"]
    );
    let times = rows(
        &session,
        "SELECT last_time >= first_time, first_time IS NOT NULL FROM stratalog.chronicles",
    )
    .await;
    assert_eq!(times, ["true|true", "true|true"]);
    assert_eq!(rows(&session, "SELECT frames, poisoned FROM stratalog.journal").await, ["3|"]);
    assert_eq!(
        rows(&session, "SELECT committed_gsn, memory_bytes_max FROM stratalog.store").await,
        ["10|1048576"]
    );
    assert_eq!(
        rows(&session, "SELECT process_id, user_name, state FROM stratalog.sessions").await,
        ["77|ada|active"]
    );
    assert_eq!(
        rows(&session, "SELECT count(*), sum(broken) FROM stratalog.promises").await,
        ["10|0"]
    );
    assert_eq!(
        rows(&session, "SELECT pid, usename, datname FROM pg_stat_activity").await,
        ["77|ada|stratalog"]
    );
}

#[tokio::test]
async fn where_events_are_and_what_moves_them() {
    let session = session().await;
    // Dropped tables do not appear.
    assert_eq!(
        rows(&session, "SELECT schema, name, tier, number, file, first_tick, last_tick, rows, bytes, first_gsn, last_gsn, schema_version, state FROM stratalog.pieces").await,
        [
            "public|cpu|journal|||0|9|4|512|7|10||live",
            "public|cpu|tablet|4|00000004.tablet|-1000000000|3000000000|6|4096|1|6|1|live"
        ]
    );
    assert_eq!(
        rows(&session, "SELECT c.base - p.first_time = interval '1 second', p.last_time - c.base = interval '3 seconds' FROM stratalog.pieces p JOIN stratalog.chronicles c ON c.name = p.name WHERE p.tier = 'tablet'").await,
        ["true|true"]
    );
    assert_eq!(
        rows(&session, "SELECT number, name, kind, state, started, ended - started, rows, pieces_added, pieces_removed, error FROM stratalog.moves").await,
        [
            "1|cpu|flush|done|2024-01-01T00:00:00Z|PT1.5S|6|1|0|",
            "2|cpu|merge|failed|2024-01-01T00:00:00Z|PT1.5S|0|0|0|no space",
            "3|cpu|flush|running|2024-01-01T00:00:00Z||0|0|0|"
        ]
    );
    // Events in stories were in tablets before. Events of any time are accepted, so no time is
    // sealed.
    assert_eq!(
        rows(&session, "SELECT schema, name, committed, through, sealed_tick, sealed_time, tablet_tick, tablet_time IS NULL, story_tick, story_time = tablet_time FROM stratalog.watermarks").await,
        ["public|cpu|10|6|||3000000000|false||", "other|log|10|6|||2000|false|2000|true"]
    );
    assert_eq!(
        rows(&session, "SELECT schema, name, last_tick, last_time IS NULL, last_gsn FROM stratalog.tails ORDER BY name").await,
        ["public|cpu|9|false|10", "other|log|9|false|"]
    );
}

#[tokio::test]
async fn bytes_on_disk_by_kind() {
    let session = session().await;
    // Each kind of file has 16384 bytes and its number. One full segment is not needed, and 1000
    // bytes of the segment in use are free.
    assert_eq!(
        rows(
            &session,
            "SELECT kind, files, bytes FROM stratalog.storage WHERE place = 'directory'"
        )
        .await,
        [
            "journal_live|2|11288",
            "journal_recyclable|1|4096",
            "journal_preallocated|3|17385",
            "tablets|3|16386",
            "stories|3|16387",
            "spool|3|16388",
            "index|3|16389",
            "manifest|3|16390",
            "catalog|3|16391",
            "clock|3|16392",
            "spill|3|16393",
            "backups|3|16394",
            "other|3|16395",
        ]
    );
    assert_eq!(
        rows(
            &session,
            "SELECT kind, files, bytes FROM stratalog.storage WHERE place <> 'directory'"
        )
        .await,
        ["stories|0|0"]
    );
}

#[tokio::test]
async fn who_has_acquired_what() {
    let session = session().await;
    assert_eq!(
        rows(&session, "SELECT schema, name, process_id, standing, mode, first_tick, end_tick, end_time - first_time, expires - since FROM stratalog.acquisitions ORDER BY process_id").await,
        ["public|cpu|77|held|shared|0|1000000000|PT1S|", "public|cpu|78|held|shared||||PT5S"]
    );
    assert_eq!(
        rows(&session, "SELECT name, acquirers FROM stratalog.chronicles ORDER BY name").await,
        ["cpu|2", "log|0"]
    );
    assert_eq!(
        rows(&session, "SELECT process_id, acquired FROM stratalog.sessions").await,
        ["77|1"]
    );
}

#[tokio::test]
async fn every_system_table_can_be_read() {
    let session = session().await;
    let tables = rows(&session, "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid < 16384").await;
    assert!(tables.len() > 100, "{}", tables.len());
    for table in tables {
        let table = table.replace('|', ".");
        rows(&session, &format!("SELECT * FROM {table}")).await;
    }
}
