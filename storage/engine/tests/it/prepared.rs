//! Prepared appends: a record of another log decides about their commit (RFC 0023).

use std::{path::PathBuf, sync::Arc};

use stratalog_engine::{Engine, EngineSettings};
use stratalog_model::{
    ChronicleDefinition, Collision, ColumnDefinition, ColumnId, Decision, Durability, Error,
    ErrorKind, EventStore, FrameKind, Gsn, Log, ProducerId, Result, SchemaVersion, StatementId,
    Tick, TickRange, store::AppendOptions,
};
use stratalog_sim::{Crash, FaultyDisk};

use crate::{fixture::*, journal::journal, memory_log::MemoryLog};

fn decided(
    log: &MemoryLog,
    definitions: &[Arc<ChronicleDefinition>],
    settings: EngineSettings,
    decision: Option<&Decision>,
) -> Result<Arc<Engine>> {
    decided_over(Arc::new(log.clone()), definitions, settings, decision)
}

fn decided_over(
    log: Arc<dyn Log>,
    definitions: &[Arc<ChronicleDefinition>],
    settings: EngineSettings,
    decision: Option<&Decision>,
) -> Result<Arc<Engine>> {
    let find = |id| definitions.iter().find(|definition| definition.id == id).cloned();
    Engine::open_decided(log, Arc::new(StillClock), settings, &find, None, decision, &|| Ok(()))
}

/// A copy of a log with only its first frames.
fn cut(log: &MemoryLog, count: usize) -> MemoryLog {
    MemoryLog::with_frames(log.frames().into_iter().take(count).collect())
}

#[tokio::test]
async fn a_prepared_append_counts_with_its_decision_alone() {
    for collision in [Collision::First, Collision::Last, Collision::Next, Collision::All] {
        let both = [chronicle(1, collision, true), chronicle(2, collision, true)];
        let [a, b] = &both;
        let log = MemoryLog::default();
        let engine = decided(&log, &both, small(), None).unwrap();
        append(&engine, a, &[row(1, "a", 1.0), row(5, "a", 2.0)]).await.unwrap();
        append(&engine, b, &[row(1, "a", 1.0)]).await.unwrap();
        let before = (rows(&engine, a).await, rows(&engine, b).await);

        // Several statement ids: for a savepoint, and after a delete.
        let mut open_append = engine.begin(AppendOptions::default()).unwrap();
        let many: Vec<Row> = (100..1100).map(|at| row(at, "m", at as f64)).collect();
        push(&mut open_append, b, &many).await.unwrap();
        open_append.savepoint().unwrap();
        push(&mut open_append, a, &[row(7, "a", 3.0)]).await.unwrap();
        let undone = open_append.savepoint().unwrap();
        push(&mut open_append, a, &[row(8, "a", 9.0)]).await.unwrap();
        open_append.roll_back_to(undone);
        open_append.delete(a, TickRange::new(Tick::MIN, Tick(5))).await.unwrap();
        push(&mut open_append, a, &[row(2, "a", 4.0)]).await.unwrap();
        let prepared = open_append.prepare().await.unwrap();
        let decision = prepared.decision().unwrap();
        assert!(decision.statements.len() > 1, "{decision:?}");
        let seen = (rows(&engine, a).await, rows(&engine, b).await);
        assert_eq!(seen, before, "{collision}: nothing before the decision");
        let frames = log.frames().len();

        // Other statements commit meanwhile, and have lower gsn's.
        append(&engine, b, &[row(2, "a", 5.0)]).await.unwrap();
        let appended = prepared.commit().await.unwrap();
        assert_eq!(appended.durability, Durability::Disk);
        assert_eq!((appended.first_gsn, appended.rows), (Some(Gsn(5)), 1002));
        let after = (rows(&engine, a).await, rows(&engine, b).await);
        assert_eq!(after.0, [row(2, "a", 4.0), row(5, "a", 2.0), row(7, "a", 3.0)]);
        assert_eq!(after.1.len(), 1002);
        let told = read(engine.snapshot().as_ref(), a).await;
        assert_eq!(log.frames().last().unwrap().kind, FrameKind::Transaction);

        // A crash before the commit frame: with the decision, recovery commits the whole append;
        // without a decision, none of it.
        let without = log.frames().len() - 1;
        for settings in [small(), EngineSettings { memory_bytes_max: 1 << 20, ..small() }] {
            let found = decided(&cut(&log, without), &both, settings.clone(), None).unwrap();
            assert_eq!(rows(&found, a).await, before.0, "{collision}");
            assert_eq!(rows(&found, b).await.len(), 2);
            let other = Decision { statements: vec![StatementId(1 << 40)], rows: 1 };
            let found =
                decided(&cut(&log, without), &both, settings.clone(), Some(&other)).unwrap();
            assert_eq!(rows(&found, a).await, before.0, "{collision}");

            let again = cut(&log, without);
            let found = decided(&again, &both, settings.clone(), Some(&decision)).unwrap();
            assert_eq!((rows(&found, a).await, rows(&found, b).await), after, "{collision}");
            assert_eq!(read(found.snapshot().as_ref(), a).await, told, "the same gsn's");
            assert_eq!(again.frames().len(), log.frames().len(), "the missing frame is written");
            append(&found, b, &[row(9000, "z", 6.0)]).await.unwrap();
            // The append is stored exactly once, whether or not the decision is still the last one.
            for decision in [None, Some(&decision)] {
                let last = cut(&again, usize::MAX);
                let found = decided(&last, &both, settings.clone(), decision).unwrap();
                assert_eq!(read(found.snapshot().as_ref(), a).await, told, "{collision}");
                assert_eq!(rows(&found, b).await.len(), 1003);
                assert_eq!(last.frames().len(), again.frames().len());
            }
        }
        assert!(frames < without);
    }
}

