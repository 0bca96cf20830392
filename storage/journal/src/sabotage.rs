//! Deliberate defects. The crash tests must catch each one; a product build has none.

use std::str::FromStr;

/// One thing done wrong on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Frames are acknowledged before they are written.
    AcknowledgedBeforeWrite,
    /// fdatasync of segments is left out.
    NoSync,
    /// fsync of the directory is left out.
    NoDirectorySync,
    /// A segment is left for the next one before it is durable.
    RotationUnsynced,
    /// A failed fdatasync is taken for a good one.
    SyncFailureIgnored,
    /// What a failed group had written stays.
    FailedGroupKept,
    /// Checksums of payloads are not compared.
    ChecksumIgnored,
    /// The bytes behind the last sound frame are left where they are.
    TornTailKept,
    /// Damage is cut as if it were a torn tail.
    DamageCut,
    /// What was recovered counts as durable without being synced.
    RecoveredUnsynced,
    /// A segment does not say that another one follows it.
    SuccessorUnnamed,
    /// A segment says that another one follows it before that is so.
    SuccessorNamedEarly,
}

impl Sabotage {
    /// Every one, with its name.
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

    /// The one that `STRATALOG_SABOTAGE` names, if any.
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
