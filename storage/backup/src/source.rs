//! What is backed up.

use std::{path::PathBuf, sync::Arc};

use stratalog_engine::Engine;
use stratalog_journal::Journal;
use stratalog_model::Disk;

/// A database that is open.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its events.
    pub engine: Arc<Engine>,
    /// Their journal.
    pub events: Arc<Journal>,
    /// The catalog's journal.
    pub commands: Arc<Journal>,
    /// The disk of the directory.
    pub disk: Arc<dyn Disk>,
    /// The data directory: `FORMAT`, and the clock's lease, are read from there.
    pub directory: PathBuf,
}
