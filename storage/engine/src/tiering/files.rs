//! The files of the engine other than the log: tablets, stories and manifest.

use std::{fmt, sync::Arc};

use stratalog_model::{ChronicleDefinition, ChronicleId};

use crate::version::{manifest::Manifest, piece::Shelves};

/// The files of the engine other than the log: tablets, stories and manifest.
#[derive(Debug, Clone)]
pub struct EngineFiles {
    /// The storage of tablets and stories.
    pub shelves: Shelves,
    /// The manifest, which names the valid files.
    pub manifest: Arc<Manifest>,
    /// Looks up the definitions of the chronicles whose events are in the files.
    pub definitions: ChronicleLookup,
}

type LookupFn = dyn Fn(ChronicleId) -> Option<Arc<ChronicleDefinition>> + Send + Sync;

/// A function that looks up the definition of a chronicle.
#[derive(Clone)]
pub struct ChronicleLookup(Arc<LookupFn>);

impl ChronicleLookup {
    /// A lookup through `find`, which may be called at any time.
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
