//! Deliberate defects. The crash tests must detect each defect; a product build has none.

use std::str::FromStr;

/// A deliberate defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Frames are acknowledged before they are written.
    AcknowledgedBeforeWrite,
    /// fdatasync of segments is left out.
    NoSync,
    /// fsync of the directory is left out.
    NoDirectorySync,
    /// The writer leaves a segment before the segment is durable.
    RotationUnsynced,
    /// A failed fdatasync counts as a success.
    SyncFailureIgnored,
    /// The bytes of a failed group stay.
    FailedGroupKept,
    /// Checksums of payloads are not compared.
    ChecksumIgnored,
    /// The bytes behind the last sound frame stay.
    TornTailKept,
    /// Damage is cut like a torn tail.
    DamageCut,
    /// Recovered frames count as durable without a sync.
    RecoveredUnsynced,
    /// A segment with a successor lacks its continuation record.
    SuccessorUnnamed,
    /// A segment gets its continuation record before its successor exists.
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

    /// The defect named by `STRATALOG_SABOTAGE`, if any.
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
