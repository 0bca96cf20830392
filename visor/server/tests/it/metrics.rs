//! `GET /metrics` after requests at the doors.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use stratalog_metrics::value_on_page;

use crate::support::{connect, stratalog};

/// A server with all of its listeners.
struct OpenServer {
    child: Child,
    ready: String,
    _directory: tempfile::TempDir,
}

impl OpenServer {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut child = stratalog()
            .args(["serve", "--pg-listen", "127.0.0.1:0", "--free-bytes-min", "1MiB"])
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        Self { child, ready, _directory: directory }
    }

    fn port(&self, door: &str) -> u16 {
        let rest = self.ready.split_once(&format!("{door} 127.0.0.1:")).unwrap().1;
        rest.split(',').next().unwrap().parse().unwrap()
    }

    /// The body of the answer to a GET request.
    fn get(&self, path: &str) -> String {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port("http"))).unwrap();
        write!(socket, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_string()
    }

    /// The current value of a series.
    fn value(&self, series: &str) -> f64 {
        let page = self.get("/metrics");
        value_on_page(&page, series).unwrap_or_else(|| panic!("{series} is missing in\n{page}"))
    }

    /// Waits until a series has a value: a request ends shortly after its answer.
    fn eventually(&self, series: &str, wanted: f64) {
        let begun = Instant::now();
        loop {
            let value = self.value(series);
            if value == wanted {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{series} is {value}, not {wanted}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for OpenServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_at_each_door_are_measured() {
    let server = OpenServer::start();
    let requests = |door: &str, request: &str| {
        format!("stratalog_door_request_seconds_count{{door=\"{door}\",request=\"{request}\"}}")
    };

    let client = connect(server.port("postgres")).await.unwrap();
    server.eventually("stratalog_door_connections{door=\"postgres\"}", 1.0);
    client.batch_execute("CREATE TABLE t (time TIMESTAMPTZ NOT NULL, n BIGINT)").await.unwrap();
    client
        .batch_execute("INSERT INTO t SELECT now(), n FROM generate_series(1, 100) g(n)")
        .await
        .unwrap();
    assert_eq!(client.query("SELECT n FROM t", &[]).await.unwrap().len(), 100);
    client.batch_execute("SELECT nothing FROM t").await.unwrap_err();
    server.eventually(&requests("postgres", "simple"), 3.0);
    server.eventually(&requests("postgres", "extended"), 1.0);
    assert_eq!(server.value("stratalog_door_errors_total{door=\"postgres\",class=\"42\"}"), 1.0);
    assert_eq!(server.value("stratalog_query_rows_sum"), 100.0);
    assert!(server.value("stratalog_query_planning_seconds_count{step=\"physical\"}") >= 1.0);
    assert!(server.value("stratalog_query_execution_seconds_count{statement=\"write\"}") >= 1.0);
    assert!(server.value("stratalog_query_execution_seconds_sum{statement=\"read\"}") > 0.0);

    assert!(server.get("/api/sql?q=SELECT%20count(*)%20FROM%20t").contains("100"));
    assert!(server.get("/api/sql?q=SELECT%201%2F0").contains("22012"));
    server.eventually(&requests("http", "query"), 2.0);
    server.eventually("stratalog_door_errors_total{door=\"http\",class=\"22\"}", 1.0);
    assert!(server.value(&requests("http", "status")) >= 1.0);
    assert!(server.value("stratalog_http_queries_total") >= 1.0);

    let mut lines = TcpStream::connect(("127.0.0.1", server.port("lines"))).unwrap();
    lines.write_all(b"weather temperature=20.5\n").unwrap();
    server.eventually(&requests("lines", "write"), 1.0);
    server.eventually("stratalog_ingest_rows_total", 1.0);
    server.eventually("stratalog_door_connections{door=\"lines\"}", 1.0);
    drop(lines);
    server.eventually("stratalog_door_connections{door=\"lines\"}", 0.0);
    assert_eq!(server.value("stratalog_door_connections_accepted_total{door=\"lines\"}"), 1.0);

    // 100 rows of SQL, and one line.
    assert_eq!(server.value("stratalog_journal_group_events_sum{log=\"events\"}"), 101.0);
    for log in ["events", "catalog"] {
        let syncs = format!("stratalog_journal_sync_seconds_count{{log=\"{log}\"}}");
        assert!(server.value(&syncs) >= 1.0, "{syncs}");
    }
    assert_eq!(server.value("stratalog_journal_appends_waiting{log=\"events\"}"), 0.0);

    client.batch_execute("CALL stratalog.flush('t')").await.unwrap();
    assert!(server.value("stratalog_move_seconds_count{kind=\"flush\"}") >= 1.0);
    assert!(server.value("stratalog_move_bytes_sum{kind=\"flush\"}") > 0.0);
    assert_eq!(server.value("stratalog_move_failures_total{kind=\"flush\"}"), 0.0);
    drop(client);
    server.eventually("stratalog_door_connections{door=\"postgres\"}", 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_and_cancelled_work_is_counted() {
    let server = OpenServer::start();
    let client = connect(server.port("postgres")).await.unwrap();
    client.batch_execute("SET statement_timeout = '50ms'").await.unwrap();
    client.batch_execute("SELECT pg_sleep(30)").await.unwrap_err();
    assert_eq!(server.value("stratalog_query_cancelled_total"), 1.0);
    server.eventually("stratalog_door_errors_total{door=\"postgres\",class=\"57\"}", 1.0);
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(server.port("postgres")).user("stratalog").dbname("missing");
    assert!(config.connect(tokio_postgres::NoTls).await.is_err());
    server.eventually("stratalog_door_connections_refused_total{door=\"postgres\"}", 1.0);
    server.eventually("stratalog_door_errors_total{door=\"postgres\",class=\"3D\"}", 1.0);
    assert_eq!(server.value("stratalog_query_memory_refused_total"), 0.0);
}
