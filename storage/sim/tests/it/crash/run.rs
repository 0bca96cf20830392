//! Cycles of writing, dying and checking.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use stratalog_sim::Random;

use super::{
    ledger::{Ledger, TABLES},
    moves::{self, MoveCounts},
    server::Server,
    verify::{Loss, verify},
    writer::{Connection, connect, write},
};

const WRITERS: i64 = 8;

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub program: PathBuf,
    pub seed: u64,
    /// Number of kills or power cuts.
    pub cycles: u64,
    /// No cycle starts after this time.
    pub time: Duration,
    /// Number of clients that write to the permanent tables.
    pub writers: i64,
    /// The deliberate defect of the server.
    pub sabotage: Option<&'static str>,
}

impl Plan {
    /// A few cycles of a sound server.
    pub fn new(program: PathBuf, seed: u64) -> Self {
        let time = Duration::from_secs(60);
        Self { program, seed, cycles: 3, time, writers: WRITERS, sabotage: None }
    }
}

/// The summary of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    pub cycles: u64,
    pub acknowledged: u64,
    pub rows: u64,
    pub changes: u64,
    pub timed_out: u64,
    /// The maximum progress of moves.
    pub moved: MoveCounts,
}

/// A server, its directory, and the ledger.
#[derive(Debug)]
pub struct Run {
    pub plan: Plan,
    pub ledger: Ledger,
    pub random: Random,
    runtime: tokio::runtime::Runtime,
    /// The directory of the ledger, the logs and, by default, the data.
    pub directory: tempfile::TempDir,
    pub data: PathBuf,
}

impl Run {
    /// Makes the tables in a fresh directory.
    pub fn start(plan: Plan) -> Result<Self, String> {
        Self::start_on(plan, None)
    }

    /// Makes the tables in `data`, which may be on another file system.
    pub fn start_on(plan: Plan, data: Option<PathBuf>) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let ledger = Ledger::create(&directory.path().join("ledger"));
        let ledger = ledger.map_err(|error| format!("the ledger: {error}"))?;
        let data = data.unwrap_or_else(|| directory.path().join("data"));
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(2).enable_all();
        let run = Self {
            random: Random::new(plan.seed),
            runtime: runtime.build().map_err(|error| error.to_string())?,
            ledger,
            directory,
            data,
            plan,
        };
        let server = run.serve(&run.data)?;
        let made = run.runtime.block_on(async {
            let client = connect(&server.address).await?;
            for table in &TABLES {
                client
                    .batch_execute(&format!(
                        "CREATE TABLE {} (time TIMESTAMPTZ NOT NULL, writer BIGINT NOT NULL, \
                         n BIGINT NOT NULL, payload TEXT, PRIMARY KEY (writer, n, time)) \
                         WITH (collision = '{}', durability = '{}')",
                        table.name, table.collision, table.durability
                    ))
                    .await?;
            }
            Ok::<(), tokio_postgres::Error>(())
        });
        made.map_err(|error| format!("the tables: {error:?}"))?;
        Ok(run)
    }

    /// Starts a server on a directory.
    pub fn serve(&self, data: &Path) -> Result<Server, String> {
        let log = self.directory.path().join("server.log");
        Server::start(&self.plan.program, data, &log, self.plan.sabotage)
    }

    /// Checks the state of a server.
    pub fn check(&self, server: &Server, ledger: &Ledger, loss: Loss) -> Result<u64, String> {
        self.runtime.block_on(verify(&server.address, ledger, loss))
    }

    /// Runs all planned cycles of kill and check, and checks once more after a quiet start.
    pub fn kill_and_check(mut self) -> Result<Summary, String> {
        let begin = Instant::now();
        let mut summary = Summary::default();
        while summary.cycles < self.plan.cycles && begin.elapsed() < self.plan.time {
            moves::spoil_index(&self.data, &mut self.random)?;
            let server = self.serve(&self.data)?;
            summary.rows = self.check(&server, &self.ledger, Loss::Process)?;
            self.write_until(server, Loss::Process, Server::kill)?;
            summary.moved = summary.moved.most(MoveCounts::of(&self.data));
            summary.cycles += 1;
        }
        for _ in 0..2 {
            let server = self.serve(&self.data)?;
            summary.rows = self.check(&server, &self.ledger, Loss::Process)?;
        }
        summary.acknowledged = self.ledger.stored();
        (summary.changes, summary.timed_out) = self.ledger.changes.counts();
        Ok(summary)
    }

    /// Lets all writers write until, at a random instant, `end` stops the server or its disk.
    pub fn write_until(
        &mut self,
        mut server: Server,
        loss: Loss,
        end: impl FnOnce(&mut Server),
    ) -> Result<(), String> {
        let ending = Arc::new(AtomicBool::new(false));
        let mut writers: Vec<_> = (0..self.plan.writers)
            .map(|writer| {
                let (address, ledger) = (server.address.clone(), self.ledger.clone());
                let random = Random::new(self.random.any());
                let ending = Arc::clone(&ending);
                let connection = Connection { address, ending, loss };
                self.runtime.spawn(write(connection, ledger, writer, random))
            })
            .collect();
        let (address, ledger) = (server.address.clone(), self.ledger.clone());
        let connection = Connection { address, ending: Arc::clone(&ending), loss };
        let random = Random::new(self.random.any());
        let changes = self.ledger.changes.clone().make(connection, ledger, random);
        writers.push(self.runtime.spawn(changes));
        let address = server.address.clone();
        let connection = Connection { address, ending: Arc::clone(&ending), loss };
        let random = Random::new(self.random.any());
        writers.push(self.runtime.spawn(moves::ask(connection, random)));
        std::thread::sleep(Duration::from_millis(self.random.between(150, 1200)));
        ending.store(true, Ordering::SeqCst);
        end(&mut server);
        server.kill();
        for writer in writers {
            self.runtime.block_on(writer).map_err(|error| error.to_string())??;
        }
        Ok(())
    }
}
