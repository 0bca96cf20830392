//! Tests with logs that fail, are slow, or are damaged.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use futures::{executor::block_on, future::FutureExt, task::noop_waker};
use stratalog_model::{
    BoxFuture, ChronicleId, ColumnType, CommittedAppend, Decision, Durability, Error, ErrorKind,
    Gsn, PreparedAppend, Result, StatementId,
};

use super::{MemoryLog, apply, clock, column, cpu, create, open, table};
use crate::access::Identity;
use crate::catalog::{Catalog, Command};

fn over(log: &Arc<MemoryLog>) -> Arc<Catalog> {
    Catalog::open(Arc::clone(log) as Arc<_>, clock()).unwrap()
}

#[test]
fn a_failed_write_changes_nothing_and_the_next_one_works() {
    let log = Arc::new(MemoryLog::default());
    let catalog = over(&log);
    log.failing.store(true, Ordering::Relaxed);
    let error = apply(&catalog, Command::CreateChronicle(cpu())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert_eq!(catalog.state().version(), 0);
    create(&catalog, cpu());
    assert_eq!(open(&log).state(), catalog.state());
}

#[test]
fn several_commands_are_one_record_or_none() {
    let log = Arc::new(MemoryLog::default());
    let catalog = over(&log);
    let (a, b) =
        (create(&catalog, table("a", Vec::new())), create(&catalog, table("b", Vec::new())));
    let drops = |names: &[&str]| -> Vec<Command> {
        let drop = |name: &&str| Command::DropChronicle {
            database: "stratalog".to_string(),
            schema: "public".to_string(),
            name: (*name).to_string(),
            if_exists: *name == "maybe",
        };
        names.iter().map(drop).collect()
    };
    let before = catalog.state();

    // If the second command or the log fails, the first command has no effect either.
    let error =
        block_on(catalog.apply_all(Identity::System, drops(&["a", "missing"]))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedTable);
    log.failing.store(true, Ordering::Relaxed);
    block_on(catalog.apply_all(Identity::System, drops(&["a", "b"]))).unwrap_err();
    assert_eq!(log.frames.lock().len(), 2);
    assert_eq!(catalog.state(), before);
    assert_eq!(open(&log).state(), before);

    let outcome =
        block_on(catalog.apply_all(Identity::System, drops(&["a", "maybe", "b"]))).unwrap();
    assert_eq!(outcome.dropped, [a.id, b.id]);
    assert_eq!(outcome.notices, ["table \"maybe\" does not exist, skipping"]);
    assert_eq!(log.frames.lock().len(), 3, "one record for both");
    assert_eq!(catalog.state().chronicle_count(), 0);
    assert_eq!(catalog.state().version(), before.version() + 1);
    assert_eq!(open(&log).state(), catalog.state());

    // The second command sees the result of the first.
    let make = Command::CreateChronicle(cpu());
    let [drop_cpu] = <[Command; 1]>::try_from(drops(&["cpu"])).unwrap();
    block_on(catalog.apply_all(Identity::System, vec![make, drop_cpu])).unwrap();
    assert_eq!(open(&log).state(), catalog.state());
    assert!(create(&catalog, cpu()).id.0 > b.id.0 + 1, "ids are not given twice");
}

#[test]
fn a_command_is_visible_once_durable_even_if_nobody_waits() {
    let log = Arc::new(MemoryLog::default());
    let catalog = over(&log);
    log.holding.store(true, Ordering::Relaxed);
    let mut abandoned = catalog.apply(Identity::System, Command::CreateChronicle(cpu()));
    let waker = noop_waker();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(abandoned.poll_unpin(&mut context).is_pending());
    assert_eq!(catalog.state().version(), 0, "visible before it is durable");

    // The next command waits until the first is complete, although the first command's caller is
    // gone.
    drop(abandoned);
    let mut second =
        catalog.apply(Identity::System, Command::CreateChronicle(table("t", Vec::new())));
    assert!(second.poll_unpin(&mut context).is_pending());
    assert_eq!(log.frames.lock().len(), 1);
    log.holding.store(false, Ordering::Relaxed);
    log.finish();
    assert_eq!(catalog.state().version(), 1);
    let id = block_on(second).unwrap().chronicle.unwrap().id;
    assert_eq!(catalog.state().version(), 2);
    assert_ne!(catalog.state().chronicle("stratalog", "public", "cpu").unwrap().id, id);
    assert_eq!(open(&log).state(), catalog.state());
}

#[test]
fn dropping_a_command_before_its_turn_frees_the_turn() {
    let log = Arc::new(MemoryLog::default());
    let catalog = over(&log);
    drop(catalog.apply(Identity::System, Command::CreateChronicle(cpu())));
    create(&catalog, cpu());
    assert_eq!(log.frames.lock().len(), 1);
}

/// An append whose commit frame the test controls.
struct Prepared {
    statements: Vec<StatementId>,
    chronicles: Vec<ChronicleId>,
    catalog: Arc<Catalog>,
    outcome: Result<()>,
    abandoned: Arc<AtomicBool>,
}

impl PreparedAppend for Prepared {
    fn decision(&self) -> Option<Decision> {
        let statements = self.statements.clone();
        (!statements.is_empty()).then_some(Decision { statements, rows: 1 })
    }

    fn chronicles(&self) -> Vec<ChronicleId> {
        self.chronicles.clone()
    }

    fn abandon(self: Box<Self>) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<CommittedAppend>> {
        assert!(self.catalog.state().version() <= 2, "visible before its events");
        Box::pin(async move {
            self.outcome.map(|()| CommittedAppend {
                first_gsn: Some(Gsn(1)),
                last_gsn: Some(Gsn(1)),
                rows: 1,
                durability: Durability::Disk,
                duplicate: false,
            })
        })
    }
}

fn append(catalog: &Arc<Catalog>, statements: &[u64], outcome: Result<()>) -> Prepared {
    let statements = statements.iter().copied().map(StatementId).collect();
    let (catalog, chronicles, abandoned) = (Arc::clone(catalog), Vec::new(), Arc::default());
    Prepared { statements, chronicles, catalog, outcome, abandoned }
}

fn prepared(
    catalog: &Arc<Catalog>,
    statements: &[u64],
    outcome: Result<()>,
) -> Option<Box<dyn PreparedAppend>> {
    Some(Box::new(append(catalog, statements, outcome)))
}

#[test]
fn a_record_decides_about_prepared_events() {
    let log = Arc::new(MemoryLog::default());
    let catalog = over(&log);
    assert_eq!(catalog.state().decision(), None);
    let make = vec![Command::CreateChronicle(cpu())];
    let events = prepared(&catalog, &[7, 9], Ok(()));
    let (outcome, appended) =
        block_on(catalog.apply_with(Identity::System, make.clone(), events)).unwrap();
    assert!(outcome.chronicle.is_some());
    assert_eq!(appended.map(|appended| appended.rows), Some(1));
    assert_eq!(log.frames.lock().len(), 1, "one record");
    let payload = log.frames.lock().first().unwrap().payload.clone();
    assert!(payload.starts_with(b"{\"format\":6,"), "{payload:?}");
    assert_eq!(open(&log).state(), catalog.state());
    let statements = [7, 9].map(StatementId).to_vec();
    assert_eq!(catalog.state().decision(), Some(&Decision { statements, rows: 1 }));

    // An invalid command decides nothing. A record can also decide about events alone.
    let events = prepared(&catalog, &[11], Ok(()));
    let error = block_on(catalog.apply_with(Identity::System, make, events)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DuplicateTable);
    let (_, appended) = block_on(catalog.apply_with(
        Identity::System,
        Vec::new(),
        prepared(&catalog, &[12], Ok(())),
    ))
    .unwrap();
    assert!(appended.is_some());
    assert_eq!(log.frames.lock().len(), 2);
    assert_eq!(catalog.state().decision().map(|decision| decision.statements.len()), Some(1));
    let (_, appended) =
        block_on(catalog.apply_with(Identity::System, Vec::new(), prepared(&catalog, &[], Ok(()))))
            .unwrap();
    assert!(appended.is_some());
    assert_eq!(log.frames.lock().len(), 2, "nothing to decide");

    // Another session has dropped a chronicle of the events.
    let mut events = append(&catalog, &[13], Ok(()));
    events.chronicles = vec![ChronicleId(77)];
    let make = vec![Command::CreateChronicle(table("gone", Vec::new()))];
    let error = block_on(catalog.apply_with(Identity::System, make, Some(Box::new(events))))
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UndefinedTable);
    assert_eq!(log.frames.lock().len(), 2);

    // The record of a change without events keeps the last decision.
    create(&catalog, table("t", Vec::new()));
    assert_eq!(open(&log).state(), catalog.state());
    assert_eq!(catalog.state().decision().map(|decision| decision.statements.len()), Some(1));
}

