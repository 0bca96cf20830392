//! Acquisitions over Flight (F8): a login has them, whatever its transactions; its connection's end
//! releases them.

use std::time::{Duration, Instant};

use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::sql::{CommandStatementIngest, EndTransaction};
use futures::stream;
use tonic::Code;

use crate::{
    raw::{TABLE, batch, command, count, described, messages, path, put, says},
    server::TestServer,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_alone_with_what_it_has_acquired_until_it_ends() {
    let server = TestServer::start().await;
    let mut holder = server.client().await;
    let mut raw = server.raw().await;
    for sql in [TABLE, "ACQUIRE CHRONICLE t EXCLUSIVE FOR INTERVAL '1 hour'"] {
        holder.execute_update(sql.to_string(), None).await.unwrap();
    }
    let ingest = || {
        let table = "t".to_string();
        command(&CommandStatementIngest { table, ..CommandStatementIngest::default() })
    };
    for descriptor in [path("t"), ingest()] {
        let rows = messages(&[batch("a", 0, 3)], IpcWriteOptions::default()).await;
        let (_, end) = put(&mut raw, stream::iter(described(rows, descriptor))).await;
        says(&end.unwrap(), Code::ResourceExhausted, "55P03", "has acquired it EXCLUSIVE until");
    }
    // A transaction is another session of the same client.
    let transaction = holder.begin_transaction().await.unwrap();
    let insert = "INSERT INTO t (time, host) VALUES ('2024-01-01', 'a')".to_string();
    assert_eq!(holder.execute_update(insert, Some(transaction.clone())).await.unwrap(), 1);
    holder.end_transaction(transaction, EndTransaction::Commit).await.unwrap();
    assert_eq!(count(&mut holder, "t").await, 1);
    drop(holder);
    let began = Instant::now();
    loop {
        let rows = messages(&[batch("a", 0, 3)], IpcWriteOptions::default()).await;
        let (answers, end) = put(&mut raw, stream::iter(described(rows, path("t")))).await;
        if end.is_none() {
            assert_eq!(answers.len(), 1);
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "{end:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(count(&mut server.client().await, "t").await, 4);
}
