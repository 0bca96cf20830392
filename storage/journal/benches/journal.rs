//! Measures appends and replay against the speed of the disk in the same run.
//!
//! `cargo bench -p stratalog-journal`; `STRATALOG_BENCH_DIR` chooses the disk. The last lines are
//! the ratios and rates with their required limits.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "helpers of tests and benches fail as tests do, and use real files and clocks"
)]

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use criterion::Criterion;
use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_model::{
    ChronicleId, Durability, Frame, FrameKind, Log, Lsn, PartitionId, SchemaVersion, StatementId,
    TickRange,
};

const FRAME_BYTES: usize = 4096;
const THREADS: u64 = 8;
/// Bytes of one measurement of throughput.
const TOTAL_BYTES: u64 = 1 << 30;

fn main() {
    let base =
        std::env::var_os("STRATALOG_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let base = base.join(format!("stratalog-bench-{}", std::process::id()));
    fs::create_dir_all(&base).unwrap();
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(5))
        .sample_size(20)
        .configure_from_args();
    latency(&mut criterion, &base.join("latency"));
    throughput(&base.join("throughput"));
    fs::remove_dir_all(&base).unwrap();
}

fn frame(payload: Bytes) -> Frame {
    Frame {
        kind: FrameKind::Events,
        partition: PartitionId(0),
        chronicle: ChronicleId(1),
        schema_version: SchemaVersion(1),
        statement: StatementId(0),
        ticks: TickRange::ALL,
        count: 1,
        first_seq: 0,
        producer: None,
        payload,
    }
}

fn open(directory: PathBuf) -> Journal {
    Journal::open(Arc::new(LocalDisk), directory, JournalSettings::default()).unwrap()
}

/// One client waits for `disk` durability, in turns with a bare write and fdatasync.
fn latency(criterion: &mut Criterion, directory: &std::path::Path) {
    fs::create_dir_all(directory).unwrap();
    let payload = Bytes::from(noise(FRAME_BYTES));
    let journal = open(directory.join("journal"));
    let (sender, receiver) = mpsc::channel();
    let append = || {
        let reservation = futures::executor::block_on(journal.reserve(FRAME_BYTES)).unwrap();
        let sender = sender.clone();
        let done = Box::new(move |outcome: stratalog_model::Result<Lsn>| {
            sender.send(outcome.unwrap()).unwrap()
        });
        journal.submit(frame(payload.clone()), reservation, Durability::Disk, done);
        receiver.recv().unwrap()
    };
    let mut bare_file = File::create(directory.join("bare")).unwrap();
    let mut bare = || {
        bare_file.write_all(&payload).unwrap();
        bare_file.sync_data().unwrap();
    };
    let mut group = criterion.benchmark_group("4 KB, durable, one at a time");
    group.bench_function("write + fdatasync", |bencher| bencher.iter(&mut bare));
    group.bench_function("journal append", |bencher| bencher.iter(append));
    group.finish();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..1000 {
        for (at, times) in times.iter_mut().enumerate() {
            let start = Instant::now();
            if at == 0 {
                bare();
            } else {
                append();
            }
            times.push(start.elapsed());
        }
    }
    let [bare, append] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6
    });
    println!(
        "median, in turns: bare {bare:.0} µs, journal {append:.0} µs: {:.2} × (at most 1.3)",
        append / bare
    );
}

/// Eight threads of relaxed 4 KB frames, against sequential 1 MB writes; then replay.
fn throughput(directory: &std::path::Path) {
    let (mut raw, mut journal, mut replay) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        fs::create_dir_all(directory).unwrap();
        raw.push(raw_writes(&directory.join("raw")));
        fs::remove_dir_all(directory).unwrap();
        journal.push(append_all(directory));
        replay.push(replay_all(directory));
        fs::remove_dir_all(directory).unwrap();
    }
    let [raw, journal, replay] = [raw, journal, replay].map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!("1 MB sequential writes: {raw:.0} MB/s");
    println!(
        "4 KB frames, relaxed, {THREADS} threads: {journal:.0} MB/s: {:.0} % (at least 70 %)",
        100.0 * journal / raw
    );
    println!("replay: {replay:.0} MB/s (at least 500)");
}

fn rate(start: Instant) -> f64 {
    TOTAL_BYTES as f64 / 1e6 / start.elapsed().as_secs_f64()
}

/// Ends with a sync, like the measurement of the journal: no work remains for the kernel.
fn raw_writes(path: &std::path::Path) -> f64 {
    let block = noise(1 << 20);
    let file = File::create(path).unwrap();
    let start = Instant::now();
    for at in 0..TOTAL_BYTES >> 20 {
        file.write_all_at(&block, at << 20).unwrap();
    }
    file.sync_data().unwrap();
    rate(start)
}

fn append_all(directory: &std::path::Path) -> f64 {
    let payload = Bytes::from(noise(FRAME_BYTES));
    let journal = open(directory.to_path_buf());
    let per_thread = TOTAL_BYTES / FRAME_BYTES as u64 / THREADS;
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let done = Arc::new((AtomicU64::new(0), Mutex::new(()), Condvar::new()));
                for _ in 0..per_thread {
                    let room = futures::executor::block_on(journal.reserve(FRAME_BYTES)).unwrap();
                    let done = Arc::clone(&done);
                    let completion = Box::new(move |outcome: stratalog_model::Result<Lsn>| {
                        outcome.unwrap();
                        if done.0.fetch_add(1, Ordering::AcqRel) + 1 == per_thread {
                            let _guard = done.1.lock().unwrap();
                            done.2.notify_one();
                        }
                    });
                    journal.submit(frame(payload.clone()), room, Durability::Relaxed, completion);
                }
                let mut guard = done.1.lock().unwrap();
                while done.0.load(Ordering::Acquire) < per_thread {
                    guard = done.2.wait_timeout(guard, Duration::from_millis(50)).unwrap().0;
                }
            });
        }
    });
    journal.close().unwrap();
    rate(start)
}

fn replay_all(directory: &std::path::Path) -> f64 {
    let start = Instant::now();
    let journal = open(directory.to_path_buf());
    let opened = start.elapsed();
    let mut bytes = 0;
    let visit = &mut |_, frame: Frame| {
        bytes += frame.payload.len() as u64;
        Ok(())
    };
    journal.replay(visit).unwrap();
    assert_eq!(bytes, TOTAL_BYTES);
    println!("open {opened:?}, with replay {:?}", start.elapsed());
    rate(start)
}

/// Incompressible bytes.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}
