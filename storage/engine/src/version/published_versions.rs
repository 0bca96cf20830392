//! The published state: one gsn and the matching version of each chronicle.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use stratalog_model::{ChronicleId, Gsn};

use super::Version;
use crate::ingest::chronicle::Chronicle;

/// A chronicle and one of its versions.
#[derive(Debug, Clone)]
pub struct PinnedVersion {
    /// The chronicle: its tick index serves versions of the current epoch.
    pub chronicle: Arc<Chronicle>,
    /// The version.
    pub version: Arc<Version>,
}

/// The head of the log and the matching versions. A snapshot clones the surrounding `Arc`; a commit
/// changes the state in place unless a snapshot holds it.
#[derive(Debug, Clone, Default)]
pub struct PublishedVersions {
    /// Highest committed gsn.
    pub gsn: Gsn,
    /// Versions by chronicle.
    pub versions: HashMap<ChronicleId, PinnedVersion, RandomState>,
}
