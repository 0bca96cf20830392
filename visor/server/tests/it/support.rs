//! Runs the program.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use stratalog::demo::child::ServerProcess;
use tokio_postgres::{Client, NoTls};

/// The program under test, without Stratalog's variables in its environment.
pub fn stratalog() -> Command {
    let mut command = Command::new(program());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("STRATALOG_") {
            command.env_remove(name);
        }
    }
    // Several tests run servers at the same time: two servers cannot both use the default port.
    for door in ["STRATALOG_FLIGHT_LISTEN", "STRATALOG_HTTP_LISTEN", "STRATALOG_ILP_LISTEN"] {
        command.env(door, "127.0.0.1:0");
    }
    command.env("COLUMNS", "80").env("STRATALOG_HISTORY", "").stdin(Stdio::null());
    command
}

pub fn program() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_stratalog"))
}

/// Runs with flags; returns the output and the exit status.
pub fn run(flags: &[&str]) -> Output {
    stratalog().args(flags).output().unwrap()
}

/// Runs with a text on standard input.
pub fn run_with_input(flags: &[&str], input: &str) -> Output {
    let mut command = stratalog();
    command.args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The output of a successful run.
#[track_caller]
pub fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}\n{}", stdout(output), stderr(output));
    stdout(output)
}

/// A directory and a server on it.
pub struct Bench {
    pub directory: tempfile::TempDir,
    pub server: ServerProcess,
}

impl Bench {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let server = start(directory.path());
        Self { directory, server }
    }

    pub fn port(&self) -> String {
        self.server.address().port().to_string()
    }

    /// Kills the server and starts another server on the same directory.
    pub fn kill_and_restart(&mut self) {
        self.server.kill().unwrap();
        self.server = start(self.directory.path());
    }

    /// `stratalog sql` against the server.
    pub fn sql(&self, flags: &[&str]) -> Output {
        let port = self.port();
        run(&[&["sql", "-p", port.as_str()], flags].concat())
    }

    /// The only value of a query.
    #[track_caller]
    pub fn value(&self, query: &str) -> String {
        let text = good(&self.sql(&["--format", "csv", "-c", query]));
        text.lines().nth(1).unwrap_or("").to_string()
    }
}

/// Starts a server in `directory`/data.
pub fn start(directory: &Path) -> ServerProcess {
    let (data, log) = (directory.join("data"), directory.join("server.log"));
    let backups = directory.join("to").display().to_string();
    let flags = ["--free-bytes-min", "1MiB", "--backup-urls", backups.as_str()];
    ServerProcess::start(&program(), &data, &log, &flags).unwrap()
}

/// A client; its connection runs on the current runtime.
pub async fn connect(port: u16) -> Result<Client, tokio_postgres::Error> {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port).user("stratalog").dbname("stratalog");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Sends a signal by name.
pub fn signal(process: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(process.to_string()).status();
    assert!(status.unwrap().success());
}
