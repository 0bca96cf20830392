use std::sync::atomic::Ordering;

use stratalog_model::ErrorKind;

use crate::harness::{Database, figure, login, run};

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

/// F6: a coarser index groups events and has no other effect.
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
    // A transaction block sees its own index; other sessions see the earlier index.
    let other = db.service.connect(login()).unwrap();
    db.tag("BEGIN").await;
    db.tag("ALTER TABLE t SET (granularity = '1min')").await;
    assert_eq!(db.rows("SELECT x FROM t WHERE _group = 0 ORDER BY x").await, ["1", "2", "4"]);
    assert_eq!(run(&other, filtered).await.unwrap().lines(), ["1", "2"]);
    db.tag("ROLLBACK").await;
    assert_eq!(db.rows(filtered).await, ["1", "2"]);
}

/// Comparisons with event numbers restrict the read, in every tier.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_of_events_are_pushed_down() {
    let db = Database::of_small_parts();
    db.tag("CREATE TABLE other (time timestamptz, x int)").await;
    db.tag(
        "CREATE TABLE t (time timestamptz NOT NULL, k text NOT NULL, x int, PRIMARY KEY (k, time))",
    )
    .await;
    db.tag("INSERT INTO other VALUES ('2024-01-01', 0)").await;
    // The event of number n has `x = n`, `_seq = n` and `_gsn = n + 1`.
    db.tag("INSERT INTO t SELECT timestamptz '2024-01-01' + n * interval '1 s', 'k' || n % 7, n FROM generate_series(1, 400) AS g(n)").await;
    // Playback ends at the current time: the events lie up to 400 s after the clock's start.
    assert_eq!(db.rows("SELECT x FROM playback('t', 2)").await, [""; 0]);
    db.clock.0.fetch_add(500_000_000_000, Ordering::Relaxed);
    for tier in ["journal", "tablet", "story"] {
        match tier {
            "tablet" => drop(db.tag("CALL stratalog.flush('t')").await),
            "story" => drop(db.tag("CALL stratalog.compact('t')").await),
            _ => {}
        }
        assert_eq!(db.rows("SELECT DISTINCT _tier FROM t").await, [tier]);
        let base = db.rows("SELECT min(_tick) FROM t").await[0].parse::<i64>().unwrap();
        let second = 1_000_000_000;
        for (condition, pushed, expected) in [
            ("_gsn = 301".to_string(), "gsn [301, 302)", vec!["300"]),
            ("_toid = 301".to_string(), "gsn [301, 302)", vec!["300"]),
            ("_toid >= 400 AND _gsn < 402".to_string(), "gsn [400, 402)", vec!["399", "400"]),
            ("_toid IN (3, 5)".to_string(), "gsn [3, 6)", vec!["2", "4"]),
            ("_seq = 300".to_string(), "values=_seq 300 … 300", vec!["300"]),
            ("_seq BETWEEN 7 AND 8".to_string(), "values=_seq", vec!["7", "8"]),
            ("_seq > 398 AND k <> 'k0'".to_string(), "values=_seq >= 398", vec!["400"]),
            ("_seq < 3".to_string(), "values=_seq <= 3", vec!["1", "2"]),
            ("_seq = 300 AND k = 'k6'".to_string(), "values=_seq", vec!["300"]),
            ("_seq = 300 AND k = 'k5'".to_string(), "values=_seq", vec![]),
            (
                "_seq IS NOT NULL AND _seq <> 5 AND x < 7".to_string(),
                "values=",
                vec!["1", "2", "3", "4", "6"],
            ),
            (format!("_tick = {}", base + 9 * second), "ticks=[", vec!["10"]),
            (format!("_tick > {}", base + 398 * second), "ticks=[", vec!["400"]),
        ] {
            let plan = db.plan(&format!("SELECT x FROM t WHERE {condition}")).await;
            assert!(plan.contains(pushed), "{tier}, {condition}: {plan}");
            let sql = format!("SELECT x FROM t WHERE {condition} ORDER BY x");
            assert_eq!(db.rows(&sql).await, expected, "{tier}, {condition}");
            let sql = format!("SELECT x FROM t WHERE {condition} ORDER BY time DESC, _seq DESC");
            let descending: Vec<&str> = expected.iter().rev().copied().collect();
            assert_eq!(db.rows(&sql).await, descending, "{tier}, {condition}");
        }
        for at in [1, 7, 300, 400] {
            let record = format!("SELECT x, k, _gsn, _seq FROM read_record({}, 't')", at + 1);
            let expected = format!("{at}|k{}|{}|{at}", at % 7, at + 1);
            assert_eq!(db.rows(&record).await, [expected], "{tier}");
            let all = db.run(&format!("SELECT * FROM read_record({}, 't')", at + 1)).await.unwrap();
            assert_eq!(all.names(), ["time", "k", "x"], "{tier}");
            assert_eq!(all.lines().len(), 1, "{tier}");
        }
        assert_eq!(db.rows("SELECT count(*) FROM read_record(5, 't')").await, ["1"], "{tier}");
        assert_eq!(db.rows("SELECT count(*) FROM read_record(1, 't')").await, ["0"], "{tier}");
        let replayed = "SELECT x FROM replay('t', ARRAY['gsn [11, 13)', 'gsn [301, 302)'])";
        assert_eq!(db.rows(replayed).await, ["10", "11", "300"], "{tier}");
        assert_eq!(db.rows("SELECT x FROM playback('t', 2)").await, ["400", "399"], "{tier}");
    }
    // The scan skips the rest of a tablet block without the arrival number.
    db.tag("CREATE TABLE w (time timestamptz NOT NULL, x int)").await;
    for first in [1, 101, 201] {
        db.tag(&format!("INSERT INTO w SELECT timestamptz '2024-01-01' + n * interval '1 s', n FROM generate_series({first}, {}) AS g(n)", first + 99)).await;
        db.tag("CALL stratalog.flush('w')").await;
    }
    let rows_read = async |condition: &str| {
        let plan = db.rows(&format!("EXPLAIN ANALYZE SELECT x FROM w WHERE {condition}")).await;
        figure(&plan.join("\n"), "tablet_rows_read").unwrap()
    };
    let (all, one) = (rows_read("x > 0").await, rows_read("_seq = 150").await);
    assert!(one <= 100.0 && all >= 300.0, "{one} of {all} rows were read");
}
