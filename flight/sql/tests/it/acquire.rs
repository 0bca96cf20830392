//! Acquisitions over Flight (F8): they belong to a login and include its transactions; the end of
//! its connection releases them.

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
        says(
            &end.unwrap(),
            Code::ResourceExhausted,
            "55P03",
            "has acquired the chronicle EXCLUSIVE until",
        );
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

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_another_session_ends_gives_back_what_it_has_though_it_does_not_call() {
    let server = TestServer::start().await;
    let mut other = server.client().await;
    other.execute_update(TABLE.to_string(), None).await.unwrap();
    let insert = "INSERT INTO t (time, host) VALUES (now(), 'a')".to_string();
    for (round, has_token) in [true, false].into_iter().enumerate() {
        let mut holder = server.client().await;
        if has_token {
            holder.handshake("anna", "any").await.unwrap();
        }
        holder.execute_update("ACQUIRE CHRONICLE t EXCLUSIVE".to_string(), None).await.unwrap();
        let transaction = holder.begin_transaction().await.unwrap();
        holder.execute_update(insert.clone(), Some(transaction.clone())).await.unwrap();
        assert!(other.execute_update(insert.clone(), None).await.is_err(), "it is acquired");
        let end = "(SELECT pg_terminate_backend(process_id) AS is_there FROM stratalog.acquisitions \
                   WHERE upper(mode) = 'EXCLUSIVE') AS ended WHERE is_there";
        assert_eq!(count(&mut other, end).await, 1);
        let began = Instant::now();
        while let Err(refused) = other.execute_update(insert.clone(), None).await {
            assert!(began.elapsed() < Duration::from_secs(20), "{refused}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let told = holder.execute_update(insert.clone(), None).await.unwrap_err().to_string();
        let words =
            if has_token { "another session ended the session" } else { "administrator command" };
        assert!(told.contains(words), "{told}");
        if has_token {
            let told = holder.execute_update(insert.clone(), None).await.unwrap_err().to_string();
            assert!(told.contains("not from this server"), "{told}");
            holder.handshake("anna", "any").await.unwrap();
        }
        // The transaction left nothing behind, and the client continues with another session.
        assert!(holder.end_transaction(transaction, EndTransaction::Commit).await.is_err());
        holder.execute_update(insert.clone(), None).await.unwrap();
        assert_eq!(count(&mut holder, "t").await, 2 * (round as i64 + 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_another_session_ends_is_rolled_back() {
    let server = TestServer::start().await;
    let mut other = server.client().await;
    other.execute_update(TABLE.to_string(), None).await.unwrap();
    let mut holder = server.client().await;
    let insert = "INSERT INTO t (time, host) VALUES ('2024-01-01', 'a')".to_string();
    for commits in [true, false] {
        let transaction = holder.begin_transaction().await.unwrap();
        holder.execute_update(insert.clone(), Some(transaction.clone())).await.unwrap();
        let end = "(SELECT pg_terminate_backend(pid) AS is_there FROM pg_stat_activity \
                   WHERE state = 'idle in transaction') AS ended WHERE is_there";
        assert_eq!(count(&mut other, end).await, 1);
        let told = match commits {
            true => holder.end_transaction(transaction, EndTransaction::Commit).await.unwrap_err(),
            false => holder.execute_update(insert.clone(), Some(transaction)).await.unwrap_err(),
        };
        assert!(told.to_string().contains("administrator command"), "{told}");
    }
    assert_eq!(count(&mut holder, "t").await, 0);
    // The key is no longer held either.
    assert_eq!(other.execute_update(insert, None).await.unwrap(), 1);
}