#[tokio::test]
async fn a_prepared_append_that_is_dropped_leaves_nothing() {
    let (log, cpu, engine) = opened(Collision::First, true);
    let mut open_append = engine.begin(AppendOptions::default()).unwrap();
    push(&mut open_append, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    let prepared = open_append.prepare().await.unwrap();
    drop(prepared);
    append(&engine, &cpu, &[row(1, "a", 2.0)]).await.unwrap();
    assert_eq!(rows(&engine, &cpu).await, [row(1, "a", 2.0)]);
    let reopened = open(&cut(&log, usize::MAX), std::slice::from_ref(&cpu));
    assert_eq!(rows(&reopened, &cpu).await, [row(1, "a", 2.0)]);

    let nothing = engine.begin(AppendOptions::default()).unwrap().prepare().await.unwrap();
    assert_eq!(nothing.decision(), None);
    assert_eq!(nothing.commit().await.unwrap().rows, 0);

    let producer = Some((ProducerId(7), 1));
    let mut numbered =
        engine.begin(AppendOptions { producer, ..AppendOptions::default() }).unwrap();
    push(&mut numbered, &cpu, &[row(3, "a", 1.0)]).await.unwrap();
    let error = numbered.prepare().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

/// Prepares, loses the power before the commit frame, and starts with the decision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_append_survives_a_power_cut_whatever_its_durability() {
    for seed in 1..=8 {
        let both = [chronicle(1, Collision::First, true), chronicle(2, Collision::All, true)];
        let [a, b] = &both;
        let mut disk = FaultyDisk::new(seed);
        let mut decision = None;
        for life in 0..3 {
            let log = journal(Arc::new(disk.clone()), PathBuf::from("/data/journal")).unwrap();
            let store =
                decided_over(Arc::clone(&log) as _, &both, small(), decision.as_ref()).unwrap();
            let expected = 200 * life;
            assert_eq!(rows(&store, a).await.len(), expected, "seed {seed}, life {life}");
            assert_eq!(rows(&store, b).await.len(), life, "seed {seed}, life {life}");
            let durability = Some(Durability::Relaxed);
            let options = AppendOptions { durability, ..AppendOptions::default() };
            let mut open_append = store.begin(options).unwrap();
            let from = 1000 * life as i64;
            let many: Vec<Row> = (from..from + 200).map(|at| row(at, "m", at as f64)).collect();
            push(&mut open_append, a, &many).await.unwrap();
            if life == 1 {
                open_append.savepoint().unwrap();
            }
            push(&mut open_append, b, &[row(from, "m", 0.0)]).await.unwrap();
            let prepared = open_append.prepare().await.unwrap();
            decision = prepared.decision();
            disk = disk.crash(Crash::PowerCut);
            drop(prepared);
            let _ = log.close();
        }
    }
}

#[tokio::test]
async fn a_refused_commit_frame_is_written_later_and_nothing_takes_its_place() {
    let (log, cpu, engine) = opened(Collision::First, true);
    let mut open_append = engine.begin(AppendOptions::default()).unwrap();
    push(&mut open_append, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    let prepared = open_append.prepare().await.unwrap();
    assert_eq!(prepared.chronicles(), [cpu.id]);
    log.fail(Some(ErrorKind::DiskFull));
    let committing = tokio::spawn(prepared.commit());
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    log.fail(None);
    // The key stays taken the whole time.
    let error = error(append(&engine, &cpu, &[row(1, "a", 2.0)]).await);
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
    assert_eq!(committing.await.unwrap().unwrap().rows, 1);
    assert_eq!(rows(&engine, &cpu).await, [row(1, "a", 1.0)]);
    let reopened = open(&cut(&log, usize::MAX), std::slice::from_ref(&cpu));
    assert_eq!(rows(&reopened, &cpu).await, [row(1, "a", 1.0)]);
}

#[tokio::test]
async fn a_log_that_stops_before_the_commit_frame_leaves_the_rest_to_the_next_start() {
    let (log, cpu, engine) = opened(Collision::First, true);
    let mut open_append = engine.begin(AppendOptions::default()).unwrap();
    push(&mut open_append, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    let prepared = open_append.prepare().await.unwrap();
    let decision = prepared.decision();
    log.poison();
    let error = error(prepared.commit().await);
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.hint().unwrap().contains("do not send the transaction again"), "{error:?}");
    assert_eq!(rows(&engine, &cpu).await, []);
    let definitions = std::slice::from_ref(&cpu);
    let started = decided(&cut(&log, usize::MAX), definitions, small(), decision.as_ref()).unwrap();
    assert_eq!(rows(&started, &cpu).await, [row(1, "a", 1.0)]);
}

#[tokio::test]
async fn part_of_a_decided_append_is_damage_and_writes_nothing() {
    let (log, cpu, engine) = opened(Collision::First, true);
    let mut open_append = engine.begin(AppendOptions::default()).unwrap();
    push(&mut open_append, &cpu, &[row(1, "a", 1.0), row(2, "a", 1.0)]).await.unwrap();
    let prepared = open_append.prepare().await.unwrap();
    let Decision { statements, rows } = prepared.decision().unwrap();
    assert_eq!(rows, 2);
    let more = [statements.as_slice(), &[StatementId(77)]].concat();
    let wrong = [
        Decision { statements: statements.clone(), rows: 3 },
        Decision { statements: more, rows: 2 },
    ];
    for decision in wrong {
        let again = cut(&log, usize::MAX);
        let definitions = std::slice::from_ref(&cpu);
        let error = error(decided(&again, definitions, small(), Some(&decision)));
        assert_eq!(error.kind(), ErrorKind::DataCorrupted);
        assert_eq!(again.frames().len(), log.frames().len());
    }

    // Recovery writes nothing before `verify` confirms that the directories belong together.
    let again = cut(&log, usize::MAX);
    let log_again: Arc<dyn Log> = Arc::new(again.clone());
    let known = Arc::clone(&cpu);
    let find = move |id| (id == known.id).then(|| Arc::clone(&known));
    let refuse = || Err(Error::new(ErrorKind::DataCorrupted, "of another directory"));
    let decision = Some(Decision { statements, rows });
    let clock = Arc::new(StillClock);
    let opened =
        Engine::open_decided(log_again, clock, small(), &find, None, decision.as_ref(), &refuse);
    assert_eq!(error(opened).message(), "of another directory");
    assert_eq!(again.frames().len(), log.frames().len());
}

/// Recovery skips rolled-back frames of an unknown schema version, unless the frames are committed.
#[tokio::test]
async fn rolled_back_frames_of_an_unknown_schema_version_are_passed_over() {
    let (log, cpu, engine) = opened(Collision::First, true);
    append(&engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    let mut wider = cpu.as_ref().clone();
    wider.columns.push(ColumnDefinition {
        id: ColumnId(40),
        name: "taken back".to_string(),
        ..cpu.columns.last().unwrap().clone()
    });
    wider.schema_version = SchemaVersion(cpu.schema_version.0 + 1);
    let ids = wider.columns.iter().map(|column| column.id).collect();
    wider.schema_versions.insert(wider.schema_version, ids);
    let wider = Arc::new(wider);
    let mut open_append = engine.begin(AppendOptions::default()).unwrap();
    push(&mut open_append, &wider, &[row(2, "a", 2.0)]).await.unwrap();
    let prepared = open_append.prepare().await.unwrap();
    let decision = prepared.decision();
    drop(prepared);
    append(&engine, &cpu, &[row(3, "a", 3.0)]).await.unwrap();

    let definitions = std::slice::from_ref(&cpu);
    let started = decided(&cut(&log, usize::MAX), definitions, small(), None).unwrap();
    assert_eq!(rows(&started, &cpu).await, [row(1, "a", 1.0), row(3, "a", 3.0)]);
    let committed = decided(&cut(&log, usize::MAX), definitions, small(), decision.as_ref());
    assert_eq!(error(committed).kind(), ErrorKind::DataCorrupted);

    // Afterwards the same version may mean other columns.
    let mut other = wider.as_ref().clone();
    if let Some(column) = other.columns.last_mut() {
        column.id = ColumnId(41);
    }
    let ids = other.columns.iter().map(|column| column.id).collect();
    other.schema_versions.insert(other.schema_version, ids);
    let other = Arc::new(other);
    append(&engine, &other, &[row(4, "a", 4.0)]).await.unwrap();
    assert_eq!(rows(&engine, &other).await.len(), 3);
}
