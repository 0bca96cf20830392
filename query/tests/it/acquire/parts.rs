//! Partial acquisitions (F9): events outside of the acquired range are invisible.

use super::*;

const FROM: &str = "2024-01-01 06:30:00+00";
const TO: &str = "2024-01-01 18:00:00+00";

/// Three hosts with one row a minute each, for a day plus a margin at both ends.
async fn filled() -> Database {
    let db = Database::of_small_parts();
    db.tag("CREATE TABLE t (time timestamptz NOT NULL, host text NOT NULL, x int, f double precision, PRIMARY KEY (host, time))").await;
    db.tag("CREATE TABLE hosts (time timestamptz NOT NULL, name text)").await;
    db.tag("INSERT INTO hosts VALUES ('2024-01-01', 'h1'), ('2024-01-01', 'late')").await;
    db.tag("INSERT INTO t SELECT timestamptz '2023-12-31 22:00+00' + n / 3 * interval '1 minute', 'h' || n % 3, n, n * 0.5 FROM generate_series(0, 4499) AS g(n)").await;
    // Series with all events outside of the acquired range.
    db.tag("INSERT INTO t VALUES ('2024-01-01 18:00:00+00', 'late', 90001, 1), ('2024-01-01 06:29:59.999999+00', 'early', 90002, 1)").await;
    db
}

/// The queries; `{t}` is the confined or the filtered table.
const QUERIES: &[&str] = &[
    "SELECT count(*) FROM {t} AS t",
    "SELECT count(*), min(time), max(time) FROM {t} AS t",
    "SELECT sum(x), avg(f), min(x), max(f) FROM {t} AS t",
    "SELECT host, count(*), sum(x) FROM {t} AS t GROUP BY host ORDER BY host",
    "SELECT time_bucket('1 hour', time) AS b, count(*), sum(f) FROM {t} AS t GROUP BY b ORDER BY b",
    "SELECT time_bucket('1 hour', time) AS b, host, max(x) FROM {t} AS t GROUP BY b, host ORDER BY b DESC, host LIMIT 7",
    "SELECT x FROM {t} AS t ORDER BY time DESC, host LIMIT 4",
    "SELECT x FROM {t} AS t ORDER BY time, host LIMIT 4",
    "SELECT DISTINCT ON (host) host, time, x FROM {t} AS t ORDER BY host, time DESC",
    "SELECT DISTINCT ON (host) host, time, x FROM {t} AS t ORDER BY host, time",
    "SELECT host, last_value(x ORDER BY time) FROM {t} AS t GROUP BY host ORDER BY host",
    "SELECT host, max(time) FROM {t} AS t GROUP BY host ORDER BY host",
    "SELECT x FROM {t} AS t WHERE host = 'h1' AND time = '2024-01-01 06:29:00+00'",
    "SELECT x FROM {t} AS t WHERE host = 'h1' AND time = '2024-01-01 06:30:00+00'",
    "SELECT count(*) FROM {t} AS t WHERE host = 'late'",
    "SELECT count(*) FROM {t} AS t WHERE host IN ('h1', 'late', 'early')",
    "SELECT count(*) FROM {t} AS t WHERE time < '2024-01-01 07:00+00'",
    "SELECT count(*) FROM {t} AS t WHERE time >= '2024-01-01 17:00+00' OR time < '2024-01-01 01:00+00'",
    "SELECT count(*) FROM {t} AS t WHERE extract(hour FROM time) IN (6, 18, 23)",
    "SELECT count(*) FROM {t} AS t WHERE x > 90000",
    "SELECT count(DISTINCT host) FROM {t} AS t",
    "SELECT h.name, count(t.x) FROM hosts AS h LEFT JOIN {t} AS t ON t.host = h.name GROUP BY h.name ORDER BY h.name",
    "SELECT count(*) FROM {t} AS t WHERE host IN (SELECT name FROM hosts)",
    "SELECT (SELECT max(x) FROM {t} AS t WHERE t.host = h.name) FROM hosts AS h ORDER BY h.name",
    "SELECT h.name, l.x FROM hosts AS h LEFT JOIN LATERAL (SELECT x FROM {t} AS t WHERE t.host = h.name ORDER BY time DESC LIMIT 1) AS l ON true ORDER BY h.name",
    "SELECT EXISTS (SELECT 1 FROM {t} AS t WHERE x = 0), EXISTS (SELECT 1 FROM {t} AS t WHERE x = 2000)",
    "WITH w AS (SELECT host, x, lag(x) OVER (PARTITION BY host ORDER BY time) AS before FROM {t} AS t) SELECT count(*) FROM w WHERE before IS NULL",
    "SELECT count(*) FROM (SELECT * FROM {t} AS t UNION ALL SELECT * FROM {t} AS t) AS two",
    "SELECT min(_tick) = max(_tick), count(_seq) FROM {t} AS t",
];

