//! Group commit, back-pressure, and a disk that fails or fills up.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use stratalog_journal::JournalSettings;
use stratalog_model::{Durability, ErrorKind, Log, Lsn};
use stratalog_sim::{Crash, Failure, FaultyDisk, Operation};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::*;

const DIRECTORY: &str = "/data/journal";

fn open(disk: &FaultyDisk, settings: JournalSettings) -> stratalog_journal::Journal {
    open_on(Arc::new(disk.clone()), Path::new(DIRECTORY), settings).unwrap()
}

#[test]
fn sixty_four_submitters_share_their_syncs() {
    let directory = tempfile::tempdir().unwrap();
    let settings = JournalSettings { free_bytes_min: 0, ..JournalSettings::default() };
    let settings = JournalSettings { segment_bytes_max: 32 << 20, ..settings };
    let journal = open_at(directory.path(), settings).unwrap();
    let before = journal.status();
    thread::scope(|scope| {
        for writer in 0..64_u64 {
            let journal = &journal;
            scope.spawn(move || {
                for n in 0..40 {
                    append(journal, frame(writer * 40 + n, 200), Durability::Disk).unwrap();
                }
            });
        }
    });
    let after = journal.status();
    let syncs = after.syncs - before.syncs;
    assert_eq!(after.durable, Lsn(64 * 40));
    assert!(64 * 40 >= 10 * syncs, "{syncs} syncs for {} frames", 64 * 40);
}

#[test]
fn a_group_is_one_write_and_completes_in_order() {
    let disk = FaultyDisk::new(1);
    let journal = open(&disk, small());
    disk.hold();
    let (sender, receiver) = mpsc::channel();
    for n in 1..=20 {
        let reservation = reserve(&journal, 100).unwrap();
        let sender = sender.clone();
        let durability = if n == 9 { Durability::Disk } else { Durability::Relaxed };
        let done =
            move |outcome: stratalog_model::Result<Lsn>| sender.send(outcome.unwrap()).unwrap();
        journal.submit(frame(n, 100), reservation, durability, Box::new(done));
        while n == 1 && journal.status().queued_bytes > 0 {
            thread::yield_now();
        }
    }
    // The held first write counts after its release.
    let before = disk.counts();
    disk.release();
    let order: Vec<u64> = receiver.iter().take(20).map(|lsn| lsn.0).collect();
    assert_eq!(order, (1..=20).collect::<Vec<_>>());
    let after = disk.counts();
    assert_eq!((after.writes - before.writes, after.syncs - before.syncs), (2, 1));
    assert_eq!(journal.status().writes, 2);
}

#[test]
fn a_lone_appender_writes_itself() {
    let disk = FaultyDisk::new(1);
    let journal = open(&disk, small());
    let own = AtomicU64::new(0);
    for n in 1..=200 {
        let (sender, receiver) = mpsc::channel();
        let done = Box::new(move |outcome: stratalog_model::Result<Lsn>| {
            sender.send((thread::current().id(), outcome)).unwrap();
        });
        journal.submit(frame(n, 100), reserve(&journal, 100).unwrap(), Durability::Disk, done);
        let (by, lsn) = receiver.recv().unwrap();
        assert_eq!(lsn.unwrap(), Lsn(n));
        // The thread writes the first frame: the speed of the disk is still unknown.
        assert!(n > 1 || by != thread::current().id());
        own.fetch_add(u64::from(by == thread::current().id()), Ordering::Relaxed);
    }
    assert!(own.into_inner() > 0);
    journal.close().unwrap();
    assert_eq!((journal.status().durable, journal.status().syncs), (Lsn(200), 200 + 1));
    drop(journal);
    assert_eq!(contents(&open(&disk, small())).unwrap().len(), 200);
}

