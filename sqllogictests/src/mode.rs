//! The modes: the ways in which the tests send the statements of a file to a database.

pub mod in_process;
pub mod tiers;
pub mod wire;

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput};

use self::tiers::{Mover, Moves};
use crate::{Failure, Letter};

/// Maximum time for one record (a statement or query of a test file), in seconds.
const RECORD_SECONDS_MAX: u64 = 60;

/// A way to run the test files. Every file runs in each mode. `skipif` and `onlyif` in the files
/// refer to the labels of modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Through a session of the query service, in this process.
    InProcess,
    /// Over the PostgreSQL protocol, through a port of a server.
    Wire,
    /// In this process. After each statement, the committed events move from the journal into a
    /// lower storage tier.
    Tier(Moves),
}

impl Mode {
    /// All modes; `seed` determines the random choices.
    pub fn all(seed: u64) -> [Mode; 5] {
        let moved = [Moves::Tablet, Moves::Story, Moves::Mixed { seed }].map(Mode::Tier);
        let [tablet, story, mixed] = moved;
        [Mode::InProcess, Mode::Wire, tablet, story, mixed]
    }

    /// The name of the mode in reports and on the command line.
    pub fn label(self) -> &'static str {
        match self {
            Mode::InProcess => "in-process",
            Mode::Wire => "wire",
            Mode::Tier(moves) => moves.label(),
        }
    }

    /// The storage tier of the events. `onlyif journal` marks records whose results depend on the
    /// tier.
    pub fn tier(self) -> &'static str {
        match self {
            Mode::InProcess | Mode::Wire => "journal",
            Mode::Tier(moves) => moves.label(),
        }
    }

    /// The seed that reproduces the random choices of a run; `None` without random choices.
    pub fn seed(self) -> Option<u64> {
        match self {
            Mode::Tier(Moves::Mixed { seed }) => Some(seed),
            _ => None,
        }
    }

    /// Opens a database of this mode in `directory`.
    ///
    /// # Errors
    /// If the database or its server does not start.
    pub async fn open(self, directory: &Path) -> Result<Database, Failure> {
        Ok(match self {
            Mode::InProcess => {
                Database::InProcess(in_process::InProcessInstance::open(directory).await?)
            }
            Mode::Wire => Database::Wire(wire::WireInstance::open(directory).await?),
            Mode::Tier(moves) => {
                let instance = in_process::InProcessInstance::open(directory).await?;
                let mover = Arc::new(Mover::new(instance.embedded(), moves));
                Database::Tier(instance, mover)
            }
        })
    }
}

/// An open database. Call [`Self::close`] before the deletion of the database's directory.
#[derive(Debug)]
pub enum Database {
    /// In this process.
    InProcess(in_process::InProcessInstance),
    /// Through a Postgres port.
    Wire(wire::WireInstance),
    /// In this process, with a mover that moves events between tiers.
    Tier(in_process::InProcessInstance, Arc<Mover>),
}

impl Database {
    /// A new connection with separate settings.
    pub async fn connect(&self) -> Result<Connection, Failure> {
        Ok(match self {
            Database::InProcess(instance) => Connection::InProcess(instance.connect()?),
            Database::Wire(instance) => Connection::Wire(instance.connect().await?),
            Database::Tier(instance, mover) => {
                Connection::Tier(instance.connect()?, Arc::clone(mover))
            }
        })
    }

    /// Stops the database.
    pub async fn close(self) -> Result<(), Failure> {
        match self {
            Database::InProcess(instance) | Database::Tier(instance, _) => instance.close().await,
            Database::Wire(instance) => instance.close().await,
        }
    }
}

/// A connection on which the test runner runs statements.
#[derive(Debug)]
pub enum Connection {
    /// A session in this process.
    InProcess(in_process::InProcessClient),
    /// A socket to a server.
    Wire(wire::WireClient),
    /// A session in this process, and a mover that moves events after each statement.
    Tier(in_process::InProcessClient, Arc<Mover>),
}

#[async_trait]
impl AsyncDB for Connection {
    type Error = Failure;
    type ColumnType = Letter;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Letter>, Failure> {
        let limit = Duration::from_secs(RECORD_SECONDS_MAX);
        let run = async {
            match self {
                Connection::InProcess(client) => client.run(sql).await,
                Connection::Wire(client) => client.run(sql).await,
                Connection::Tier(client, mover) => {
                    let output = client.run(sql).await?;
                    if client.is_outside_of_block() {
                        mover.after_statement().await?;
                    }
                    Ok(output)
                }
            }
        };
        match tokio::time::timeout(limit, run).await {
            Ok(output) => output,
            Err(_) => Err(Failure::of_harness(format!("no answer in {RECORD_SECONDS_MAX} s"))),
        }
    }

    async fn shutdown(&mut self) {
        if let Connection::InProcess(client) | Connection::Tier(client, _) = self {
            client.close();
        }
    }

    fn engine_name(&self) -> &str {
        "stratalog"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    fn error_sql_state(failure: &Failure) -> Option<String> {
        Some(failure.sqlstate().to_string())
    }
}

/// A value as written in the expected results: NULL, empty text and line ends become visible.
pub(crate) fn cell_text(value: Option<&str>) -> String {
    match value {
        None => "NULL".to_string(),
        Some("") => "(empty)".to_string(),
        Some(text) => text.replace('\n', "\\n"),
    }
}
