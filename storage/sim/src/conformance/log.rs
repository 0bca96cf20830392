//! Tests the promises of the trait [`Log`].
//!
//! ```text
//!   every_log:     lsn's ascend ─► equal frames after a restart ─► release keeps later frames
//!   shared_log:    + many threads submit
//!   log_of_files:  + levels of durability, limits, close
//! ```

use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use futures::executor::block_on;
use stratalog_model::{
    ChronicleId, Durability, Error, ErrorKind, Frame, FrameKind, Log, Lsn, PartitionId, ProducerId,
    Result, SchemaVersion, StatementId, Tick, TickRange,
};

/// The storage of a log under test, which survives a restart of the log.
pub trait LogStorage {
    /// Opens a log with the frames stored so far. All logs opened earlier on this storage must be
    /// closed.
    fn open(&self) -> Arc<dyn Log>;
}

impl<F: Fn() -> Arc<dyn Log>> LogStorage for F {
    fn open(&self) -> Arc<dyn Log> {
        self()
    }
}

/// Makes an empty storage for a log.
pub type FreshLog<'a> = &'a dyn Fn() -> Box<dyn LogStorage>;

/// Tests the promises of every log, with a single appender.
pub fn every_log(fresh: FreshLog<'_>) {
    lsns_ascend_in_the_order_of_submits(&*fresh());
    frames_are_replayed_equal_and_in_order(&*fresh());
    appends_go_on_behind_the_replayed_frames(&*fresh());
    a_replay_ends_with_the_error_of_its_visitor(&*fresh());
    a_release_keeps_all_later_frames(&*fresh());
}

/// Tests the promises of a log with several appenders.
pub fn shared_log(fresh: FreshLog<'_>) {
    each_frame_of_many_threads_completes_once_and_in_lsn_order(&*fresh());
}

/// Tests the promises of a log that stores its frames in files.
pub fn log_of_files(fresh: FreshLog<'_>) {
    a_frame_on_disk_carries_all_earlier_frames(&*fresh());
    a_frame_beyond_the_maximum_size_is_refused_at_once(&*fresh());
    a_closed_log_refuses_frames(&*fresh());
}

/// Makes a frame that can be recognized by its number `n`. Consecutive numbers use all kinds of
/// frames.
pub fn frame(n: u64, payload_bytes: usize) -> Frame {
    let kind = FrameKind::from_byte(1 + (n % 8) as u8).unwrap();
    let payload: Vec<u8> = (0..payload_bytes).map(|at| (n as usize + 31 * at) as u8).collect();
    Frame {
        kind,
        partition: PartitionId(0),
        chronicle: ChronicleId(n as u32 % 5),
        schema_version: SchemaVersion(1 + n as u32 % 3),
        statement: StatementId(n % 2 * n),
        ticks: TickRange::new(Tick(-(n as i64)), Tick(n as i64 + 1)),
        count: n as u32,
        first_seq: n * 7,
        producer: n.is_multiple_of(3).then_some((ProducerId(u128::from(n) << 70), n)),
        payload: Bytes::from(payload),
    }
}

/// Appends a frame and waits for its completion.
///
/// # Errors
/// The error of the reservation or of the completion.
pub fn append(log: &dyn Log, frame: Frame, durability: Durability) -> Result<Lsn> {
    let reservation = block_on(log.reserve(frame.payload.len()))?;
    let (sender, completions) = mpsc::channel();
    let done = Box::new(move |result| drop(sender.send(result)));
    log.submit(frame, reservation, durability, done);
    let completion = completions.recv().unwrap();
    assert!(completions.recv().is_err(), "a frame completes once");
    completion
}

fn contents(log: &dyn Log) -> Vec<(Lsn, Frame)> {
    let mut frames = Vec::new();
    let visited = log.replay(&mut |lsn, frame| {
        frames.push((lsn, frame));
        Ok(())
    });
    visited.unwrap();
    frames
}

/// Appends frames with the given numbers; payloads are empty, small, or some KiB long. Returns the
/// frames with their lsn's.
fn filled(log: &dyn Log, numbers: std::ops::Range<u64>) -> Vec<(Lsn, Frame)> {
    let append_one = |n: u64| {
        let frame = frame(n, (n as usize * 97) % 3_000);
        (append(log, frame.clone(), Durability::Disk).unwrap(), frame)
    };
    numbers.map(append_one).collect()
}

fn lsns_ascend_in_the_order_of_submits(storage: &dyn LogStorage) {
    let log = storage.open();
    let appended = filled(&*log, 0..40);
    assert!(appended.is_sorted_by(|a, b| a.0 < b.0), "lsn's do not ascend");
    log.close().unwrap();
}

