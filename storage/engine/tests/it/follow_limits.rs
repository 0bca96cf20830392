//! Subscriptions with little memory, damaged bytes, or a dropped chronicle (F104).

use std::{ops::Range, path::PathBuf, sync::Arc, time::Duration};

use arrow::{
    array::{AsArray, RecordBatch, StringViewArray},
    datatypes::Int64Type,
};
use futures::StreamExt;
use stratalog_engine::{Engine, EngineSettings};
use stratalog_model::{
    ChronicleDefinition, Collision, ErrorKind, EventStore, Gsn,
    store::{AppendOptions, OnConflict},
    subscribe::{Gap, GapCause, SubscribeFrom, SubscribeRequest, Subscription, Update},
};

use crate::{
    fixture::*,
    follow::{follow, shuffled},
    memory_log::MemoryLog,
};

/// Bytes of the note of a large event.
const NOTE_BYTES: usize = 32 << 10;

/// Number of large events.
const LARGE: usize = 800;

/// Rows of a batch of large events.
const BATCH_ROWS: usize = 10;

async fn next(subscription: &mut Subscription) -> Update {
    let update = tokio::time::timeout(Duration::from_secs(20), subscription.next()).await;
    update.expect("nothing came").unwrap().unwrap()
}

/// The gsn's of a batch: its first column.
fn positions(batch: &RecordBatch) -> Vec<u64> {
    let gsns = batch.column(0).as_primitive::<Int64Type>().values();
    gsns.iter().map(|gsn| gsn.cast_unsigned()).collect()
}

/// Reads the gsn's up to the first gap, and the gap.
async fn until_gap(subscription: &mut Subscription) -> (Vec<u64>, Gap) {
    let mut all = Vec::new();
    loop {
        match next(subscription).await {
            Update::Events(batch) => all.extend(positions(&batch)),
            Update::Gap(gap) => return (all, gap),
        }
    }
}

/// An engine with large events, 50 in each commit.
async fn with_large(
    memory_bytes_max: u64,
    flushed: bool,
) -> (Stored, Arc<ChronicleDefinition>, Arc<Engine>) {
    let (log, stored) = (MemoryLog::default(), Stored::new(5));
    let cpu = chronicle(1, Collision::All, true);
    let find = |id| (id == cpu.id).then(|| Arc::clone(&cpu));
    let settings =
        EngineSettings { memory_bytes_max, backlog_bytes_max: 0, ..EngineSettings::default() };
    let (clock, files) = (Arc::new(StillClock), Some(stored.files(&cpu)));
    let engine = Engine::open_with(Arc::new(log), clock, settings, &find, files).unwrap();
    append_large(&engine, &cpu, 0..LARGE).await;
    if flushed {
        engine.flush(cpu.id).await.unwrap();
    }
    (stored, cpu, engine)
}

