//! Writers without failures.

use std::{sync::Arc, time::Duration};

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampNanosecondArray};
use stratalog_client::{Durability, ErrorKind, Uuid};

use crate::support::{KEYED, Server, assert_once, number, rows, tally, until};

#[tokio::test]
async fn batches_are_put_together_and_cut_and_acknowledged() {
    let server = Server::start();
    let client = server.client().await;
    client.execute(KEYED).await.unwrap();
    let writer = client
        .writer("public.log")
        .durability(Durability::Relaxed)
        .linger(Duration::from_secs(3600))
        .batch_rows_max(100)
        .open()
        .await
        .unwrap();
    assert_eq!(writer.schema().fields().len(), 3);
    assert_eq!(writer.last_sequence(), None);
    assert_eq!(writer.flush().await.unwrap().rows, 0);
    let small: Vec<_> = {
        let mut small = Vec::new();
        for at in 0..10 {
            small.push(writer.write(rows("x", at..at + 1)).await.unwrap());
        }
        small
    };
    let large = writer.write(rows("x", 10..460)).await.unwrap();
    let stored = writer.flush().await.unwrap();
    assert_eq!((stored.rows, stored.duplicates), (460, 0));
    assert_eq!(stored.durability, Some(Durability::Relaxed));
    let (first, last) = (stored.first_gsn.unwrap(), stored.last_gsn.unwrap());
    assert_eq!(last - first, 459);
    assert_eq!(number(&client, "SELECT max(_gsn) FROM log").await, last as i64);
    assert_eq!(large.await.unwrap().rows, 450);
    for (at, small) in small.into_iter().enumerate() {
        assert_eq!(small.number(), at as u64 + 1);
        assert_eq!(small.await.unwrap().rows, 1);
    }
    let empty = writer.write(rows("x", 0..0)).await.unwrap();
    assert_eq!(empty.await.unwrap().rows, 0);
    writer.close().await.unwrap();
    let error = writer.write(rows("x", 0..1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert_once(tally(&client, "x").await, 460);
}

#[tokio::test]
async fn rows_go_by_time_without_a_flush() {
    let server = Server::start();
    let client = server.client().await;
    client.execute(KEYED).await.unwrap();
    let writer = client.writer("log").open().await.unwrap();
    let first = writer.write(rows("t", 0..5)).await.unwrap();
    assert_eq!(first.await.unwrap().rows, 5);
    // By then the idle call has been closed.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let second = writer.write(rows("t", 5..9)).await.unwrap();
    assert_eq!(second.await.unwrap().rows, 4);
    assert_once(tally(&client, "t").await, 9);
}

#[tokio::test]
async fn a_table_that_is_not_there_is_told_at_once() {
    let server = Server::start();
    let client = server.client().await;
    let error = client.writer("nowhere").open().await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("42P01"));
    assert!(error.to_string().contains("nowhere"), "{error}");
    let error = client.writer("a.b.c").open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
}

#[tokio::test]
async fn only_what_is_at_fault_is_refused() {
    let server = Server::start();
    let client = server.client().await;
    let sql = "CREATE TABLE log (time timestamptz NOT NULL, writer text NOT NULL, number bigint)";
    client.execute(sql).await.unwrap();
    let writer = client.writer("log").linger(Duration::from_secs(3600)).open().await.unwrap();
    let good = writer.write(rows("r", 0..5)).await.unwrap();
    let whole = rows("r", 5..6);
    let without_writer = {
        let none: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
        let columns = [whole.column(0).clone(), none, whole.column(2).clone()];
        RecordBatch::try_from_iter_with_nullable([
            ("time", columns[0].clone(), true),
            ("writer", columns[1].clone(), true),
            ("number", columns[2].clone(), true),
        ])
        .unwrap()
    };
    let null = writer.write(without_writer).await.unwrap();
    let other_columns = {
        let time: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1]).with_timezone("UTC"));
        let wrong: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        RecordBatch::try_from_iter([("time", time), ("nummer", wrong)]).unwrap()
    };
    let mismatch = writer.write(other_columns).await.unwrap();
    let last = writer.write(rows("r", 5..9)).await.unwrap();
    let (null_number, mismatch_number) = (null.number(), mismatch.number());
    writer.flush().await.unwrap();
    assert_eq!(good.await.unwrap().rows, 5);
    let error = null.await.unwrap_err();
    assert_eq!((error.kind(), error.batch()), (ErrorKind::InvalidBatch, Some(null_number)));
    assert_eq!(error.sqlstate(), Some("23502"));
    assert!(error.to_string().contains("\"writer\""), "{error}");
    let error = mismatch.await.unwrap_err();
    assert_eq!((error.kind(), error.batch()), (ErrorKind::InvalidBatch, Some(mismatch_number)));
    assert!(error.to_string().contains("nummer"), "{error}");
    assert_eq!(last.await.unwrap().rows, 4);
    assert_once(tally(&client, "r").await, 9);
}