#[test]
fn no_change_follows_a_decision_without_its_commit_frame() {
    let log = Arc::new(MemoryLog::default());
    let catalog = over(&log);
    let make = vec![Command::CreateChronicle(cpu())];
    let stopped = Err(Error::new(ErrorKind::Io, "the log has stopped"));
    let events = prepared(&catalog, &[7], stopped);
    let error = block_on(catalog.apply_with(Identity::System, make, events)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(catalog.state().version(), 0, "neither events nor definitions are visible");
    let error = apply(&catalog, Command::CreateChronicle(table("t", Vec::new()))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.hint().unwrap().contains("restart"));
    assert_eq!(block_on(catalog.reserve()).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(log.frames.lock().len(), 1);

    // The next start completes the transaction.
    let started = over(&Arc::new(log.reopened()));
    assert_eq!(started.state().chronicle_count(), 1);
    assert!(started.state().decision().is_some());

    // An unknown outcome stays unknown until the next start.
    let catalog = started;
    log.failing.store(false, Ordering::Relaxed);
    let log = Arc::new(log.reopened());
    let stopped = over(&log);
    log.stop();
    let events = append(&stopped, &[9], Ok(()));
    let abandoned = Arc::clone(&events.abandoned);
    let make = vec![Command::CreateChronicle(table("u", Vec::new()))];
    let error = block_on(stopped.apply_with(Identity::System, make, Some(Box::new(events))))
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(abandoned.load(Ordering::Relaxed));
    drop(catalog);

    // A failed write of a record does not change the catalog.
    let drop_cpu = Command::DropChronicle {
        database: "stratalog".to_string(),
        schema: "public".to_string(),
        name: "cpu".to_string(),
        if_exists: false,
    };
    let log = Arc::new(log.reopened());
    let catalog = over(&log);
    log.failing.store(true, Ordering::Relaxed);
    let events = prepared(&catalog, &[8], Ok(()));
    let error = block_on(catalog.apply_with(Identity::System, vec![drop_cpu.clone()], events))
        .map(drop)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    apply(&catalog, drop_cpu).unwrap();
    assert_eq!(catalog.state().decision().map(|decision| decision.statements.len()), Some(1));
}

#[test]
fn damaged_and_newer_records_are_told_apart() {
    for (payload, kind) in [
        ("{\"format\":1,", ErrorKind::DataCorrupted),
        ("{\"format\":1,\"change\":{\"paint\":1}}", ErrorKind::DataCorrupted),
        ("{\"format\":1,\"change\":{\"drop_chronicle\":{\"id\":7}}}", ErrorKind::DataCorrupted),
        ("{\"format\":2,\"change\":{\"paint\":1}}", ErrorKind::DataCorrupted),
        ("{\"format\":3,\"change\":{\"paint\":1}}", ErrorKind::DataCorrupted),
        ("{\"format\":4,\"change\":{\"paint\":1}}", ErrorKind::DataCorrupted),
        ("{\"format\":5,\"change\":{\"paint\":1}}", ErrorKind::DataCorrupted),
        ("{\"format\":6,\"change\":{\"paint\":1}}", ErrorKind::DataCorrupted),
        ("{\"format\":7,\"change\":{\"paint\":1}}", ErrorKind::DataCorrupted),
        ("{\"format\":0,\"change\":{\"paint\":1}}", ErrorKind::ObjectNotInPrerequisiteState),
        ("{\"format\":8,\"change\":{\"paint\":1}}", ErrorKind::ObjectNotInPrerequisiteState),
    ] {
        let log = Arc::new(MemoryLog::default());
        create(&over(&log), cpu());
        let mut frame = log.frames.lock().first().unwrap().clone();
        frame.payload = Bytes::from_static(payload.as_bytes());
        log.frames.lock().push(frame);
        let error = Catalog::open(Arc::new(log.reopened()), clock()).unwrap_err();
        assert_eq!(error.kind(), kind, "{payload}");
        assert!(error.message().contains("lsn 2"), "{error}");
    }
}

#[test]
fn columns_of_earlier_versions_whose_names_are_taken_now_have_other_names() {
    let log = Arc::new(MemoryLog::default());
    let catalog = open(&log);
    let (mut new, integer) = (cpu(), ColumnType::BigInt);
    new.columns.extend([column("grp", integer.clone()), column("_group_", integer.clone())]);
    let id = create(&catalog, new).id;
    let (column, key, if_not_exists) = (column("grp2", integer), false, false);
    apply(&catalog, Command::AddColumn { id, column, key, if_not_exists }).unwrap();
    let (from, to) = ("grp2".to_string(), "grp3".to_string());
    apply(&catalog, Command::RenameColumn { id, from, to }).unwrap();
    // A state from the time before the names were reserved for system columns.
    for frame in log.frames.lock().iter_mut() {
        let text = String::from_utf8(frame.payload.to_vec()).unwrap();
        let text = text.replace("\"grp\"", "\"_group\"").replace("\"grp2\"", "\"_gsn\"");
        frame.payload = text.replace("\"grp3\"", "\"_tick\"").into();
    }
    let catalog = open(&log);
    let names = |catalog: &Catalog| -> Vec<String> {
        let state = catalog.state();
        let cpu = state.chronicle("stratalog", "public", "cpu").unwrap();
        cpu.columns.iter().map(|column| column.name.clone()).collect()
    };
    assert_eq!(names(&catalog)[3..], ["_group__", "_group_", "_tick_"]);
    // The column supports the same operations as other columns.
    let options = vec![("granularity".to_string(), "1s".to_string())];
    assert!(apply(&catalog, Command::SetOptions { id, options }).unwrap().changed);
    let (from, to) = ("_group__".to_string(), "team".to_string());
    apply(&catalog, Command::RenameColumn { id, from, to }).unwrap();
    assert_eq!(names(&catalog)[3..], ["team", "_group_", "_tick_"]);
    assert_eq!(open(&log).state(), catalog.state());
}
