//! Faults for the crash tests: a test switches on a fault, and proves that the tests detect the
//! fault.
//!
//! Each crate lists its faults, and asks here whether a fault is active. With the feature
//! `sabotage`, the environment variable `STRATALOG_SABOTAGE` names the active faults, separated by
//! commas. Without the feature no fault is ever active; no release has the feature.

/// Whether `fault`, a member of `listed`, is active.
#[cfg(feature = "sabotage")]
pub fn active(listed: &[&str], fault: &str) -> bool {
    debug_assert!(listed.contains(&fault), "{fault} is not listed");
    static ACTIVE: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    let active = ACTIVE.get_or_init(|| {
        let names = std::env::var("STRATALOG_SABOTAGE").unwrap_or_default();
        names.split(',').map(|name| name.trim().to_string()).collect()
    });
    active.iter().any(|name| name == fault)
}

/// Always false without the feature.
#[cfg(not(feature = "sabotage"))]
pub const fn active(_listed: &[&str], _fault: &str) -> bool {
    false
}
