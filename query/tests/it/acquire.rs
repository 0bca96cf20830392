//! Acquisitions by several sessions (F8–F11).

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use arrow::{
    array::{Int32Array, RecordBatch, TimestampMicrosecondArray},
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use datafusion::scalar::ScalarValue;
use stratalog_model::{ColumnType, Error, ErrorKind, Result, store::AppendOptions};
use stratalog_query::{Session, TransactionState};
use tokio::{task::JoinHandle, time::timeout};

use crate::harness::{Answer, Database, finish, login, run};

mod lost;
mod parts;
mod together;

async fn database() -> Database {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz NOT NULL, x int)").await;
    db.tag("CREATE TABLE u (time timestamptz NOT NULL, x int)").await;
    db
}

fn other(db: &Database) -> Arc<Session> {
    db.service.connect(login()).unwrap()
}

async fn error(session: &Arc<Session>, sql: &str) -> Error {
    match run(session, sql).await {
        Ok(answer) => panic!("{sql}: {} {:?}", answer.tag, answer.lines()),
        Err(error) => error,
    }
}

async fn kind(session: &Arc<Session>, sql: &str) -> ErrorKind {
    error(session, sql).await.kind()
}

async fn tag(session: &Arc<Session>, sql: &str) -> String {
    match run(session, sql).await {
        Ok(answer) => answer.tag,
        Err(error) => panic!("{sql}: {} {error}", error.kind().sqlstate()),
    }
}

async fn rows(session: &Arc<Session>, sql: &str) -> Vec<String> {
    match run(session, sql).await {
        Ok(answer) => answer.lines(),
        Err(error) => panic!("{sql}: {} {error}", error.kind().sqlstate()),
    }
}

/// Starts a statement that must wait.
async fn begun(session: &Arc<Session>, sql: &str) -> JoinHandle<Result<Answer>> {
    let (session, text) = (Arc::clone(session), sql.to_string());
    let mut running = tokio::spawn(async move { run(&session, &text).await });
    let early = timeout(Duration::from_millis(50), &mut running).await;
    assert!(early.is_err(), "{sql} does not wait: {early:?}");
    running
}

async fn ended(running: JoinHandle<Result<Answer>>) -> Result<Answer> {
    timeout(Duration::from_secs(20), running).await.expect("it waits for ever").unwrap()
}

fn batch(times: &[i64]) -> RecordBatch {
    let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let times = TimestampMicrosecondArray::from(times.to_vec()).with_data_type(zoned.clone());
    let schema =
        Schema::new(vec![Field::new("time", zoned, false), Field::new("x", DataType::Int32, true)]);
    let xs = Int32Array::from(vec![7; times.len()]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(times), Arc::new(xs)]).unwrap()
}

/// Writes one row through the interface of protocols without SQL.
async fn append(session: &Arc<Session>) -> Result<u64> {
    let table = session.table(None, "t")?;
    let mut append = session.append("lines", AppendOptions::default())?;
    append.push(&table, batch(&[1_704_067_200_000_000])).await?;
    Ok(append.commit().await?.rows)
}

/// Writes one row through a statement of batches.
async fn ingest(session: &Arc<Session>) -> Result<u64> {
    let rows = batch(&[1_704_067_200_000_000]);
    let ingest = session.ingest(session.table(None, "t")?, rows.schema()).await?;
    let mut statement = ingest.begin("ingest")?;
    statement.push(&rows).await?;
    statement.finish().await
}

