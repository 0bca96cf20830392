//! The condition of the deliberate defects.

/// Whether a deliberate defect is active; always `false` in a product build, which does not even
/// contain the name of the defect.
#[cfg(feature = "sabotage")]
macro_rules! sabotaged {
    ($settings:expr, $name:ident) => {
        $settings.sabotage == Some(crate::sabotage::Sabotage::$name)
    };
}
#[cfg(not(feature = "sabotage"))]
macro_rules! sabotaged {
    ($settings:expr, $name:ident) => {{
        let _ = &$settings;
        false
    }};
}
pub(crate) use sabotaged;
