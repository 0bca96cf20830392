//! Statements.

use std::{sync::Arc, time::Duration};

use arrow::array::{ArrayRef, AsArray as _, Float64Array, Int64Array, RecordBatch, StringArray};
use futures::StreamExt as _;
use stratalog_client::{Client, ErrorKind, Value};

use crate::support::{Server, number, patient, until};

const ROOMS: &str = "CREATE TABLE rooms (time timestamptz, room text, degrees double precision, PRIMARY KEY (room, time))";

#[tokio::test]
async fn rows_come_as_they_are() {
    let server = Server::start();
    let client = server.client().await;
    assert_eq!(client.execute(ROOMS).await.unwrap(), 0);
    let insert =
        "INSERT INTO rooms VALUES ('2024-01-01', 'hall', 20.5), ('2024-01-02', 'attic', NULL)";
    assert_eq!(client.execute(insert).await.unwrap(), 2);
    let mut rows = client.query("SELECT room, degrees FROM rooms ORDER BY room").await.unwrap();
    assert_eq!(rows.schema().field(0).name(), "room");
    let batch = rows.next().await.unwrap().unwrap();
    assert!(rows.next().await.is_none());
    assert_eq!(batch.column(0).as_string::<i32>().value(0), "attic");
    assert_eq!(batch.column(1).null_count(), 1);
    let none = client.query("SELECT * FROM rooms WHERE room = 'cellar'").await.unwrap();
    assert_eq!(none.schema().fields().len(), 3);
    assert_eq!(none.collect().await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    let told = client.query("INSERT INTO rooms VALUES ('2024-01-03', 'hall', 1) RETURNING degrees");
    let told = told.await.unwrap().collect().await.unwrap();
    assert_eq!(told[0].num_rows(), 1);
    assert_eq!(number(&client, "SELECT count(*) FROM rooms").await, 3);
    // More rows than fit into a message or into the window of a stream.
    let many = client.query("SELECT x FROM generate_series(1, 3000000) AS g(x)").await.unwrap();
    let many = many.collect().await.unwrap();
    assert!(many.len() > 1);
    assert_eq!(many.iter().map(RecordBatch::num_rows).sum::<usize>(), 3_000_000);
}

#[tokio::test]
async fn statements_take_parameters() {
    let server = Server::start();
    let client = server.client().await;
    client.execute(ROOMS).await.unwrap();
    let insert = "INSERT INTO rooms VALUES ($1, $2, $3)";
    let day = 86_400_000_000_000;
    let one = [Value::Timestamp(day), "hall".into(), 20.5.into()];
    assert_eq!(client.execute_with(insert, one).await.unwrap(), 1);
    let times: ArrayRef = Arc::new(StringArray::from(vec!["2024-01-01", "2024-01-02"]));
    let rooms: ArrayRef = Arc::new(StringArray::from(vec!["attic", "attic"]));
    let degrees: ArrayRef = Arc::new(Float64Array::from(vec![Some(10.0), None]));
    let batch = RecordBatch::try_from_iter([("a", times), ("b", rooms), ("c", degrees)]).unwrap();
    assert_eq!(client.execute_with(insert, &batch).await.unwrap(), 2);
    let sql =
        "SELECT count(*) FROM rooms WHERE room = $1 AND degrees IS NOT DISTINCT FROM $2::float8";
    let found = client.query_with(sql, ["attic".into(), Value::Null]).await.unwrap();
    let found = found.collect().await.unwrap();
    assert_eq!(found[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0), 1);

    let mut prepared = client.prepare("SELECT $1::bigint + 1 AS next").await.unwrap();
    assert_eq!(prepared.schema().field(0).name(), "next");
    assert_eq!(prepared.parameters().fields().len(), 1);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 5, 9]));
    let numbers = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
    let next = prepared.query(numbers).await.unwrap().collect().await.unwrap();
    let next: Vec<i64> = next
        .iter()
        .flat_map(|b| b.column(0).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec())
        .collect();
    assert_eq!(next, [2, 6, 10]);
    let mut plain = client.prepare("DELETE FROM rooms WHERE time < '1970-01-03'").await.unwrap();
    assert_eq!(plain.execute(()).await.unwrap(), 1);
    for _ in 0..1100 {
        // The server keeps at most a thousand prepared statements: dropped statements are closed.
        drop(client.prepare("SELECT 1").await.unwrap());
    }
    let error = client.query_with("SELECT $1::bigint", ["x".into()]).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("22P02"), "{error}");
}

