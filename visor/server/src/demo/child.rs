//! Runs a server as a child process that can be killed.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

/// The beginning of the line that `stratalog serve` prints when it is ready.
pub const READY: &str = "ready: ";

/// A running server. Dropping the value kills the server, unless [`Self::let_go`] was called.
#[derive(Debug)]
pub struct ServerProcess {
    child: Option<Child>,
    address: SocketAddr,
}

impl ServerProcess {
    /// Starts `program serve` on `data_dir`, at a free port of the loopback interface, and appends
    /// the server's log lines to `log`. Returns when the server is ready.
    ///
    /// # Errors
    /// The process cannot be started, or ends before it is ready; the error then contains its last
    /// log line.
    pub fn start(program: &Path, data_dir: &Path, log: &Path, flags: &[&str]) -> io::Result<Self> {
        let log_file = File::options().create(true).append(true).open(log)?;
        let mut child = Command::new(program)
            .args(["serve", "--pg-listen", "127.0.0.1:0", "--flight-listen", "off"])
            .args(["--http-listen", "off", "--ilp-listen", "off", "--data-dir"])
            .arg(data_dir)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()?;
        let stdout = child.stdout.take();
        let mut server =
            Self { child: Some(child), address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let mut lines =
            BufReader::new(stdout.ok_or_else(|| io::Error::other("no output"))?).lines();
        let Some(line) = lines.next().transpose()? else {
            let said = std::fs::read_to_string(log).unwrap_or_default();
            let end = said.trim_end().lines().rev().take(3).collect::<Vec<_>>();
            let end = end.into_iter().rev().collect::<Vec<_>>().join("\n");
            return Err(io::Error::other(format!("the server did not start:\n{end}")));
        };
        server.address = address_of(&line)
            .ok_or_else(|| io::Error::other(format!("no address in \"{line}\"")))?;
        Ok(server)
    }

    /// The address at which the server speaks the Postgres protocol.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process id of the server.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Kills the server with SIGKILL, so that it cannot finish anything.
    pub fn kill(&mut self) -> io::Result<()> {
        match self.child.take() {
            Some(mut child) => {
                child.kill()?;
                child.wait().map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Waits until the process ends, for example after SIGTERM; returns true if its exit status is
    /// 0.
    pub fn wait(&mut self) -> io::Result<bool> {
        match self.child.take() {
            Some(mut child) => child.wait().map(|status| status.success()),
            None => Ok(false),
        }
    }

    /// Leaves the server running.
    pub fn let_go(mut self) {
        self.child = None;
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Nothing can be done if the kill fails.
        let _ = self.kill();
    }
}

/// The Postgres address in a ready line, for example `ready: postgres 127.0.0.1:5433, data
/// directory …`.
pub fn address_of(line: &str) -> Option<SocketAddr> {
    let address = line.strip_prefix(READY)?.split_once("postgres ")?.1;
    address.split(',').next()?.trim().parse().ok()
}
