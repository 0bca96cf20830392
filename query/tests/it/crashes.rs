//! Blocks that create tables, on a disk that stops at any call.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicI64},
};

use stratalog_engine::{Engine, EngineSettings};
use stratalog_journal::{Journal, JournalSettings};
use stratalog_metrics::Metrics;
use stratalog_model::{Clock, ErrorKind, EventStore, Log, Result};
use stratalog_query::{Parts, QueryService, QuerySettings, Session};
use stratalog_sim::{Crash, FaultyDisk};
use stratalog_visor_core::{Acquisitions, Catalog};

use crate::harness::{START_NS, StepClock, login, run};

struct Life {
    service: Arc<QueryService>,
    session: Arc<Session>,
    logs: [Arc<Journal>; 2],
}

impl Life {
    fn open(disk: &FaultyDisk) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(StepClock(AtomicI64::new(START_NS)));
        let log = |name: &str| {
            let folder = PathBuf::from("/data").join(name);
            let settings = JournalSettings {
                segment_bytes_max: 256 << 10,
                frame_bytes_max: 16 << 10,
                group_bytes_max: 32 << 10,
                ..JournalSettings::default()
            };
            Arc::new(Journal::open(Arc::new(disk.clone()), folder, settings).unwrap())
        };
        let logs = [log("catalog"), log("journal")];
        let [commands, events] = logs.clone();
        let catalog = Catalog::open(commands as Arc<dyn Log>, Arc::clone(&clock)).unwrap();
        let state = catalog.state();
        let store: Arc<dyn EventStore> = Engine::open_decided(
            events as Arc<dyn Log>,
            Arc::clone(&clock),
            EngineSettings { frame_bytes_max: 8 << 10, ..EngineSettings::default() },
            &|id| {
                assert!(state.has_given(id), "events of a table that was never made");
                state.chronicle_by_id(id).cloned()
            },
            None,
            state.decision(),
            &|| Ok(()),
        )
        .unwrap();
        let service = QueryService::new(Parts {
            catalog,
            store,
            acquisitions: Acquisitions::new(Arc::clone(&clock)),
            clock,
            settings: QuerySettings::default(),
            inspector: None,
            backups: None,
            files: None,
            metrics: Metrics::new(),
        })
        .unwrap();
        let session = service.connect(login()).unwrap();
        Self { service, session, logs }
    }

    async fn run(&self, statements: &[&str]) -> Result<()> {
        for sql in statements {
            run(&self.session, sql).await?;
        }
        Ok(())
    }

    async fn block(&self) -> Result<()> {
        self.run(&[
            "BEGIN",
            "CREATE TABLE one (time timestamptz NOT NULL, v int, PRIMARY KEY (time))",
            "INSERT INTO one SELECT '2024-01-01'::timestamptz + n * interval '1 s', n FROM generate_series(1, 50) AS n",
            "SAVEPOINT s",
            "CREATE TABLE two (time timestamptz NOT NULL, w text)",
            "INSERT INTO two VALUES ('2024-01-01', 'second')",
            "COMMIT",
        ])
        .await
    }

    /// The rows of a table; `None` if the table does not exist.
    async fn rows(&self, sql: &str) -> Option<Vec<String>> {
        match run(&self.session, sql).await {
            Ok(answer) => Some(answer.lines()),
            Err(error) if error.kind() == ErrorKind::UndefinedTable => None,
            Err(error) => panic!("{sql}: {error}"),
        }
    }

    async fn found(&self) -> Option<[Vec<String>; 2]> {
        let one = self.rows("SELECT count(*), sum(v) FROM one").await;
        let two = self.rows("SELECT w FROM two").await;
        assert_eq!(one.is_some(), two.is_some());
        Some([one?, two?])
    }

    fn close(self) {
        let Self { service, session, logs } = self;
        service.shutdown();
        drop((service, session));
        for log in logs {
            // A log on a halted disk returns an error here.
            let _ = log.close();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_makes_tables_is_there_whole_or_not_at_all() {
    let whole = Some([vec!["50|1275".to_string()], vec!["second".to_string()]]);
    for crash in [Crash::Kill, Crash::PowerCut] {
        let (mut stored, mut gone) = (0, 0);
        for nth in 1.. {
            let disk = FaultyDisk::new(nth);
            let life = Life::open(&disk);
            disk.halt_after(nth);
            let acknowledged = life.block().await.is_ok();
            let unmet = !disk.is_halted();
            let disk = disk.crash(crash);
            life.close();
            let life = Life::open(&disk);
            let found = life.found().await;
            assert!(
                found == whole || found.is_none() && !acknowledged,
                "{crash:?} at call {nth}: {found:?}"
            );
            match found {
                Some(_) => stored += 1,
                None => {
                    gone += 1;
                    life.block().await.unwrap();
                    assert_eq!(life.found().await, whole, "{crash:?} after call {nth}");
                }
            }
            life.close();
            let life = Life::open(&disk);
            assert_eq!(life.found().await, whole, "{crash:?} after call {nth}");
            life.close();
            if unmet {
                break;
            }
        }
        assert!(stored > 0 && gone > 0, "{stored} stored, {gone} gone");
    }
}

/// A migration beside rows of existing tables, including relaxed tables.
const MIGRATION: [&str; 10] = [
    "BEGIN",
    "INSERT INTO migrations VALUES ('2024-01-02', '0002')",
    "ALTER TABLE plain ADD COLUMN w text DEFAULT 'none'",
    "CREATE TABLE made (time timestamptz NOT NULL, v int, PRIMARY KEY (time))",
    "INSERT INTO made SELECT time, v FROM plain",
    "SAVEPOINT s",
    "INSERT INTO migrations VALUES ('2024-01-03', '0003')",
    "ROLLBACK TO s",
    "DELETE FROM migrations WHERE time < '2024-01-02'",
    "COMMIT",
];

/// The state after the migration, or the state before the migration.
async fn migrated(life: &Life) -> (Vec<String>, bool) {
    let names = life.rows("SELECT name FROM migrations ORDER BY time").await.unwrap();
    let columns = "SELECT count(*) FROM information_schema.columns WHERE table_name = 'plain'";
    let made = life.rows("SELECT count(*), sum(v) FROM made").await;
    let altered = life.rows(columns).await.unwrap() == ["3"];
    assert_eq!(made.is_some(), altered, "{names:?}");
    assert_eq!(made.unwrap_or_else(|| vec!["50|1275".to_string()]), ["50|1275"]);
    assert_eq!(life.rows("SELECT count(*), sum(v) FROM plain").await.unwrap(), ["50|1275"]);
    (names, altered)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_beside_rows_is_there_whole_or_not_at_all() {
    for crash in [Crash::Kill, Crash::PowerCut] {
        let (mut stored, mut gone) = (0, 0);
        for nth in 1.. {
            let disk = FaultyDisk::new(nth ^ 0x30);
            let life = Life::open(&disk);
            let before = life.run(&[
                "CREATE TABLE migrations (time timestamptz NOT NULL, name text, PRIMARY KEY (name, time)) WITH (durability = 'relaxed')",
                "CREATE TABLE plain (time timestamptz NOT NULL, v int)",
                "INSERT INTO migrations VALUES ('2024-01-01', '0001')",
                "INSERT INTO plain SELECT '2024-01-01'::timestamptz + n * interval '1 s', n FROM generate_series(1, 50) AS n",
            ]);
            before.await.unwrap();
            disk.halt_after(nth);
            let acknowledged = life.run(&MIGRATION).await.is_ok();
            let unmet = !disk.is_halted();
            let disk = disk.crash(crash);
            life.close();
            let life = Life::open(&disk);
            let (names, altered) = migrated(&life).await;
            let expected = if altered { ["0002"] } else { ["0001"] };
            assert_eq!(names, expected, "{crash:?} at call {nth}");
            assert!(altered || !acknowledged, "{crash:?} at call {nth}");
            match altered {
                true => stored += 1,
                false => {
                    gone += 1;
                    life.run(&MIGRATION).await.unwrap();
                }
            }
            // Recovery commits the completed migration: keys are taken, also after the next start.
            let twice = "INSERT INTO migrations VALUES ('2024-01-02', '0002')";
            let error = run(&life.session, twice).await.err().map(|error| error.kind());
            assert_eq!(error, Some(ErrorKind::UniqueViolation), "{crash:?} after call {nth}");
            let later = "INSERT INTO migrations VALUES ('2024-01-04', '0004')";
            run(&life.session, later).await.unwrap();
            let gsns = "SELECT _gsn, name FROM migrations ORDER BY 1";
            let before = life.rows(gsns).await;
            life.close();
            let life = Life::open(&disk);
            assert_eq!(migrated(&life).await, (vec!["0002".into(), "0004".into()], true));
            assert_eq!(life.rows(gsns).await, before, "{crash:?} after call {nth}");
            life.close();
            if unmet {
                break;
            }
        }
        assert!(stored > 0 && gone > 0, "{stored} stored, {gone} gone");
    }
}

/// The content of a table, and true if the table has a key.
async fn keyed(life: &Life) -> (Vec<String>, bool) {
    let rows = life.rows("SELECT count(*), sum(v), min(host), max(time) FROM plain").await.unwrap();
    let keys = "SELECT count(*) FROM pg_constraint WHERE conrelid = 'plain'::regclass";
    let comment = "SELECT obj_description('plain'::regclass, 'pg_class')";
    assert_eq!(life.rows(comment).await.unwrap(), ["kept"]);
    (rows, life.rows(keys).await.unwrap() == ["1"])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_gets_a_key_is_the_old_one_or_the_new_one() {
    let add = "ALTER TABLE plain ADD PRIMARY KEY (host, time)";
    let whole = ["50|1275|a|2024-01-01 00:00:50+00"];
    for crash in [Crash::Kill, Crash::PowerCut] {
        let (mut new, mut old) = (0, 0);
        for nth in 1.. {
            let disk = FaultyDisk::new(nth);
            let life = Life::open(&disk);
            let before = life.run(&[
                "CREATE TABLE plain (time timestamptz NOT NULL, host text, v int) WITH (durability = 'relaxed')",
                "COMMENT ON TABLE plain IS 'kept'",
                "INSERT INTO plain SELECT '2024-01-01'::timestamptz + n * interval '1 s', 'a', n FROM generate_series(1, 50) AS n",
                // A later durable commit makes earlier relaxed commits durable.
                "CREATE TABLE other (time timestamptz, v int)",
                "INSERT INTO other VALUES ('2024-01-01', 1)",
            ]);
            before.await.unwrap();
            disk.halt_after(nth);
            let acknowledged = run(&life.session, add).await.is_ok();
            let unmet = !disk.is_halted();
            let disk = disk.crash(crash);
            life.close();
            let life = Life::open(&disk);
            let (rows, has_key) = keyed(&life).await;
            assert_eq!(rows, whole, "{crash:?} at call {nth}");
            assert!(has_key || !acknowledged, "{crash:?} at call {nth}");
            match has_key {
                true => new += 1,
                false => {
                    old += 1;
                    run(&life.session, add).await.unwrap();
                }
            }
            let twice = "INSERT INTO plain VALUES ('2024-01-01 00:00:01+00', 'a', 1)";
            let error = run(&life.session, twice).await.err().map(|error| error.kind());
            assert_eq!(error, Some(ErrorKind::UniqueViolation), "{crash:?} after call {nth}");
            life.close();
            let life = Life::open(&disk);
            let found = keyed(&life).await;
            assert_eq!(found, (whole.map(str::to_string).to_vec(), true), "{crash:?}: {nth}");
            life.close();
            if unmet {
                break;
            }
        }
        assert!(new > 0 && old > 0, "{new} new, {old} old");
    }
}
