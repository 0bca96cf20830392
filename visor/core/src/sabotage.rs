//! Faults of the clock that tests can switch on ([`stratalog_model::sabotage`]).

/// The names of all faults.
const FAULTS: [&str; 2] = ["jump-followed", "lease-ignored"];

/// True if a test has switched on the fault.
pub(crate) fn active(fault: &str) -> bool {
    debug_assert!(FAULTS.contains(&fault), "the fault is not listed");
    stratalog_model::sabotage::active(&FAULTS, fault)
}
