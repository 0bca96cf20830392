//! The source of a backup.

use std::{path::PathBuf, sync::Arc};

use stratalog_engine::Engine;
use stratalog_journal::Journal;
use stratalog_model::Disk;

/// An open database.
#[derive(Debug, Clone)]
pub struct Source {
    /// The engine of the events.
    pub engine: Arc<Engine>,
    /// The journal of the events.
    pub events: Arc<Journal>,
    /// The catalog's journal.
    pub commands: Arc<Journal>,
    /// The disk of the directory.
    pub disk: Arc<dyn Disk>,
    /// The data directory: the source of `FORMAT` and of the clock's lease.
    pub directory: PathBuf,
}
