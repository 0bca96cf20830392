//! The frame rate of the journal alone: the upper limit for recorded events per second.
//!
//! `cargo bench -p stratalog-journal --bench limit -- --durability disk --size 4096 --clients 8 --window 128 --seconds 3`:
//! `clients` threads, each with up to `window` unanswered frames. `STRATALOG_BENCH_DIR` chooses the
//! disk.

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
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_model::{
    ChronicleId, Durability, Frame, FrameKind, Log, Lsn, PartitionId, SchemaVersion, StatementId,
    TickRange,
};

const WARM_UP: Duration = Duration::from_secs(1);

fn main() {
    let durability = option("durability").unwrap_or_else(|| "disk".to_string());
    let durability: Durability = durability.parse().unwrap();
    let (size, clients) = (number("size", 4096), number("clients", 8));
    let (window, seconds) = (number("window", 128), number("seconds", 3));
    let base =
        std::env::var_os("STRATALOG_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = base.join(format!("stratalog-limit-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let settings = JournalSettings::default();
    let journal = Journal::open(Arc::new(LocalDisk), directory.clone(), settings).unwrap();
    let from = Instant::now() + WARM_UP;
    let run = Run {
        journal,
        durability,
        payload: Bytes::from(vec![0x55; size]),
        window,
        from,
        until: from + Duration::from_secs(seconds as u64),
        counted: Arc::default(),
    };
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| run.append());
        }
    });
    run.journal.close().unwrap();
    fs::remove_dir_all(&directory).unwrap();
    let rate = run.counted.load(Ordering::Acquire) as f64 / seconds as f64;
    println!("{{\"durability\": \"{durability}\", \"append_per_second\": {rate:.1}}}");
}

struct Run {
    journal: Journal,
    durability: Durability,
    payload: Bytes,
    window: usize,
    /// Only frames answered between `from` and `until` count.
    from: Instant,
    until: Instant,
    counted: Arc<AtomicU64>,
}

impl Run {
    fn append(&self) {
        let (answer, answers) = mpsc::channel();
        let mut waiting = 0;
        while Instant::now() < self.until {
            if waiting == self.window {
                answers.recv().unwrap();
                waiting -= 1;
            }
            let room =
                futures::executor::block_on(self.journal.reserve(self.payload.len())).unwrap();
            let (answer, counted) = (answer.clone(), Arc::clone(&self.counted));
            let (from, until) = (self.from, self.until);
            let done = Box::new(move |outcome: stratalog_model::Result<Lsn>| {
                outcome.unwrap();
                if (from..until).contains(&Instant::now()) {
                    counted.fetch_add(1, Ordering::AcqRel);
                }
                answer.send(()).unwrap();
            });
            self.journal.submit(self.frame(), room, self.durability, done);
            waiting += 1;
        }
        for _ in 0..waiting {
            answers.recv().unwrap();
        }
    }

    fn frame(&self) -> Frame {
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
            payload: self.payload.clone(),
        }
    }
}

fn number(name: &str, otherwise: usize) -> usize {
    option(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// The value of `--name value`; cargo adds arguments of its own.
fn option(name: &str) -> Option<String> {
    let mut words = std::env::args().skip_while(|word| word.strip_prefix("--") != Some(name));
    words.nth(1)
}
