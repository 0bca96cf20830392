//! The deliberate faults of the engine, which crash tests switch on
//! ([`stratalog_model::sabotage`]).

/// The names of all faults.
pub const FAULTS: [&str; 26] = [
    "dedup-off",
    "ack-before-durable",
    "visible-before-commit",
    "clock-unconfirmed",
    "decision-before-sync",
    "decision-ignored",
    "collision-off",
    "delete-unlogged",
    "delete-uncommitted",
    "border-off",
    "fence-ignored",
    "horizon-ignored",
    "late-lost-in-merge",
    "mark-lost-in-merge",
    "merge-beside-delete",
    "merge-ignored",
    "move-before-sync",
    "own-marks-lost",
    "pin-ignored",
    "release-before-edit",
    "rewrite-before-sync",
    "savepoint-ignored",
    "sealed-early",
    "tablet-unverified",
    "values-too-narrow",
    "window-ignored",
];

/// True if a fault is switched on.
pub fn active(fault: &str) -> bool {
    stratalog_model::sabotage::active(&FAULTS, fault)
}
