use stratalog_model::ErrorKind;

use crate::harness::Database;

async fn cpu() -> Database {
    let db = Database::new();
    db.tag("CREATE TABLE cpu (time timestamptz NOT NULL, hostname text NOT NULL, usage_user double precision, usage_system double precision, PRIMARY KEY (hostname, time)) WITH (collision = 'last')").await;
    db.tag("INSERT INTO cpu SELECT timestamptz '2016-01-01 00:00:00+00' + i * interval '10 seconds', 'host_' || h, (i * 7 + h * 13) % 100, i % 50 FROM generate_series(0, 719) AS a(i), generate_series(0, 9) AS b(h)").await;
    db
}

#[tokio::test]
async fn tsbs_shapes() {
    let db = cpu().await;
    let window =
        "time >= '2016-01-01 00:10:00.000000 +0000' AND time < '2016-01-01 01:10:00.000000 +0000'";
    let answer = db.run(&format!("SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) as max_usage_user FROM cpu WHERE hostname IN ('host_5') AND {window} GROUP BY minute ORDER BY minute ASC")).await.unwrap();
    assert_eq!(answer.names(), ["minute", "max_usage_user"]);
    assert_eq!(answer.lines().len(), 60);
    let plan = db.plan(&format!("SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) FROM cpu WHERE hostname IN ('host_5', 'host_6') AND {window} GROUP BY minute ORDER BY minute")).await;
    assert!(plan.contains("keys=hostname in 2 value(s)"), "{plan}");
    assert!(!plan.contains("FilterExec"), "{plan}");
    assert_eq!(db.rows(&format!("WITH cpu_avg AS (SELECT time_bucket('3600 seconds', time) as hour, hostname, avg(usage_user) as mean_usage_user FROM cpu WHERE {window} GROUP BY 1, 2) SELECT hour, hostname, mean_usage_user FROM cpu_avg ORDER BY hour, hostname")).await.len(), 20);
    let rows = db.rows("SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) FROM cpu WHERE time < '2016-01-01 00:30:53.579924 +0000' GROUP BY minute ORDER BY minute DESC LIMIT 5").await;
    assert_eq!(rows.len(), 5);
    assert!(rows[0].starts_with("2016-01-01 00:30:00+00|"), "{rows:?}");
    let wanted =
        db.rows("SELECT count(*) FROM cpu WHERE usage_user > 90 AND hostname = 'host_0'").await;
    let high = db.rows("SELECT * FROM cpu WHERE usage_user > 90.0 and time >= '2016-01-01 00:00:00 +0000' AND time < '2016-01-02 00:00:00 +0000' AND hostname IN ('host_0') ").await;
    assert_eq!(wanted, [high.len().to_string()]);
    let last =
        db.rows("SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY hostname, time DESC").await;
    assert_eq!(last.len(), 10);
    assert!(last.iter().all(|row| row.starts_with("2016-01-01 01:59:50+00|")), "{last:?}");
}

#[tokio::test]
async fn names_of_columns_and_equal_names() {
    let db = cpu().await;
    let answer = db.run("SELECT max(usage_user), max(usage_system), hostname, hostname, 1, 2 FROM cpu GROUP BY hostname LIMIT 1").await.unwrap();
    assert_eq!(answer.names(), ["max", "max", "hostname", "hostname", "?column?", "?column?"]);
    let answer = db.run("SELECT *, hostname FROM cpu LIMIT 1").await.unwrap();
    assert_eq!(answer.names(), ["time", "hostname", "usage_user", "usage_system", "hostname"]);
    let answer = db.run("SELECT a.*, b.* FROM cpu a JOIN cpu b ON a.hostname = b.hostname AND a.time = b.time LIMIT 3").await.unwrap();
    assert_eq!(answer.names().len(), 8);
    assert_eq!(answer.lines().len(), 3);
}

#[tokio::test]
async fn counts_and_bounds_come_from_statistics() {
    let db = cpu().await;
    for sql in [
        "SELECT count(*) FROM cpu",
        "SELECT min(time), max(time) FROM cpu",
        "SELECT count(*) FROM cpu WHERE time >= '2016-01-01 01:00:00+00'",
        "SELECT count(time), count(*) FROM cpu",
    ] {
        let plan = db.plan(sql).await;
        assert!(!plan.contains("ChronicleScan"), "{sql}\n{plan}");
    }
    assert_eq!(
        db.rows("SELECT count(*), min(time), max(time) FROM cpu").await,
        ["7200|2016-01-01 00:00:00+00|2016-01-01 01:59:50+00"]
    );
    assert_eq!(
        db.rows("SELECT count(*) FROM cpu WHERE time >= '2016-01-01 01:00:00+00'").await,
        ["3600"]
    );
    assert_eq!(
        db.rows("SELECT count(*), min(time) FROM cpu WHERE time > '2030-01-01'").await,
        ["0|NULL"]
    );
    assert_eq!(
        db.rows("SELECT count(*) FROM cpu WHERE usage_user >= 50").await,
        db.rows("SELECT sum(1) FROM cpu WHERE usage_user >= 50").await
    );
}

