//! The promises of the trait `Log`.

use std::{path::PathBuf, sync::Arc};

use stratalog_journal::LocalDisk;
use stratalog_model::{Disk, Log};
use stratalog_sim::{
    FaultyDisk,
    conformance::log::{self, FreshLog, LogStorage},
};

use crate::support::*;

/// A journal that can be opened again.
struct JournalStorage {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Removes the files on drop.
    _directory: Option<tempfile::TempDir>,
}

impl LogStorage for JournalStorage {
    fn open(&self) -> Arc<dyn Log> {
        Arc::new(open_on(Arc::clone(&self.disk), &self.path, small()).unwrap())
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
        Box::new(JournalStorage { disk: Arc::new(LocalDisk), path, _directory: Some(directory) })
    });
}

#[test]
fn a_journal_on_a_simulated_disk_keeps_the_promises_of_a_log() {
    check(&|| {
        let (disk, path) = (Arc::new(FaultyDisk::new(1)), PathBuf::from("/data/journal"));
        Box::new(JournalStorage { disk, path, _directory: None })
    });
}
