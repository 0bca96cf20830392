//! Acquisitions together with reads and writes by position (SUBSCRIBE, read_record, replay, TRIM,
//! AFTER GSN), and with sealed events.

use arrow::{array::AsArray as _, datatypes::Int32Type};
use futures::StreamExt as _;
use stratalog_query::{Outcome, Rows};

use super::*;

async fn endless(session: &Arc<Session>, sql: &str) -> Rows {
    let parsed = session.parse(sql).unwrap();
    match session.run(&parsed[0]).await.unwrap() {
        Outcome::Rows(rows) => rows,
        Outcome::CopyOut(copy) => copy.rows,
        other => panic!("{other:?}"),
    }
}

async fn next(rows: &mut Rows) -> Result<RecordBatch> {
    let next = timeout(Duration::from_secs(20), rows.next()).await;
    next.expect("nothing came").expect("it has ended")
}

async fn next_xs(rows: &mut Rows) -> Vec<i32> {
    let batch = next(rows).await.unwrap();
    batch.column_by_name("x").unwrap().as_primitive::<Int32Type>().values().to_vec()
}

/// The standings of a session's acquisitions.
async fn standings(db: &Database, of: &Session) -> Vec<String> {
    let looking = other(db);
    let sql = format!(
        "SELECT standing FROM stratalog.acquisitions WHERE process_id = {} ORDER BY standing",
        of.process_id()
    );
    rows(&looking, &sql).await
}

fn pass(db: &Database, ms: i64) {
    db.clock.0.fetch_add(ms * 1_000_000, Ordering::Relaxed);
}

