//! Append, close, open, replay; limits and refusals.

use stratalog_model::{Durability, ErrorKind, Log, Lsn};

use crate::support::*;

#[test]
fn what_was_appended_is_replayed_over_many_segments() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let mut expected = Vec::new();
    for round in 0..5 {
        let journal = open_at(&path, small()).unwrap();
        assert_eq!(contents(&journal).unwrap(), expected);
        for n in 0..60 {
            let n = round * 60 + n;
            let frame = frame(n, (n as usize * 97) % 5000);
            let durability = if n % 4 == 0 { Durability::Disk } else { Durability::Relaxed };
            let lsn = append(&journal, frame.clone(), durability).unwrap();
            assert_eq!(lsn, Lsn(n + 1));
            expected.push((lsn, frame));
        }
        journal.close().unwrap();
        let status = journal.status();
        assert_eq!((status.written, status.durable), (Lsn(round * 60 + 60), Lsn(round * 60 + 60)));
    }
    let journal = open_at(&path, small()).unwrap();
    assert_eq!(contents(&journal).unwrap(), expected);
    assert!(journal.status().segments > 5, "{:?}", journal.status());
}

/// No thread is woken for a lone appender, at either level.
#[test]
fn a_lone_appender_writes_itself() {
    let directory = tempfile::tempdir().unwrap();
    let settings = stratalog_journal::JournalSettings { lone_us_max: u64::MAX, ..small() };
    let journal = open_at(directory.path(), settings).unwrap();
    for (n, durability) in
        [(1, Durability::Relaxed), (2, Durability::Disk), (3, Durability::Relaxed)]
    {
        let reservation = reserve(&journal, 100).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let done = Box::new(move |outcome: stratalog_model::Result<Lsn>| {
            sender.send((outcome.unwrap(), std::thread::current().id())).unwrap();
        });
        journal.submit(frame(n, 100), reservation, durability, done);
        assert_eq!(receiver.try_recv().unwrap(), (Lsn(n), std::thread::current().id()));
    }
    assert_eq!(journal.status().durable, Lsn(2));
}

#[test]
fn payloads_lie_on_cache_lines() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open_at(directory.path(), small()).unwrap();
    for n in 0..200 {
        append(&journal, frame(n, 1 + n as usize), Durability::Relaxed).unwrap();
    }
    drop(journal);
    let journal = open_at(directory.path(), small()).unwrap();
    for (_, frame) in contents(&journal).unwrap() {
        assert_eq!(frame.payload.as_ptr().align_offset(64), 0);
    }
}

#[test]
fn a_second_opener_is_refused_until_the_first_closes() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open_at(directory.path(), small()).unwrap();
    assert_eq!(kind(open_at(directory.path(), small())), Some(ErrorKind::ObjectInUse));
    journal.close().unwrap();
    assert!(open_at(directory.path(), small()).is_ok());
    assert_eq!(kind(reserve(&journal, 1)), Some(ErrorKind::Shutdown));
    assert_eq!(kind(append(&journal, frame(1, 1), Durability::Disk)), Some(ErrorKind::Shutdown));
}

#[test]
fn a_frame_that_is_too_large_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open_at(directory.path(), small()).unwrap();
    assert_eq!(kind(reserve(&journal, (16 << 10) + 1)), Some(ErrorKind::LimitExceeded));
    assert_eq!(append(&journal, frame(1, 16 << 10), Durability::Disk).unwrap(), Lsn(1));
    assert_eq!(kind(contents(&journal)), Some(ErrorKind::ObjectNotInPrerequisiteState));
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for settings in [
        stratalog_journal::JournalSettings { segment_bytes_max: 4096, ..small() },
        stratalog_journal::JournalSettings { queue_bytes_max: 100, ..small() },
        stratalog_journal::JournalSettings { frame_bytes_max: 0, ..small() },
        stratalog_journal::JournalSettings { group_bytes_max: 0, ..small() },
    ] {
        let outcome = open_at(directory.path(), settings);
        assert_eq!(kind(outcome), Some(ErrorKind::InvalidParameterValue));
    }
}
