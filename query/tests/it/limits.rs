//! Runaway statements fail alone: cancellation, timeouts, memory, nesting, shutdown (CL-10).

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::StreamExt;
use stratalog_model::ErrorKind;
use stratalog_query::{CancelKey, Outcome, QuerySettings, STACK_BYTES};

use crate::harness::{Database, login, run};

const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 100000000000) AS a(i) WHERE i % 7 = 3 AND i::text LIKE '%99%'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_request_ends_a_statement() {
    let db = Database::new();
    let session = Arc::clone(&db.session);
    let running = tokio::spawn(async move { run(&session, ENDLESS).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let key = db.session.key().clone();
    let mut wrong = key.clone();
    wrong.secret[0] ^= 1;
    assert!(!db.service.cancel(&wrong));
    wrong.secret.truncate(0);
    assert!(!db.service.cancel(&wrong));
    let started = Instant::now();
    assert!(db.service.cancel(&key));
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QueryCanceled);
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(db.rows("SELECT 1").await, ["1"], "the session goes on");
    assert!(!db.service.cancel(&CancelKey { process_id: key.process_id + 1, ..key }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_covers_execution() {
    let db = Database::new();
    db.tag("SET statement_timeout = '100ms'").await;
    let started = Instant::now();
    let error = db.error(ENDLESS).await;
    assert_eq!(error.kind(), ErrorKind::QueryCanceled);
    assert!(error.message().contains("statement timeout"));
    assert!(started.elapsed() < Duration::from_secs(10));
    let error = db.error("SELECT pg_sleep(30)").await;
    assert_eq!(error.kind(), ErrorKind::QueryCanceled);
    db.tag("SET statement_timeout = 0").await;
    assert_eq!(db.rows("SELECT 1").await, ["1"]);
}

#[tokio::test]
async fn the_memory_budget_fails_the_statement_and_nothing_else() {
    let db = Database::with(QuerySettings {
        memory_bytes_max: 4 << 20,
        spill_bytes_max: 1 << 20,
        ..QuerySettings::default()
    });
    let error = db.error("SELECT array_agg(i::text || 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') FROM generate_series(1, 2000000) AS a(i)").await;
    assert!(matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::DiskFull), "{error}");
    assert!(error.hint().is_some());
    let error = db.error("SELECT i::text || 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' AS s FROM generate_series(1, 2000000) AS a(i) ORDER BY s DESC").await;
    assert!(matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::DiskFull), "{error}");
    assert_eq!(db.rows("SELECT count(*) FROM generate_series(1, 1000) AS a(i)").await, ["1000"]);
}

/// The scan holds one row of each series until all series are read, for very many series.
#[tokio::test]
async fn newest_rows_of_too_many_series_fail_alone() {
    let settings = QuerySettings { memory_bytes_max: 4 << 20, ..QuerySettings::default() };
    let db = Database::with(settings);
    db.tag("CREATE TABLE s (time TIMESTAMPTZ, host TEXT, note TEXT, PRIMARY KEY (host, time))")
        .await;
    // Few rows at a time: batches that wait for the INSERT count as well.
    for part in 0..10 {
        db.tag(&format!(
            "INSERT INTO s SELECT timestamptz '2024-01-01' + i * interval '1 second', 'host' || i, \
             repeat('x', 100) FROM generate_series({}, {}) AS g(i)",
            part * 4000 + 1,
            (part + 1) * 4000,
        ))
        .await;
    }
    let newest = |hosts: &str| {
        format!(
            "SELECT count(note) FROM (SELECT DISTINCT ON (host) * FROM s {hosts} ORDER BY host, time DESC) q"
        )
    };
    for compacted in [false, true] {
        if compacted {
            db.rows("CALL stratalog.compact('s')").await;
        }
        let plan = db.plan(&newest("")).await;
        assert!(plan.contains("newest of each"), "{plan}");
        let error = db.error("SELECT DISTINCT ON (host) * FROM s ORDER BY host, time DESC").await;
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        assert!(error.detail().is_some_and(|it| it.contains("rows of each group")), "{error}");
        let few = newest("WHERE time < timestamptz '2024-01-01' + interval '100 seconds'");
        assert_eq!(db.rows(&few).await, ["99"], "the session goes on");
    }
}

#[tokio::test]
async fn large_sorts_spill() {
    let db = Database::with(QuerySettings {
        memory_bytes_max: 24 << 20,
        parallel_streams_max: 1,
        ..QuerySettings::default()
    });
    let rows = db.rows("SELECT max(r), count(*) FROM (SELECT i, row_number() OVER (ORDER BY i::text || 'xxxxxxxxxxxxxxxxxxxxxxxx' DESC) AS r FROM generate_series(1, 600000) AS a(i)) q").await;
    assert_eq!(rows, ["600000|600000"]);
}

/// A join without room for its left side reads the left side again after a first start.
#[tokio::test]
async fn joins_that_spill_read_their_tables_again() {
    let settings = QuerySettings { memory_bytes_max: 1 << 20, ..QuerySettings::default() };
    let db = Database::with(settings);
    db.tag("CREATE TABLE z (time TIMESTAMPTZ PRIMARY KEY, i BIGINT, s TEXT)").await;
    db.tag("INSERT INTO z SELECT timestamptz '2024-01-01' + i * interval '1 second', i, 'row ' || i || repeat('x', 100) FROM generate_series(0, 33999) AS g(i)").await;
    let join = "SELECT a.i, left(b.s, 9) FROM z a, z b WHERE a.i + b.i = 67998 AND a.s >= b.s";
    let plan = db.rows(&format!("EXPLAIN ANALYZE {join}")).await.join("\n");
    assert!(plan.contains("streams=4"), "nothing was read again: {plan}");
    assert_eq!(db.rows(join).await, ["33999|row 33999"]);
}

#[tokio::test]
async fn a_dropped_result_frees_its_memory() {
    let db = Database::new();
    for _ in 0..3 {
        let parsed = db
            .session
            .parse("SELECT i FROM generate_series(1, 100000000) AS a(i) ORDER BY i % 1000")
            .unwrap()
            .remove(0);
        let Outcome::Rows(mut rows) = db.session.run(&parsed).await.unwrap() else { panic!() };
        // The statement has started, with or without its first rows.
        let _ = futures::poll!(rows.next());
        drop(rows);
    }
    // Sort tasks end at their next batch.
    let mut tries = 0;
    while db.session.is_running() {
        assert!(tries < 100, "a dropped result runs on");
        tries += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(db.rows("SELECT 1").await, ["1"]);
}

#[test]
fn deep_and_long_statements_are_errors() {
    // The same stack size as the server's threads.
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    let checked = thread.spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(check_deep_and_long_statements());
    });
    checked.unwrap().join().unwrap();
}

async fn check_deep_and_long_statements() {
    let db = Database::new();
    let chain = format!("SELECT {}", vec!["1"; 250].join(" + "));
    assert_eq!(db.rows(&chain).await, ["250"]);
    let ors: Vec<String> = (0..900).map(|i| format!("x = {i}")).collect();
    let sql =
        format!("SELECT count(*) FROM generate_series(1, 10) AS a(x) WHERE {}", ors.join(" OR "));
    assert_eq!(db.rows(&sql).await, ["10"]);
    let unions = format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(245));
    assert_eq!(db.rows(&format!("SELECT count(*) FROM ({unions}) q")).await, ["246"]);
    let nested = format!("SELECT {}1{}", "(".repeat(80), ")".repeat(80));
    assert_eq!(db.rows(&nested).await, ["1"]);
    for (sql, wanted) in deep_statements() {
        assert_eq!(db.rows(&sql).await, [wanted], "{}", start_of(&sql));
    }
    for sql in too_deep_statements() {
        let error = db.error(&sql).await;
        assert_eq!(error.kind(), ErrorKind::StatementTooComplex, "{}: {error}", start_of(&sql));
    }
    let long = format!("SELECT '{}'", "x".repeat(17 << 20));
    assert_eq!(db.kind(&long).await, ErrorKind::LimitExceeded);
}