const DAYS: &str = "INSERT INTO t VALUES ('2023-12-01', 1), ('2023-12-02', 2), ('2023-12-03', 3)";
const SECOND: &str = "ACQUIRE CHRONICLE t RANGE FROM '2023-12-02' TO '2023-12-03'";

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_sees_the_part_and_uses_the_table() {
    let db = database().await;
    let writer = other(&db);
    tag(&writer, DAYS).await;
    let third = other(&db);
    let mut whole = endless(&third, "SUBSCRIBE t").await;
    assert_eq!(next_xs(&mut whole).await, [1, 2, 3]);
    tag(&third, SECOND).await;
    tag(&third, "RELEASE CHRONICLE t").await;
    assert_eq!(standings(&db, &third).await, ["reading"]);
    db.tag(SECOND).await;
    let mut expected = vec![2];
    for (at, sql) in [
        "SUBSCRIBE t",
        "SUBSCRIBE t WHERE x > 0 AND _tick IS NOT NULL",
        "COPY (SUBSCRIBE t FROM GSN 1 WHERE x > 0) TO STDOUT",
    ]
    .into_iter()
    .enumerate()
    {
        let mut part = endless(&db.session, sql).await;
        let mut seen = Vec::new();
        while seen.len() < expected.len() {
            seen.extend(next_xs(&mut part).await);
        }
        assert_eq!(seen, expected, "{sql}");
        // Live events are confined too.
        let inside = 10 + at as i32;
        tag(&writer, "INSERT INTO t VALUES ('2023-12-04', 100)").await;
        tag(&writer, &format!("INSERT INTO t VALUES ('2023-12-02 12:00', {inside})")).await;
        assert_eq!(next_xs(&mut part).await, [inside], "{sql}");
        expected.push(inside);
        assert_eq!(standings(&db, &db.session).await, ["held", "reading"]);
        drop(part);
        assert_eq!(standings(&db, &db.session).await, ["held"]);
    }
    // A subscription from before the acquisition still delivers all events.
    tag(&writer, "INSERT INTO t VALUES ('2023-12-04', 200)").await;
    while next_xs(&mut whole).await.last() != Some(&200) {}
    drop(whole);
    assert_eq!(standings(&db, &third).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_keeps_no_writer_out_and_ends_with_the_lease() {
    let db = database().await;
    let writer = other(&db);
    let mut rows = endless(&db.session, "SUBSCRIBE t LIVE").await;
    db.tag("DECLARE c CURSOR WITH HOLD FOR SUBSCRIBE t").await;
    tag(&writer, "ACQUIRE CHRONICLE t EXCLUSIVE NOWAIT").await;
    tag(&writer, "INSERT INTO t VALUES ('2024-01-01', 1)").await;
    assert_eq!(next_xs(&mut rows).await, [1]);
    tag(&writer, "RELEASE CHRONICLE t").await;
    db.tag("ACQUIRE CHRONICLE t FOR INTERVAL '100 ms'").await;
    tag(&writer, "INSERT INTO t VALUES ('2024-01-01', 2)").await;
    assert_eq!(next_xs(&mut rows).await, [2]);
    pass(&db, 100);
    tag(&writer, "INSERT INTO t VALUES ('2024-01-01', 3)").await;
    let told = next(&mut rows).await.unwrap_err();
    assert_eq!(told.kind(), ErrorKind::LeaseLost);
    assert!(told.message().starts_with("the lease on chronicle \"t\" ran out"), "{told}");
    assert!(rows.next().await.is_none());
    for sql in ["FETCH c", "SUBSCRIBE t", "COPY (SUBSCRIBE t) TO STDOUT"] {
        assert_eq!(db.kind(sql).await, ErrorKind::LeaseLost, "{sql}");
    }
    db.tag("RELEASE CHRONICLE t").await;
    db.tag("SET subscribe_wait = '10s'").await;
    assert_eq!(db.run("FETCH 1 FROM c").await.unwrap().lines().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_that_outlive_their_block_use_what_they_read() {
    let db = database().await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    db.tag("BEGIN").await;
    db.tag("DECLARE a CURSOR WITH HOLD FOR SELECT x FROM t").await;
    db.tag("DECLARE b CURSOR FOR SELECT x FROM t").await;
    db.tag("DECLARE c CURSOR FOR SUBSCRIBE t").await;
    assert_eq!(standings(&db, &db.session).await, ["reading"]);
    db.tag("COMMIT").await;
    assert_eq!(standings(&db, &db.session).await, ["reading"]);
    assert_eq!(db.rows("FETCH ALL FROM a").await, ["1"]);
    db.tag("CLOSE a").await;
    assert_eq!(standings(&db, &db.session).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_and_replays_are_confined() {
    let db = database().await;
    let writer = other(&db);
    tag(&writer, DAYS).await;
    db.tag(SECOND).await;
    for (sql, wanted) in [
        ("SELECT x FROM replay('t')", vec!["2"]),
        ("SELECT x FROM replay('t', ARRAY['gsn [3, )', '[2023-12-02, )'], x > 0)", vec!["2"]),
        ("SELECT x FROM playback('t', 9)", vec!["2"]),
        ("SELECT x FROM read_record(2, 't')", vec!["2"]),
        ("SELECT x FROM read_record(1, 't')", vec![]),
        ("SELECT count(*) FROM t WHERE _gsn <= 3", vec!["1"]),
    ] {
        for _ in 0..3 {
            assert_eq!(db.rows(sql).await, wanted, "{sql}");
        }
    }
    // A read that waits for its event.
    for (time, x, wanted) in [("2023-12-02 01:00", 4, vec!["4"]), ("2023-12-05", 5, vec![])] {
        let waiting = begun(&db.session, &format!("SELECT x FROM read_record({x}, 't')")).await;
        assert_eq!(standings(&db, &db.session).await, ["held", "reading"]);
        tag(&writer, &format!("INSERT INTO t VALUES ('{time}', {x})")).await;
        assert_eq!(ended(waiting).await.unwrap().lines(), wanted);
    }
    db.tag("ACQUIRE CHRONICLE t FOR INTERVAL '10 ms'").await;
    pass(&db, 10);
    for sql in ["SELECT x FROM read_record(2, 't')", "SELECT x FROM replay('t')"] {
        assert_eq!(db.kind(sql).await, ErrorKind::LeaseLost, "{sql}");
    }
}

#[tokio::test]
async fn a_trim_is_of_all_or_of_nothing() {
    let db = database().await;
    let second = other(&db);
    tag(&second, DAYS).await;
    db.tag(SECOND).await;
    for sql in ["TRIM t BEFORE GSN 3", "TRIM t BEFORE GSN 1", "DELETE FROM t WHERE _gsn < 3"] {
        let told = db.error(sql).await;
        assert_eq!(told.kind(), ErrorKind::OutsideProjection, "{sql}: {told}");
        assert!(told.message().contains("by position"), "{told}");
    }
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE").await;
    assert_eq!(kind(&second, "TRIM t BEFORE GSN 3").await, ErrorKind::LockNotAvailable);
    assert_eq!(db.tag("TRIM t BEFORE GSN 3").await, "TRIM 2");
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE FOR INTERVAL '10 ms'").await;
    pass(&db, 10);
    assert_eq!(db.kind("TRIM t BEFORE GSN 4").await, ErrorKind::LeaseLost);
    assert_eq!(rows(&second, "SELECT x FROM t").await, ["3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_a_position_has_not_begun_to_write() {
    let db = database().await;
    let writer = other(&db);
    tag(&writer, DAYS).await;
    let after = "INSERT INTO t VALUES ('2024-01-01', 9) AFTER GSN 4 RETURNING _gsn";
    let waiting = begun(&writer, after).await;
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE NOWAIT").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 4)").await;
    assert_eq!(ended(waiting).await.unwrap_err().kind(), ErrorKind::LockNotAvailable);
    db.tag("RELEASE CHRONICLE t").await;
    assert_eq!(rows(&writer, after).await, ["5"]);
}

/// A missing time becomes the time of the store, not the time of the start of the wait.
#[tokio::test(flavor = "multi_thread")]
async fn who_has_waited_for_a_position_is_not_too_late() {
    let db = database().await;
    let writer = other(&db);
    let table = "CREATE TABLE af (time timestamptz NOT NULL, v int)";
    db.tag(&format!("{table} WITH (time_source = 'client', acceptance_window = '200ms')")).await;
    for (gsn, sql) in [
        (1, "INSERT INTO af (v) VALUES (10) AFTER GSN 1"),
        (3, "INSERT INTO af VALUES (DEFAULT, 11) AFTER GSN 3"),
        (5, "INSERT INTO af (v) SELECT 12 WHERE true AFTER GSN 5"),
    ] {
        let waiting = begun(&writer, sql).await;
        pass(&db, 1_000);
        db.tag(&format!("INSERT INTO t VALUES ('2024-01-01', {gsn})")).await;
        assert_eq!(ended(waiting).await.unwrap().tag, "INSERT 0 1", "{sql}");
    }
    assert_eq!(db.rows("SELECT v FROM af ORDER BY v").await, ["10", "11", "12"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_others_does_not_keep_a_server_from_ending() {
    let db = database().await;
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE").await;
    let mut waiting = Vec::new();
    for sql in [
        "ACQUIRE CHRONICLE t",
        "INSERT INTO u VALUES ('2024-01-01', 1) AFTER GSN 9",
        "SELECT x FROM read_record(9, 't')",
    ] {
        waiting.push(begun(&other(&db), sql).await);
    }
    db.service.end_subscriptions();
    for waiting in waiting {
        assert_eq!(ended(waiting).await.unwrap_err().kind(), ErrorKind::Shutdown);
    }
    // Statements without a wait go on.
    db.tag("INSERT INTO u VALUES ('2024-01-01', 1) AFTER GSN 0").await;
    db.tag("ACQUIRE CHRONICLE u EXCLUSIVE").await;
    assert_eq!(db.rows("SELECT x FROM read_record(1, 'u')").await, ["1"]);
}

#[tokio::test]
async fn what_is_sealed_is_sealed_of_the_part() {
    let db = Database::new();
    db.tag("CREATE TABLE c (time timestamptz NOT NULL, x int) WITH (time_source = 'server')").await;
    for x in 1..=3 {
        db.tag(&format!("INSERT INTO c (x) VALUES ({x})")).await;
        pass(&db, 10_000);
    }
    pass(&db, 200_000);
    db.tag("INSERT INTO c (x) VALUES (4)").await;
    let (all, sealed) =
        ("SELECT count(*), max(x) FROM c", "SELECT count(*), max(x) FROM c AS OF SEALED");
    assert_eq!(db.rows(all).await, ["4|4"]);
    assert_eq!(db.rows(sealed).await, ["3|3"]);
    let from = "ACQUIRE CHRONICLE c SINCE timestamptz '2024-01-01 00:00:05+00'";
    db.tag(from).await;
    for _ in 0..3 {
        assert_eq!(db.rows(all).await, ["3|4"]);
        assert_eq!(db.rows(sealed).await, ["2|3"]);
        assert_eq!(db.rows("SELECT x FROM c ORDER BY time DESC LIMIT 1 AS OF SEALED").await, ["3"]);
    }
    assert!(db.plan("SELECT x FROM c AS OF SEALED").await.contains("within=["));
    db.tag("ACQUIRE CHRONICLE c SINCE timestamptz '2024-01-01 00:03:00+00'").await;
    assert_eq!(db.rows(sealed).await, ["0|NULL"]);
    // The time of the server may be inside or outside of the acquired range.
    assert_eq!(db.tag("INSERT INTO c (x) VALUES (5)").await, "INSERT 0 1");
    db.tag("ACQUIRE CHRONICLE c UNTIL timestamptz '2024-01-01 00:01:00+00'").await;
    assert_eq!(db.kind("INSERT INTO c (x) VALUES (6)").await, ErrorKind::OutsideProjection);
    assert_eq!(db.rows(all).await, ["3|3"]);
    db.tag("ACQUIRE CHRONICLE c FOR INTERVAL '1 ms'").await;
    pass(&db, 1);
    assert_eq!(db.kind(sealed).await, ErrorKind::LeaseLost);
}

/// F24: every write path rejects events dated before the acquisition; without an acquisition, the
/// start of the session is the limit.
#[tokio::test]
async fn f24_nothing_from_before_the_acquisition_is_accepted() {
    let db = Database::new();
    let table = "CREATE TABLE w (time timestamptz(6) NOT NULL, x int)";
    db.tag(&format!("{table} WITH (time_source = 'client', acceptance_window = '20s')")).await;
    let lines = async |seconds: i64| {
        let table = db.session.table(None, "w")?;
        let now_us = db.clock.0.load(Ordering::Relaxed) / 1_000;
        let mut append = db.session.append("lines", AppendOptions::default())?;
        append.push(&table, batch(&[now_us - seconds * 1_000_000])).await?;
        append.commit().await
    };
    let early = "INSERT INTO w VALUES (now() - interval '5 s', 1)";
    pass(&db, 10_000);
    db.tag(early).await;
    lines(5).await.unwrap();
    db.tag("ACQUIRE CHRONICLE w").await;
    assert_eq!(db.kind(early).await, ErrorKind::OutsideWindow);
    assert_eq!(lines(5).await.unwrap_err().kind(), ErrorKind::OutsideWindow);
    db.tag("INSERT INTO w VALUES (now(), 2)").await;
    lines(0).await.unwrap();
    // A renewal is no new acquisition.
    pass(&db, 6_000);
    db.tag("ACQUIRE CHRONICLE w FOR INTERVAL '1 min'").await;
    db.tag(early).await;
    lines(5).await.unwrap();
    // The same in a block with an earlier write.
    db.tag("BEGIN").await;
    db.tag(early).await;
    db.tag("RELEASE CHRONICLE w").await;
    db.tag(early).await;
    db.tag("ACQUIRE CHRONICLE w").await;
    assert_eq!(db.kind(early).await, ErrorKind::OutsideWindow);
    db.tag("ROLLBACK").await;
    db.tag("RELEASE CHRONICLE w").await;
    db.tag(early).await;
    assert_eq!(db.rows("SELECT count(*) FROM w").await, ["7"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_others_have_acquired_is_not_dropped() {
    let db = database().await;
    let second = other(&db);
    tag(&second, "ACQUIRE CHRONICLE t").await;
    db.tag("ACQUIRE CHRONICLE t").await;
    let told = db.error("DROP TABLE t").await;
    assert_eq!(told.kind(), ErrorKind::ObjectInUse);
    assert!(told.hint().unwrap().contains("DROP TABLE t ASYNC"), "{told}");
    // The table is unchanged.
    tag(&second, "INSERT INTO t VALUES ('2024-01-01', 1)").await;
    tag(&second, "RELEASE CHRONICLE t").await;
    // A block keeps the table closed until a rollback.
    db.tag("BEGIN").await;
    db.tag("SAVEPOINT s").await;
    db.tag("DROP TABLE t").await;
    for sql in ["ACQUIRE CHRONICLE t", "INSERT INTO t VALUES ('2024-01-01', 2)"] {
        assert_eq!(kind(&second, sql).await, ErrorKind::ObjectNotInPrerequisiteState, "{sql}");
    }
    assert_eq!(rows(&second, "SELECT x FROM t").await, ["1"]);
    db.tag("ROLLBACK TO s").await;
    tag(&second, "ACQUIRE CHRONICLE t NOWAIT").await;
    assert_eq!(db.kind("DROP TABLE t").await, ErrorKind::ObjectInUse);
    db.tag("ROLLBACK").await;
    // The same for a schema.
    db.tag("CREATE SCHEMA s; CREATE TABLE s.t (time timestamptz)").await;
    tag(&second, "ACQUIRE CHRONICLE s.t EXCLUSIVE").await;
    assert_eq!(db.kind("DROP SCHEMA s CASCADE").await, ErrorKind::ObjectInUse);
    tag(&second, "RELEASE CHRONICLE s.t").await;
    db.tag("DROP SCHEMA s CASCADE").await;
    // Sessions that wait for the table get an error.
    let third = other(&db);
    let waiting = begun(&third, "ACQUIRE CHRONICLE t EXCLUSIVE").await;
    db.tag("DROP TABLE t FORCE").await;
    let told = ended(waiting).await.unwrap_err().kind();
    let gone = [ErrorKind::UndefinedTable, ErrorKind::ObjectNotInPrerequisiteState];
    assert!(gone.contains(&told), "{told:?}");
    assert_eq!(kind(&second, "SELECT x FROM t").await, ErrorKind::UndefinedTable);
    assert_eq!(standings(&db, &second).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_goes_when_the_last_has_released_it() {
    let db = database().await;
    let second = other(&db);
    tag(&second, "ACQUIRE CHRONICLE t").await;
    db.tag("ACQUIRE CHRONICLE t").await;
    db.tag("BEGIN").await;
    assert_eq!(db.kind("DROP TABLE t ASYNC").await, ErrorKind::ActiveTransaction);
    db.tag("ROLLBACK").await;
    assert_eq!(db.tag("DROP TABLE t ASYNC").await, "DROP TABLE");
    let notices = db.session.take_notices();
    assert!(
        notices.iter().any(|notice| notice.message.contains("after the last session")),
        "{notices:?}"
    );
    let shut = ErrorKind::ObjectNotInPrerequisiteState;
    assert_eq!(kind(&second, "INSERT INTO t VALUES ('2024-01-01', 1)").await, shut);
    assert_eq!(db.kind("ACQUIRE CHRONICLE t").await, shut);
    // The holder may keep its acquisition, but cannot extend its mode.
    tag(&second, "ACQUIRE CHRONICLE t FOR INTERVAL '1 hour'").await;
    assert_eq!(kind(&second, "ACQUIRE CHRONICLE t EXCLUSIVE").await, shut);
    assert_eq!(db.kind("DROP TABLE t").await, ErrorKind::ObjectInUse);
    assert_eq!(rows(&second, "SELECT count(*) FROM t").await, ["0"]);
    tag(&second, "RELEASE CHRONICLE t").await;
    for _ in 0..500 {
        if run(&second, "SELECT count(*) FROM t").await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(kind(&second, "SELECT count(*) FROM t").await, ErrorKind::UndefinedTable);
    // Without a holder, the table is dropped at once.
    for _ in 0..2 {
        db.tag("CREATE TABLE t (time timestamptz NOT NULL, x int)").await;
        tag(&second, "INSERT INTO t VALUES ('2024-01-01', 1)").await;
        db.tag("DROP TABLE IF EXISTS t, nothing ASYNC").await;
    }
    assert_eq!(standings(&db, &second).await, [""; 0]);
}
