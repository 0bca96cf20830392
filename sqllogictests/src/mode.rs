//! The ways in which a file's statements reach a database.

pub mod in_process;
pub mod tiers;
pub mod wire;

use std::{path::Path, sync::Arc, time::Duration};

use async_trait::async_trait;
use sqllogictest::{AsyncDB, DBOutput};

use self::tiers::{Mover, Moves};
use crate::{Failure, Letter};

/// Longest time that one record may take.
const RECORD_SECONDS_MAX: u64 = 60;

/// One way. Files run in each; `skipif` and `onlyif` know the labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Through a session of the query service, in this process.
    InProcess,
    /// Through a server's Postgres port.
    Wire,
    /// In this process; whatever was committed moves into a lower tier after each statement.
    Tier(Moves),
}

impl Mode {
    /// Every mode; `seed` decides what happens by chance.
    pub fn all(seed: u64) -> [Mode; 5] {
        let moved = [Moves::Tablet, Moves::Story, Moves::Mixed { seed }].map(Mode::Tier);
        let [tablet, story, mixed] = moved;
        [Mode::InProcess, Mode::Wire, tablet, story, mixed]
    }

    /// Its name, in reports and on the command line.
    pub fn label(self) -> &'static str {
        match self {
            Mode::InProcess => "in-process",
            Mode::Wire => "wire",
            Mode::Tier(moves) => moves.label(),
        }
    }

    /// Where events are: `onlyif journal` is for records that show it.
    pub fn tier(self) -> &'static str {
        match self {
            Mode::InProcess | Mode::Wire => "journal",
            Mode::Tier(moves) => moves.label(),
        }
    }

    /// What must be given to make the same happen again; `None` where nothing is left to chance.
    pub fn seed(self) -> Option<u64> {
        match self {
            Mode::Tier(Moves::Mixed { seed }) => Some(seed),
            _ => None,
        }
    }

    /// A database of this mode, kept in `directory`.
    ///
    /// # Errors
    /// When the database or its server does not start.
    pub async fn open(self, directory: &Path) -> Result<Database, Failure> {
        Ok(match self {
            Mode::InProcess => Database::InProcess(in_process::Instance::open(directory).await?),
            Mode::Wire => Database::Wire(wire::Instance::open(directory).await?),
            Mode::Tier(moves) => {
                let instance = in_process::Instance::open(directory).await?;
                let mover = Arc::new(Mover::new(instance.embedded(), moves));
                Database::Tier(instance, mover)
            }
        })
    }
}

/// An open database. Close it before its directory goes.
#[derive(Debug)]
pub enum Database {
    /// In this process.
    InProcess(in_process::Instance),
    /// Behind a port.
    Wire(wire::Instance),
    /// In this process, with what moves its events.
    Tier(in_process::Instance, Arc<Mover>),
}

impl Database {
    /// A new connection, with settings of its own.
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

/// One connection, as the runner drives it.
#[derive(Debug)]
pub enum Connection {
    /// A session.
    InProcess(in_process::Client),
    /// A socket.
    Wire(wire::Client),
    /// A session, and what moves events after its statements.
    Tier(in_process::Client, Arc<Mover>),
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

/// A value as results show it: NULL, empty text and line ends made visible.
pub(crate) fn shown(value: Option<&str>) -> String {
    match value {
        None => "NULL".to_string(),
        Some("") => "(empty)".to_string(),
        Some(text) => text.replace('\n', "\\n"),
    }
}
