//! The faults of the clock that tests switch on ([`stratalog_model::sabotage`]).

/// Every fault.
const FAULTS: [&str; 2] = ["jump-followed", "lease-ignored"];

/// Whether a fault is switched on.
pub(crate) fn active(fault: &str) -> bool {
    stratalog_model::sabotage::active(&FAULTS, fault)
}