async fn compare(db: &Database, whole: &Arc<Session>, when: &str) {
    let filtered =
        format!("(SELECT *, _tick, _seq FROM t WHERE time >= '{FROM}' AND time < '{TO}')");
    for query in QUERIES {
        let filtered = match query.contains('_') && query.contains("_seq") {
            true => query.replace("{t}", &filtered),
            false => query.replace("{t}", &filtered.replace(", _tick, _seq", "")),
        };
        let confined = query.replace("{t}", "t");
        let wanted = rows(whole, &filtered).await;
        // Repeated, because the session caches plans.
        for time in 0..3 {
            assert_eq!(db.rows(&confined).await, wanted, "{when}, {time}: {confined}");
        }
    }
}

#[tokio::test]
async fn queries_are_confined_to_the_part_that_is_acquired() {
    let db = filled().await;
    let whole = other(&db);
    // These plans are cached before the acquisition.
    for query in QUERIES {
        for _ in 0..3 {
            db.rows(&query.replace("{t}", "t")).await;
        }
    }
    db.tag(&format!("ACQUIRE CHRONICLE t RANGE FROM '{FROM}' TO '{TO}'")).await;
    compare(&db, &whole, "in memory").await;
    run(&whole, "CALL stratalog.flush('t')").await.unwrap();
    compare(&db, &whole, "in tablets").await;
    run(&whole, "CALL stratalog.compact('t')").await.unwrap();
    compare(&db, &whole, "in stories").await;
    // The same in a block with uncommitted rows.
    db.tag("BEGIN").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01 12:00:30+00', 'h1', 70000, 1)").await;
    assert_eq!(db.rows("SELECT max(x), count(*) FROM t").await, ["70000|2071"]);
    db.tag("ROLLBACK").await;
    assert!(db.plan("SELECT x FROM t").await.contains("within=["));
    assert!(db.plan("SELECT host, sum(x) FROM t GROUP BY host").await.contains("within=["));
    // Other sessions still see all events.
    assert_eq!(rows(&whole, "SELECT count(*) FROM t").await, ["4502"]);
    db.tag("RELEASE CHRONICLE t").await;
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["4502"]);
    assert!(!db.plan("SELECT x FROM t").await.contains("within="));
}

#[tokio::test]
async fn what_is_copied_inserted_and_returned_is_confined_too() {
    let db = filled().await;
    db.tag("CREATE TABLE copy (time timestamptz NOT NULL, host text, x int, f double precision)")
        .await;
    db.tag(&format!("ACQUIRE CHRONICLE t EXCLUSIVE RANGE FROM '{FROM}' TO '{TO}'")).await;
    assert_eq!(db.run("COPY t TO STDOUT").await.unwrap().lines().len(), 2070);
    assert_eq!(db.tag("INSERT INTO copy SELECT * FROM t").await, "INSERT 0 2070");
    assert_eq!(db.rows("INSERT INTO copy VALUES ('2024-01-01', 'h', (SELECT max(x) FROM t), 0) RETURNING x, (SELECT min(x) FROM t)").await, ["3599|1530"]);
    db.tag("BEGIN").await;
    db.tag("DECLARE c CURSOR FOR SELECT x FROM t ORDER BY time, host").await;
    assert_eq!(db.rows("FETCH 1 FROM c").await, ["1530"]);
    db.tag("COMMIT").await;
    // Parts without an end, and parts without a start.
    db.tag(&format!("ACQUIRE CHRONICLE t SINCE '{TO}'")).await;
    assert_eq!(db.rows("SELECT count(*), min(x) FROM t").await, ["901|3600"]);
    db.tag(&format!("ACQUIRE CHRONICLE t UNTIL '{FROM}'")).await;
    assert_eq!(db.rows("SELECT count(*), max(x) FROM t").await, ["1531|90002"]);
    // DELETE removes only visible events.
    assert_eq!(db.tag("DELETE FROM t").await, "DELETE 1531");
    assert_eq!(db.tag("DELETE FROM t WHERE time >= '2024-01-01 07:00+00'").await, "DELETE 0");
    db.tag("RELEASE CHRONICLE t").await;
    assert_eq!(db.rows("SELECT count(*), min(x) FROM t").await, ["2971|1530"]);
}

