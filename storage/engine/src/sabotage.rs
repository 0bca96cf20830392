//! Faults that the crash tests switch on to prove that they would be noticed.
//!
//! With the feature `sabotage`, the environment variable `STRATALOG_SABOTAGE` names them,
//! separated by commas. Without the feature nothing of this is compiled in.

/// Every fault.
#[cfg(feature = "sabotage")]
pub const FAULTS: [&str; 14] = [
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
    "pin-ignored",
    "release-before-edit",
    "tablet-unverified",
    "values-too-narrow",
];

/// Whether a fault is switched on.
#[cfg(feature = "sabotage")]
pub fn active(fault: &str) -> bool {
    debug_assert!(FAULTS.contains(&fault), "{fault} is not listed");
    static ACTIVE: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    let active = ACTIVE.get_or_init(|| {
        let names = std::env::var("STRATALOG_SABOTAGE").unwrap_or_default();
        names.split(',').map(|name| name.trim().to_string()).collect()
    });
    active.iter().any(|name| name == fault)
}

/// No fault is.
#[cfg(not(feature = "sabotage"))]
pub const fn active(_fault: &str) -> bool {
    false
}