#[tokio::test]
async fn a_subscription_is_executed_as_a_query() {
    let server = Server::start();
    let client = server.client().await;
    client.execute(ROOMS).await.unwrap();
    client.execute("INSERT INTO rooms VALUES ('2024-01-01', 'hall', 1)").await.unwrap();
    let error = client.execute("SUBSCRIBE rooms").await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("42809"), "{error}");
    let from = "SUBSCRIBE rooms FROM GSN $1";
    let error = client.execute_with(from, [Value::Int(1)]).await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("42809"), "{error}");
    let mut rows = client.query_with(from, [Value::Int(1)]).await.unwrap();
    assert_eq!(rows.next().await.unwrap().unwrap().num_rows(), 1);
}

#[tokio::test]
async fn transactions_happen_whole_or_not_at_all() {
    let server = Server::start();
    let client = server.client().await;
    client.execute(ROOMS).await.unwrap();
    let count = "SELECT count(*) FROM rooms";
    let transaction = client.begin().await.unwrap();
    transaction.execute("INSERT INTO rooms VALUES ('2024-01-01', 'a', 1)").await.unwrap();
    let insert = "INSERT INTO rooms VALUES ('2024-01-01', $1, $2)";
    let two = transaction.execute_with(insert, ["b".into(), 2.0.into()]).await.unwrap();
    assert_eq!(two, 1);
    let inside = transaction.query(count).await.unwrap().collect().await.unwrap();
    assert_eq!(inside[0].column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0), 2);
    let sql = "SELECT room FROM rooms WHERE degrees = $1";
    let found = transaction.query_with(sql, [2.0.into()]).await.unwrap().collect().await.unwrap();
    assert_eq!(found[0].column(0).as_string::<i32>().value(0), "b");
    assert_eq!(number(&client, count).await, 0, "nobody else sees it");
    assert_eq!(transaction.execute("COMMIT").await.unwrap_err().kind(), ErrorKind::InvalidOption);
    transaction.commit().await.unwrap();
    assert_eq!(number(&client, count).await, 2);

    let dropped = client.begin().await.unwrap();
    dropped.execute("INSERT INTO rooms VALUES ('2024-01-01', 'c', 1)").await.unwrap();
    drop(dropped);
    let rolled_back = client.begin().await.unwrap();
    rolled_back.execute("INSERT INTO rooms VALUES ('2024-01-01', 'd', 1)").await.unwrap();
    rolled_back.rollback().await.unwrap();
    let failed = client.begin().await.unwrap();
    failed.execute("INSERT INTO rooms VALUES ('2024-01-01', 'e', 1)").await.unwrap();
    failed.execute("INSERT INTO nowhere VALUES (1)").await.unwrap_err();
    assert_eq!(failed.commit().await.unwrap_err().sqlstate(), Some("25P02"));
    // The key of the dropped row is free again after the server has rolled back.
    let again = "INSERT INTO rooms VALUES ('2024-01-01', 'c', 1)";
    until("the dropped transaction is over", || async { client.execute(again).await.is_ok() })
        .await;
    assert_eq!(number(&client, count).await, 3);
}

#[tokio::test]
async fn errors_say_what_is_wrong() {
    let server = Server::start();
    let client = server.client().await;
    let error = client.query("SELECT * FROM nowhere").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Sql { sqlstate } if sqlstate.as_str() == "42P01"));
    assert!(error.message().contains("nowhere") && !error.is_retryable(), "{error}");
    let error = client.execute("SELEC 1").await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("42601"));
    let error = client.query("SELECT 1; SELECT 2").await.unwrap_err();
    assert_eq!(error.sqlstate(), Some("42601"));
    let error = client.execute("SET timezone = 'UTC'").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.hint().unwrap().contains("set_option"));
    let rows = client.query("SELECT 1 / (x - 20000) FROM generate_series(1, 30000) AS g(x)").await;
    let error = match rows {
        Ok(rows) => rows.collect().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.sqlstate(), Some("22012"), "also amid the rows");
}

