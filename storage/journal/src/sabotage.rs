//! Deliberate defects for the crash tests, which must detect each defect; a product build has none.

use std::str::FromStr;

/// A deliberate defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Frames are acknowledged before they are written.
    AcknowledgedBeforeWrite,
    /// The fdatasync of segments is omitted.
    NoSync,
    /// The fsync of the directory is omitted.
    NoDirectorySync,
    /// The writer starts a new segment before the current segment is durable.
    RotationUnsynced,
    /// A failed fdatasync counts as a success.
    SyncFailureIgnored,
    /// The bytes of a failed group are not erased.
    FailedGroupKept,
    /// Checksums of payloads are not verified.
    ChecksumIgnored,
    /// Recovery does not erase the bytes after the last sound frame.
    TornTailKept,
    /// Recovery cuts damage as if it were a torn tail.
    DamageCut,
    /// Recovered frames count as durable without a sync.
    RecoveredUnsynced,
    /// A segment with a following segment gets no continuation record.
    SuccessorUnnamed,
    /// A segment gets its continuation record before the following segment exists.
    SuccessorNamedEarly,
}

impl Sabotage {
    /// Every defect, with its name.
    pub const ALL: &'static [(&'static str, Sabotage)] = &[
        ("journal-acknowledged-before-write", Sabotage::AcknowledgedBeforeWrite),
        ("journal-no-sync", Sabotage::NoSync),
        ("journal-no-directory-sync", Sabotage::NoDirectorySync),
        ("journal-rotation-unsynced", Sabotage::RotationUnsynced),
        ("journal-sync-failure-ignored", Sabotage::SyncFailureIgnored),
        ("journal-failed-group-kept", Sabotage::FailedGroupKept),
        ("journal-checksum-ignored", Sabotage::ChecksumIgnored),
        ("journal-torn-tail-kept", Sabotage::TornTailKept),
        ("journal-damage-cut", Sabotage::DamageCut),
        ("journal-recovered-unsynced", Sabotage::RecoveredUnsynced),
        ("journal-successor-unnamed", Sabotage::SuccessorUnnamed),
        ("journal-successor-named-early", Sabotage::SuccessorNamedEarly),
    ];

    /// The defect that the environment variable `STRATALOG_SABOTAGE` names, if any.
    pub fn from_environment() -> Option<Self> {
        std::env::var("STRATALOG_SABOTAGE").ok()?.parse().ok()
    }
}

impl FromStr for Sabotage {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, sabotage)| *sabotage).ok_or(())
    }
}
