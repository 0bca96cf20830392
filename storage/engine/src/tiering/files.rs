//! The engine's files beside the log.

use std::{fmt, sync::Arc};

use stratalog_model::{ChronicleDefinition, ChronicleId};

use crate::version::{manifest::Manifest, piece::Shelves};

/// The engine's files beside the log.
#[derive(Debug, Clone)]
pub struct EngineFiles {
    /// The folders and stores of the files.
    pub shelves: Shelves,
    /// The record of valid files.
    pub manifest: Arc<Manifest>,
    /// Definitions of the chronicles with events in the files.
    pub definitions: ChronicleLookup,
}

type LookupFn = dyn Fn(ChronicleId) -> Option<Arc<ChronicleDefinition>> + Send + Sync;

/// Looks up the existing chronicles.
#[derive(Clone)]
pub struct ChronicleLookup(Arc<LookupFn>);

impl ChronicleLookup {
    /// A lookup through `find`, called at any time.
    pub fn new(
        find: impl Fn(ChronicleId) -> Option<Arc<ChronicleDefinition>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(find))
    }

    /// The current definition of a chronicle; `None` for a dropped chronicle.
    pub fn of(&self, id: ChronicleId) -> Option<Arc<ChronicleDefinition>> {
        (self.0)(id)
    }
}

impl fmt::Debug for ChronicleLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Definitions")
    }
}