#[tokio::test]
async fn options_hold_on_each_connection_and_after_a_restart() {
    let mut server = Server::start();
    let client = Client::builder()
        .url(server.url())
        .application_name("thermometer")
        .connections(3)
        .retry(patient())
        .connect()
        .await
        .unwrap();
    client.set_option("timezone", "Asia/Tokyo").await.unwrap();
    let error = client.set_option("no_such_option", "1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    assert!(error.to_string().contains("no_such_option"), "{error}");
    for round in 0..2 {
        // Concurrent queries, so that several connections are opened.
        let zones = (0..6).map(|_| async {
            let zone = client
                .query("SELECT current_setting('timezone'), current_setting('application_name')");
            let batch = zone.await.unwrap().collect().await.unwrap().remove(0);
            let text = |at: usize| batch.column(at).as_string::<i32>().value(0).to_string();
            (text(0), text(1))
        });
        for told in futures::future::join_all(zones).await {
            assert_eq!(told, ("Asia/Tokyo".to_string(), "thermometer".to_string()), "{round}");
        }
        server.restart();
    }
    client.reset_option("timezone").await.unwrap();
    let options = client.options().await.unwrap();
    assert_ne!(options["TimeZone"].to_string(), "Asia/Tokyo");
}

#[tokio::test]
async fn statements_go_on_after_a_restart() {
    let mut server = Server::start();
    let client = Client::builder().url(server.url()).retry(patient()).connect().await.unwrap();
    client.execute(ROOMS).await.unwrap();
    let mut prepared =
        client.prepare("INSERT INTO rooms VALUES ('2024-01-01', $1, 1)").await.unwrap();
    assert_eq!(prepared.execute(["a".into()]).await.unwrap(), 1);
    let open = client.begin().await.unwrap();
    open.execute("INSERT INTO rooms VALUES ('2024-01-01', 'lost', 1)").await.unwrap();
    server.restart();
    // The connections notice the restart only at their next use.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(open.commit().await.is_err(), "it is lost, and says so");
    assert_eq!(prepared.execute(["b".into()]).await.unwrap(), 1);
    assert_eq!(client.execute("INSERT INTO rooms VALUES ('2024-01-01', 'c', 1)").await.unwrap(), 1);
    // Sent while the server is down: the statement waits for the restart and runs once.
    server.kill();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.execute("INSERT INTO rooms VALUES ('2024-01-01', 'd', 1)").await }
    });
    let reading = tokio::spawn({
        let client = client.clone();
        async move { number(&client, "SELECT count(*) FROM rooms WHERE room < 'd'").await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.restart();
    assert_eq!(waiting.await.unwrap().unwrap(), 1);
    assert_eq!(reading.await.unwrap(), 3);
    assert_eq!(number(&client, "SELECT count(*) FROM rooms").await, 4);
}

const ENDLESS: &str = "SELECT a.x * b.y AS p FROM generate_series(1, 10000000) AS a(x) CROSS JOIN generate_series(1, 100000) AS b(y)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_rows_stops_the_query() {
    let server = Server::start();
    let watcher = server.client().await;
    let client = Client::builder().url(server.url()).application_name("endless").connect();
    let client = client.await.unwrap();
    let active = "SELECT count(*) FROM stratalog.sessions WHERE application_name = 'endless' AND state = 'active'";
    let mut rows = client.query(ENDLESS).await.unwrap();
    assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
    assert_eq!(number(&watcher, active).await, 1);
    drop(rows);
    until("the query has stopped", || async { number(&watcher, active).await == 0 }).await;
    // Before the first row: the call is cancelled.
    let slow = "SELECT sum(p) FROM (SELECT a.x * b.y AS p FROM generate_series(1, 10000000) AS a(x) CROSS JOIN generate_series(1, 100000) AS b(y)) AS s";
    let slow = tokio::spawn({
        let client = client.clone();
        async move { client.query(slow).await?.collect().await }
    });
    until("it runs", || async { number(&watcher, active).await == 1 }).await;
    slow.abort();
    until("it has stopped", || async { number(&watcher, active).await == 0 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_is_cancelled_from_elsewhere() {
    let server = Server::start();
    let client = server.client().await;
    let mut rows = client.query(ENDLESS).await.unwrap();
    rows.next().await.unwrap().unwrap();
    let cancel = rows.canceller();
    assert!(cancel.cancel().await.unwrap());
    let error = loop {
        match rows.next().await.expect("it does not end well") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.sqlstate(), Some("57014"), "{error}");
    drop(rows);
    assert!(!cancel.cancel().await.unwrap(), "it is over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_nobody_reads_hold_nobody_up() {
    let server = Server::start();
    let client = Client::builder().url(server.url()).connections(1).connect().await.unwrap();
    client.execute(crate::support::KEYED).await.unwrap();
    let mut unread = Vec::new();
    for _ in 0..20 {
        unread.push(client.query(ENDLESS).await.unwrap());
    }
    let writer = client.writer("log").open().await.unwrap();
    for round in 0..5 {
        writer.write(crate::support::rows("u", round..round + 1)).await.unwrap();
        writer.flush().await.unwrap();
        assert_eq!(number(&client, "SELECT count(*) FROM log").await, round + 1);
    }
    let first = unread[0].next().await.unwrap().unwrap();
    assert!(first.num_rows() > 0);
}

#[tokio::test]
async fn a_closed_client_says_so() {
    let server = Server::start();
    let client = server.client().await;
    let other = client.clone();
    client.close().await;
    assert_eq!(other.query("SELECT 1").await.unwrap_err().kind(), ErrorKind::Closed);
}
