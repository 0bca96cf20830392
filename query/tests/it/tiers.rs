//! Manual moves of events between tiers, and the resulting statistics.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use datafusion::scalar::ScalarValue;
use stratalog_model::{ColumnType, ErrorKind};
use stratalog_query::QuerySettings;

use crate::harness::{Answer, Database, figure, finish, run};

const CREATE: &str =
    "CREATE TABLE t (time timestamptz NOT NULL, k text NOT NULL, x int, PRIMARY KEY (k, time))";

async fn filled() -> Database {
    let db = Database::new();
    db.tag(CREATE).await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'b', 2)").await;
    db
}

/// The tiers of the events of `t`.
async fn tiers(db: &Database) -> Vec<String> {
    db.rows("SELECT _tier, count(*) FROM t GROUP BY _tier ORDER BY _tier").await
}

#[tokio::test]
async fn a_call_tells_what_it_moved() {
    let db = filled().await;
    assert_eq!(tiers(&db).await, ["journal|2"]);
    let answer = db.run("CALL stratalog.flush('t')").await.unwrap();
    assert_eq!(answer.names(), ["rows", "pieces_added", "pieces_removed"]);
    assert_eq!((answer.lines(), answer.tag.as_str()), (vec!["2|1|0".to_string()], "CALL"));
    assert_eq!(tiers(&db).await, ["tablet|2"]);
    assert_eq!(db.rows("CALL stratalog.flush('public.t')").await, ["0|0|0"]);
    db.tag("INSERT INTO t VALUES ('2024-01-01 12:00', 'c', 3)").await;
    assert_eq!(tiers(&db).await, ["journal|1", "tablet|2"]);
    // First the single event leaves the journal, then both tablets become one story.
    assert_eq!(db.rows("CALL stratalog.compact('t')").await, ["4|2|2"]);
    assert_eq!(tiers(&db).await, ["story|3"]);
    assert_eq!(db.rows("CALL stratalog.compact('t')").await, ["0|0|0"]);
    assert_eq!(db.rows("SELECT x FROM t ORDER BY time").await, ["1", "3", "2"]);
}

