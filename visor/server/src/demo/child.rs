//! A server as a process of its own, to be killed without mercy.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

/// What the line begins with that `stratalog serve` prints when clients may connect.
pub const READY: &str = "ready: ";

/// A running server. Killed when it is dropped, unless let go.
#[derive(Debug)]
pub struct ServerProcess {
    child: Option<Child>,
    address: SocketAddr,
}

impl ServerProcess {
    /// Starts `program serve` on `data_dir`, at a free port of the loopback interface; log lines
    /// are added to `log`. Returns when it is ready.
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

    /// Where it listens for the Postgres protocol.
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

    /// Waits until it has ended by itself, as after SIGTERM; whether it ended well.
    pub fn wait(&mut self) -> io::Result<bool> {
        match self.child.take() {
            Some(mut child) => child.wait().map(|status| status.success()),
            None => Ok(false),
        }
    }

    /// Leaves it running when this value is dropped.
    pub fn let_go(mut self) {
        self.child = None;
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Nothing left to do for one that cannot be killed.
        let _ = self.kill();
    }
}

/// The Postgres address of a line like `ready: postgres 127.0.0.1:5433, data directory …`.
pub fn address_of(line: &str) -> Option<SocketAddr> {
    let address = line.strip_prefix(READY)?.split_once("postgres ")?.1;
    address.split(',').next()?.trim().parse().ok()
}