fn start_of(sql: &str) -> &str {
    sql.get(..80).unwrap_or(sql)
}

/// `inner` with `count` copies of `open` and `close` around it.
fn around(open: &str, inner: &str, close: &str, count: usize) -> String {
    format!("{}{inner}{}", open.repeat(count), close.repeat(count))
}

/// Deep statements that PostgreSQL can run, in the style of dashboards and object mappers.
fn deep_statements() -> Vec<(String, &'static str)> {
    let ors: Vec<String> = (0..1_500).map(|i| format!("x = {i}")).collect();
    let ands: Vec<String> = (100..1_600).map(|i| format!("x <> {i}")).collect();
    let of_ten = "SELECT count(*) FROM generate_series(1, 10) AS a(x) WHERE";
    let unions = vec!["SELECT 1"; 300];
    let numbered: Vec<String> = (0..300).map(|i| format!("SELECT {i}")).collect();
    vec![
        (format!("{of_ten} {}", ors.join(" OR ")), "10"),
        (format!("{of_ten} {}", ands.join(" AND ")), "10"),
        (format!("SELECT count(*) FROM ({}) q", unions.join(" UNION ALL ")), "300"),
        (format!("SELECT count(*) FROM ({}) q", numbered.join(" UNION ")), "300"),
        (format!("SELECT {}", around("(", "1", ")", 500)), "1"),
        (format!("SELECT {}", around("(1 + ", "1", ")", 75)), "76"),
        (format!("{of_ten} {}", around("(x > 0 AND ", "x < 100", ")", 75)), "10"),
        (around("SELECT * FROM (", "SELECT 1", ") q", 200), "1"),
        (around("SELECT (", "SELECT 1", ")", 100), "1"),
        (
            format!(
                "{of_ten} {}",
                around(
                    "x IN (SELECT x FROM generate_series(1, 10) AS a(x) WHERE ",
                    "x = 3",
                    ")",
                    60
                )
            ),
            "1",
        ),
        (format!("SELECT {}", around("CASE WHEN true THEN ", "1", " END", 250)), "1"),
        (format!("SELECT {}true", "NOT ".repeat(100_000)), "t"),
        (format!("SELECT {}1", "- ".repeat(100_000)), "1"),
        (format!("SELECT {}1", "+ ".repeat(100_000)), "1"),
        (format!("SELECT 1{}", "::int".repeat(100)), "1"),
        (format!("SELECT {}", around("abs(", "1", ")", 100)), "1"),
        (format!("SELECT length({})", vec!["'a'"; 240].join(" || ")), "240"),
    ]
}

