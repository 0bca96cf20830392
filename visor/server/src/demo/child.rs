//! A server in a separate process, for a kill without a shutdown.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Prefix of the ready line of `stratalog serve`.
pub const READY: &str = "ready: ";

/// A running server, killed on drop unless let go.
#[derive(Debug)]
pub struct ServerProcess {
    child: Option<Child>,
    address: SocketAddr,
}

impl ServerProcess {
    /// Starts `program serve` on `data_dir`, at a free port of the loopback interface; log lines
    /// are added to `log`. Returns when the server is ready.
    ///
    /// # Errors
    /// The process cannot be started, or ends before it is ready: then with its last log line.
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

    /// The server's address for the Postgres protocol.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// SIGKILL: no chance to finish anything.
    pub fn kill(&mut self) -> io::Result<()> {
        match self.child.take() {
            Some(mut child) => {
                child.kill()?;
                child.wait().map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Waits until the process ends by itself, for example after SIGTERM; returns true on success.
    pub fn wait(&mut self) -> io::Result<bool> {
        match self.child.take() {
            Some(mut child) => child.wait().map(|status| status.success()),
            None => Ok(false),
        }
    }

    /// Lets the process run on after the drop of this value.
    pub fn let_go(mut self) {
        self.child = None;
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // No further action is possible after a failed kill.
        let _ = self.kill();
    }
}

/// The Postgres address of a line like `ready: postgres 127.0.0.1:5433, data directory …`.
pub fn address_of(line: &str) -> Option<SocketAddr> {
    let address = line.strip_prefix(READY)?.split_once("postgres ")?.1;
    address.split(',').next()?.trim().parse().ok()
}