#[tokio::test]
async fn exclusive_locks_other_writers_out_at_every_door() {
    let db = database().await;
    let writer = other(&db);
    tag(&writer, "INSERT INTO t VALUES ('2024-01-01', 1)").await;
    assert_eq!(
        db.tag("ACQUIRE CHRONICLE t EXCLUSIVE FOR INTERVAL '1 hour'").await,
        "ACQUIRE CHRONICLE"
    );
    for sql in [
        "INSERT INTO t VALUES ('2024-01-01', 2)",
        "INSERT INTO t SELECT * FROM t",
        "COPY t FROM STDIN",
        "DELETE FROM t",
        "ALTER TABLE t ADD COLUMN y int",
        "ALTER TABLE t RENAME TO v",
        "ALTER TABLE t SET (durability = 'relaxed')",
        "ACQUIRE CHRONICLE t NOWAIT",
        "ACQUIRE TABLE t EXCLUSIVE NOWAIT",
    ] {
        assert_eq!(kind(&writer, sql).await, ErrorKind::LockNotAvailable, "{sql}");
    }
    assert_eq!(append(&writer).await.unwrap_err().kind(), ErrorKind::LockNotAvailable);
    assert_eq!(ingest(&writer).await.unwrap_err().kind(), ErrorKind::LockNotAvailable);
    let told = error(&writer, "INSERT INTO t VALUES ('2024-01-01', 2)").await;
    assert!(told.kind().is_retryable());
    let holder = db.session.process_id();
    let wanted = format!(
        "chronicle \"t\" cannot be written to: session {holder} has acquired the chronicle EXCLUSIVE until 2024-01-01 01:00:00"
    );
    assert!(told.message().starts_with(&wanted), "{told}");
    let detail = told.detail().unwrap();
    assert!(detail.contains(&format!("Session {holder} (user \"tester\", \"it\")")), "{detail}");
    // The same in a block, and the block fails.
    tag(&writer, "BEGIN").await;
    assert_eq!(
        kind(&writer, "INSERT INTO t VALUES ('2024-01-01', 2)").await,
        ErrorKind::LockNotAvailable
    );
    assert_eq!(writer.transaction(), TransactionState::Failed);
    tag(&writer, "ROLLBACK").await;
    tag(&writer, "BEGIN").await;
    assert_eq!(kind(&writer, "ALTER TABLE t ADD COLUMN y int").await, ErrorKind::LockNotAvailable);
    tag(&writer, "ROLLBACK").await;
    // Readers and the holder of the acquisition are not locked out.
    assert_eq!(rows(&writer, "SELECT x FROM t").await, ["1"]);
    db.tag("INSERT INTO t VALUES ('2024-01-02', 3)").await;
    db.tag("ALTER TABLE t ADD COLUMN y int").await;
    assert_eq!(rows(&writer, "SELECT x FROM t ORDER BY time").await, ["1", "3"]);
    assert_eq!(db.tag("RELEASE TABLE t").await, "RELEASE CHRONICLE");
    tag(&writer, "INSERT INTO t VALUES ('2024-01-03', 4)").await;
    assert_eq!(db.kind("RELEASE CHRONICLE t").await, ErrorKind::ObjectNotInPrerequisiteState);
    // A user who tries PostgreSQL's statement gets a hint.
    db.tag("BEGIN").await;
    let told = db.error("LOCK TABLE t IN EXCLUSIVE MODE").await;
    assert!(told.hint().unwrap().contains("ACQUIRE CHRONICLE"), "{told}");
}

