use stratalog_model::ErrorKind;

use crate::harness::Database;

#[tokio::test]
async fn plans_are_lines_of_one_column() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, x int)").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    let answer = db.run("EXPLAIN SELECT x FROM t WHERE x > 0 ORDER BY time").await.unwrap();
    assert_eq!(answer.names(), ["QUERY PLAN"]);
    assert_eq!(answer.tag, "EXPLAIN");
    assert!(answer.lines().len() > 1);
    assert!(answer.lines().join("\n").contains("table=public.t"));
    for sql in [
        "EXPLAIN ANALYZE SELECT x FROM t",
        "EXPLAIN (ANALYZE, VERBOSE) SELECT x FROM t",
        "EXPLAIN (ANALYZE true, TIMING off) SELECT x FROM t",
    ] {
        let text = db.rows(sql).await.join("\n");
        assert!(text.contains("Execution Time:") && text.contains("output_rows=1"), "{text}");
    }
    assert!(db.rows("EXPLAIN VERBOSE SELECT x FROM t").await[0].contains("Logical plan"));
    assert_eq!(db.kind("EXPLAIN (FORMAT json) SELECT 1").await, ErrorKind::FeatureNotSupported);
    assert_eq!(
        db.kind("EXPLAIN INSERT INTO t VALUES ('2024-01-01', 1)").await,
        ErrorKind::FeatureNotSupported
    );
    assert_eq!(db.kind("EXPLAIN SELECT * FROM nope").await, ErrorKind::UndefinedTable);
}