#[tokio::test]
async fn of_batches_that_went_as_one_only_the_one_at_fault_is_refused() {
    let server = Server::start();
    let client = server.client().await;
    client
        .execute("CREATE TABLE log (time timestamptz, writer text, number bigint, PRIMARY KEY (writer, number, time))")
        .await
        .unwrap();
    let writer = client.writer("log").linger(Duration::from_secs(3600)).open().await.unwrap();
    writer.write(rows("k", 0..1)).await.unwrap();
    writer.flush().await.unwrap();
    let one = writer.write(rows("k", 1..3)).await.unwrap();
    let twice = writer.write(rows("k", 0..1)).await.unwrap();
    let two = writer.write(rows("k", 3..7)).await.unwrap();
    writer.write(rows("k", 2..3)).await.unwrap();
    let error = writer.flush().await.unwrap_err();
    assert_eq!((error.batch(), error.sqlstate()), (Some(5), Some("23505")), "{error}");
    assert_eq!((one.await.unwrap().rows, two.await.unwrap().rows), (2, 4));
    assert_eq!(twice.await.unwrap_err().batch(), Some(3));
    assert_once(tally(&client, "k").await, 7);
}

#[tokio::test]
async fn a_producer_goes_on_where_it_was() {
    let server = Server::start();
    let client = server.client().await;
    client.execute(KEYED).await.unwrap();
    let producer = Uuid::new_v4();
    let writer = client.writer("log").producer(producer).open().await.unwrap();
    assert_eq!(writer.last_sequence(), None);
    for number in 1..=5 {
        let start = (number - 1) * 10;
        writer.write_numbered(number as u64, rows("n", start..start + 10)).await.unwrap();
    }
    let error = writer.write_numbered(5, rows("n", 0..1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    writer.close().await.unwrap();
    drop(writer);
    let writer = client.writer("log").producer(producer).open().await.unwrap();
    assert_eq!(writer.last_sequence(), Some(5));
    for number in 4..=7 {
        let start = (number - 1) * 10;
        let rows = rows("n", start..start + 10);
        let stored = writer.write_numbered(number as u64, rows).await.unwrap().await.unwrap();
        assert_eq!(stored.duplicates, u64::from(number <= 5));
    }
    // The writer's own numbers are far above any number that another process may have sent.
    let own = writer.write(rows("n", 70..80)).await.unwrap();
    assert!(own.number() > 1000);
    assert_eq!(own.await.unwrap().duplicates, 0);
    assert_once(tally(&client, "n").await, 80);
}

#[tokio::test]
async fn two_writers_with_one_producer_are_found_out() {
    let server = Server::start();
    let client = server.client().await;
    client.execute(KEYED).await.unwrap();
    let producer = Uuid::new_v4();
    let old = client.writer("log").producer(producer).open().await.unwrap();
    old.write(rows("d", 0..1)).await.unwrap();
    old.flush().await.unwrap();
    let new = client.writer("log").producer(producer).open().await.unwrap();
    new.write(rows("d", 1..2)).await.unwrap();
    new.flush().await.unwrap();
    old.write(rows("d", 2..3)).await.unwrap();
    let error = old.flush().await.unwrap_err();
    assert!(error.to_string().contains("another writer"), "{error}");
    assert_eq!(old.into_unacknowledged().await.len(), 1, "it can be written by another one");
    assert_once(tally(&client, "d").await, 2);
}

#[tokio::test]
async fn rows_for_a_table_that_goes_away_come_back() {
    let server = Server::start();
    let client = server.client().await;
    client.execute(KEYED).await.unwrap();
    let writer = client.writer("log").open().await.unwrap();
    writer.write(rows("g", 0..1)).await.unwrap();
    writer.flush().await.unwrap();
    client.execute("DROP TABLE log").await.unwrap();
    writer.write(rows("g", 1..5)).await.unwrap();
    let error = writer.flush().await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("42P01"), "{error}");
    let left = writer.into_unacknowledged().await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].rows.num_rows(), 4);
}