async fn append_large(engine: &Engine, cpu: &Arc<ChronicleDefinition>, range: Range<usize>) {
    let rows: Vec<Row> = range.map(|at| row(at as i64, "a", at as f64)).collect();
    for chunk in rows.chunks(50) {
        let small = batch(cpu, chunk);
        let mut columns = small.columns().to_vec();
        let notes = chunk.iter().map(|row| format!("{}{}", row.tick, "x".repeat(NOTE_BYTES)));
        columns[3] = Arc::new(StringViewArray::from_iter_values(notes));
        let large = RecordBatch::try_new(small.schema(), columns).unwrap();
        let mut append = engine.begin(AppendOptions::default()).unwrap();
        append.push(cpu, large, OnConflict::Error).await.unwrap();
        append.commit().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_on_in_the_ring_and_falls_behind_again_gets_nothing_twice() {
    // With a ring of 4 MiB.
    let (_stored, cpu, engine) = with_large(256 << 20, false).await;
    let mut slow = follow_large(&engine, &cpu);
    let (mut all, mut appended) = (Vec::new(), LARGE);
    // Some of these commits are a little larger than a history window: the rest of such a commit is
    // in the ring while the sweep is paused.
    let mut more = [350, 400, 300, 450, 250, 350, 400].into_iter();
    loop {
        let Update::Events(batch) = next(&mut slow).await else { panic!("nothing is missing") };
        all.extend(positions(&batch));
        // Events read from the ring have left the ring by then.
        if all.len() + 5 * BATCH_ROWS > appended {
            let Some(count) = more.next() else { break };
            append_large(&engine, &cpu, appended..appended + count).await;
            appended += count;
        }
    }
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>());
}

/// A subscription with the notes.
fn follow_large(engine: &Engine, cpu: &Arc<ChronicleDefinition>) -> Subscription {
    let request = SubscribeRequest {
        chronicle: Arc::clone(cpu),
        from: SubscribeFrom::Gsn(Gsn(1)),
        projection: vec![cpu.columns.len() + 2, 3],
        batch_rows_max: BATCH_ROWS,
    };
    engine.subscribe(request).unwrap()
}

/// Removes all events. A subscriber still receives the events that were already read for it. Waits
/// before the removal until paused sweeps have ended.
async fn remove_all(engine: &Engine, cpu: &Arc<ChronicleDefinition>) {
    tokio::time::sleep(Duration::from_millis(300)).await;
    engine.trim(cpu, Gsn(LARGE as u64 + 1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_history_has_no_more_of_it_than_so_many_bytes() {
    for flushed in [false, true] {
        let (_stored, cpu, engine) = with_large(1 << 30, flushed).await;
        let mut slow = follow_large(&engine, &cpu);
        let Update::Events(first) = next(&mut slow).await else { panic!("nothing is missing") };
        assert_eq!(positions(&first), (1..=BATCH_ROWS as u64).collect::<Vec<_>>());
        remove_all(&engine, &cpu).await;
        let (rest, gap) = until_gap(&mut slow).await;
        let read = BATCH_ROWS + rest.len();
        // 8 MiB, with a tolerance for the unit of a read: a commit or a block.
        let bounds = 2 << 20..=12 << 20;
        assert!(bounds.contains(&(read * NOTE_BYTES)), "{read} events, flushed: {flushed}");
        assert_eq!((gap.gsns.start, gap.gsns.end), (Gsn(read as u64 + 1), Gsn(LARGE as u64 + 1)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_who_are_slow_share_some_memory_and_miss_nothing() {
    const FOLLOWERS: usize = 12;
    for flushed in [false, true] {
        let (_stored, cpu, engine) = with_large(96 << 20, flushed).await;
        let mut slow: Vec<Subscription> =
            (0..FOLLOWERS).map(|_| follow_large(&engine, &cpu)).collect();
        for follower in &mut slow {
            assert!(matches!(next(follower).await, Update::Events(_)));
        }
        // Followers for which the memory budget has no room read again from the log.
        let mut quick = follow_large(&engine, &cpu);
        let mut all = Vec::new();
        while all.len() < LARGE {
            match next(&mut quick).await {
                Update::Events(batch) => all.extend(positions(&batch)),
                Update::Gap(gap) => panic!("{gap}"),
            }
        }
        assert_eq!(all, (1..=LARGE as u64).collect::<Vec<_>>());
        remove_all(&engine, &cpu).await;
        let mut kept = 0;
        for follower in &mut slow {
            let (rest, gap) = until_gap(follower).await;
            assert_eq!(gap.cause, GapCause::Deleted);
            kept += rest.len() * NOTE_BYTES;
        }
        // A sixteenth of the memory for events.
        assert!(kept <= 6 << 20, "{kept} bytes, flushed: {flushed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_a_gap_and_the_rest_is_told() {
    for (folder, compacted) in [("/data/tablets", false), ("/data/stories", true)] {
        let (log, mut stored) = (MemoryLog::default(), Stored::new(6));
        let cpu = chronicle(1, Collision::All, true);
        let engine = stored.open(&log, &cpu);
        let events = shuffled(600);
        for (number, chunk) in events.chunks(100).enumerate() {
            append(&engine, &cpu, chunk).await.unwrap();
            engine.flush(cpu.id).await.unwrap();
            if compacted && number == 2 {
                engine.compact(cpu.id).await.unwrap();
            }
        }
        drop(engine);
        let disk = stored.disk();
        let mut files: Vec<PathBuf> = disk.paths();
        files.retain(|path| path.starts_with(folder));
        files.sort();
        let file = &files[files.len() / 2];
        let mut bytes = disk.contents(file).unwrap();
        // The place of events.
        let damaged = bytes.len() / 20..bytes.len() / 8;
        bytes[damaged].iter_mut().for_each(|byte| *byte ^= 0x10);
        disk.overwrite(file, bytes);
        stored.reopen();
        let engine = stored.open(&MemoryLog::with_frames(log.frames()), &cpu);
        append(&engine, &cpu, &[row(9_000, "a", 1.0)]).await.unwrap();

        let mut subscription = follow(&engine, &cpu, SubscribeFrom::Gsn(Gsn(1)));
        let (mut told, mut gaps) = (Vec::new(), Vec::<Gap>::new());
        while told.last() != Some(&601) {
            match next(&mut subscription).await {
                Update::Events(batch) => {
                    let values = batch.column(3).as_primitive::<arrow::datatypes::Float64Type>();
                    for (gsn, value) in positions(&batch).into_iter().zip(values.values().iter()) {
                        assert!(told.last().is_none_or(|last| *last < gsn), "{folder}: {gsn}");
                        assert!(gsn == 601 || events[gsn as usize - 1].value == *value);
                        told.push(gsn);
                    }
                }
                Update::Gap(gap) => {
                    // The gap comes at its place in the order: later events follow.
                    assert!(told.last().is_none_or(|last| *last < gap.gsns.start.0), "{gap}");
                    gaps.push(gap);
                }
            }
        }
        let name = file.file_name().unwrap().to_string_lossy();
        for gap in &gaps {
            assert!(matches!(&gap.cause, GapCause::Damaged(what) if what.contains(name.as_ref())));
        }
        let missing: Vec<u64> = (1..=600).filter(|gsn| told.binary_search(gsn).is_err()).collect();
        assert!(!missing.is_empty() && missing.len() < 400, "{folder}: {missing:?}");
        for gsn in missing {
            assert!(gaps.iter().any(|gap| gap.gsns.contains(Gsn(gsn))), "{folder}: {gsn}");
        }
    }
}

/// After the drop of a chronicle, commits that wait in its ring go to no follower, and use no
/// memory of other rings.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_follower_goes_with_the_chronicle() {
    let (log, tables) =
        (MemoryLog::default(), [1, 2].map(|id| chronicle(id, Collision::All, true)));
    let engine = open(&log, &tables);
    let [gone, stays] = &tables;
    let mut of_gone = follow(&engine, gone, SubscribeFrom::Live);
    let mut of_stays = follow(&engine, stays, SubscribeFrom::Live);
    for at in 0..10 {
        append(&engine, gone, &[row(at, "a", 1.0)]).await.unwrap();
        append(&engine, stays, &[row(at, "a", 1.0)]).await.unwrap();
    }
    let Update::Events(first) = next(&mut of_gone).await else { panic!("nothing is missing") };
    assert_eq!(positions(&first), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
    append(&engine, gone, &[row(10, "a", 1.0)]).await.unwrap();
    engine.forget(gone.id);
    let ended = tokio::time::timeout(Duration::from_secs(5), of_gone.next()).await.unwrap();
    assert_eq!(ended.unwrap().unwrap_err().kind(), ErrorKind::UndefinedTable);
    append(&engine, stays, &[row(10, "a", 1.0)]).await.unwrap();
    let Update::Events(all) = next(&mut of_stays).await else { panic!("nothing is missing") };
    assert_eq!(positions(&all), [2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22]);
}