/// Statements too deep for any stack.
fn too_deep_statements() -> Vec<String> {
    const COUNT: usize = 100_000;
    let from = "SELECT 1 FROM generate_series(1, 1) AS a(x)";
    vec![
        format!("SELECT {}", around("abs(", "1", ")", COUNT)),
        format!("SELECT {}", around("(1 + ", "1", ")", COUNT)),
        format!("{from} WHERE {}", vec!["x = 1"; COUNT].join(" OR ")),
        format!("{from} WHERE {}", vec!["x = 1"; COUNT].join(" AND ")),
        vec!["SELECT 1"; COUNT].join(" UNION ALL "),
        vec!["SELECT 1"; COUNT].join(" UNION "),
        vec!["SELECT 1"; COUNT].join(" EXCEPT "),
        vec!["SELECT 1"; COUNT].join(" UNION SELECT 2 UNION ALL "),
        around("SELECT * FROM (", "SELECT 1", ") q", COUNT),
        around("SELECT (", "SELECT 1", ")", COUNT),
        format!("{from} WHERE {}", around("x IN (SELECT x WHERE ", "true", ")", COUNT)),
        format!("SELECT {}", around("ARRAY[", "1", "]", COUNT)),
        format!("SELECT {}", around("CASE WHEN true THEN ", "1", " END", COUNT)),
        format!("SELECT 1{}", "::int".repeat(COUNT)),
        format!("SELECT {}", around("CAST(", "1", " AS int)", COUNT)),
        format!("SELECT 1{}", " IS NULL".repeat(COUNT)),
        format!("SELECT 1{}", " IN (1)".repeat(COUNT)),
        format!("SELECT (ARRAY[1]){}", "[1]".repeat(COUNT)),
        format!("SELECT {}", vec!["1"; COUNT].join(" + ")),
        format!("SELECT {}", vec!["'a'"; COUNT].join(" || ")),
        format!("SELECT 1 FROM {}", vec!["generate_series(1, 1)"; COUNT].join(" CROSS JOIN ")),
        format!("SELECT 1 FROM {}", vec!["generate_series(1, 1)"; 10_000].join(", ")),
    ]
}

