use arrow::{array::AsArray as _, datatypes::Int64Type};
use arrow_flight::{
    FlightData,
    sql::{CommandPreparedStatementUpdate, CommandStatementUpdate},
};
use futures::{TryStreamExt as _, stream};
use tonic::Code;

use crate::{
    raw::{command, prepare, put, says},
    server::TestServer,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_is_planned_and_read() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    client
        .execute_update(
            "CREATE TABLE t (time timestamptz, host text, v int, PRIMARY KEY (host, time))"
                .to_string(),
            None,
        )
        .await
        .unwrap();
    let stored = client
        .execute_update(
            "INSERT INTO t VALUES ('2024-01-01', 'a', 1), ('2024-01-02', 'b', 2)".to_string(),
            None,
        )
        .await
        .unwrap();
    assert_eq!(stored, 2);
    let info =
        client.execute("SELECT host, v FROM t ORDER BY time".to_string(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let batches: Vec<_> = client.do_get(ticket.clone()).await.unwrap().try_collect().await.unwrap();
    let hosts: Vec<_> = batches
        .iter()
        .flat_map(|b| {
            b.column(0).as_string::<i32>().iter().flatten().map(str::to_string).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(hosts, ["a", "b"]);

    // A statement with changes runs at GetFlightInfo, and only then.
    let info = client
        .execute("INSERT INTO t VALUES ('2024-01-03', 'c', 3)".to_string(), None)
        .await
        .unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    assert_eq!(info.total_records, 1);
    let count = client.execute("SELECT count(*) FROM t".to_string(), None).await.unwrap();
    let count = count.endpoint[0].ticket.clone().unwrap();
    let none: Vec<_> = client.do_get(ticket.clone()).await.unwrap().try_collect().await.unwrap();
    assert!(none.iter().all(|batch| batch.num_rows() == 0));
    assert!(client.do_get(ticket).await.is_err(), "read before");
    let rows: Vec<_> = client.do_get(count).await.unwrap().try_collect().await.unwrap();
    assert_eq!(rows[0].column(0).as_primitive::<Int64Type>().value(0), 3);
}

/// Existing events, and then events written while the client reads (F104).
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_a_stream_without_an_end() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    let mut run = async |sql: &str| client.execute_update(sql.to_string(), None).await.unwrap();
    run("CREATE TABLE t (time timestamptz NOT NULL, v int)").await;
    run("INSERT INTO t VALUES ('2024-01-01', 1), ('2024-01-02', 2)").await;
    let mut reader = server.client().await;
    let info = reader.execute("SUBSCRIBE t WHERE v <> 2".to_string(), None).await.unwrap();
    assert_eq!(info.endpoint.len(), 1);
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut batches = reader.do_get(ticket).await.unwrap();
    let soon = std::time::Duration::from_secs(10);
    for (gsn, v) in [(1, 1), (3, 3), (4, 4)] {
        let batch = tokio::time::timeout(soon, batches.try_next()).await.unwrap();
        let batch = batch.unwrap().unwrap();
        assert_eq!(batch.num_rows(), 1);
        assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), gsn);
        let values = batch.column(3).as_primitive::<arrow::datatypes::Int32Type>();
        assert_eq!(values.value(0), v);
        run(&format!("INSERT INTO t VALUES ('2024-01-03', {})", v.max(2) + 1)).await;
    }
}

/// An update is answered with a number; a subscription never has a number.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_is_no_update() {
    let server = TestServer::start().await;
    let create = "CREATE TABLE t (time timestamptz NOT NULL, v int)";
    server.client().await.execute_update(create.to_string(), None).await.unwrap();
    let mut raw = server.raw().await;
    let handle = prepare(&mut raw, "SUBSCRIBE t LIVE").await;
    let query = "SUBSCRIBE t".to_string();
    let soon = std::time::Duration::from_secs(10);
    for update in [
        command(&CommandStatementUpdate { query, transaction_id: None }),
        command(&CommandPreparedStatementUpdate { prepared_statement_handle: handle }),
    ] {
        let message = FlightData { flight_descriptor: Some(update), ..FlightData::default() };
        let answered = tokio::time::timeout(soon, put(&mut raw, stream::iter([message])));
        let (_, end) = answered.await.unwrap();
        says(&end.unwrap(), Code::InvalidArgument, "42809", "SUBSCRIBE has no end");
    }
}
