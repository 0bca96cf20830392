//! Faults that the crash tests switch on to prove that they would be noticed.
//!
//! Each crate lists those that it has, and asks here whether one is switched on. With the
//! feature `sabotage`, the environment variable `STRATALOG_SABOTAGE` names them, separated by
//! commas. Without the feature, which no release has, none ever is.

/// Whether `fault`, one of `listed`, is switched on.
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

/// No fault is.
#[cfg(not(feature = "sabotage"))]
pub const fn active(_listed: &[&str], _fault: &str) -> bool {
    false
}
