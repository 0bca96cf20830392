//! The metrics of calls and connections.

use std::time::Duration;

use futures::TryStreamExt as _;
use stratalog_metrics::value_on_page;

use crate::server::TestServer;

impl TestServer {
    /// The current value of a series.
    fn value(&self, series: &str) -> f64 {
        let page = self.service.metrics_page();
        value_on_page(&page, series).unwrap_or_else(|| panic!("{series} is missing in\n{page}"))
    }

    /// Waits until a series has a value: a call ends shortly after its answer.
    async fn eventually(&self, series: &str, wanted: f64) {
        for _ in 0..1000 {
            if self.value(series) == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{series} is {}, not {wanted}", self.value(series));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_connections_are_measured() {
    let server = TestServer::start().await;
    let calls = |request: &str| {
        format!("stratalog_door_request_seconds_count{{door=\"flight\",request=\"{request}\"}}")
    };
    let mut client = server.client().await;
    let info = client.execute("SELECT 7".to_string(), None).await.unwrap();
    server.eventually(&calls("info"), 1.0).await;
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let stream = client.do_get(ticket).await.unwrap();
    let batches: Vec<_> = stream.try_collect().await.unwrap();
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    server.eventually(&calls("get"), 1.0).await;
    assert_eq!(server.value("stratalog_query_rows_count"), 1.0);

    let create = "CREATE TABLE t (time timestamptz, v int)".to_string();
    client.execute_update(create, None).await.unwrap();
    server.eventually(&calls("put"), 1.0).await;
    client.execute("SELECT nothing FROM t".to_string(), None).await.unwrap_err();
    server.eventually("stratalog_door_errors_total{door=\"flight\",class=\"42\"}", 1.0).await;
    assert!(server.value("stratalog_door_connections{door=\"flight\"}") >= 1.0);
    drop(client);
    server.eventually("stratalog_door_connections{door=\"flight\"}", 0.0).await;
    let accepted = server.value("stratalog_door_connections_accepted_total{door=\"flight\"}");
    assert!(accepted >= 1.0);
    assert_eq!(server.value("stratalog_door_connections_refused_total{door=\"flight\"}"), 0.0);
}

/// An error behind the first batch comes with the trailers of the answer.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_in_a_stream_is_counted() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    let late = "SELECT 1 / (50000 - i) FROM generate_series(1, 60000) AS g(i)";
    let info = client.execute(late.to_string(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let failed = match client.do_get(ticket).await {
        Ok(stream) => stream.try_collect::<Vec<_>>().await.is_err(),
        Err(_) => true,
    };
    assert!(failed);
    server.eventually("stratalog_door_errors_total{door=\"flight\",class=\"22\"}", 1.0).await;
}