#[tokio::test]
async fn exclusive_waits_for_transactions_that_have_written() {
    let db = database().await;
    let writer = other(&db);
    for end in ["COMMIT", "ROLLBACK"] {
        tag(&writer, "BEGIN").await;
        tag(&writer, "INSERT INTO t VALUES ('2024-01-01', 1)").await;
        let told = db.error("ACQUIRE CHRONICLE t EXCLUSIVE NOWAIT").await;
        assert_eq!(told.kind(), ErrorKind::LockNotAvailable);
        assert!(told.message().ends_with("writes to the chronicle"), "{told}");
        let waiting = begun(&db.session, "ACQUIRE CHRONICLE t EXCLUSIVE").await;
        // The running transaction goes on; no other transaction can start a write.
        tag(&writer, "INSERT INTO t VALUES ('2024-01-01', 2)").await;
        let third = other(&db);
        let told = error(&third, "INSERT INTO t VALUES ('2024-01-01', 3)").await;
        assert_eq!(told.kind(), ErrorKind::LockNotAvailable);
        assert!(told.message().contains("is about to acquire"), "{told}");
        tag(&writer, end).await;
        ended(waiting).await.unwrap();
        assert_eq!(
            kind(&writer, "INSERT INTO t VALUES ('2024-01-01', 4)").await,
            ErrorKind::LockNotAvailable
        );
        db.tag("RELEASE CHRONICLE t").await;
    }
    assert_eq!(db.rows("SELECT x FROM t ORDER BY x").await, ["1", "2"]);
    // The acquisition waits for a running COPY, but not for a reader.
    let parsed = writer.parse("COPY t FROM STDIN").unwrap();
    let copy = writer.run(&parsed[0]).await.unwrap();
    let reader = other(&db);
    tag(&reader, "BEGIN").await;
    assert_eq!(rows(&reader, "SELECT count(*) FROM t").await, ["2"]);
    let waiting = begun(&db.session, "ACQUIRE CHRONICLE t EXCLUSIVE").await;
    drop(copy);
    ended(waiting).await.unwrap();
    assert_eq!(rows(&reader, "SELECT count(*) FROM t").await, ["2"]);
}

#[tokio::test]
async fn a_wait_ends_with_what_it_waits_for_or_its_limits() {
    let db = database().await;
    let holder = other(&db);
    tag(&holder, "ACQUIRE CHRONICLE t").await;
    let waiting = begun(&db.session, "ACQUIRE CHRONICLE t EXCLUSIVE").await;
    tag(&holder, "RELEASE CHRONICLE t").await;
    ended(waiting).await.unwrap();
    let waiting = begun(&holder, "ACQUIRE CHRONICLE t").await;
    assert!(db.service.cancel(holder.key()));
    assert_eq!(ended(waiting).await.unwrap_err().kind(), ErrorKind::QueryCanceled);
    tag(&holder, "SET lock_timeout = '20ms'").await;
    let told = error(&holder, "ACQUIRE CHRONICLE t").await;
    assert_eq!(told.kind(), ErrorKind::LockNotAvailable);
    assert_eq!(told.message(), "canceling statement due to lock timeout");
    assert!(told.detail().unwrap().contains(&format!("Session {}", db.session.process_id())));
    tag(&holder, "RESET lock_timeout; SET statement_timeout = '20ms'").await;
    assert_eq!(kind(&holder, "ACQUIRE CHRONICLE t").await, ErrorKind::QueryCanceled);
    tag(&holder, "RESET statement_timeout").await;
    // A session that has given up is not in the queue.
    db.tag("RELEASE CHRONICLE t").await;
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE NOWAIT").await;
    let waiting = begun(&holder, "ACQUIRE CHRONICLE t").await;
    db.session.close();
    ended(waiting).await.unwrap();
}

#[tokio::test]
async fn sessions_that_wait_for_each_other_are_found() {
    let db = database().await;
    let second = other(&db);
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE").await;
    tag(&second, "ACQUIRE CHRONICLE u EXCLUSIVE").await;
    let waiting = begun(&db.session, "ACQUIRE CHRONICLE u").await;
    assert_eq!(kind(&second, "ACQUIRE CHRONICLE t").await, ErrorKind::DeadlockDetected);
    // A writer never waits, so a writer is never part of a deadlock.
    assert_eq!(
        kind(&second, "INSERT INTO t VALUES ('2024-01-01', 1)").await,
        ErrorKind::LockNotAvailable
    );
    tag(&second, "RELEASE CHRONICLE u").await;
    ended(waiting).await.unwrap();
    // The same with a transaction that has written.
    db.tag("RELEASE CHRONICLE t; RELEASE CHRONICLE u").await;
    db.tag("BEGIN").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    tag(&second, "ACQUIRE CHRONICLE u EXCLUSIVE").await;
    let waiting = begun(&second, "ACQUIRE CHRONICLE t EXCLUSIVE").await;
    assert_eq!(db.kind("ACQUIRE CHRONICLE u").await, ErrorKind::DeadlockDetected);
    db.tag("ROLLBACK").await;
    ended(waiting).await.unwrap();
}

