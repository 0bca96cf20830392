//! The faults of the engine that the crash tests switch on ([`stratalog_model::sabotage`]).

/// Every fault.
pub const FAULTS: [&str; 17] = [
    "dedup-off",
    "ack-before-durable",
    "visible-before-commit",
    "collision-off",
    "delete-unlogged",
    "border-off",
    "fence-ignored",
    "late-lost-in-merge",
    "mark-lost-in-merge",
    "move-before-sync",
    "own-marks-lost",
    "pin-ignored",
    "release-before-edit",
    "rewrite-before-sync",
    "savepoint-ignored",
    "tablet-unverified",
    "values-too-narrow",
];

/// Whether a fault is switched on.
pub fn active(fault: &str) -> bool {
    stratalog_model::sabotage::active(&FAULTS, fault)
}