#[tokio::test]
async fn rows_outside_of_the_part_are_refused() {
    let db = database().await;
    db.tag("CREATE TABLE n (time timestamptz(0) NOT NULL, PRIMARY KEY (time)) WITH (granularity = '1s', collision = 'next')").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01 00:00+00', 1)").await;
    for table in ["t", "n"] {
        db.tag(&format!(
            "ACQUIRE CHRONICLE {table} RANGE FROM '2024-01-02 00:00+00' TO '2024-01-02 00:00:03+00'"
        ))
        .await;
    }
    assert_eq!(
        db.tag("INSERT INTO t VALUES ('2024-01-02 00:00:02.999999+00', 2)").await,
        "INSERT 0 1"
    );
    for time in ["2024-01-01 23:59:59.999999+00", "2024-01-02 00:00:03+00", "2024-01-01 00:00+00"] {
        let told = db
            .error(&format!("INSERT INTO t VALUES ('2024-01-02 00:00+00', 3), ('{time}', 4)"))
            .await;
        assert_eq!(told.kind(), ErrorKind::OutsideProjection, "{told}");
        assert_eq!(told.kind().sqlstate(), "44000");
    }
    assert_eq!(append(&db.session).await.unwrap_err().kind(), ErrorKind::OutsideProjection);
    assert_eq!(ingest(&db.session).await.unwrap_err().kind(), ErrorKind::OutsideProjection);
    assert_eq!(db.rows("SELECT x FROM t").await, ["2"]);
    // An event that leaves the acquired range because its time is taken.
    for _ in 0..3 {
        db.tag("INSERT INTO n VALUES ('2024-01-02 00:00+00')").await;
    }
    assert_eq!(
        db.kind("INSERT INTO n VALUES ('2024-01-02 00:00+00')").await,
        ErrorKind::OutsideProjection
    );
    assert_eq!(db.rows("SELECT count(*) FROM n").await, ["3"]);
    // A block can roll back to a savepoint.
    db.tag("BEGIN").await;
    db.tag("INSERT INTO t VALUES ('2024-01-02 00:00:01+00', 5)").await;
    db.tag("SAVEPOINT s").await;
    assert_eq!(
        db.kind("INSERT INTO t VALUES ('2024-01-03 00:00+00', 6)").await,
        ErrorKind::OutsideProjection
    );
    db.tag("ROLLBACK TO s").await;
    db.tag("COMMIT").await;
    db.tag("RELEASE CHRONICLE t").await;
    assert_eq!(db.rows("SELECT x FROM t ORDER BY time").await, ["1", "5", "2"]);
}

#[tokio::test]
async fn two_that_are_alone_with_a_part_each_write_there() {
    let db = database().await;
    let (second, third) = (other(&db), other(&db));
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE UNTIL '2024-01-02'").await;
    tag(&second, "ACQUIRE CHRONICLE t EXCLUSIVE SINCE '2024-01-02' NOWAIT").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    tag(&second, "INSERT INTO t VALUES ('2024-01-02', 2)").await;
    assert_eq!(
        kind(&third, "INSERT INTO t VALUES ('2024-01-02', 3)").await,
        ErrorKind::LockNotAvailable
    );
    assert_eq!(rows(&third, "SELECT x FROM t ORDER BY x").await, ["1", "2"]);
    assert_eq!(rows(&second, "SELECT x FROM t").await, ["2"]);
    assert_eq!(kind(&third, "ACQUIRE CHRONICLE t NOWAIT").await, ErrorKind::LockNotAvailable);
    db.tag("RELEASE CHRONICLE t").await;
    tag(&third, "ACQUIRE CHRONICLE t UNTIL '2024-01-02' NOWAIT").await;
    tag(&third, "INSERT INTO t VALUES ('2024-01-01', 3)").await;
}
