//! Running the server.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use arrow::array::{
    ArrayRef, AsArray as _, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use stratalog_client::{Client, RetryPolicy};

/// The server binary under test: `STRATALOG_BIN`, or the binary next to the tests.
fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("STRATALOG_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap().join("stratalog");
    assert!(
        built.exists(),
        "there is no server to test with: build it with `cargo build -p stratalog`, which makes {}, \
         or name one by STRATALOG_BIN",
        built.display()
    );
    built
}

/// A server with its own directory, and with the same port after each restart.
pub struct Server {
    directory: tempfile::TempDir,
    child: Option<Child>,
    pub address: SocketAddr,
}

impl Server {
    pub fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (child, address) = run(directory.path(), SocketAddr::from(([127, 0, 0, 1], 0)));
        Self { directory, child: Some(child), address }
    }

    /// A server with TLS and the superuser `ann`; also returns her password.
    pub fn secured() -> (Self, String) {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        prepare(&data, &["certificate", "create", "--host", "localhost"]);
        let password =
            prepare(&data, &["user", "create", "ann", "--superuser", "--generate-password"]);
        let (child, address) = run(directory.path(), SocketAddr::from(([127, 0, 0, 1], 0)));
        (Self { directory, child: Some(child), address }, password.trim().to_string())
    }

    /// A file of `stratalog certificate create`.
    pub fn tls_file(&self, name: &str) -> PathBuf {
        self.directory.path().join("data/tls").join(name)
    }

    pub fn url(&self) -> String {
        format!("grpc://{}", self.address)
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.url()).await.unwrap()
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn restart(&mut self) {
        self.kill();
        let (child, address) = run(self.directory.path(), self.address);
        assert_eq!(address, self.address);
        self.child = Some(child);
    }

    /// Sends SIGTERM, and waits until the server has ended.
    pub async fn shut_down(&mut self) {
        self.signal("TERM");
        let mut child = self.child.take().unwrap();
        let ended = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
        assert!(ended.success(), "{ended}");
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let process = self.child.as_ref().unwrap().id();
        let status = Command::new("kill").arg(format!("-{name}")).arg(process.to_string()).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command of `stratalog` on a directory without a server; returns the command's output.
fn prepare(data: &Path, arguments: &[&str]) -> String {
    let done =
        Command::new(program()).args(arguments).arg("--data-dir").arg(data).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn run(directory: &Path, address: SocketAddr) -> (Child, SocketAddr) {
    let log = directory.join("server.log");
    let mut command = Command::new(program());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STRATALOG_") {
            command.env_remove(name);
        }
    }
    let errors = std::fs::File::options().append(true).create(true).open(&log).unwrap();
    let flight = address.to_string();
    command.args(["serve", "--pg-listen", "off", "--http-listen", "off", "--ilp-listen", "off"]);
    command.args(["--free-bytes-min", "1MiB", "--flight-listen", &flight, "--data-dir"]);
    command.arg(directory.join("data"));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .unwrap_or_else(|error| panic!("{} does not run: {error}", program().display()));
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let named = line.split_once("flight ").and_then(|(_, rest)| rest.split(',').next());
    let address = named.and_then(|address| address.trim().parse().ok()).unwrap_or_else(|| {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        panic!("the server did not start: it wrote \"{line}\", and\n{said}")
    });
    (child, address)
}

/// A retry policy that lasts longer than any restart of the server.
pub fn patient() -> RetryPolicy {
    RetryPolicy {
        backoff_max: Duration::from_millis(200),
        ..RetryPolicy::within(Duration::from_secs(240))
    }
}

pub const KEYED: &str = "CREATE TABLE log (time timestamptz NOT NULL, writer text, number bigint)";

/// Rows for the table [`KEYED`], with the name of a writer and these numbers.
pub fn rows(writer: &str, numbers: std::ops::Range<i64>) -> RecordBatch {
    let count = (numbers.end - numbers.start) as usize;
    let base = 1_700_000_000_000_000_000;
    let time: ArrayRef = Arc::new(
        TimestampNanosecondArray::from_iter_values(numbers.clone().map(|n| base + n * 1_000_000))
            .with_timezone("UTC"),
    );
    let who: ArrayRef = Arc::new(StringArray::from(vec![writer; count]));
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
    RecordBatch::try_from_iter([("time", time), ("writer", who), ("number", number)]).unwrap()
}

/// The number that a query returns.
pub async fn number(client: &Client, sql: &str) -> i64 {
    let batches = client.query(sql).await.unwrap().collect().await.unwrap();
    let batch = batches.iter().find(|batch| batch.num_rows() > 0).expect("a row");
    batch.column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0)
}

/// Checks that each number of a writer is stored exactly once.
#[track_caller]
pub fn assert_once((count, distinct, low, high): (i64, i64, i64, i64), expected: i64) {
    assert_eq!(
        (count, distinct, low, high),
        (expected, expected, 0, expected - 1),
        "rows, different rows, lowest and highest"
    );
}

pub async fn tally(client: &Client, writer: &str) -> (i64, i64, i64, i64) {
    let of = |what: &str| format!("SELECT {what} FROM log WHERE writer = '{writer}'");
    (
        number(client, &of("count(*)")).await,
        number(client, &of("count(DISTINCT number)")).await,
        number(client, &of("min(number)")).await,
        number(client, &of("max(number)")).await,
    )
}

/// Waits for a condition; fails with `what` after a minute.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("still not: {what}");
}

/// Pseudo-random numbers, reproducible by their seed; failing tests print the seed.
pub struct Chance(u64);

impl Chance {
    pub fn new() -> Self {
        let seed = stratalog_client::Uuid::new_v4().as_u128() as u64 | 1;
        println!("seed {seed}");
        Self(seed)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
