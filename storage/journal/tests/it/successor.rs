//! Continuation records: after any failure on the way, no frames go missing unnoticed with their
//! segment.

use std::{path::Path, sync::Arc};

use stratalog_journal::{Journal, JournalSettings};
use stratalog_model::{Disk, Durability, ErrorKind, Result};
use stratalog_sim::{Crash, Failure, FaultyDisk, Operation};

use crate::support::*;

const DIRECTORY: &str = "/data/journal";

fn settings(preallocate: bool) -> JournalSettings {
    JournalSettings { segment_bytes_max: 8 << 10, frame_bytes_max: 2 << 10, preallocate, ..small() }
}

fn open(disk: &FaultyDisk, preallocate: bool) -> Result<Journal> {
    open_on(Arc::new(disk.clone()), Path::new(DIRECTORY), settings(preallocate))
}

/// Opens without the last segment; the journal must report the loss, unless nothing was lost.
fn check_without_the_last(disk: &FaultyDisk, preallocate: bool, what: &str) {
    let all = contents(&open(disk, preallocate).unwrap()).unwrap();
    let segments = disk.paths().into_iter().filter(|path| path.extension().is_some());
    let segments: Vec<_> = segments.collect();
    if segments.len() < 2 {
        return;
    }
    disk.remove_file(segments.last().unwrap()).unwrap();
    match open(disk, preallocate).and_then(|journal| contents(&journal)) {
        Ok(found) => assert_eq!(found.len(), all.len(), "{what}: frames are lost without a word"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{what}: {error}"),
    }
}

#[test]
fn any_failing_call_leaves_a_journal_that_opens_and_misses_its_last_segment() {
    for preallocate in [true, false] {
        for operation in [Operation::Sync, Operation::Write] {
            for nth in 1..40 {
                let what = format!("{operation:?} {nth}, preallocate {preallocate}");
                let disk = FaultyDisk::new(nth);
                let journal = open(&disk, preallocate).unwrap();
                disk.fail(operation, nth, Failure::Device);
                let appended = |journal: &Journal, numbers: std::ops::Range<u64>| {
                    let good = |n: &u64| append(journal, frame(*n, 900), Durability::Disk).is_ok();
                    numbers.filter(good).count()
                };
                let before = appended(&journal, 1..13);
                let disk = disk.crash(Crash::Kill);
                drop(journal);
                let journal = open(&disk, preallocate).unwrap();
                let after = appended(&journal, 20..23);
                assert_eq!(after, 3, "{what}");
                let disk = disk.crash(Crash::PowerCut);
                drop(journal);
                let found = contents(&open(&disk, preallocate).unwrap()).unwrap().len();
                assert!(found >= before + after, "{what}: {found} of {before} + {after}");
                check_without_the_last(&disk, preallocate, &what);
            }
        }
    }
}

#[test]
fn a_halt_after_any_step_leaves_a_journal_that_opens_and_misses_its_last_segment() {
    for crash in [Crash::Kill, Crash::PowerCut] {
        for steps in 1..70 {
            let what = format!("{steps} steps, {crash:?}");
            let disk = FaultyDisk::new(steps);
            disk.halt_after(steps);
            let mut good = 0;
            if let Ok(journal) = open(&disk, true) {
                let append = |n: &u64| append(&journal, frame(*n, 900), Durability::Disk).is_ok();
                good = (1..30).take_while(append).count();
            }
            let disk = disk.crash(crash);
            let journal = open(&disk, true).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(contents(&journal).unwrap().len() >= good, "{what}");
            for n in 40..43 {
                append(&journal, frame(n, 900), Durability::Disk).unwrap();
            }
            let disk = disk.crash(Crash::PowerCut);
            drop(journal);
            check_without_the_last(&disk, true, &what);
        }
    }
}
