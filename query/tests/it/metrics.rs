//! The metrics of statements.

use stratalog_metrics::value_on_page;

use crate::harness::Database;

/// The current value of a series.
fn value(db: &Database, series: &str) -> f64 {
    let page = db.service.metrics_page();
    value_on_page(&page, series).unwrap_or_else(|| panic!("{series} is missing in\n{page}"))
}

/// The number of executed statements of a kind.
fn executed(db: &Database, kind: &str) -> f64 {
    value(db, &format!("stratalog_query_execution_seconds_count{{statement=\"{kind}\"}}"))
}

#[tokio::test]
async fn each_statement_is_measured_once() {
    let db = Database::new();
    db.tag("CREATE TABLE m (time timestamptz, v int)").await;
    db.tag("INSERT INTO m VALUES ('2024-01-01', 1), ('2024-01-02', 2)").await;
    assert_eq!(executed(&db, "definition"), 1.0);
    assert_eq!(executed(&db, "write"), 1.0);
    let (reads, others) = (executed(&db, "read"), executed(&db, "session"));
    let rows = value(&db, "stratalog_query_rows_sum");
    assert_eq!(db.rows("SELECT v FROM m ORDER BY v").await, ["1", "2"]);
    assert_eq!(executed(&db, "read"), reads + 1.0);
    assert_eq!(value(&db, "stratalog_query_rows_sum"), rows + 2.0);
    assert!(value(&db, "stratalog_query_planning_seconds_count{step=\"logical\"}") >= 1.0);

    // EXECUTE counts as the statement that runs.
    db.tag("PREPARE p AS SELECT v FROM m WHERE v > $1").await;
    assert_eq!(executed(&db, "session"), others + 1.0);
    assert_eq!(db.rows("EXECUTE p(1)").await, ["2"]);
    assert_eq!(executed(&db, "session"), others + 1.0);
    assert_eq!(executed(&db, "read"), reads + 2.0);
    assert_eq!(value(&db, "stratalog_query_rows_sum"), rows + 3.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_statement_is_counted_once() {
    let db = Database::new();
    db.tag("SET statement_timeout = '50ms'").await;
    for count in [1.0, 2.0] {
        db.error("SELECT pg_sleep(30)").await;
        assert_eq!(value(&db, "stratalog_query_cancelled_total"), count);
    }
    assert_eq!(value(&db, "stratalog_query_memory_refused_total"), 0.0);
}