#[tokio::test]
async fn order_by_time_needs_no_sort() {
    let db = cpu().await;
    for sql in [
        "SELECT time, hostname FROM cpu ORDER BY time",
        "SELECT time, hostname FROM cpu ORDER BY time DESC",
        "SELECT time, hostname FROM cpu ORDER BY time DESC LIMIT 10",
        "SELECT time AS t, usage_user + 1 FROM cpu WHERE usage_user > 10 ORDER BY t",
    ] {
        let plan = db.plan(sql).await;
        assert!(!plan.contains("SortExec"), "{sql}\n{plan}");
    }
    let ascending = db.rows("SELECT time FROM cpu ORDER BY time").await;
    let mut sorted = ascending.clone();
    sorted.sort();
    assert_eq!(ascending, sorted);
    let mut descending = db.rows("SELECT time FROM cpu ORDER BY time DESC").await;
    descending.reverse();
    assert_eq!(ascending, descending);
    let newest = db.rows("SELECT time FROM cpu ORDER BY time DESC LIMIT 10").await;
    assert_eq!(newest, vec!["2016-01-01 01:59:50+00"; 10]);
    let plan = db.plan("SELECT time FROM cpu ORDER BY time, hostname").await;
    assert!(plan.contains("SortExec"), "{plan}");
    assert_eq!(db.rows("SELECT count(*) FROM (SELECT * FROM cpu LIMIT 7) s").await, ["7"]);
    assert_eq!(
        db.rows("SELECT time FROM (SELECT * FROM cpu LIMIT 7) s ORDER BY time").await.len(),
        7
    );
}

#[tokio::test]
async fn all_of_a_query_language() {
    let db = cpu().await;
    assert_eq!(db.rows("VALUES (1, 'a'), (2, 'b')").await, ["1|a", "2|b"]);
    assert_eq!(db.rows("TABLE cpu LIMIT 0").await.len(), 0);
    assert_eq!(db.rows("SELECT hostname, row_number() OVER (PARTITION BY hostname ORDER BY time) AS r FROM cpu WHERE time < '2016-01-01 00:00:20+00' AND hostname = 'host_1' ORDER BY r").await, ["host_1|1", "host_1|2"]);
    assert_eq!(
        db.rows("SELECT (SELECT max(usage_user) FROM cpu) = max(usage_user) FROM cpu").await,
        ["t"]
    );
    assert_eq!(db.rows("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n").await, ["15"]);
    assert_eq!(db.rows("SELECT 1 EXCEPT SELECT 2 UNION SELECT 3 ORDER BY 1").await, ["1", "3"]);
    assert_eq!(
        db.rows(
            "SELECT count(*) FROM cpu a, cpu b WHERE a.hostname = b.hostname AND a.time = b.time"
        )
        .await,
        ["7200"]
    );
    assert_eq!(
        db.rows("SELECT DISTINCT hostname FROM cpu ORDER BY hostname LIMIT 2").await,
        ["host_0", "host_1"]
    );
    assert_eq!(
        db.rows("SELECT \"hostname\" FROM \"cpu\" AS Q WHERE q.HOSTNAME = 'host_3' LIMIT 1").await,
        ["host_3"]
    );
}

#[tokio::test]
async fn errors_are_postgresqls() {
    let db = cpu().await;
    for (sql, kind) in [
        ("SELECT nope FROM cpu", ErrorKind::UndefinedColumn),
        ("SELECT x.hostname FROM cpu", ErrorKind::UndefinedTable),
        ("SELECT * FROM nope", ErrorKind::UndefinedTable),
        ("SELECT * FROM nope.nope", ErrorKind::UndefinedTable),
        ("SELECT nope(1)", ErrorKind::UndefinedFunction),
        ("SELECT hostname, max(usage_user) FROM cpu", ErrorKind::GroupingError),
        ("SELECT hostname FROM cpu a, cpu b", ErrorKind::AmbiguousColumn),
        ("SELECT 1/0", ErrorKind::DivisionByZero),
        ("SELECT 'a'::int", ErrorKind::InvalidTextRepresentation),
        ("SELECT '2024-99-01'::timestamptz", ErrorKind::DatetimeOverflow),
        ("SELECT * FROM cpu WHERE usage_user = 'abc'", ErrorKind::InvalidTextRepresentation),
        ("SELECT * FROM cpu WHERE time > 'noon'", ErrorKind::InvalidDatetimeFormat),
        ("SELEC 1", ErrorKind::SyntaxError),
        ("SELECT $1", ErrorKind::UndefinedParameter),
        ("SELECT (SELECT hostname FROM cpu)", ErrorKind::CardinalityViolation),
    ] {
        let error = db.error(sql).await;
        assert_eq!(error.kind(), kind, "{sql}: {error}");
        assert!(!error.to_string().contains("bug in DataFusion"), "{error}");
    }
    assert_eq!(db.error("SELECT * FROM nope").await.message(), "relation \"nope\" does not exist");
    assert_eq!(
        db.error("SELECT usage_usr FROM cpu").await.hint(),
        Some("Perhaps you meant the column \"usage_user\".")
    );
    assert_eq!(
        db.error("SELECT head_of_log(5)").await.hint(),
        Some("There is head_of_log(), head_of_log(text).")
    );
    let after = db.error("INSERT INTO cpu (time) VALUES (now()) AFTER GSN 1.5").await;
    assert!(after.hint().is_some_and(|hint| hint.contains("without a fraction")), "{after}");
}

