//! Clocked ticks (F24, F75): the acceptance window, times of arrival, and the sealed tick S (CL-5).

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use stratalog_engine::Engine;
use stratalog_model::{
    Acceptance, Append, ChronicleDefinition, ChronicleId, Clock, Collision, ErrorKind, EventStore,
    ProducerId, Result, Tick, TickRange, TickRanges, TickSource,
    store::{AppendOptions, CommittedAppend, OnConflict},
    tier::ScanOrder,
};
use stratalog_sim::Random;

use crate::{fixture::*, memory_log::MemoryLog};

/// A clock that the test sets, in microseconds. The ticks of the test's chronicle are microseconds,
/// too.
#[derive(Debug, Default, Clone)]
struct Hand(Arc<AtomicI64>);

impl Hand {
    fn at(us: i64) -> Self {
        Self(Arc::new(AtomicI64::new(us)))
    }

    fn pass(&self, us: i64) {
        self.0.fetch_add(us, Ordering::Relaxed);
    }

    fn now(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Clock for Hand {
    fn now_ns(&self) -> i64 {
        self.now() * 1_000
    }

    fn monotonic_ns(&self) -> u64 {
        self.now() as u64 * 1_000
    }
}

const MS: i64 = 1_000;
const SECOND: i64 = 1_000 * MS;

/// The usual chronicle of these tests, with clocked ticks and an acceptance window of at least 100
/// ms.
fn clocked(collision: Collision, source: TickSource) -> Arc<ChronicleDefinition> {
    let mut definition = definition(1, collision, true);
    definition.time_source = source;
    definition.acceptance_window_ms = Some(100);
    Arc::new(definition)
}

fn open(
    log: &MemoryLog,
    stored: &Stored,
    definition: &Arc<ChronicleDefinition>,
    hand: &Hand,
) -> Arc<Engine> {
    let known = Arc::clone(definition);
    let find = move |id| (id == known.id).then(|| Arc::clone(&known));
    let (log, clock) = (Arc::new(log.clone()), Arc::new(hand.clone()));
    Engine::open_with(log, clock, small(), &find, Some(stored.files(definition))).unwrap()
}

fn since(since_us: i64, round_trip_us: i64) -> AppendOptions {
    let (since_ns, round_trip_ns) = (since_us * 1_000, round_trip_us as u64 * 1_000);
    let acceptance = Acceptance { since_ns, round_trip_ns, restores: false };
    AppendOptions { acceptance, ..AppendOptions::default() }
}

async fn write(
    engine: &Engine,
    definition: &Arc<ChronicleDefinition>,
    options: AppendOptions,
    given: &[Row],
) -> Result<Vec<i64>> {
    let mut append = engine.begin(options)?;
    let admitted = append.push(definition, batch(definition, given), OnConflict::Error).await?;
    let ticks = admitted.events.ticks.to_vec();
    append.commit().await?;
    Ok(ticks)
}

/// Like `write`, under a number of a producer.
async fn send(
    engine: &Engine,
    definition: &Arc<ChronicleDefinition>,
    number: u64,
    given: &[Row],
) -> Result<CommittedAppend> {
    let options = AppendOptions { producer: Some((ProducerId(7), number)), ..since(0, 0) };
    let mut append = engine.begin(options)?;
    push(&mut append, definition, given).await?;
    append.commit().await
}

/// A snapshot's sealed tick S, and the events up to S.
async fn sealed(engine: &Engine, definition: &Arc<ChronicleDefinition>) -> (i64, Vec<Read>) {
    let told = engine.seal(definition).unwrap();
    let snapshot = engine.snapshot();
    let Some(told) = told else {
        // Before the first event.
        assert_eq!(snapshot.sealed(definition), None);
        let all = scan(snapshot.as_ref(), request(definition, ScanOrder::Ascending)).await;
        assert_eq!(all, []);
        return (i64::MIN, Vec::new());
    };
    assert_eq!(snapshot.sealed(definition), Some(told));
    let mut request = request(definition, ScanOrder::Ascending);
    request.ticks = TickRanges::from_ranges([TickRange::new(Tick::MIN, told.next())]);
    (told.0, scan(snapshot.as_ref(), request).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_events_outside_of_the_window_are_refused_whole() {
    let (log, stored, hand) = (MemoryLog::default(), Stored::new(1), Hand::at(50 * SECOND));
    let cpu = clocked(Collision::All, TickSource::Client);
    let engine = open(&log, &stored, &cpu, &hand);
    hand.pass(10 * SECOND);
    let now = hand.now();
    let begun = 55 * SECOND;
    let refused = async |options: AppendOptions, tick: i64| {
        let given = [row(now, "a", 1.0), row(tick, "b", 2.0)];
        let refused = error(write(&engine, &cpu, options, &given).await);
        assert_eq!(refused.kind(), ErrorKind::OutsideWindow, "{refused}");
        assert!(refused.kind().is_retryable() && refused.kind().sqlstate() == "SL001");
        assert!(refused.hint().is_some() && refused.detail().is_some());
        refused
    };
    // The minimum of the window, on both sides of now.
    let told = refused(since(begun, 0), now - 100 * MS - 1).await;
    assert!(told.message().contains("1970-01-01 00:00:59.899999"), "{told}");
    assert!(told.detail().unwrap().contains("1970-01-01 00:00:59.9"), "{told}");
    let told = refused(since(begun, 0), now + 100 * MS + 1).await;
    assert!(told.message().contains("ahead"), "{told}");
    // A window of twice the latency; but no event from before the session, and none ahead of it.
    refused(since(begun, 500 * MS), now - 500 * MS - 1).await;
    refused(since(now - 50 * MS, 500 * MS), now - 50 * MS - 1).await;
    refused(since(begun, 500 * MS), now + 100 * MS + 1).await;
    // A reported latency above one minute does not widen the window.
    refused(since(0, 3_600 * SECOND), now - 60 * SECOND).await;
    assert_eq!(rows(&engine, &cpu).await, []);
    for (options, tick) in [
        (since(begun, 0), now - 100 * MS),
        (since(begun, 0), now + 100 * MS),
        (since(begun, 500 * MS), now - 500 * MS),
        (since(now - 50 * MS, 500 * MS), now - 50 * MS),
    ] {
        write(&engine, &cpu, options, &[row(tick, "a", 1.0)]).await.unwrap();
    }
    assert_eq!(rows(&engine, &cpu).await.len(), 4);
    // After a start, no event from before the start is accepted.
    drop(engine);
    hand.pass(10 * MS);
    let engine = open(&MemoryLog::with_frames(log.frames()), &stored, &cpu, &hand);
    let early = [row(hand.now() - 1, "a", 1.0)];
    let refused = error(write(&engine, &cpu, since(0, SECOND), &early).await);
    assert_eq!(refused.kind(), ErrorKind::OutsideWindow);
    write(&engine, &cpu, since(0, SECOND), &[row(hand.now(), "a", 1.0)]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_what_is_sealed_never_changes() {
    for source in [TickSource::Client, TickSource::Server] {
        let (log, mut stored, hand) = (MemoryLog::default(), Stored::new(2), Hand::at(SECOND));
        let cpu = clocked(Collision::All, source);
        let engine = open(&log, &stored, &cpu, &hand);
        assert_eq!(engine.snapshot().sealed(&cpu), None, "nobody asked");
        // Before the first event, nothing is sealed: a dump may bring any time.
        assert_eq!(engine.seal(&cpu).unwrap(), None);
        for _ in 0..40 {
            hand.pass(10 * MS);
            write(&engine, &cpu, since(0, 0), &[row(hand.now(), "a", 1.0)]).await.unwrap();
        }
        let (told, before) = sealed(&engine, &cpu).await;
        assert_eq!(told, hand.now() - 100 * MS - 1);
        assert_eq!(before.len(), 29);
        let early = [row(told, "late", 1.0)];
        if source == TickSource::Client {
            let refused = error(write(&engine, &cpu, since(0, 5 * SECOND), &early).await);
            assert_eq!(refused.kind(), ErrorKind::OutsideWindow, "wide windows do not undo it");
        }
        // A pinned snapshot keeps its seal.
        let pinned = engine.snapshot();
        // The seal is the same in every tier, and after a restart.
        engine.flush(cpu.id).await.unwrap();
        assert_eq!(sealed(&engine, &cpu).await, (told, before.clone()));
        engine.compact(cpu.id).await.unwrap();
        assert_eq!(sealed(&engine, &cpu).await, (told, before.clone()));
        hand.pass(50 * MS);
        write(&engine, &cpu, since(0, 0), &[row(hand.now(), "a", 1.0)]).await.unwrap();
        let (later, more) = sealed(&engine, &cpu).await;
        assert!(later >= told && more.starts_with(&before));
        assert_eq!(pinned.sealed(&cpu), Some(Tick(told)));
        drop((pinned, engine));
        stored.reopen();
        let engine = open(&MemoryLog::with_frames(log.frames()), &stored, &cpu, &hand);
        let (again, all) = sealed(&engine, &cpu).await;
        assert!(again >= later && all.starts_with(&more));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_an_open_statement_holds_up_what_is_sealed() {
    let (log, stored, hand) = (MemoryLog::default(), Stored::new(3), Hand::at(SECOND));
    let cpu = clocked(Collision::All, TickSource::Client);
    let engine = open(&log, &stored, &cpu, &hand);
    hand.pass(SECOND);
    write(&engine, &cpu, since(0, 0), &[row(hand.now() - 100 * MS, "first", 1.0)]).await.unwrap();
    let tick = hand.now() - 30 * MS;
    let mut open = engine.begin(since(0, 0)).unwrap();
    push(&mut open, &cpu, &[row(tick + 5, "a", 1.0), row(tick, "a", 1.0)]).await.unwrap();
    let mut dropped = engine.begin(since(0, 0)).unwrap();
    push(&mut dropped, &cpu, &[row(tick - 10, "a", 9.0)]).await.unwrap();
    hand.pass(10 * SECOND);
    let (told, first) = sealed(&engine, &cpu).await;
    assert_eq!((told, first.len()), (tick - 11, 1));
    drop(dropped);
    assert_eq!(sealed(&engine, &cpu).await, (tick - 1, first));
    open.commit().await.unwrap();
    let (told, found) = sealed(&engine, &cpu).await;
    assert_eq!(told, hand.now() - 100 * MS - 1);
    assert_eq!(found.len(), 3);
}

/// Events of a dump keep their times only in a chronicle that never had an event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_old_times_are_restored_before_the_first_event() {
    for (source, refusal) in [
        (TickSource::Client, ErrorKind::OutsideWindow),
        (TickSource::Server, ErrorKind::GeneratedAlways),
    ] {
        let (log, mut stored, hand) = (MemoryLog::default(), Stored::new(8), Hand::at(SECOND));
        let cpu = clocked(Collision::All, source);
        let engine = open(&log, &stored, &cpu, &hand);
        hand.pass(10 * SECOND);
        let restoring = || {
            let mut append = engine.begin(since(0, 0)).unwrap();
            append.restores(cpu.id, true);
            append
        };
        let mut taken_back = restoring();
        push(&mut taken_back, &cpu, &[row(-7 * SECOND, "gone", 0.0)]).await.unwrap();
        drop(taken_back);
        let mut dump = restoring();
        push(&mut dump, &cpu, &[row(-5 * SECOND, "a", 1.0), row(20 * SECOND, "a", 2.0)])
            .await
            .unwrap();
        assert_eq!(engine.seal(&cpu).unwrap(), None);
        // A live event comes first. Pending events are not sealed.
        write(&engine, &cpu, since(0, 0), &[row(hand.now(), "live", 3.0)]).await.unwrap();
        assert_eq!(sealed(&engine, &cpu).await, (-5 * SECOND - 1, vec![]));
        let mut late = restoring();
        let refused = push(&mut late, &cpu, &[row(-4 * SECOND, "late", 4.0)]).await;
        assert_eq!(error(refused).kind(), refusal);
        dump.commit().await.unwrap();
        let (told, found) = sealed(&engine, &cpu).await;
        assert_eq!((told, found.len()), (hand.now() - 100 * MS - 1, 1));
        assert_eq!(found[0].row.tick, -5 * SECOND);
        drop((late, engine));
        stored.reopen();
        let engine = open(&MemoryLog::with_frames(log.frames()), &stored, &cpu, &hand);
        assert!(engine.seal(&cpu).unwrap() >= Some(Tick(told)));
        let mut again = engine.begin(since(0, 0)).unwrap();
        again.restores(cpu.id, true);
        let refused = push(&mut again, &cpu, &[row(-4 * SECOND, "late", 4.0)]).await;
        assert_eq!(error(refused).kind(), refusal);
    }
}

/// A session writes no events from before its acquisition of the chronicle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_nothing_from_before_the_acquisition_is_accepted() {
    let (log, stored, hand) = (MemoryLog::default(), Stored::new(7), Hand::at(SECOND));
    let cpu = clocked(Collision::All, TickSource::Client);
    let engine = open(&log, &stored, &cpu, &hand);
    hand.pass(SECOND);
    let (now, acquired) = (hand.now(), hand.now() - 50 * MS);
    let at = |us: i64| Some(us * 1_000);
    for (since_ns, tick, is_accepted) in [
        (None, acquired - 1, true),
        (at(acquired), acquired - 1, false),
        (at(acquired), acquired, true),
        // An acquisition does not widen the window.
        (at(0), now - 100 * MS - 1, false),
    ] {
        let mut append = engine.begin(since(0, 0)).unwrap();
        append.acquired(cpu.id, since_ns);
        let pushed = push(&mut append, &cpu, &[row(tick, "a", 1.0)]).await;
        match is_accepted {
            true => pushed.unwrap(),
            false => assert_eq!(error(pushed).kind(), ErrorKind::OutsideWindow),
        }
    }
    // Acquisitions of other chronicles, and released acquisitions, have no effect.
    let mut append = engine.begin(since(0, 0)).unwrap();
    append.acquired(ChronicleId(2), at(now + 1));
    append.acquired(cpu.id, at(now + 1));
    append.acquired(cpu.id, None);
    push(&mut append, &cpu, &[row(now, "a", 1.0)]).await.unwrap();
}

/// A connection breaks, and the client sends the batch again under the same number. By then the
/// times are too old: the retry waits for the first attempt, and receives its outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f24_what_is_sent_again_is_not_refused_if_it_is_stored() {
    for collision in [Collision::All, Collision::Last, Collision::First, Collision::Next] {
        for fails in [false, true] {
            let (log, stored, hand) = (MemoryLog::default(), Stored::new(6), Hand::at(SECOND));
            let cpu = clocked(collision, TickSource::Client);
            let engine = open(&log, &stored, &cpu, &hand);
            hand.pass(SECOND);
            let begin = |number: u64, tick: i64| {
                let (engine, cpu) = (Arc::clone(&engine), Arc::clone(&cpu));
                let given = [row(tick, "a", 1.0)];
                tokio::spawn(async move { send(&engine, &cpu, number, &given).await })
            };
            // The first attempt was handed to the log, which does not complete it yet.
            log.hold();
            let tick = hand.now();
            let first = begin(1, tick);
            while log.waiting() == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            hand.pass(SECOND);
            let again = [begin(1, tick), begin(1, tick)];
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(again.iter().all(|again| !again.is_finished()), "{collision}");
            log.fail(fails.then_some(ErrorKind::DiskFull));
            log.release();
            log.fail(None);
            assert_eq!(first.await.unwrap().is_err(), fails, "{collision}");
            for again in again {
                match again.await.unwrap() {
                    Ok(appended) => assert!(appended.duplicate && !fails, "{collision}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::OutsideWindow);
                        assert!(fails, "{collision}");
                    }
                }
            }
            assert_eq!(rows(&engine, &cpu).await.len(), usize::from(!fails), "{collision}");

            // Second case: the first attempt is only admitted, and then committed or rolled back.
            let options = AppendOptions { producer: Some((ProducerId(7), 2)), ..since(0, 0) };
            let mut open = engine.begin(options).unwrap();
            let tick = hand.now();
            push(&mut open, &cpu, &[row(tick, "a", 1.0)]).await.unwrap();
            hand.pass(SECOND);
            let again = begin(2, tick);
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert!(!again.is_finished(), "{collision}");
            // Other statements do not wait for this attempt.
            let refused = error(begin(3, tick).await.unwrap());
            assert_eq!(refused.kind(), ErrorKind::OutsideWindow);
            match fails {
                false => assert!(!open.commit().await.unwrap().duplicate),
                true => drop(open),
            }
            let again = again.await.unwrap();
            match fails {
                false => assert!(again.unwrap().duplicate, "{collision}"),
                true => assert_eq!(error(again).kind(), ErrorKind::OutsideWindow),
            }
            assert_eq!(rows(&engine, &cpu).await.len(), 2 * usize::from(!fails), "{collision}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f75_the_keeper_gives_the_time_of_arrival() {
    for collision in [Collision::All, Collision::Next, Collision::First] {
        let (log, mut stored, hand) = (MemoryLog::default(), Stored::new(4), Hand::at(SECOND));
        let cpu = clocked(collision, TickSource::Server);
        let engine = open(&log, &stored, &cpu, &hand);
        hand.pass(SECOND);
        // The given values of the tick column have no effect.
        let given = [row(7, "a", 1.0), row(i64::MAX / 2_000, "b", 2.0)];
        let now = hand.now();
        assert_eq!(write(&engine, &cpu, since(0, 0), &given).await.unwrap(), [now, now]);
        assert_eq!(rows(&engine, &cpu).await, [row(now, "a", 1.0), row(now, "b", 2.0)]);
        // Also with an event of the same time in a piece.
        engine.flush(cpu.id).await.unwrap();
        let again = write(&engine, &cpu, since(0, 0), &[row(7, "a", 3.0)]).await;
        match collision {
            Collision::All => assert_eq!(again.unwrap(), [now]),
            Collision::Next => assert_eq!(again.unwrap(), [now + 1]),
            _ => assert_eq!(error(again).kind(), ErrorKind::UniqueViolation),
        }
        let before = read(engine.snapshot().as_ref(), &cpu).await;
        drop(engine);
        stored.reopen();
        let engine = open(&MemoryLog::with_frames(log.frames()), &stored, &cpu, &hand);
        assert_eq!(read(engine.snapshot().as_ref(), &cpu).await, before);
    }
}

/// Each event of one arrival needs a tick of its own in its series, and the window has a limited
/// number of ticks. The refusal does not blame the clocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f25_events_that_arrive_together_fill_the_window() {
    let (log, stored, hand) = (MemoryLog::default(), Stored::new(8), Hand::at(SECOND));
    let mut definition = definition(1, Collision::Next, true);
    definition.time_source = TickSource::Server;
    definition.acceptance_window_ms = Some(1);
    let cpu = Arc::new(definition);
    let engine = open(&log, &stored, &cpu, &hand);
    hand.pass(SECOND);
    let given: Vec<Row> = (0..3_000).map(|at| row(0, "a", at as f64)).collect();
    let refused = error(write(&engine, &cpu, since(0, 0), &given).await);
    assert_eq!(refused.kind(), ErrorKind::OutsideWindow, "{refused}");
    assert!(refused.message().contains("no tick is free"), "{refused}");
    assert!(refused.hint().unwrap().contains("granularity"), "{refused}");
    assert_eq!(rows(&engine, &cpu).await, []);
    // Other series still have free ticks.
    let (now, apart) = (hand.now(), [row(0, "b", 1.0), row(0, "c", 2.0), row(0, "b", 3.0)]);
    let ticks = write(&engine, &cpu, since(0, 0), &apart).await.unwrap();
    assert_eq!(ticks, [now, now, now + 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f25_collisions_of_times_of_the_clock() {
    let of = |collision| {
        let (log, stored, hand) = (MemoryLog::default(), Stored::new(5), Hand::at(SECOND));
        let cpu = clocked(collision, TickSource::Client);
        let engine = open(&log, &stored, &cpu, &hand);
        hand.pass(SECOND);
        (engine, cpu, hand, stored)
    };
    // Under `first`, the client can choose another tick.
    let (engine, cpu, hand, _stored) = of(Collision::First);
    let now = hand.now();
    write(&engine, &cpu, since(0, 0), &[row(now, "a", 1.0)]).await.unwrap();
    let refused = error(write(&engine, &cpu, since(0, 0), &[row(now, "a", 2.0)]).await);
    assert_eq!((refused.kind(), refused.kind().sqlstate()), (ErrorKind::TickTaken, "SL002"));
    assert!(refused.kind().is_retryable());
    write(&engine, &cpu, since(0, 0), &[row(now + 1, "a", 2.0)]).await.unwrap();
    // Under `next`, no event moves past the end of the window.
    let (engine, cpu, hand, _stored) = of(Collision::Next);
    let last = hand.now() + 100 * MS;
    let ticks: Vec<Row> = (0..3).map(|at| row(last - 2, "a", f64::from(at))).collect();
    let given = write(&engine, &cpu, since(0, 0), &ticks).await.unwrap();
    assert_eq!(given, [last - 2, last - 1, last]);
    let refused = error(write(&engine, &cpu, since(0, 0), &[row(last - 2, "a", 9.0)]).await);
    assert_eq!(refused.kind(), ErrorKind::OutsideWindow);
    hand.pass(1);
    let given = write(&engine, &cpu, since(0, 0), &[row(last - 2, "a", 9.0)]).await.unwrap();
    assert_eq!(given, [last + 1]);
    // Under `last`, the event is visible at once, and can be replaced before the seal.
    let (engine, cpu, hand, _stored) = of(Collision::Last);
    let tick = hand.now();
    for value in [1.0, 2.0] {
        write(&engine, &cpu, since(0, 0), &[row(tick, "a", value)]).await.unwrap();
        assert_eq!(rows(&engine, &cpu).await, [row(tick, "a", value)]);
        assert_eq!(sealed(&engine, &cpu).await.1, []);
    }
    hand.pass(SECOND);
    let found = sealed(&engine, &cpu).await.1;
    assert_eq!(found.into_iter().map(|read| read.row).collect::<Vec<_>>(), [row(tick, "a", 2.0)]);
    let refused = error(write(&engine, &cpu, since(0, 0), &[row(tick, "a", 3.0)]).await);
    assert_eq!(refused.kind(), ErrorKind::OutsideWindow);
}

/// CL-5: after any write, commit, rollback and move, a range below S reads the same forever, and S
/// never goes back.
#[test]
fn cl_5_sealed_ranges_read_the_same() {
    let seeds = match std::env::var("STRATALOG_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=60).collect(),
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for seed in seeds {
        let _at = AtSeed(seed);
        runtime.block_on(Box::pin(random_steps(seed)));
    }
}

/// Prints the seed if the run panics.
struct AtSeed(u64);

impl Drop for AtSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}; STRATALOG_SEED={} repeats it", self.0, self.0);
        }
    }
}

async fn random_steps(seed: u64) {
    let mut random = Random::new(seed);
    let mut between = |least: i64, end: i64| least + random.below((end - least) as u64) as i64;
    let collision = [Collision::All, Collision::Last, Collision::Next][(seed % 3) as usize];
    let (mut log, mut stored, hand) = (MemoryLog::default(), Stored::new(seed), Hand::at(SECOND));
    let cpu = clocked(collision, TickSource::Client);
    let mut engine = open(&log, &stored, &cpu, &hand);
    let (mut told, mut known): (i64, Vec<Read>) = (i64::MIN, Vec::new());
    let mut pending: Option<Box<dyn Append>> = None;
    for at in 0..60 {
        match between(0, 16) {
            0..3 => hand.pass(between(0, 80 * MS)),
            3..9 => {
                // The test must not wait for keys of the open statement.
                let host = format!("h{}", between(0, 3));
                let given = [row(hand.now() + between(-300 * MS, 200 * MS), &host, at as f64)];
                let _ = write(&engine, &cpu, since(0, between(0, 400 * MS)), &given).await;
            }
            9 if pending.is_none() => {
                let mut append = engine.begin(since(0, 0)).unwrap();
                let tick = hand.now() + between(-100 * MS, 100 * MS);
                if push(&mut append, &cpu, &[row(tick, "open", at as f64)]).await.is_ok() {
                    pending = Some(append);
                }
            }
            9 | 10 => {
                if let Some(append) = pending.take() {
                    append.commit().await.unwrap();
                }
            }
            11 => drop(pending.take()),
            12 => drop(engine.flush(cpu.id).await.unwrap()),
            13 => {
                drop((pending.take(), engine));
                stored.reopen();
                log = MemoryLog::with_frames(log.frames());
                engine = open(&log, &stored, &cpu, &hand);
            }
            _ => {
                let (now_told, found) = sealed(&engine, &cpu).await;
                assert!(now_told >= told, "S went back");
                assert!(found.starts_with(&known), "what was sealed has changed");
                assert!(found[known.len()..].iter().all(|read| read.row.tick > told));
                (told, known) = (now_told, found);
            }
        }
    }
}