async fn call(db: &Database, told: &[Option<ColumnType>], value: ScalarValue) -> Answer {
    let parsed = db.session.parse("CALL stratalog.flush($1)").unwrap().remove(0);
    let prepared = db.session.prepare(&parsed, told).await.unwrap();
    assert_eq!(prepared.parameter_types(), [ColumnType::Text]);
    assert_eq!(prepared.result().unwrap().fields().len(), 3);
    finish(db.session.execute(&prepared, vec![value]).await.unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_parameter_names_the_table() {
    let db = filled().await;
    let text = |text: &str| ScalarValue::Utf8(Some(text.to_string()));
    assert_eq!(call(&db, &[], text("t")).await.lines(), ["2|1|0"]);
    assert_eq!(call(&db, &[Some(ColumnType::Text)], text("\"t\"")).await.lines(), ["0|0|0"]);
    let parsed = db.session.parse("CALL stratalog.flush($1)").unwrap().remove(0);
    let error = db.session.prepare(&parsed, &[Some(ColumnType::BigInt)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedFunction);
    assert!(error.message().contains("stratalog.flush(bigint)"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("CALL stratalog.flush('cpu')")));
    let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
    let error = db.session.execute(&prepared, vec![ScalarValue::Utf8(None)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NullNotAllowed);
    // A statement prepared before the creation of the table finds the table.
    let parsed = db.session.parse("CALL stratalog.compact('later')").unwrap().remove(0);
    let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
    let error = db.session.execute(&prepared, vec![]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedTable);
    db.tag("CREATE TABLE later (time timestamptz)").await;
    let answer = finish(db.session.execute(&prepared, vec![]).await.unwrap()).await.unwrap();
    assert_eq!(answer.lines(), ["0|0|0"]);
}

/// True if the events of `t` leave the journal without a caller.
async fn move_on_their_own(db: &Database, tier: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if tiers(db).await == [format!("{tier}|2")] {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

async fn filled_with_late_answers() -> (Database, Arc<AtomicU64>) {
    let late_ms = Arc::new(AtomicU64::new(0));
    let db = Database::with_late_answers(QuerySettings::default(), Arc::clone(&late_ms));
    db.tag(CREATE).await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'b', 2)").await;
    late_ms.store(1_500, Ordering::Relaxed);
    (db, late_ms)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_ends_at_the_timeout_and_its_move_does_not() {
    let (db, _) = filled_with_late_answers().await;
    db.tag("SET statement_timeout = '100ms'").await;
    let started = Instant::now();
    let error = db.error("CALL stratalog.flush('t')").await;
    assert_eq!(error.kind(), ErrorKind::QueryCanceled);
    assert!(started.elapsed() < Duration::from_millis(1_400), "{:?}", started.elapsed());
    assert!(move_on_their_own(&db, "tablet").await);
    let moves = "SELECT kind, state, rows, pieces_added FROM stratalog.moves";
    assert_eq!(db.rows(moves).await, ["flush|done|2|1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_request_ends_a_call() {
    let (db, _) = filled_with_late_answers().await;
    let session = Arc::clone(&db.session);
    let running = tokio::spawn(async move { run(&session, "CALL stratalog.compact('t')").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let key = db.session.key().clone();
    assert!(db.service.cancel(&key));
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueryCanceled);
    assert!(move_on_their_own(&db, "story").await);
}

#[tokio::test]
async fn explain_analyze_counts_in_each_tier() {
    let db = filled().await;
    let plan = async |sql: &str| db.rows(&format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
    let all = "SELECT k, x FROM t";
    let text = plan(all).await;
    assert_eq!(figure(&text, "journal_parts_read"), Some(1.0), "{text}");
    assert_eq!(figure(&text, "journal_rows_read"), Some(2.0), "{text}");
    assert!(figure(&text, "journal_bytes_read") > Some(0.0), "{text}");
    assert!(!text.contains("tablet_") && !text.contains("story_"), "{text}");

    db.tag("CALL stratalog.flush('t')").await;
    let text = plan(all).await;
    assert_eq!(figure(&text, "tablet_parts_read"), Some(1.0), "{text}");
    assert_eq!(figure(&text, "tablet_parts_pruned"), Some(0.0), "{text}");
    assert_eq!(figure(&text, "tablet_rows_read"), Some(2.0), "{text}");
    assert!(figure(&text, "tablet_bytes_read") > Some(0.0), "{text}");
    assert!(!text.contains("journal_") && !text.contains("story_"), "{text}");

    db.tag("INSERT INTO t VALUES ('2024-02-01', 'a', 3)").await;
    let text = plan("SELECT k, x FROM t WHERE time > '2024-01-15'").await;
    assert_eq!(figure(&text, "tablet_parts_read"), Some(0.0), "{text}");
    assert_eq!(figure(&text, "tablet_parts_pruned"), Some(1.0), "{text}");
    assert_eq!(figure(&text, "journal_parts_read"), Some(1.0), "{text}");
    assert_eq!(figure(&text, "output_rows"), Some(1.0), "{text}");

    db.tag("CALL stratalog.compact('t')").await;
    let text = plan("SELECT k, x FROM t WHERE k = 'b'").await;
    assert!(figure(&text, "story_parts_read") > Some(0.0), "{text}");
    assert!(figure(&text, "story_rows_read") > Some(0.0), "{text}");
    assert!(figure(&text, "story_bytes_read") > Some(0.0), "{text}");
    assert!(!text.contains("journal_") && !text.contains("tablet_"), "{text}");
}

/// The numbers of pruned and of read parts of a tier.
async fn parts(db: &Database, tier: &str, sql: &str) -> (f64, f64) {
    let text = db.rows(&format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
    let count = |what: &str| figure(&text, &format!("{tier}_parts_{what}")).unwrap_or(0.0);
    (count("pruned"), count("read"))
}

#[tokio::test]
async fn parts_without_the_wanted_values_are_passed_over() {
    let db = Database::new();
    db.tag("CREATE TABLE v (time timestamptz NOT NULL, n int, x double precision, t text)").await;
    // Three tablets with at least as many blocks.
    for part in 0..3 {
        let first = part * 1000;
        db.tag(&format!(
            "INSERT INTO v SELECT timestamptz '2024-01-01' + n * interval '1 s', \
             CASE WHEN n >= 1000 THEN n END, n / 2.0, 'text ' || lpad(n::text, 5, '0') \
             FROM generate_series({first}, {}) AS g(n)",
            first + 999
        ))
        .await;
        db.tag("CALL stratalog.flush('v')").await;
    }
    let all = parts(&db, "tablet", "SELECT n FROM v").await;
    assert!(all.0 == 0.0 && all.1 >= 3.0, "{all:?}");
    for (condition, rows) in [
        ("n > 2990", "9"),
        ("n >= 2990 AND x < 1e6", "10"),
        ("n IS NULL", "1000"),
        ("x < 2.0", "4"),
        ("x BETWEEN 600 AND 601", "3"),
        ("t = 'text 02000'", "1"),
        ("t IN ('text 02000', 'text 02999')", "2"),
        ("n = 1500 OR n = 1501", "2"),
        ("n > 5000", "0"),
    ] {
        let (pruned, read) =
            parts(&db, "tablet", &format!("SELECT n FROM v WHERE {condition}")).await;
        assert!(pruned >= 2.0 && pruned + read == all.1, "{condition}: {pruned}, {read}");
        let count = format!("SELECT count(*) FROM v WHERE {condition}");
        assert_eq!(db.rows(&count).await, [rows], "{condition}");
    }
    let plan = db.rows("EXPLAIN SELECT x FROM v WHERE n > 2990 AND t < 'u'").await.join("\n");
    assert!(plan.contains("values=n >= 2990, values=t <= \"u\""), "{plan}");
    // The minimum and maximum say nothing about a part with NaN.
    db.tag("INSERT INTO v VALUES ('2024-02-01', 1, 'NaN', '')").await;
    db.tag("CALL stratalog.flush('v')").await;
    assert_eq!(db.rows("SELECT n FROM v WHERE x > 1e6").await, ["1"]);
    db.tag("CALL stratalog.compact('v')").await;
    assert_eq!(db.rows("SELECT n FROM v WHERE x > 1e6").await, ["1"]);
    let none = parts(&db, "story", "SELECT n FROM v WHERE n > 5000").await;
    assert!(none.0 >= 1.0 && none.1 == 0.0, "{none:?}");
}
