//! The published state, which new snapshots read: one gsn, and the matching version of each
//! chronicle.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::{ChronicleId, Gsn};

use super::Version;
use crate::ingest::chronicle::Chronicle;

/// A version, and its chronicle.
#[derive(Debug, Clone)]
pub struct PinnedVersion {
    /// The chronicle. Its tick index is valid only for versions of the current epoch.
    pub chronicle: Arc<Chronicle>,
    /// The version.
    pub version: Arc<Version>,
}

/// The highest visible gsn, and the matching version of each chronicle. A snapshot clones the `Arc`
/// around this state. A commit changes the state in place, or copies it if a snapshot still has it.
#[derive(Debug, Clone, Default)]
pub struct PublishedVersions {
    /// Highest committed gsn.
    pub gsn: Gsn,
    /// Versions by chronicle.
    pub versions: HashMap<ChronicleId, PinnedVersion, RandomState>,
}
