//! Deliberate faults for the crash tests: a test switches on a fault, and shows that the tests
//! detect it.
//!
//! Each crate lists its faults, and calls this module to ask whether a fault is active. With the
//! feature `sabotage`, the environment variable `STRATALOG_SABOTAGE` names the active faults,
//! separated by commas. Without the feature no fault is ever active; no release has the feature.

/// Whether `fault` is active; `fault` must be a member of `listed`.
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

/// Always false: the feature `sabotage` is off.
#[cfg(not(feature = "sabotage"))]
pub const fn active(_listed: &[&str], _fault: &str) -> bool {
    false
}