/// Without an announced blocking call, the thread that waits for the disk would also have to serve
/// the sockets.
#[test]
fn a_disk_that_hangs_stops_no_other_task() {
    let disk = FaultyDisk::new(1);
    let settings = JournalSettings { lone_us_max: u64::MAX, mark_idle_ms: 60_000, ..small() };
    let journal = Arc::new(open(&disk, settings));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build();
    let runtime = runtime.unwrap();
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, receiver) = mpsc::channel();
    let appending = Arc::clone(&journal);
    // A frame is appended after each `a`; the answer follows the append.
    runtime.spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let (journal, sender) = (Arc::clone(&appending), sender.clone());
            tokio::spawn(async move {
                let mut byte = [0];
                while socket.read_exact(&mut byte).await.is_ok() {
                    if byte == *b"a" {
                        let (own, sender) = (thread::current().id(), sender.clone());
                        let done = Box::new(move |outcome: stratalog_model::Result<Lsn>| {
                            outcome.unwrap();
                            sender.send(thread::current().id() == own).unwrap();
                        });
                        let reservation = journal.reserve(100).await.unwrap();
                        journal.submit(frame(1, 100), reservation, Durability::Disk, done);
                    }
                    socket.write_all(&byte).await.unwrap();
                }
            });
        }
    });
    let connect = || {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket
    };
    let ask = |mut socket: &TcpStream, byte: &[u8; 1]| {
        socket.write_all(byte).unwrap();
        let mut answer = [0];
        socket.read_exact(&mut answer).map(|()| assert_eq!(&answer, byte))
    };
    let (appender, other) = (connect(), connect());
    for _ in 0..20 {
        for socket in [&appender, &other] {
            ask(socket, b"b").unwrap();
        }
        disk.hold();
        (&appender).write_all(b"a").unwrap();
        // Gives the blocked write some time.
        thread::sleep(Duration::from_millis(20));
        let answered = ask(&other, b"b");
        let early = receiver.try_recv();
        disk.release();
        answered.unwrap();
        assert!(early.is_err(), "the disk does not hang");
        assert!(receiver.recv().unwrap(), "another thread wrote it");
        (&appender).read_exact(&mut [0]).unwrap();
    }
    runtime.shutdown_background();
}

#[test]
fn relaxed_frames_wait_for_no_sync() {
    let disk = FaultyDisk::new(1);
    let journal = open(&disk, small());
    let before = disk.counts();
    for n in 0..50 {
        append(&journal, frame(n, 10), Durability::Relaxed).unwrap();
    }
    assert_eq!(disk.counts().syncs, before.syncs);
    assert_eq!((journal.status().written, journal.status().durable), (Lsn(50), Lsn(0)));
    journal.close().unwrap();
    assert_eq!(journal.status().durable, Lsn(50));
}

#[test]
fn a_failed_sync_poisons_for_good() {
    let disk = FaultyDisk::new(1);
    let journal = open(&disk, small());
    append(&journal, frame(1, 10), Durability::Disk).unwrap();
    disk.fail(Operation::Sync, 1, Failure::Device);
    assert_eq!(kind(append(&journal, frame(2, 10), Durability::Disk)), Some(ErrorKind::Io));
    let syncs = disk.counts().syncs;
    for _ in 0..3 {
        let error = reserve(&journal, 10).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.message().contains("fdatasync"), "{error}");
    }
    assert!(journal.status().poisoned.is_some());
    assert_eq!(kind(journal.close()), Some(ErrorKind::Io));
    assert_eq!(disk.counts().syncs, syncs, "a failed sync was tried again");
    // Acknowledged frames are there; failed frames are not.
    let disk = disk.crash(Crash::Kill);
    let found = contents(&open(&disk, small())).unwrap();
    assert_eq!(found, [(Lsn(1), frame(1, 10))]);
}

#[test]
fn a_mark_that_never_reached_the_disk_hides_nothing() {
    let disk = FaultyDisk::new(1);
    let journal = open(&disk, small());
    // The mark after this frame is the last record of its sector: no other write brings the mark to
    // the disk.
    append(&journal, frame(1, 200), Durability::Disk).unwrap();
    // After the failure, the mark's page is clean, but only in memory.
    disk.fail(Operation::Sync, 1, Failure::Device);
    assert_eq!(kind(journal.close()), Some(ErrorKind::Io));
    let disk = disk.crash(Crash::Kill);
    drop(journal);
    let journal = open(&disk, small());
    append(&journal, frame(2, 1000), Durability::Disk).unwrap();
    let disk = disk.crash(Crash::PowerCut);
    drop(journal);
    let found = contents(&open(&disk, small())).unwrap();
    assert_eq!(found, [(Lsn(1), frame(1, 200)), (Lsn(2), frame(2, 1000))]);
}