#[tokio::test]
async fn a_lease_that_ran_out_is_access_that_is_lost() {
    let db = database().await;
    let second = other(&db);
    let pass = |ms: i64| {
        db.clock.0.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    };
    let lost = ErrorKind::LeaseLost;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE FOR INTERVAL '100 ms'").await;
    db.tag("DECLARE c CURSOR WITH HOLD FOR SELECT x FROM t").await;
    db.tag("PREPARE p AS SELECT x FROM t").await;
    pass(60);
    // A second acquisition starts a new lease.
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE FOR INTERVAL '100 ms'").await;
    pass(60);
    assert_eq!(
        kind(&second, "INSERT INTO t VALUES ('2024-01-01', 2)").await,
        ErrorKind::LockNotAvailable
    );
    assert_eq!(db.rows("SELECT x FROM t").await, ["1"]);
    db.tag("BEGIN").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 3)").await;
    pass(60);
    tag(&second, "INSERT INTO t VALUES ('2024-01-01', 4)").await;
    let told = db.error("COMMIT").await;
    assert_eq!(told.kind(), lost);
    assert!(
        told.message().starts_with("the lease on chronicle \"t\" ran out at 2024-01-01"),
        "{told}"
    );
    for sql in [
        "SELECT x FROM t",
        "SELECT count(*) FROM u, t",
        "SELECT count(*) FROM t",
        "INSERT INTO t VALUES ('2024-01-01', 5)",
        "INSERT INTO u SELECT * FROM t",
        "INSERT INTO u VALUES ('2024-01-01', (SELECT max(x) FROM t))",
        "COPY t TO STDOUT",
        "FETCH c",
        "EXECUTE p",
        "DELETE FROM t",
        "EXPLAIN SELECT * FROM t",
    ] {
        let told = db.error(sql).await;
        assert_eq!(told.kind(), lost, "{sql}: {told}");
        assert!(told.hint().unwrap().contains("RELEASE CHRONICLE t"));
    }
    assert_eq!(db.rows("SELECT count(*) FROM u").await, ["0"]);
    tag(&second, "ACQUIRE CHRONICLE t EXCLUSIVE FOR INTERVAL '30 ms'").await;
    assert_eq!(db.kind("ACQUIRE CHRONICLE t NOWAIT").await, ErrorKind::LockNotAvailable);
    assert_eq!(db.kind("SELECT x FROM t").await, lost);
    // A waiting session proceeds at the end of the lease.
    let waiting = begun(&db.session, "ACQUIRE CHRONICLE t EXCLUSIVE").await;
    pass(30);
    ended(waiting).await.unwrap();
    assert_eq!(db.rows("SELECT x FROM t ORDER BY x").await, ["1", "4"]);
    assert_eq!(kind(&second, "SELECT x FROM t").await, lost);
    tag(&second, "RELEASE CHRONICLE t").await;
    assert_eq!(rows(&second, "SELECT x FROM t ORDER BY x").await, ["1", "4"]);
}

#[tokio::test]
async fn what_was_written_through_a_lost_lease_stays_lost() {
    let db = database().await;
    db.tag("ACQUIRE CHRONICLE t FOR INTERVAL '10 ms'").await;
    db.tag("BEGIN").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 1)").await;
    db.tag("SAVEPOINT s").await;
    db.clock.0.fetch_add(10_000_000, Ordering::Relaxed);
    // The session cannot know the events of other sessions between the two leases.
    db.tag("ACQUIRE CHRONICLE t").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 2)").await;
    assert_eq!(db.kind("COMMIT").await, ErrorKind::LeaseLost);
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["0"]);
    db.tag("INSERT INTO t VALUES ('2024-01-01', 3)").await;
}