#[tokio::test]
async fn sessions_are_counted_and_shut_down() {
    let db = Database::with(QuerySettings { sessions_max: 2, ..QuerySettings::default() });
    let second = db.service.connect(login()).unwrap();
    assert_eq!(db.service.connect(login()).unwrap_err().kind(), ErrorKind::TooManyConnections);
    second.close();
    let third = db.service.connect(login()).unwrap();
    drop(third);
    assert!(db.service.connect(login()).is_ok());
    let mut nowhere = login();
    nowhere.database = "nowhere".to_string();
    assert_eq!(db.service.connect(nowhere).unwrap_err().kind(), ErrorKind::UndefinedDatabase);
    db.service.shutdown();
    assert_eq!(db.kind("SELECT 1").await, ErrorKind::Shutdown);
    assert_eq!(db.service.connect(login()).unwrap_err().kind(), ErrorKind::Shutdown);
}

#[tokio::test]
async fn functions_do_not_grow_past_their_bound() {
    let db = Database::new();
    for sql in [
        "SELECT repeat('x', 2000000000)",
        "SELECT lpad('x', 2000000000)",
        "SELECT array_repeat(1, 1000000000)",
    ] {
        assert_eq!(db.kind(sql).await, ErrorKind::LimitExceeded, "{sql}");
    }
    assert_eq!(db.rows("SELECT repeat('ab', 3), lpad('x', 3)").await, ["ababab|  x"]);
    assert_eq!(db.kind("SELECT range(1, 10)").await, ErrorKind::UndefinedFunction);
}

