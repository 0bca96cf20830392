//! What everybody sees: one gsn and the version of each chronicle that belongs to it.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::{ChronicleId, Gsn};

use super::Version;
use crate::keeper::chronicle::Chronicle;

/// A chronicle and one of its versions.
#[derive(Debug, Clone)]
pub struct Pinned {
    /// The chronicle: its tick index, for versions that it still serves.
    pub chronicle: Arc<Chronicle>,
    /// The version.
    pub version: Arc<Version>,
}

/// The head of the log and the versions that belong to it. A snapshot is a clone of the
/// `Arc` around it; a commit changes it in place when no snapshot holds it.
#[derive(Debug, Clone, Default)]
pub struct Published {
    /// Highest committed gsn.
    pub gsn: Gsn,
    /// Versions by chronicle.
    pub versions: HashMap<ChronicleId, Pinned, RandomState>,
}