fn frames_are_replayed_equal_and_in_order(storage: &dyn LogStorage) {
    let log = storage.open();
    assert_eq!(contents(&*log), Vec::new(), "a fresh log has frames");
    let appended = filled(&*log, 0..60);
    log.close().unwrap();
    drop(log);
    for _ in 0..2 {
        let log = storage.open();
        assert_eq!(contents(&*log), appended);
        log.close().unwrap();
    }
}

fn appends_go_on_behind_the_replayed_frames(storage: &dyn LogStorage) {
    let mut appended = Vec::new();
    for round in 0..4 {
        let log = storage.open();
        assert_eq!(contents(&*log), appended);
        appended.extend(filled(&*log, round * 10..round * 10 + 10));
        assert!(appended.is_sorted_by(|a, b| a.0 < b.0), "an lsn was given again");
        log.close().unwrap();
    }
    assert_eq!(contents(&*storage.open()), appended);
}

fn a_replay_ends_with_the_error_of_its_visitor(storage: &dyn LogStorage) {
    let log = storage.open();
    filled(&*log, 0..10);
    log.close().unwrap();
    drop(log);
    let log = storage.open();
    let mut visited = 0;
    let result = log.replay(&mut |_, _| {
        visited += 1;
        if visited == 4 { Err(Error::new(ErrorKind::DataCorrupted, "enough")) } else { Ok(()) }
    });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::DataCorrupted);
    assert_eq!(visited, 4, "the replay went on");
}

fn a_release_keeps_all_later_frames(storage: &dyn LogStorage) {
    let log = storage.open();
    let appended = filled(&*log, 0..120);
    let before = appended[70].0;
    log.release(before).unwrap();
    log.close().unwrap();
    drop(log);
    let log = storage.open();
    let kept = contents(&*log);
    assert!(kept.len() >= 50, "frames behind the released position are gone");
    assert_eq!(kept[..], appended[appended.len() - kept.len()..], "not the end of the log");
}

fn each_frame_of_many_threads_completes_once_and_in_lsn_order(storage: &dyn LogStorage) {
    const THREADS: u64 = 4;
    const FRAMES: u64 = 50;
    let log = storage.open();
    let completed: Arc<Mutex<Vec<(Lsn, u64)>>> = Arc::default();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, completed) = (&*log, &completed);
            scope.spawn(move || {
                for n in thread * FRAMES..(thread + 1) * FRAMES {
                    let frame = frame(n, (n as usize * 53) % 1_000);
                    let reservation = block_on(log.reserve(frame.payload.len())).unwrap();
                    let completed = Arc::clone(completed);
                    let done = Box::new(move |result: Result<Lsn>| {
                        completed.lock().unwrap().push((result.unwrap(), n));
                    });
                    log.submit(frame, reservation, Durability::Disk, done);
                }
            });
        }
    });
    // When this last frame is complete, all earlier frames are complete too.
    append(&*log, frame(1_000, 0), Durability::Disk).unwrap();
    log.close().unwrap();
    drop(log);
    let completed = completed.lock().unwrap().clone();
    assert_eq!(completed.len() as u64, THREADS * FRAMES);
    assert!(completed.is_sorted_by(|a, b| a.0 < b.0), "completions out of lsn order");
    for thread in 0..THREADS {
        let own = completed.iter().filter(|(_, n)| n / FRAMES == thread).map(|(_, n)| *n);
        assert!(own.is_sorted(), "the frames of a thread lost their order");
    }
    let replayed = contents(&*storage.open());
    let stored = replayed.iter().map(|(lsn, frame)| (*lsn, u64::from(frame.count)));
    let expected = completed.iter().copied();
    assert!(stored.take(completed.len()).eq(expected), "a frame has another lsn than completed");
}

fn a_frame_on_disk_carries_all_earlier_frames(storage: &dyn LogStorage) {
    let log = storage.open();
    for round in 0..10 {
        for n in 0..5 {
            append(&*log, frame(round * 10 + n, 200), Durability::Relaxed).unwrap();
        }
        let lsn = append(&*log, frame(round * 10 + 9, 200), Durability::Disk).unwrap();
        let status = log.status();
        assert!(status.durable >= lsn && status.written >= status.durable, "{status:?}");
    }
    log.close().unwrap();
    let status = log.status();
    assert_eq!(status.written, status.durable, "a close leaves frames behind");
}

fn a_frame_beyond_the_maximum_size_is_refused_at_once(storage: &dyn LogStorage) {
    let log = storage.open();
    let refused = block_on(log.reserve(usize::MAX / 4)).map(drop);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::LimitExceeded);
    append(&*log, frame(1, 100), Durability::Disk).unwrap();
    log.close().unwrap();
}

fn a_closed_log_refuses_frames(storage: &dyn LogStorage) {
    let log = storage.open();
    let appended = filled(&*log, 0..5);
    log.close().unwrap();
    let refused = append(&*log, frame(6, 10), Durability::Disk);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Shutdown);
    drop(log);
    assert_eq!(contents(&*storage.open()), appended, "a refused frame was stored");
}