const ENDLESS_JOIN: &str = "SELECT count(*) FROM generate_series(1, 1000000) AS x(a), generate_series(1, 1000000) AS y(b) WHERE (a + b) % 7 = 9";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runaway_joins_end_and_leave_the_threads_of_others_free() {
    let db = Database::new();
    db.tag("SET statement_timeout = '300ms'").await;
    for sql in [
        ENDLESS_JOIN,
        "SELECT count(*) FROM generate_series(1, 1000000) AS x(a) JOIN generate_series(1, 1000000) AS y(b) ON a % 2 = b % 2 AND a + b < 0",
        "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b, generate_series(1, 1000000) c",
        "SELECT count(*) FROM generate_series(1, 1000000) a(x) WHERE EXISTS (SELECT 1 FROM generate_series(1, 1000000) b(y) WHERE y * x < 0)",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    ] {
        let started = Instant::now();
        let error = db.error(sql).await;
        assert_eq!(error.kind(), ErrorKind::QueryCanceled, "{sql}: {error}");
        assert!(started.elapsed() < Duration::from_secs(3), "{sql}: {:?}", started.elapsed());
    }
    // The plans have ended, not only their answers: other statements get the threads at once.
    let started = Instant::now();
    let other = db.service.connect(login()).unwrap();
    let rows =
        run(&other, "SELECT count(*) FROM generate_series(1, 100000) AS x(a) WHERE a % 2 = 0")
            .await
            .unwrap()
            .lines();
    assert_eq!(rows, ["50000"]);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    // A dropped result ends its plan as well.
    db.tag("SET statement_timeout = 0").await;
    let parsed = db.session.parse(ENDLESS_JOIN).unwrap().remove(0);
    for _ in 0..4 {
        let Outcome::Rows(mut rows) = db.session.run(&parsed).await.unwrap() else { panic!() };
        assert!(tokio::time::timeout(Duration::from_millis(50), rows.next()).await.is_err());
        drop(rows);
    }
    let started = Instant::now();
    assert_eq!(
        db.rows("SELECT count(*) FROM generate_series(1, 100000) AS x(a)").await,
        ["100000"]
    );
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_being_committed_is_not_cancelled() {
    let late = Arc::new(AtomicU64::new(0));
    let db = Database::with_late_answers(QuerySettings::default(), Arc::clone(&late));
    db.tag("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, v INT)").await;
    db.tag("CREATE TABLE gone (time TIMESTAMPTZ NOT NULL, v INT)").await;
    let filler = "INSERT INTO gone SELECT now() + i * interval '1 s', i FROM generate_series(1, 20000) AS g(i)";
    assert_eq!(db.tag(filler).await, "INSERT 0 20000");
    let held = db.service.parts().store.status().memory_bytes;

    // The answer arrives long after the timeout.
    late.store(400, Ordering::Relaxed);
    db.tag("SET statement_timeout = '200ms'").await;
    assert_eq!(db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await, "INSERT 0 1");
    let returning = "INSERT INTO t VALUES ('2024-01-02', 2) RETURNING v";
    assert_eq!(db.rows(returning).await, ["2"]);
    db.tag("BEGIN").await;
    db.tag("SET LOCAL application_name = 'inner'").await;
    db.tag("INSERT INTO t VALUES ('2024-01-03', 3)").await;
    assert_eq!(db.tag("COMMIT").await, "COMMIT");
    assert_eq!(db.rows("SHOW application_name").await, ["it"]);
    assert_eq!(db.rows("SELECT v FROM t ORDER BY time").await, ["1", "2", "3"]);
    assert_eq!(db.tag("DELETE FROM t WHERE time < '2024-01-02'").await, "DELETE 1");
    assert_eq!(db.tag("DROP TABLE gone").await, "DROP TABLE");
    assert!(
        db.service.parts().store.status().memory_bytes < held / 2,
        "the table's memory is free"
    );

    let key = db.session.key().clone();
    let session = Arc::clone(&db.session);
    let inserting =
        tokio::spawn(async move { run(&session, "INSERT INTO t VALUES ('2024-01-04', 4)").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(db.service.cancel(&key));
    assert_eq!(inserting.await.unwrap().unwrap().tag, "INSERT 0 1");
    assert_eq!(db.rows("SELECT v FROM t ORDER BY time").await, ["2", "3", "4"]);

    // A statement stopped earlier stores no row.
    let slow = "INSERT INTO t SELECT now(), count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b";
    assert_eq!(db.kind(slow).await, ErrorKind::QueryCanceled);
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_does_not_keep_a_dropped_table() {
    let late = Arc::new(AtomicU64::new(0));
    let db = Database::with_late_answers(QuerySettings::default(), Arc::clone(&late));
    db.tag("CREATE TABLE gone (time TIMESTAMPTZ NOT NULL, v INT)").await;
    let filler = "INSERT INTO gone SELECT now() + i * interval '1 s', i FROM generate_series(1, 20000) AS g(i)";
    db.tag(filler).await;
    let store = &db.service.parts().store;
    let held = store.status().memory_bytes;
    late.store(300, Ordering::Relaxed);
    let left = tokio::time::timeout(Duration::from_millis(100), db.run("DROP TABLE gone")).await;
    assert!(left.is_err(), "nobody waits for the answer");
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if store.status().memory_bytes < held / 2 {
            return;
        }
    }
    panic!("{} of {held} bytes are still held", store.status().memory_bytes);
}

/// A text argument becomes part of the statement: the depth of its tree is limited too, and the
/// number of ranges has its own limit.
#[tokio::test]
async fn replays_are_as_limited_as_other_statements() {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, v int)").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1), ('2024-01-02', 2)").await;
    let chain = vec!["v = 1"; 50_000].join(" OR ");
    let error = db.error(&format!("SELECT v FROM replay('t', '[,)', '{chain}')")).await;
    assert_eq!(error.kind(), ErrorKind::StatementTooComplex, "{error}");
    let of = |count: usize| {
        let ranges: Vec<String> =
            (0..count).map(|gsn| format!("'gsn [{gsn}, {})'", gsn + 1)).collect();
        format!("SELECT v FROM replay('t', ARRAY[{}])", ranges.join(", "))
    };
    assert_eq!(db.rows(&of(2)).await, ["1"]);
    assert_eq!(db.rows(&of(1_000)).await, ["1", "2"]);
    assert_eq!(db.kind(&of(1_001)).await, ErrorKind::LimitExceeded);
}

/// Groups of several grouping sets are not in the input's order: no group is complete before the
/// last row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_grand_total_is_one_row_however_little_memory_there_is() {
    let settings = QuerySettings { memory_bytes_max: 40 << 20, ..QuerySettings::default() };
    let db = Database::with(settings);
    for (groups, rows, totals) in
        [("ROLLUP (a)", 300_001, 1), ("CUBE (a, b)", 600_005, 1), ("a, ROLLUP (b)", 600_000, 0)]
    {
        let total = db
            .rows(&format!(
                "SELECT count(*), count(*) FILTER (WHERE n = 300000) FROM (SELECT count(*) AS n \
                 FROM (SELECT a, a % 4 AS b FROM generate_series(1, 300000) AS g(a)) AS q \
                 GROUP BY {groups}) AS q"
            ))
            .await;
        assert_eq!(total, [format!("{rows}|{totals}")], "{groups}");
    }
}
