//! The promises of the trait `Log`.

use std::{cell::Cell, path::PathBuf, sync::Arc};

use stratalog_journal::{Journal, LocalDisk, RequiredSegments};
use stratalog_model::{Disk, Log};
use stratalog_sim::{
    FaultyDisk,
    conformance::log::{self, FreshLog, LogStorage},
};

use crate::support::*;

/// A journal that can be opened again. Segments at the beginning may be released.
struct JournalStorage {
    exists: Cell<bool>,
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Removes the files on drop.
    _directory: Option<tempfile::TempDir>,
}

impl LogStorage for JournalStorage {
    fn open(&self) -> Arc<dyn Log> {
        let disk = Arc::clone(&self.disk);
        let journal = match self.exists.replace(true) {
            true => {
                let (path, any) = (self.path.clone(), RequiredSegments::Any);
                Journal::open_existing(disk, path, small(), any)
            }
            false => open_on(disk, &self.path, small()),
        };
        Arc::new(journal.unwrap())
    }
}

fn check(fresh: FreshLog<'_>) {
    log::every_log(fresh);
    log::shared_log(fresh);
    log::log_of_files(fresh);
}

#[test]
fn a_journal_on_a_local_disk_keeps_the_promises_of_a_log() {
    check(&|| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("journal");
        let (disk, exists) = (Arc::new(LocalDisk), Cell::new(false));
        Box::new(JournalStorage { exists, disk, path, _directory: Some(directory) })
    });
}

#[test]
fn a_journal_on_a_simulated_disk_keeps_the_promises_of_a_log() {
    check(&|| {
        let (disk, path) = (Arc::new(FaultyDisk::new(1)), PathBuf::from("/data/journal"));
        Box::new(JournalStorage { exists: Cell::new(false), disk, path, _directory: None })
    });
}