#[tokio::test]
async fn nothing_is_left_when_client_and_writer_are_dropped() {
    let server = Server::start();
    let watcher = server.client().await;
    watcher.execute(KEYED).await.unwrap();
    let sessions = "SELECT count(*) FROM stratalog.sessions WHERE application_name = 'passing'";
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    {
        let client = stratalog_client::Client::builder()
            .url(server.url())
            .application_name("passing")
            .connect()
            .await
            .unwrap();
        let writer = client.writer("log").open().await.unwrap();
        let stored = writer.write(rows("q", 0..1)).await.unwrap();
        stored.await.unwrap();
        let _prepared = client.prepare("SELECT $1::bigint").await.unwrap();
        let _transaction = client.begin().await.unwrap();
        assert!(number(&watcher, sessions).await > 0);
        assert!(tasks() > before);
    }
    until("the tasks have ended", || async { tasks() <= before }).await;
    until("the sessions have ended", || async { number(&watcher, sessions).await == 0 }).await;
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_refused_by_either_side() {
    let server = Server::start();
    let client = server.client().await;
    client.execute("CREATE TABLE log (time timestamptz NOT NULL, body text)").await.unwrap();
    let bodies = |count: usize, bytes: usize| {
        let times = TimestampNanosecondArray::from(vec![1_i64; count]).with_timezone("UTC");
        let bodies = StringArray::from(vec!["x".repeat(bytes); count]);
        let columns: [(&str, ArrayRef); 2] =
            [("time", Arc::new(times)), ("body", Arc::new(bodies))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let writer = client.writer("log").open().await.unwrap();
    let error = writer.write_numbered(1, bodies(65, 1 << 20)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidBatch);
    assert!(error.to_string().contains("65 rows under one number"), "{error}");
    // A batch cut into pieces succeeds.
    writer.write(bodies(65, 1 << 20)).await.unwrap();
    assert_eq!(writer.close().await.unwrap().rows, 65);

    let generous = stratalog_client::Client::builder().message_bytes_max(256 << 20);
    let client = generous.url(server.url()).connect().await.unwrap();
    let writer = client.writer("log").open().await.unwrap();
    let before = writer.write_numbered(1, bodies(2, 10)).await.unwrap();
    let large = writer.write_numbered(2, bodies(65, 1 << 20)).await.unwrap();
    let after = writer.write_numbered(3, bodies(3, 10)).await.unwrap();
    let error = large.await.unwrap_err();
    assert_eq!((error.kind(), error.batch()), (ErrorKind::InvalidBatch, Some(2)), "{error}");
    assert!(error.hint().unwrap().contains("message_bytes_max"), "{error}");
    assert_eq!((before.await.unwrap().rows, after.await.unwrap().rows), (2, 3));
    assert_eq!(number(&client, "SELECT count(*) FROM log").await, 70);
}