#[tokio::test]
async fn acquisitions_are_the_sessions_and_not_the_blocks() {
    let db = database().await;
    let second = other(&db);
    db.tag("BEGIN").await;
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE").await;
    db.tag("ROLLBACK").await;
    assert_eq!(kind(&second, "ACQUIRE CHRONICLE t NOWAIT").await, ErrorKind::LockNotAvailable);
    db.tag("DISCARD ALL").await;
    tag(&second, "ACQUIRE CHRONICLE t EXCLUSIVE NOWAIT").await;
    // The end of the session releases the acquisition, in any case.
    drop(second);
    db.tag("ACQUIRE CHRONICLE t EXCLUSIVE NOWAIT").await;
    let twin = db.session.twin().unwrap();
    tag(&twin, "INSERT INTO t VALUES ('2024-01-01', 1)").await;
    twin.close();
    let third = other(&db);
    assert_eq!(kind(&third, "ACQUIRE CHRONICLE t NOWAIT").await, ErrorKind::LockNotAvailable);
    // An open twin of a closed session cannot acquire, because no session would release the
    // acquisition.
    let twin = db.session.twin().unwrap();
    db.session.close();
    tag(&third, "ACQUIRE CHRONICLE t EXCLUSIVE NOWAIT").await;
    tag(&third, "RELEASE CHRONICLE t").await;
    assert_eq!(kind(&twin, "ACQUIRE CHRONICLE t").await, ErrorKind::ConnectionFailure);
    tag(&third, "ACQUIRE CHRONICLE t EXCLUSIVE NOWAIT").await;
}

#[tokio::test]
async fn statements_are_read_as_they_are_written() {
    let db = database().await;
    for sql in [
        "ACQUIRE CHRONICLE t",
        "acquire table public.t shared",
        "ACQUIRE CHRONICLE \"t\" EXCLUSIVE RANGE FROM '2024-01-01' TO '2024-01-02' FOR INTERVAL '1 s' NOWAIT",
        "ACQUIRE CHRONICLE t SINCE now() - INTERVAL '1 hour' FOR '10 min'",
        "ACQUIRE CHRONICLE t RANGE FROM now() - INTERVAL '1' HOUR TO now() + INTERVAL '1 hour'",
        "ACQUIRE CHRONICLE t RANGE FROM INTERVAL '1' HOUR + '2024-01-01'::timestamptz TO timestamp '2024-01-03'",
        "ACQUIRE CHRONICLE t UNTIL date '2024-02-01'",
        "ACQUIRE CHRONICLE t UNTIL 100",
        "ACQUIRE CHRONICLE t RANGE FROM -5 TO (1 + 2) * 3",
    ] {
        assert_eq!(db.tag(sql).await, "ACQUIRE CHRONICLE", "{sql}");
    }
    for (sql, wanted) in [
        ("ACQUIRE t", ErrorKind::SyntaxError),
        ("ACQUIRE CHRONICLE", ErrorKind::SyntaxError),
        ("ACQUIRE CHRONICLE t EXCLUSIVE SHARED", ErrorKind::SyntaxError),
        ("ACQUIRE CHRONICLE t RANGE FROM 1", ErrorKind::SyntaxError),
        ("ACQUIRE CHRONICLE t NOWAIT please", ErrorKind::SyntaxError),
        ("ACQUIRE CHRONICLE w", ErrorKind::UndefinedTable),
        ("ACQUIRE CHRONICLE stratalog.store", ErrorKind::WrongObjectType),
        ("ACQUIRE CHRONICLE t RANGE FROM 5 TO 5", ErrorKind::InvalidParameterValue),
        ("ACQUIRE CHRONICLE t UNTIL NULL", ErrorKind::NullNotAllowed),
        ("ACQUIRE CHRONICLE t UNTIL 'soon'", ErrorKind::InvalidDatetimeFormat),
        ("ACQUIRE CHRONICLE t UNTIL (SELECT max(time) FROM t)", ErrorKind::FeatureNotSupported),
        ("ACQUIRE CHRONICLE t FOR INTERVAL '0 s'", ErrorKind::InvalidParameterValue),
        ("ACQUIRE CHRONICLE t FOR INTERVAL '-1 s'", ErrorKind::InvalidParameterValue),
        ("ACQUIRE CHRONICLE t FOR NULL", ErrorKind::NullNotAllowed),
        ("ACQUIRE CHRONICLE t UNTIL true", ErrorKind::CannotCoerce),
        ("RELEASE CHRONICLE w", ErrorKind::UndefinedTable),
        ("RELEASE CHRONICLE u", ErrorKind::ObjectNotInPrerequisiteState),
    ] {
        assert_eq!(db.kind(sql).await, wanted, "{sql}");
    }
    // Savepoints may have these names.
    db.tag("BEGIN").await;
    for name in ["chronicle", "\"table\"", "acquire"] {
        db.tag(&format!("SAVEPOINT {name}")).await;
        assert_eq!(db.tag(&format!("RELEASE {name}")).await, "RELEASE");
        db.tag(&format!("SAVEPOINT {name}")).await;
        assert_eq!(db.tag(&format!("RELEASE SAVEPOINT {name}")).await, "RELEASE");
    }
    db.tag("CREATE TABLE made (time timestamptz)").await;
    assert_eq!(db.kind("ACQUIRE CHRONICLE made").await, ErrorKind::FeatureNotSupported);
    db.tag("ROLLBACK").await;
}

