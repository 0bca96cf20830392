//! A server process.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    time::Duration,
};

/// Maximum duration of a start.
const START_SECONDS: u64 = 60;

/// The program under test. A missing program is a failure: a skipped test would prove nothing.
pub fn program() -> PathBuf {
    if let Some(chosen) = std::env::var_os("STRATALOG_BIN") {
        return PathBuf::from(chosen);
    }
    // target/debug/deps/it-… ─► target/debug/stratalog
    let test = std::env::current_exe().unwrap();
    let beside = test.ancestors().nth(2).unwrap().join("stratalog");
    assert!(beside.exists(), "no {}: build the workspace, or set STRATALOG_BIN", beside.display());
    beside
}

/// A server process; drop kills the server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pub address: String,
}

impl Server {
    /// Starts a server on a directory, and waits until the server is ready.
    ///
    /// # Errors
    /// The output of the server before its end.
    pub fn start(
        program: &Path,
        directory: &Path,
        log: &Path,
        sabotage: Option<&str>,
    ) -> Result<Self, String> {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STRATALOG_") {
                command.env_remove(name);
            }
        }
        if let Some(name) = sabotage {
            command.env("STRATALOG_SABOTAGE", name);
        }
        let errors = File::create(log).map_err(|error| error.to_string())?;
        command
            .arg("serve")
            .arg("--data-dir")
            .arg(directory)
            .args(["--pg-listen", "127.0.0.1:0", "--flight-listen", "off"])
            .args(["--http-listen", "off", "--ilp-listen", "off"])
            .args(["--segment-bytes", "20MiB", "--free-bytes-min", "1MiB"])
            // Small limits: events move all the time.
            .args(["--memory-bytes-max", "64MiB", "--journal-bytes-high", "24MiB"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors);
        let mut child =
            command.spawn().map_err(|error| format!("{}: {error}", program.display()))?;
        let stdout = child.stdout.take().ok_or("no standard output")?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout);
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|read| read > 0) {
                if let Some(address) = ready_address(&line) {
                    sender.send(address).ok();
                    break;
                }
                line.clear();
            }
            drop(sender);
            // Keeps the pipe open: otherwise later output would end the server.
            lines.read_to_end(&mut Vec::new()).ok();
        });
        let ready = receiver.recv_timeout(Duration::from_secs(START_SECONDS));
        let mut server = Self { child, address: String::new() };
        match ready {
            Ok(address) => {
                server.address = address;
                Ok(server)
            }
            Err(_) => {
                server.kill();
                let text = std::fs::read_to_string(log).unwrap_or_default();
                Err(format!("the server does not start: {text}"))
            }
        }
    }

    /// Sends `kill -9`, and waits for the end.
    pub fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `ready: postgres 127.0.0.1:40123, …`
fn ready_address(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("postgres ")?;
    Some(rest.split([',', '\n']).next()?.trim().to_string())
}
