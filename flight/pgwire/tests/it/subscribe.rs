//! SUBSCRIBE over the wire: rows are sent as they arrive, until the client has enough (F104).

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, pin_mut};
use tokio::time::timeout;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, types::ToSql};

use crate::server::{Server, code};

const SOON: Duration = Duration::from_secs(10);

async fn server() -> (Server, Client) {
    let server = Server::start().await;
    let client = server.client().await;
    client.batch_execute("CREATE TABLE t (time timestamptz NOT NULL, v int)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES ('2024-01-01', 1)").await.unwrap();
    (server, client)
}

async fn write(client: &Client, v: i32) {
    let sql = format!("INSERT INTO t VALUES ('2024-01-02', {v})");
    client.batch_execute(&sql).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_goes_on_until_it_is_cancelled() {
    let (server, writer) = server().await;
    let reader = server.client().await;
    for format in ["", "(FORMAT csv)", "(FORMAT binary)"] {
        let sql = format!("COPY (SUBSCRIBE t) TO STDOUT {format}");
        let lines = reader.copy_out(&sql).await.unwrap();
        pin_mut!(lines);
        let first = timeout(SOON, lines.try_next()).await.unwrap().unwrap().unwrap();
        if format.is_empty() {
            assert_eq!(first.as_ref(), b"1\t\\N\t2024-01-01 00:00:00+00\t1\n");
        }
        // Earlier rows are skipped.
        write(&writer, 2).await;
        timeout(SOON, lines.try_next()).await.unwrap().unwrap().unwrap();
        reader.cancel_token().cancel_query(NoTls).await.unwrap();
        let ended = loop {
            match timeout(SOON, lines.try_next()).await.unwrap() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended by itself"),
                Err(error) => break error,
            }
        };
        assert_eq!(code(&ended), "57014");
        reader.simple_query("SELECT 1").await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_statement_come_as_they_are_written() {
    let (server, writer) = server().await;
    let reader = server.client().await;
    // With the extended protocol.
    let sql = "SUBSCRIBE t FROM GSN $1 WHERE v > $2";
    let values: [&(dyn ToSql + Sync); 2] = [&1_i64, &0_i32];
    let rows = reader.query_raw(sql, values).await.unwrap();
    pin_mut!(rows);
    for v in 1..5 {
        let row = timeout(SOON, rows.try_next()).await.unwrap().unwrap().unwrap();
        assert_eq!(row.get::<_, i64>("_gsn"), i64::from(v));
        assert_eq!(row.get::<_, Option<&str>>("_gap"), None);
        assert_eq!(row.get::<_, i32>("v"), v);
        write(&writer, v + 1).await;
    }
    reader.cancel_token().cancel_query(NoTls).await.unwrap();
    let ended = loop {
        if let Err(error) = timeout(SOON, rows.try_next()).await.unwrap() {
            break error;
        }
    };
    assert_eq!(code(&ended), "57014");
    // With the simple protocol.
    let simple = reader.simple_query_raw("SUBSCRIBE t").await.unwrap();
    pin_mut!(simple);
    let mut seen = 0;
    while seen < 5 {
        let message = timeout(SOON, simple.next()).await.unwrap().unwrap().unwrap();
        seen += usize::from(matches!(message, SimpleQueryMessage::Row(_)));
    }
    write(&writer, 9).await;
    let message = timeout(SOON, simple.next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(message, SimpleQueryMessage::Row(row) if row.get("v") == Some("9")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_portal_gives_what_is_there() {
    let (server, writer) = server().await;
    let mut reader = server.client().await;
    reader.batch_execute("SET subscribe_wait = '50ms'").await.unwrap();
    let block = reader.transaction().await.unwrap();
    let portal = block.bind("SUBSCRIBE t", &[]).await.unwrap();
    assert_eq!(block.query_portal(&portal, 10).await.unwrap().len(), 1);
    assert!(block.query_portal(&portal, 10).await.unwrap().is_empty());
    write(&writer, 2).await;
    write(&writer, 3).await;
    assert_eq!(block.query_portal(&portal, 1).await.unwrap()[0].get::<_, i32>("v"), 2);
    assert_eq!(block.query_portal(&portal, 10).await.unwrap()[0].get::<_, i32>("v"), 3);
    block.batch_execute("DECLARE c CURSOR FOR SUBSCRIBE t FROM GSN 2").await.unwrap();
    let rows = block.query("FETCH 10 FROM c", &[]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, i32>("v")).collect::<Vec<_>>(), [2, 3]);
    block.commit().await.unwrap();
}

/// A disconnected client is no longer served.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_ends_its_subscription() {
    let (server, writer) = server().await;
    let (reader, connection) = server.config().connect(NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let lines = reader.copy_out("COPY (SUBSCRIBE t LIVE) TO STDOUT").await.unwrap();
    let running = async || {
        let sql =
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY%'";
        writer.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    assert_eq!(running().await, 1);
    drop((lines, reader));
    connection.abort();
    crate::server::eventually("the end of a subscription", async || running().await == 0).await;
}
