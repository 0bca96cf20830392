//! The faults of tablets that the crash tests switch on ([`stratalog_model::sabotage`]).

/// Every fault.
pub const FAULTS: [&str; 3] = ["edit-before-tablet", "tablet-name-unsynced", "tablet-unsynced"];

/// Whether a fault is active.
pub fn active(fault: &str) -> bool {
    stratalog_model::sabotage::active(&FAULTS, fault)
}
