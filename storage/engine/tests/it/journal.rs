//! Tests with the real journal, on a real disk and on a faulty disk.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use stratalog_engine::{Engine, EngineSettings};
use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Collision, Disk, EventStore, Log, Tick, TickRange,
    store::{AppendOptions, OnConflict},
};
use stratalog_sim::{Crash, FaultyDisk, Random};

use crate::fixture::*;

pub fn journal(disk: Arc<dyn Disk>, directory: PathBuf) -> stratalog_model::Result<Arc<Journal>> {
    let settings = JournalSettings {
        segment_bytes_max: 256 << 10,
        frame_bytes_max: 64 << 10,
        group_bytes_max: 64 << 10,
        free_bytes_min: 0,
        mark_idle_ms: 0,
        ..JournalSettings::default()
    };
    Journal::open(disk, directory, settings).map(Arc::new)
}

fn engine(
    log: Arc<Journal>,
    definitions: &[Arc<ChronicleDefinition>],
) -> stratalog_model::Result<Arc<Engine>> {
    let find = |id: ChronicleId| definitions.iter().find(|definition| definition.id == id).cloned();
    let settings = EngineSettings { frame_bytes_max: 32 << 10, ..EngineSettings::default() };
    Engine::open(log, Arc::new(StillClock), settings, &find)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_comes_back_from_a_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let definitions = [
        chronicle(1, Collision::First, true),
        chronicle(2, Collision::Last, true),
        chronicle(3, Collision::Next, false),
        chronicle(4, Collision::All, false),
    ];
    let log = journal(Arc::new(LocalDisk), path.clone()).unwrap();
    let store = engine(Arc::clone(&log), &definitions).unwrap();
    let tasks: Vec<_> = definitions
        .iter()
        .flat_map(|definition| (0..4).map(move |task| (definition.clone(), task)))
        .map(|(definition, task)| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for step in 0..30_i64 {
                    let rows: Vec<Row> = (0..if step % 10 == 5 { 400 } else { 1 + step % 3 })
                        .map(|at| {
                            row(
                                (step * 7 + at) % 500 - 20,
                                &format!("h{task}"),
                                (step * 1000 + at) as f64,
                            )
                        })
                        .collect();
                    append_on(&store, &definition, &rows, OnConflict::Skip).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    store.delete(&definitions[1], TickRange::new(Tick::MIN, Tick(0))).await.unwrap();
    let mut before = Vec::new();
    for definition in &definitions {
        before.push(read(store.snapshot().as_ref(), definition).await);
    }
    let gsn = store.snapshot().gsn();
    let status = log.status();
    assert!(status.segments > 1, "{status:?}");
    assert!(status.syncs < status.frames, "appends share syncs");
    log.close().unwrap();
    drop((store, log));

    let store = engine(journal(Arc::new(LocalDisk), path).unwrap(), &definitions).unwrap();
    assert_eq!(store.snapshot().gsn(), gsn);
    for (definition, before) in definitions.iter().zip(before) {
        assert!(!before.is_empty());
        assert_eq!(
            read(store.snapshot().as_ref(), definition).await,
            before,
            "{}",
            definition.collision
        );
    }
}

/// The statements sent so far, and what the client knows about each.
#[derive(Default)]
struct Ledger {
    /// For each statement number: its events, and `true` if it was acknowledged.
    statements: BTreeMap<u64, (Vec<Row>, bool)>,
}

impl Ledger {
    /// Every statement is stored as a whole or not at all; acknowledged statements are stored.
    fn check(&self, found: &[Row]) {
        let mut by_statement: BTreeMap<u64, Vec<Row>> = BTreeMap::new();
        for row in found {
            by_statement.entry(row.value as u64 / 1000).or_default().push(row.clone());
        }
        for (number, rows) in &by_statement {
            let (sent, _) = self.statements.get(number).expect("something that was never sent");
            let mut sent = sent.clone();
            sent.sort_by_key(|row| row.tick);
            assert_eq!(&sent, rows, "statement {number} is there in part");
        }
        for (number, (_, acknowledged)) in &self.statements {
            assert!(
                !acknowledged || by_statement.contains_key(number),
                "statement {number} was acknowledged and is lost"
            );
        }
    }
}

async fn one_life(
    random: &mut Random,
    store: &Arc<Engine>,
    cpu: &Arc<ChronicleDefinition>,
    ledger: &mut Ledger,
    next: &mut u64,
) {
    for _ in 0..40 {
        let group: Vec<(u64, Vec<Row>)> = (0..random.between(1, 5))
            .map(|_| {
                *next += 1;
                let rows =
                    if random.chance(20) { random.between(50, 300) } else { random.between(1, 4) };
                let rows = (0..rows)
                    .map(|at| row((*next * 1000 + at) as i64, "h", (*next * 1000 + at) as f64))
                    .collect();
                (*next, rows)
            })
            .collect();
        let tasks: Vec<_> = group
            .into_iter()
            .map(|(number, rows)| {
                ledger.statements.insert(number, (rows.clone(), false));
                let (store, cpu) = (Arc::clone(store), cpu.clone());
                tokio::spawn(async move {
                    let mut append = store.begin(AppendOptions::default())?;
                    for part in rows.chunks(120) {
                        push(&mut append, &cpu, part).await?;
                    }
                    append.commit().await.map(|_| number)
                })
            })
            .collect();
        let mut failed = false;
        for task in tasks {
            match task.await.unwrap() {
                Ok(number) => ledger.statements.get_mut(&number).unwrap().1 = true,
                Err(_) => failed = true,
            }
        }
        if failed {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_statements_survive_power_cuts_whole() {
    for seed in 1..=25 {
        let mut random = Random::new(seed);
        let cpu = chronicle(1, [Collision::First, Collision::All][seed as usize % 2], true);
        let mut disk = FaultyDisk::new(seed ^ 0xE16);
        let mut ledger = Ledger::default();
        let mut next = 0;
        for life in 0..4 {
            let definitions = [cpu.clone()];
            let log = journal(Arc::new(disk.clone()), PathBuf::from("/data/journal")).unwrap();
            let store = engine(Arc::clone(&log), &definitions).unwrap();
            let found = rows(&store, &cpu).await;
            ledger.check(&found);
            // Statements dropped by a crash stay dropped.
            let kept: std::collections::BTreeSet<u64> =
                found.iter().map(|row| row.value as u64 / 1000).collect();
            ledger.statements.retain(|number, _| kept.contains(number));
            if life < 3 {
                disk.halt_after(random.between(5, 120));
                one_life(&mut random, &store, &cpu, &mut ledger, &mut next).await;
                let crash = if random.chance(70) { Crash::PowerCut } else { Crash::Kill };
                disk = disk.crash(crash);
                let _ = log.close();
            }
        }
        assert!(ledger.statements.len() > 3, "seed {seed} tests nothing");
    }
}

#[tokio::test]
async fn a_failed_sync_poisons_appends_and_leaves_reads() {
    use stratalog_model::ErrorKind;
    use stratalog_sim::{Failure, Operation};
    let cpu = chronicle(1, Collision::First, true);
    let disk = FaultyDisk::new(5);
    let log = journal(Arc::new(disk.clone()), PathBuf::from("/data/journal")).unwrap();
    let store = engine(log, std::slice::from_ref(&cpu)).unwrap();
    append(&store, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    disk.fail(Operation::Sync, 1, Failure::Device);
    assert_eq!(error(append(&store, &cpu, &[row(2, "a", 1.0)]).await).kind(), ErrorKind::Io);
    for _ in 0..3 {
        assert_eq!(error(append(&store, &cpu, &[row(3, "a", 1.0)]).await).kind(), ErrorKind::Io);
    }
    assert_eq!(rows(&store, &cpu).await, [row(1, "a", 1.0)]);
}
