//! The server's time.

use std::sync::Arc;

use stratalog_client::{
    Value,
    arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray},
};

use crate::support::{Server, number};

const NOW_NS: &str = "SELECT (extract(epoch FROM time) * 1000000)::bigint FROM stratalog.clock";

/// F3, F23: after `sync_clock`, the client's time matches the server's time within the reported
/// error.
#[tokio::test]
async fn f3_a_client_tells_the_servers_time() {
    let mut server = Server::start();
    let client = server.client().await;
    assert_eq!(client.time(), None);
    let synchronized = client.sync_clock().await.unwrap();
    assert!(synchronized.estimate.error_ns < 1_000_000_000, "{synchronized:?}");
    assert!((synchronized.drift - 1.0).abs() < 0.01, "{synchronized:?}");
    assert!(synchronized.round_trip.as_nanos() > 0);
    let mut last = synchronized.estimate.time_ns;
    for _ in 0..20 {
        let before = client.time().unwrap();
        let shown = number(&client, NOW_NS).await * 1_000;
        let after = client.time().unwrap();
        // SQL shows the time in microseconds.
        assert!(before.time_ns - before.error_ns as i64 <= shown + 1_000, "{before:?} {shown}");
        assert!(after.time_ns + after.error_ns as i64 >= shown, "{after:?} {shown}");
        assert!(before.time_ns > last && after.time_ns > before.time_ns);
        last = after.time_ns;
    }
    // After a restart, the server's time follows a new line.
    server.restart();
    let again = client.sync_clock().await.unwrap();
    assert_eq!((again.epoch, again.jumps), (synchronized.epoch + 1, 0));
    assert!(client.time().unwrap().time_ns > last);
}

fn reading(time_ns: i64, v: i64) -> RecordBatch {
    let time: ArrayRef =
        Arc::new(TimestampNanosecondArray::from(vec![time_ns]).with_timezone("UTC"));
    let v: ArrayRef = Arc::new(Int64Array::from(vec![v]));
    RecordBatch::try_from_iter([("time", time), ("v", v)]).unwrap()
}

/// F24: the server refuses an event outside of the window; a retry needs a new time. The same
/// applies to a time in use (F25).
#[tokio::test]
async fn f24_a_refused_event_is_sent_with_a_new_time() {
    let server = Server::start();
    let client = server.client().await;
    let table = "CREATE TABLE readings (time timestamptz(9), v bigint, PRIMARY KEY (time)) \
         WITH (time_source = 'client', acceptance_window = '5s')";
    client.execute(table).await.unwrap();
    client.sync_clock().await.unwrap();
    let writer = client.writer("readings").open().await.unwrap();
    let now = || client.time().unwrap().time_ns;
    let first = now();
    writer.write(reading(first, 1)).await.unwrap().await.unwrap();
    for (wrong, sqlstate) in [
        (first - 3_600_000_000_000, "SL001"),
        (first + 3_600_000_000_000, "SL001"),
        (first, "SL002"),
    ] {
        let refused = writer.write(reading(wrong, 2)).await.unwrap().await.unwrap_err();
        assert_eq!(refused.sqlstate(), Some(sqlstate), "{refused}");
        assert!(refused.needs_new_time() && refused.batch().is_some(), "{refused}");
        // A single statement behaves the same way.
        let insert = "INSERT INTO readings VALUES ($1, 2)";
        let refused = client.execute_with(insert, [Value::Timestamp(wrong)]).await.unwrap_err();
        assert_eq!(refused.sqlstate(), Some(sqlstate), "{refused}");
        assert!(refused.needs_new_time());
        writer.write(reading(now(), 2)).await.unwrap().await.unwrap();
    }
    writer.flush().await.unwrap();
    assert_eq!(number(&client, "SELECT count(*) FROM readings").await, 4);
    // The server knows the latency of each session.
    let told = "SELECT window_us FROM stratalog.sessions WHERE process_id = pg_backend_pid()";
    assert!(number(&client, told).await > 0);
    assert_eq!(number(&client, "SELECT count(*) FROM readings AS OF SEALED").await, 0);
}