#[test]
fn a_torn_tail_whose_erasing_failed_does_not_come_back() {
    let disk = FaultyDisk::new(1);
    let settings = || JournalSettings {
        segment_bytes_max: 1 << 20,
        frame_bytes_max: 128 << 10,
        group_bytes_max: 512 << 10,
        ..small()
    };
    let journal = open(&disk, settings());
    append(&journal, frame(1, 200), Durability::Disk).unwrap();
    append(&journal, frame(2, 100 << 10), Durability::Relaxed).unwrap();
    append(&journal, frame(3, 200), Durability::Relaxed).unwrap();
    let disk = disk.crash(Crash::Kill);
    drop(journal);
    // A sector of the second frame is lost.
    let path = disk.paths().into_iter().find(|path| path.extension().is_some()).unwrap();
    let mut bytes = disk.contents(&path).unwrap();
    bytes[8192..8704].fill(0);
    disk.overwrite(&path, bytes);
    disk.fail(Operation::Sync, 1, Failure::Device);
    let refused = open_on(Arc::new(disk.clone()), Path::new(DIRECTORY), settings());
    assert_eq!(kind(refused), Some(ErrorKind::Io));
    let disk = disk.crash(Crash::Kill);
    let journal = open(&disk, settings());
    assert_eq!(contents(&journal).unwrap(), [(Lsn(1), frame(1, 200))]);
    // The new frame ends where the third frame began.
    append(&journal, frame(4, 100 << 10), Durability::Disk).unwrap();
    let disk = disk.crash(Crash::PowerCut);
    drop(journal);
    let found = contents(&open(&disk, settings())).unwrap();
    assert_eq!(found, [(Lsn(1), frame(1, 200)), (Lsn(2), frame(4, 100 << 10))]);
}

#[test]
fn waiters_learn_that_the_journal_is_poisoned() {
    let disk = FaultyDisk::new(1);
    let settings = JournalSettings { queue_bytes_max: 20 << 10, ..small() };
    let journal = open(&disk, settings);
    disk.hold();
    let receivers: Vec<_> = (0..4)
        .map(|n| append_later(&journal, frame(n, 4 << 10), Durability::Disk).unwrap())
        .collect();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| kind(reserve(&journal, 16 << 10)));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiter.is_finished(), "the queue is not bounded");
        disk.fail(Operation::Sync, 1, Failure::Device);
        disk.release();
        assert_eq!(waiter.join().unwrap(), Some(ErrorKind::Io));
    });
    for receiver in receivers {
        assert_eq!(kind(receiver.recv().unwrap()), Some(ErrorKind::Io));
    }
}

