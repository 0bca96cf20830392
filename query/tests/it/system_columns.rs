use stratalog_model::ErrorKind;

use crate::harness::{Database, login, run};

#[tokio::test]
async fn system_columns_are_there_by_name_and_not_in_stars() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, x int) WITH (granularity = '1s')").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01 00:00:00.5+00', 1), ('2024-01-01 00:00:00.7+00', 2), ('2024-01-01 00:00:01+00', 3)").await;
    assert_eq!(db.run("SELECT * FROM t").await.unwrap().names(), ["time", "x"]);
    let answer = db.run("SELECT *, _gsn, _tier FROM t ORDER BY _gsn").await.unwrap();
    assert_eq!(answer.names(), ["time", "x", "_gsn", "_tier"]);
    assert_eq!(
        answer.lines(),
        [
            "2024-01-01 00:00:00+00|1|1|journal",
            "2024-01-01 00:00:00+00|2|2|journal",
            "2024-01-01 00:00:01+00|3|3|journal"
        ]
    );
    let answer = db.run("SELECT a.*, b._tick - a._tick AS d FROM t a JOIN t AS b ON a._tick = b._tick - 1 ORDER BY a._gsn").await.unwrap();
    assert_eq!(answer.names(), ["time", "x", "d"]);
    assert_eq!(answer.lines().len(), 2);
    let answer = db.run("SELECT * FROM (SELECT x, _seq FROM t) s ORDER BY _seq").await.unwrap();
    assert_eq!(answer.names(), ["x", "_seq"]);
    let answer = db.run("WITH s AS (SELECT *, _gsn FROM t) SELECT * FROM s").await.unwrap();
    assert_eq!(answer.names(), ["time", "x", "_gsn"]);
    assert_eq!(db.rows("SELECT _origin, count(*) FROM t GROUP BY _origin").await, ["0|3"]);
    assert_eq!(db.kind("SELECT _nope FROM t").await, ErrorKind::UndefinedColumn);
    assert_eq!(db.rows("SELECT x FROM t ORDER BY time DESC, _seq DESC").await, ["3", "2", "1"]);
    let plan = db.plan("SELECT x FROM t ORDER BY time DESC, _seq DESC").await;
    assert!(!plan.contains("SortExec"), "{plan}");
    let base = db.rows("SELECT min(_tick) FROM t").await[0].clone();
    assert_eq!(
        db.rows(&format!("SELECT x FROM t WHERE _tick = {base} ORDER BY x")).await,
        ["1", "2"]
    );
    let plan = db.plan(&format!("SELECT x FROM t WHERE _tick = {base}")).await;
    assert!(!plan.contains("FilterExec"), "{plan}");
}

/// F6: a coarser index groups events, and changes nothing else.
#[tokio::test]
async fn groups_follow_the_index() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, x int)").await;
    let inserted = db.rows("INSERT INTO t VALUES ('2024-01-01 00:00:00.2+00', 1), ('2024-01-01 00:00:00.9+00', 2), ('2023-12-31 23:59:59.9+00', 3), ('2024-01-01 00:00:01+00', 4) RETURNING _group = _tick").await;
    assert_eq!(inserted, ["t", "t", "t", "t"]);
    db.tag("PREPARE distinct_groups AS SELECT count(*) FROM (SELECT DISTINCT _group FROM t) q")
        .await;
    assert_eq!(db.rows("EXECUTE distinct_groups").await, ["4"]);
    let filtered = "SELECT x FROM t WHERE _group = 0 ORDER BY x";
    assert_eq!(db.rows(filtered).await, Vec::<String>::new());
    db.tag("ALTER TABLE t SET (granularity = '1s')").await;
    assert_eq!(db.rows("EXECUTE distinct_groups").await, ["3"]);
    assert_eq!(db.rows(filtered).await, ["1", "2"]);
    let plan = db.plan(filtered).await;
    assert!(!plan.contains("FilterExec") && !plan.contains("ticks=all"), "{plan}");
    assert_eq!(
        db.rows("SELECT _group, time_bucket('1 second', time), count(*), min(x) FROM t GROUP BY 1, 2 ORDER BY 1").await,
        [
            "-1|2023-12-31 23:59:59+00|1|3",
            "0|2024-01-01 00:00:00+00|2|1",
            "1|2024-01-01 00:00:01+00|1|4"
        ]
    );
    let inserted = "INSERT INTO t VALUES ('2024-01-01 00:01:00.5+00', 5) RETURNING _group, *";
    assert_eq!(db.rows(inserted).await, ["60|2024-01-01 00:01:00.5+00|5"]);
    // A transaction block sees its own index, others that of before.
    let other = db.service.connect(login()).unwrap();
    db.tag("BEGIN").await;
    db.tag("ALTER TABLE t SET (granularity = '1min')").await;
    assert_eq!(db.rows("SELECT x FROM t WHERE _group = 0 ORDER BY x").await, ["1", "2", "4"]);
    assert_eq!(run(&other, filtered).await.unwrap().lines(), ["1", "2"]);
    db.tag("ROLLBACK").await;
    assert_eq!(db.rows(filtered).await, ["1", "2"]);
}