#[tokio::test]
async fn bounds_and_leases_may_be_parameters() {
    let db = database().await;
    let text = "ACQUIRE CHRONICLE t RANGE FROM $1 TO $2 FOR $3";
    let [parsed] = <[_; 1]>::try_from(db.session.parse(text).unwrap()).unwrap();
    let prepared = db.session.prepare(&parsed, &[]).await.unwrap();
    let time = ColumnType::TimestampTz { precision: 9 };
    assert_eq!(prepared.parameter_types(), [time.clone(), time, ColumnType::Interval]);
    let micros = |at: i64| ScalarValue::TimestampNanosecond(Some(at * 1_000), Some("UTC".into()));
    let lease = ScalarValue::new_interval_mdn(0, 0, 1_000_000_000);
    let values = vec![micros(1_704_067_200_000_000), micros(1_704_153_600_000_000), lease];
    let outcome = db.session.execute(&prepared, values).await.unwrap();
    assert_eq!(finish(outcome).await.unwrap().tag, "ACQUIRE CHRONICLE");
    db.tag("INSERT INTO t VALUES ('2024-01-01 23:59:59', 1)").await;
    assert_eq!(
        db.kind("INSERT INTO t VALUES ('2024-01-02', 1)").await,
        ErrorKind::OutsideProjection
    );
    // Integers are ticks.
    let told = [Some(ColumnType::BigInt), Some(ColumnType::Integer)];
    let [parsed] =
        <[_; 1]>::try_from(db.session.parse("ACQUIRE CHRONICLE t RANGE FROM $1 TO $2").unwrap())
            .unwrap();
    let prepared = db.session.prepare(&parsed, &told).await.unwrap();
    let values = vec![ScalarValue::from(0_i64), ScalarValue::from(1_i32)];
    finish(db.session.execute(&prepared, values).await.unwrap()).await.unwrap();
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["0"]);
    // A text is parsed as a time.
    let [parsed] =
        <[_; 1]>::try_from(db.session.parse("ACQUIRE CHRONICLE t SINCE $1").unwrap()).unwrap();
    let prepared = db.session.prepare(&parsed, &[Some(ColumnType::Text)]).await.unwrap();
    let values = vec![ScalarValue::from("2024-01-01")];
    finish(db.session.execute(&prepared, values).await.unwrap()).await.unwrap();
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["1"]);
}
