//! SUBSCRIBE through a session: endless rows, cursors, COPY (F104, F105).

use std::{sync::Arc, time::Duration};

use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use stratalog_model::{ColumnType, ErrorKind};
use stratalog_query::{Outcome, Rows, Session};

use crate::harness::{Database, login, run};

async fn database() -> Database {
    let db = Database::new();
    db.tag("CREATE TABLE t (time timestamptz, k text, v int)").await;
    db.tag("INSERT INTO t VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'b', 2)").await;
    db
}

async fn endless(session: &Arc<Session>, sql: &str) -> Rows {
    let parsed = session.parse(sql).unwrap();
    assert!(parsed[0].is_endless());
    match session.run(&parsed[0]).await.unwrap() {
        Outcome::Rows(rows) => rows,
        Outcome::CopyOut(copy) => copy.rows,
        other => panic!("{other:?}"),
    }
}

/// The number of rows in the next batch.
async fn next(rows: &mut Rows) -> usize {
    let next = tokio::time::timeout(Duration::from_secs(10), rows.next()).await;
    next.expect("nothing came").unwrap().unwrap().num_rows()
}

async fn is_silent(rows: &mut Rows) -> bool {
    tokio::time::timeout(Duration::from_millis(30), rows.next()).await.is_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_go_on_as_others_write_them() {
    let db = database().await;
    let reader = db.service.connect(login()).unwrap();
    for (sql, deleted) in [("SUBSCRIBE t", ""), ("COPY (SUBSCRIBE t) TO STDOUT", "a gap")] {
        let mut rows = endless(&reader, sql).await;
        assert!(rows.is_endless());
        let names: Vec<&str> =
            rows.schema().fields().iter().map(|field| field.name().as_str()).collect();
        assert_eq!(names, ["_gsn", "_gap", "time", "k", "v"]);
        assert_eq!(next(&mut rows).await, 2);
        if !deleted.is_empty() {
            assert_eq!(next(&mut rows).await, 1, "{deleted}");
        }
        assert!(is_silent(&mut rows).await);
        db.tag("INSERT INTO t VALUES ('2024-01-03', 'c', 3)").await;
        assert_eq!(next(&mut rows).await, 1);
        drop(rows);
        db.tag("DELETE FROM t WHERE time >= '2024-01-03'").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_say_where_it_begins_and_what_it_takes() {
    let db = database().await;
    let parsed = db.session.parse("SUBSCRIBE t FROM GSN $2 WHERE k = $1").unwrap();
    let prepared = db.session.prepare(&parsed[0], &[]).await.unwrap();
    let types: Vec<String> = prepared.parameter_types().iter().map(ToString::to_string).collect();
    assert_eq!(types, ["text", "bigint"]);
    let values = vec!["b".into(), 1_i64.into()];
    let Outcome::Rows(mut rows) = db.session.execute(&prepared, values).await.unwrap() else {
        panic!("no rows");
    };
    assert_eq!(next(&mut rows).await, 1);
    assert!(is_silent(&mut rows).await);
}

/// A fraction is an error, because rounding would change the position; NULL as a number of events
/// is an error, because NULL would mean all events.
#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_positions_and_numbers_of_events() {
    let db = database().await;
    let told = [Some(ColumnType::NUMERIC)];
    for sql in
        ["SUBSCRIBE t FROM GSN $1", "INSERT INTO t VALUES ('2024-01-03', 'c', 3) AFTER GSN $1"]
    {
        let parsed = db.session.parse(sql).unwrap();
        let refused = db.session.prepare(&parsed[0], &told).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DatatypeMismatch, "{sql}: {refused}");
    }
    for sql in ["SELECT v FROM playback('t', $1)", "EXPLAIN SELECT v FROM playback('t', ($1))"] {
        let parsed = db.session.parse(sql).unwrap();
        let prepared = db.session.prepare(&parsed[0], &[]).await.unwrap();
        assert_eq!(prepared.parameter_types(), [ColumnType::BigInt], "{sql}");
        let refused = db.session.execute(&prepared, vec![ScalarValue::Int64(None)]).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NullNotAllowed, "{sql}");
        let given = db.session.execute(&prepared, vec![1_i64.into()]).await.unwrap();
        assert!(matches!(given, Outcome::Rows(_)), "{sql}");
    }
    let parsed = db.session.parse("TRIM t BEFORE GSN $1").unwrap();
    let prepared = db.session.prepare(&parsed[0], &[]).await.unwrap();
    let refused = db.session.execute(&prepared, vec![ScalarValue::Int64(None)]).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NullNotAllowed);
    assert_eq!(db.rows("SELECT count(*) FROM t").await, ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_cancelled_and_timed_out_as_any_statement() {
    let db = database().await;
    db.tag("SET statement_timeout = '50ms'").await;
    let mut rows = endless(&db.session, "SUBSCRIBE t LIVE").await;
    assert_eq!(rows.next().await.unwrap().unwrap_err().kind(), ErrorKind::QueryCanceled);
    db.tag("RESET statement_timeout").await;
    let mut rows = endless(&db.session, "SUBSCRIBE t LIVE").await;
    db.service.cancel(db.session.key());
    assert_eq!(rows.next().await.unwrap().unwrap_err().kind(), ErrorKind::QueryCanceled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_ends_with_its_table() {
    let db = database().await;
    let reader = db.service.connect(login()).unwrap();
    let mut rows = endless(&reader, "SUBSCRIBE t LIVE").await;
    db.tag("DROP TABLE t").await;
    assert_eq!(rows.next().await.unwrap().unwrap_err().kind(), ErrorKind::UndefinedTable);
}

/// A subscription keeps its columns from the start.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_column_is_for_those_who_come_later() {
    let db = database().await;
    let reader = db.service.connect(login()).unwrap();
    let mut rows = endless(&reader, "SUBSCRIBE t").await;
    assert_eq!(next(&mut rows).await, 2);
    db.tag("ALTER TABLE t ADD COLUMN w int").await;
    db.tag("INSERT INTO t VALUES ('2024-01-03', 'c', 3, 4)").await;
    assert_eq!(next(&mut rows).await, 1);
    let later = endless(&reader, "SUBSCRIBE t FROM GSN 1").await;
    assert_eq!(later.schema().fields().len(), 6);
}

/// A wait ends with the awaited event, committed by another session.
#[tokio::test(flavor = "multi_thread")]
async fn positions_are_waited_for() {
    let db = database().await;
    let other = db.service.connect(login()).unwrap();
    let read = {
        let session = db.service.connect(login()).unwrap();
        tokio::spawn(async move {
            run(&session, "SELECT v FROM read_record(3, 't')").await.unwrap().lines()
        })
    };
    let after = {
        let session = db.service.connect(login()).unwrap();
        let sql = "INSERT INTO t VALUES ('2024-01-09', 'z', 9) AFTER GSN 3 RETURNING _gsn";
        tokio::spawn(async move { run(&session, sql).await.unwrap().lines() })
    };
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!read.is_finished() && !after.is_finished());
    run(&other, "INSERT INTO t VALUES ('2024-01-03', 'c', 3)").await.unwrap();
    assert_eq!(read.await.unwrap(), ["3"]);
    assert_eq!(after.await.unwrap(), ["4"]);
}
