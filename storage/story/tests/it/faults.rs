//! A disk that fails at any call leaves complete stories or none.

use std::{path::Path, sync::Arc};

use stratalog_model::{Disk, ErrorKind};
use stratalog_sim::{Failure, FaultyDisk, Operation};
use stratalog_story::LocalShelf;

use crate::fixture::*;

const FOLDER: &str = "/data";

fn parquet_files(disk: &FaultyDisk) -> usize {
    let paths = disk.paths();
    paths.iter().filter(|path| path.extension().is_some_and(|end| end == "parquet")).count()
}

/// Builds a second story with the failure at each call; `copied` puts the spool on another disk
/// than the shelf.
fn each_failure(operation: Operation, failure: Failure, copied: bool) -> u64 {
    let mut tried = 0;
    for nth in 1.. {
        let disk = FaultyDisk::new(nth);
        let folder = Path::new(FOLDER);
        let shelf_disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let spool_disk = match copied {
            true => Arc::new(disk.clone()),
            false => Arc::clone(&shelf_disk),
        };
        let shelf = LocalShelf::open(shelf_disk, &folder.join("stories")).unwrap();
        let stories = on_shelf(Arc::new(shelf), spool_disk, folder).unwrap();
        let first = build(&stories, 1, 2).unwrap();
        disk.fail(operation, nth, failure);
        let second = build(&stories, 2, 2);
        let Err(error) = second else {
            // The story had fewer calls than `nth`.
            check(&stories, &second.unwrap()).ok();
            assert!(nth > 1, "{operation:?} never happens");
            return tried;
        };
        let kind = match failure {
            Failure::Device | Failure::ReadOnly => ErrorKind::Io,
            Failure::Full => ErrorKind::DiskFull,
        };
        assert_eq!(error.kind(), kind, "{operation:?} {nth}: {error}");
        assert_eq!(parquet_files(&disk), 1, "{operation:?} {nth}: {error}");
        check(&stories, &first).unwrap();
        // A retry succeeds: nothing blocks the name.
        let second = build(&stories, 2, 2).unwrap();
        check(&stories, &second).unwrap();
        assert!(!disk.paths().iter().any(|path| path.to_string_lossy().ends_with(".building")));
        tried += 1;
    }
    tried
}

#[test]
fn failures_leave_nothing_behind() {
    for copied in [false, true] {
        let mut tried = 0;
        for operation in [
            Operation::Create,
            Operation::Write,
            Operation::Sync,
            Operation::SyncDirectory,
            Operation::Rename,
            Operation::Read,
        ] {
            tried += each_failure(operation, Failure::Device, copied);
        }
        for operation in [Operation::Create, Operation::Write] {
            tried += each_failure(operation, Failure::Full, copied);
        }
        assert!(tried >= 12, "{tried}");
    }
}

#[test]
fn a_full_disk_is_told_and_given_back() {
    let disk = FaultyDisk::new(1);
    let stories = on_disk(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
    let first = build(&stories, 1, 2).unwrap();
    let used = disk.used_bytes();
    disk.set_capacity(used + 1000);
    assert_eq!(build(&stories, 2, 2).unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(disk.used_bytes(), used);
    check(&stories, &first).unwrap();
    disk.set_capacity(u64::MAX);
    let second = build(&stories, 2, 2).unwrap();
    check(&stories, &second).unwrap();
}

#[test]
fn a_read_that_fails_is_no_damage() {
    let disk = FaultyDisk::new(1);
    let stories = on_disk(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
    let built = build(&stories, 1, 2).unwrap();
    for nth in 1..=2 {
        let stories = on_disk(Arc::new(disk.clone()), Path::new(FOLDER)).unwrap();
        disk.fail(Operation::Read, nth, Failure::Device);
        assert_eq!(check(&stories, &built).unwrap_err().kind(), ErrorKind::Io);
        check(&stories, &built).unwrap();
    }
}