#[test]
fn the_queue_takes_no_more_than_it_may() {
    let disk = FaultyDisk::new(1);
    let settings = JournalSettings { queue_bytes_max: 64 << 10, ..small() };
    let journal = open(&disk, settings);
    disk.hold();
    let waiting = AtomicU64::new(0);
    thread::scope(|scope| {
        for n in 0..40 {
            let (journal, waiting) = (&journal, &waiting);
            scope.spawn(move || {
                let reservation = reserve(journal, 4 << 10).unwrap();
                waiting.fetch_add(1, Ordering::Relaxed);
                let (sender, receiver) = mpsc::channel();
                let done = Box::new(move |outcome| drop(sender.send(outcome)));
                journal.submit(frame(n, 4 << 10), reservation, Durability::Relaxed, done);
                receiver.recv().unwrap().unwrap();
            });
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(waiting.load(Ordering::Relaxed), 15);
        disk.release();
    });
    assert_eq!(journal.status().written, Lsn(40));
    assert_eq!(journal.status().queued_bytes, 0);
}

#[test]
fn a_full_disk_refuses_and_resumes() {
    let disk = FaultyDisk::new(1);
    let settings = JournalSettings { free_bytes_min: 256 << 10, ..small() };
    disk.set_capacity(1 << 20);
    let journal = open(&disk, settings.clone());
    let mut acknowledged = 0;
    let error = loop {
        match append(&journal, frame(acknowledged, 8 << 10), Durability::Disk) {
            Ok(lsn) => {
                acknowledged += 1;
                assert_eq!(lsn, Lsn(acknowledged));
            }
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(acknowledged > 20 && disk.used_bytes() <= 768 << 10, "{acknowledged}");
    assert_eq!(journal.status().poisoned, None);
    disk.set_capacity(2 << 20);
    let lsn = append(&journal, frame(acknowledged, 8 << 10), Durability::Disk).unwrap();
    assert_eq!(lsn, Lsn(acknowledged + 1));
    // Other files fill the disk: frames are refused before the segment is full.
    disk.set_capacity(disk.used_bytes() + (200 << 10));
    let refused = (0..20).find_map(|_| reserve(&journal, 100).map(drop).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    assert!(refused.detail().unwrap().contains("free_bytes_min"), "{refused}");
    disk.set_capacity(4 << 20);
    append(&journal, frame(1, 10), Durability::Disk).unwrap();
    journal.close().unwrap();
    drop(journal);
    assert_eq!(contents(&open(&disk, settings)).unwrap().len() as u64, acknowledged + 2);
}

#[test]
fn a_disk_without_room_for_a_segment_is_full() {
    let disk = FaultyDisk::new(1);
    let segment = 256 << 10;
    let settings =
        JournalSettings { free_bytes_min: 256 << 10, segment_bytes_max: segment, ..small() };
    // Room for the first segment and a part of the second.
    disk.set_capacity(settings.free_bytes_min + segment + (100 << 10));
    let journal = open(&disk, settings.clone());
    let refused =
        (0..100).find_map(|_| append(&journal, frame(1, 8 << 10), Durability::Disk).err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    assert!(refused.message().contains("a segment needs 262144"), "{refused}");
    assert!(refused.message().contains("free_bytes_min"), "{refused}");
    // Later appends are refused before the caller has sent anything.
    for _ in 0..3 {
        assert_eq!(reserve(&journal, 100).map(drop).unwrap_err().kind(), ErrorKind::DiskFull);
    }
    disk.set_capacity(settings.free_bytes_min + 2 * segment);
    append(&journal, frame(2, 8 << 10), Durability::Disk).unwrap();
    assert!(disk.used_bytes() <= 2 * segment);
}

#[test]
fn a_write_that_finds_no_room_leaves_no_trace() {
    for preallocate in [true, false] {
        let disk = FaultyDisk::new(1);
        let settings = JournalSettings { preallocate, ..small() };
        let journal = open(&disk, settings.clone());
        append(&journal, frame(1, 10), Durability::Disk).unwrap();
        disk.fail(Operation::Write, 1, Failure::Full);
        let outcome = append(&journal, frame(2, 9000), Durability::Relaxed);
        assert_eq!(kind(outcome), Some(ErrorKind::DiskFull));
        assert_eq!(append(&journal, frame(3, 10), Durability::Relaxed).unwrap(), Lsn(2));
        let disk = disk.crash(Crash::Kill);
        let found = contents(&open(&disk, settings)).unwrap();
        assert_eq!(found, [(Lsn(1), frame(1, 10)), (Lsn(2), frame(3, 10))]);
    }
}

#[test]
fn a_write_that_cannot_be_undone_poisons() {
    let disk = FaultyDisk::new(1);
    let journal = open(&disk, small());
    disk.fail(Operation::Write, 1, Failure::Device);
    disk.fail(Operation::Write, 2, Failure::Device);
    assert_eq!(kind(append(&journal, frame(2, 9000), Durability::Disk)), Some(ErrorKind::Io));
    assert!(journal.status().poisoned.unwrap().contains("undoing"));
}

#[test]
fn the_idle_writer_says_how_far_it_is_durable() {
    let disk = FaultyDisk::new(1);
    let settings = JournalSettings { mark_idle_ms: 1, ..small() };
    let journal = open(&disk, settings.clone());
    append(&journal, frame(1, 300), Durability::Disk).unwrap();
    let writes = disk.counts().writes;
    while disk.counts().writes == writes && journal.status().writes < 2 {
        thread::sleep(Duration::from_millis(1));
    }
    thread::sleep(Duration::from_millis(20));
    let disk = disk.crash(Crash::Kill);
    drop(journal);
    // Without the mark, zeros in place of the only frame would look like a tear.
    let path = disk.paths().into_iter().find(|path| path.extension().is_some()).unwrap();
    let mut bytes = disk.contents(&path).unwrap();
    bytes[4096..4096 + 384].fill(0);
    disk.overwrite(&path, bytes);
    let error = open_on(Arc::new(disk), Path::new(DIRECTORY), settings).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
}

#[test]
fn what_is_written_ahead_of_small_groups_is_no_tail() {
    for crash in [Crash::Kill, Crash::PowerCut] {
        let mut disk = FaultyDisk::new(7);
        let settings = || JournalSettings { segment_bytes_max: 2 << 20, ..small() };
        let mut expected = Vec::new();
        for round in 0..4 {
            let journal = open(&disk, settings());
            assert_eq!(journal.status().torn_bytes, 0);
            assert_eq!(contents(&journal).unwrap(), expected);
            for n in 0..40 {
                // Small frames, and some frames too large for zeros behind them.
                let frame = frame(n, if n % 8 == 0 { 16 << 10 } else { 200 });
                let lsn = append(&journal, frame.clone(), Durability::Disk).unwrap();
                expected.push((lsn, frame));
            }
            assert_eq!(expected.len(), (round + 1) * 40);
            disk = disk.crash(crash);
        }
    }
}
