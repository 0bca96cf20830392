//! Clients that keep sending during a shutdown.

use std::time::{Duration, Instant};

use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::{FlightData, FlightDescriptor, sql::CommandStatementIngest};
use futures::{Stream, StreamExt as _, stream};
use stratalog_flight_sql::FlightSettings;
use stratalog_query::Login;
use tonic::Code;

use crate::{
    raw::{TABLE, batch, collected, command, described, messages, path, put, says, told},
    server::TestServer,
};

const GRACE: Duration = Duration::from_secs(60);

/// Well below the grace period, even on a busy machine.
const SOON: Duration = Duration::from_secs(20);

async fn server() -> TestServer {
    let grace = u64::try_from(GRACE.as_millis()).unwrap();
    let server =
        TestServer::with(FlightSettings { shutdown_grace_ms: grace, ..FlightSettings::default() })
            .await;
    server.client().await.execute_update(TABLE.to_string(), None).await.unwrap();
    server
}

/// A stream of batches that never ends.
async fn endless(descriptor: FlightDescriptor) -> impl Stream<Item = FlightData> + Send + 'static {
    let first = messages(&[batch("a", 0, 10)], IpcWriteOptions::default()).await;
    let schema = described(first[..1].to_vec(), descriptor);
    let rows = stream::iter(1..).then(|at| async move {
        messages(&[batch("a", at * 10, 10)], IpcWriteOptions::default()).await.remove(1)
    });
    stream::iter(schema).chain(rows)
}

/// The number of stored rows, from the query service, because the listener is closed.
async fn stored(server: &TestServer) -> usize {
    let login = Login {
        identity: stratalog_query::Identity::Trusted,
        user: "stratalog".to_string(),
        database: "stratalog".to_string(),
        application_name: String::new(),
        client_address: None,
        settings: Vec::new(),
        long_secret: true,
    };
    let session = server.service.connect(login).unwrap();
    let parsed = session.parse("SELECT v FROM t").unwrap();
    let stratalog_query::Outcome::Rows(mut rows) = session.run(&parsed[0]).await.unwrap() else {
        panic!("no rows")
    };
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        count += batch.unwrap().num_rows();
    }
    count
}

/// Shuts the server down; the shutdown must not wait for the clients.
async fn shut_down(server: &mut TestServer) {
    let begun = Instant::now();
    server.shutdown.cancel();
    (&mut server.serving).await.unwrap().unwrap();
    let took = begun.elapsed();
    assert!(took < SOON, "the shutdown took {took:?} of a grace of {GRACE:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn puts_without_pause_end_with_the_acknowledgements_of_what_is_stored() {
    for exchanges in [false, true] {
        let mut server = server().await;
        let mut raw = server.raw().await;
        let sent = endless(path("t")).await;
        let call = tokio::spawn(async move {
            if exchanges {
                let answers = raw.do_exchange(sent).await.unwrap().into_inner();
                let (answers, end) = collected(answers).await;
                let answers = answers
                    .into_iter()
                    .map(|answer| arrow_flight::PutResult { app_metadata: answer.app_metadata });
                (answers.collect(), end)
            } else {
                put(&mut raw, sent).await
            }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        shut_down(&mut server).await;
        let (answers, end) = call.await.unwrap();
        says(&end.unwrap(), Code::Unavailable, "57P01", "administrator command");
        let told = told(&answers);
        let numbers: Vec<_> = told.iter().map(|told| told["batch"].as_u64().unwrap()).collect();
        assert!(!numbers.is_empty());
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        assert_eq!(stored(&server).await, numbers.len() * 10, "acknowledged is what is there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_a_client_end_as_well_and_store_nothing() {
    let mut server = server().await;
    let mut raw = server.raw().await;
    let table = "t".to_string();
    let ingest = command(&CommandStatementIngest { table, ..CommandStatementIngest::default() });
    let sent = endless(ingest).await;
    // One client sends endless data of a single statement; another client has sent its descriptor
    // and is silent.
    let mut other = raw.clone();
    let ingesting = tokio::spawn(async move { put(&mut raw, sent).await });
    let schema = messages(&[batch("a", 0, 10)], IpcWriteOptions::default()).await;
    let silent = stream::iter(described(schema[..1].to_vec(), path("t"))).chain(stream::pending());
    let silent = tokio::spawn(async move { put(&mut other, silent).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    shut_down(&mut server).await;
    for call in [ingesting, silent] {
        let (answers, end) = call.await.unwrap();
        assert!(answers.is_empty());
        says(&end.unwrap(), Code::Unavailable, "57P01", "administrator command");
    }
    assert_eq!(stored(&server).await, 0);
}
