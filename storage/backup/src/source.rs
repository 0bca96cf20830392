//! The database to back up.

use std::{path::PathBuf, sync::Arc};

use stratalog_engine::Engine;
use stratalog_journal::Journal;
use stratalog_model::Disk;

/// A database that is open in this process.
#[derive(Debug, Clone)]
pub struct Source {
    /// The engine with the events.
    pub engine: Arc<Engine>,
    /// The journal of the events.
    pub events: Arc<Journal>,
    /// The catalog's journal.
    pub commands: Arc<Journal>,
    /// The disk of the data directory.
    pub disk: Arc<dyn Disk>,
    /// The data directory; the backup copies its file `FORMAT` and the lease of the clock.
    pub directory: PathBuf,
}
