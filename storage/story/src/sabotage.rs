//! The faults of stories that the crash tests switch on ([`stratalog_model::sabotage`]).

/// Every fault.
pub const FAULTS: [&str; 3] = ["story-name-unsynced", "story-unsynced", "story-unverified"];

/// Whether a fault is active.
pub fn active(fault: &str) -> bool {
    stratalog_model::sabotage::active(&FAULTS, fault)
}
