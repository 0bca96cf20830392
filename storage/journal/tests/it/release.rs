//! Release: whole segments are removed if their events are owned elsewhere, and nothing else.

use std::{path::Path, sync::Arc};

use stratalog_journal::{Journal, JournalSettings, RequiredSegments};
use stratalog_model::{Durability, ErrorKind, Log, Lsn, Result};
use stratalog_sim::{Crash, Failure, FaultyDisk, Operation, Random};

use crate::support::*;

const DIRECTORY: &str = "/data/journal";

fn settings() -> JournalSettings {
    JournalSettings { segment_bytes_max: 8 << 10, frame_bytes_max: 2 << 10, ..small() }
}

fn open(disk: &FaultyDisk, beginning: RequiredSegments) -> Result<Journal> {
    let directory = Path::new(DIRECTORY).to_path_buf();
    Journal::open_existing(Arc::new(disk.clone()), directory, settings(), beginning)
}

fn fill(journal: &Journal, frames: std::ops::Range<u64>) {
    for n in frames {
        append(journal, frame(n, 900), Durability::Disk).unwrap();
    }
}

/// Checks that the kept lsn's have no gap up to `last`; returns the first.
fn first_kept(journal: &Journal, last: u64) -> u64 {
    let found: Vec<u64> = contents(journal).unwrap().into_iter().map(|(lsn, _)| lsn.0).collect();
    let first = found.first().copied().unwrap_or(last + 1);
    assert_eq!(found, (first..=last).collect::<Vec<_>>());
    first
}

#[test]
fn whole_segments_go_and_the_log_goes_on() {
    let disk = FaultyDisk::new(1);
    let journal = open_on(Arc::new(disk.clone()), Path::new(DIRECTORY), settings()).unwrap();
    fill(&journal, 1..41);
    let before = journal.status();
    assert!(before.segments > 4 && before.first == Lsn(1), "{before:?}");
    assert_eq!(journal.release(Lsn(1)).unwrap(), 0);
    let freed = journal.release(Lsn(20)).unwrap();
    let after = journal.status();
    let releasable = before.releasable(Lsn(20)).iter().map(|segment| segment.bytes);
    assert_eq!(releasable.sum::<u64>(), freed);
    assert_eq!(after.full_segments.len() as u64, after.segments - 1);
    assert_eq!(after.releasable(Lsn(20)), []);
    assert!(freed > 0 && after.stored_bytes == before.stored_bytes - freed);
    assert!(after.first > Lsn(1) && after.first <= Lsn(20));
    // The last segment always stays.
    fill(&journal, 41..44);
    journal.release(Lsn(1000)).unwrap();
    assert_eq!(journal.status().segments, 1);
    fill(&journal, 44..60);
    journal.close().unwrap();
    drop(journal);
    let first = {
        let journal = open(&disk, RequiredSegments::Any).unwrap();
        first_kept(&journal, 59)
    };
    assert!(first > 30);
    drop(open(&disk, RequiredSegments::At(Lsn(first))).unwrap());
    let error = open(&disk, RequiredSegments::At(Lsn(first - 1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert!(error.message().ends_with("is missing"), "{error}");
    assert_eq!(kind(open(&disk, RequiredSegments::First)), Some(ErrorKind::DataCorrupted));
}

#[test]
fn a_crash_amid_a_release_loses_nothing_that_is_needed() {
    let mut some_left = 0;
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let disk = FaultyDisk::new(seed);
        let journal = open_on(Arc::new(disk.clone()), Path::new(DIRECTORY), settings()).unwrap();
        fill(&journal, 1..41);
        let before = Lsn(random.between(1, 45));
        disk.halt_after(random.between(1, 12));
        let released = journal.release(before);
        let disk = disk.crash(Crash::PowerCut);
        drop(journal);
        let journal = open(&disk, RequiredSegments::At(Lsn(before.0.min(40)))).unwrap();
        assert!(first_kept(&journal, 40) <= before.0, "seed {seed}");
        drop(journal);
        some_left += usize::from(released.is_err());
        // Also without a gap for a reader that does not know the first lsn.
        let journal = open(&disk, RequiredSegments::Any).unwrap();
        first_kept(&journal, 40);
        fill(&journal, 41..50);
    }
    assert!(some_left > 20, "too few crashes in the middle: {some_left}");
}

#[test]
fn a_release_that_failed_leaves_no_gap() {
    for seed in 0..40 {
        for operation in [Operation::Remove, Operation::SyncDirectory] {
            let disk = FaultyDisk::new(seed);
            let journal =
                open_on(Arc::new(disk.clone()), Path::new(DIRECTORY), settings()).unwrap();
            fill(&journal, 1..41);
            disk.fail(operation, seed % 4 + 1, Failure::Device);
            let before = journal.status();
            assert_eq!(kind(journal.release(Lsn(25))), Some(ErrorKind::Io));
            assert_eq!(journal.status().poisoned, None);
            let freed = journal.release(Lsn(38)).unwrap();
            // After a failed directory sync, a removed segment may come back, and must not come
            // back alone.
            assert_eq!(freed > 0, operation == Operation::Remove);
            assert!(journal.status().first > before.first);
            fill(&journal, 41..50);
            let disk = disk.crash(Crash::PowerCut);
            drop(journal);
            let journal = open(&disk, RequiredSegments::Any).unwrap();
            assert!(first_kept(&journal, 49) <= 38, "seed {seed}, {operation:?}");
            fill(&journal, 50..53);
            let disk = disk.crash(Crash::Kill);
            drop(journal);
            first_kept(&open(&disk, RequiredSegments::At(Lsn(38))).unwrap(), 52);
        }
    }
}

#[test]
fn segments_grow_with_use() {
    let directory = tempfile::tempdir().unwrap();
    let settings = JournalSettings { segment_bytes_max: 8 << 20, ..JournalSettings::default() };
    let settings = JournalSettings { frame_bytes_max: 3 << 20, ..settings };
    let journal = open_at(directory.path(), settings).unwrap();
    let sizes = || {
        let mut sizes: Vec<(String, u64)> = std::fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len())
            })
            .filter(|(name, _)| name.ends_with(".journal") && !name.starts_with("spare"))
            .collect();
        sizes.sort();
        sizes.into_iter().map(|(_, bytes)| bytes >> 20).collect::<Vec<_>>()
    };
    assert_eq!(sizes(), [1]);
    assert_eq!(journal.status().releases_from, None);
    for n in 0..28 {
        append(&journal, frame(n, 1 << 20), Durability::Disk).unwrap();
    }
    assert_eq!(sizes()[..4], [1, 2, 4, 8], "{:?}", sizes());
    assert!(sizes()[4..].iter().all(|megabytes| *megabytes == 8), "{:?}", sizes());
    // The first argument that frees a segment frees a segment, the one below does not.
    let lowest = journal.status().releases_from.unwrap();
    assert_eq!(journal.release(Lsn(lowest.0 - 1)).unwrap(), 0);
    assert!(journal.release(lowest).unwrap() > 0);
}