#[tokio::test]
async fn postgresqls_ways_of_saying_it() {
    let db = cpu().await;
    assert_eq!(
        db.rows("SELECT NULL, NULL::int, 1, 1, 'NaN'::float8, 'NaN'::real").await,
        ["NULL|NULL|1|1|NaN|NaN"]
    );
    assert_eq!(
        db.run("SELECT NULL, NULL::int, 1, 1").await.unwrap().names(),
        ["?column?", "int4", "?column?", "?column?"]
    );
    assert_eq!(db.rows("SELECT 1 AS x UNION SELECT 2.5 ORDER BY 1").await, ["1.0", "2.5"]);
    assert_eq!(db.rows("SELECT NULL UNION SELECT 1 ORDER BY 1").await, ["1", "NULL"]);
    assert_eq!(db.rows("SELECT g FROM generate_series(1, 3) AS g").await, ["1", "2", "3"]);
    assert_eq!(db.rows("SELECT generate_series FROM generate_series(1, 2)").await, ["1", "2"]);
    assert_eq!(db.rows("SELECT g FROM generate_series(timestamptz '2024-01-01 00:00+00', timestamptz '2024-01-02 00:00 +0000', interval '12 hours') AS g").await.len(), 3);
    assert_eq!(
        db.rows("SELECT hostname FROM cpu ORDER BY hostname, time FETCH FIRST 1 ROW ONLY").await,
        ["host_0"]
    );
    assert_eq!(db.rows("SELECT x FROM generate_series(1, 5) AS t(x) WHERE x > ALL (SELECT y FROM generate_series(1, 3) AS u(y)) ORDER BY x").await, ["4", "5"]);
    assert_eq!(db.rows("SELECT x FROM generate_series(1, 5) AS t(x) WHERE x < ANY (SELECT y FROM generate_series(1, 3) AS u(y)) ORDER BY x").await, ["1", "2"]);
    assert_eq!(db.rows("SELECT x FROM generate_series(1, 5) AS t(x) WHERE x = ANY (SELECT y FROM generate_series(1, 2) AS u(y)) ORDER BY x").await, ["1", "2"]);
    assert_eq!(db.rows("SELECT x FROM generate_series(1, 3) AS t(x) WHERE x > ALL (SELECT y FROM generate_series(1, 0) AS u(y)) ORDER BY x").await, ["1", "2", "3"]);
    assert_eq!(
        db.rows(
            "SELECT count(*) FROM generate_series(1, 3) AS t(x) WHERE x > ALL (SELECT NULL::bigint)"
        )
        .await,
        ["0"]
    );
    for (filter, wanted) in [
        ("time < '9999-12-31'", "7200"),
        ("time > '3000-01-01'", "0"),
        ("time > '0001-01-01'", "7200"),
        ("time BETWEEN '0001-01-01' AND '2016-01-01 01:00:00+00'", "3610"),
        ("NOT time > '3000-01-01'", "7200"),
        ("time <> '9999-12-31'", "7200"),
    ] {
        assert_eq!(
            db.rows(&format!("SELECT count(*) FROM cpu WHERE {filter}")).await,
            [wanted],
            "{filter}"
        );
    }
    assert_eq!(
        db.kind("SELECT hostname FROM cpu WHERE row_number() OVER () = 1").await,
        ErrorKind::WindowingError
    );
    assert_eq!(
        db.kind("SELECT hostname FROM cpu WHERE max(usage_user) = 1").await,
        ErrorKind::GroupingError
    );
    assert_eq!(
        db.kind("SELECT hostname FROM cpu ORDER BY 2").await,
        ErrorKind::InvalidColumnReference
    );
    assert_eq!(
        db.kind("SELECT DISTINCT ON (hostname) * FROM cpu ORDER BY time").await,
        ErrorKind::InvalidColumnReference
    );
    assert_eq!(
        db.rows(
            "INSERT INTO cpu VALUES ('2020-01-01', 'new') RETURNING (SELECT count(*) FROM cpu)"
        )
        .await,
        ["7200"]
    );
}
