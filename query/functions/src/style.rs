//! Stores the session's style of reading and writing values in DataFusion's settings, where
//! functions and rules find it.

use std::any::Any;

use datafusion::{
    common::{DataFusionError, Result},
    config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions},
};
use stratalog_text::{TextStyle, TimeZone};

/// The style of a session, stored as an extension of DataFusion's settings.
#[derive(Debug, Clone)]
struct SessionStyle(TextStyle);

impl ConfigExtension for SessionStyle {
    const PREFIX: &'static str = "stratalog_style";
}

impl ExtensionOptions for SessionStyle {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        Err(DataFusionError::Configuration(format!("{key} is no setting of plans")))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

/// Stores the style in the settings. The stored style has no value for `now`.
pub fn set_style(config: &mut ConfigOptions, style: TextStyle) {
    config.extensions.insert(SessionStyle(TextStyle { now_ns: None, ..style }));
}

/// Returns the style in the settings.
pub fn style_of(config: &ConfigOptions) -> TextStyle {
    if let Some(SessionStyle(style)) = config.extensions.get() {
        return style.clone();
    }
    let zone = config.execution.time_zone.as_deref().and_then(TimeZone::of_arrow);
    TextStyle { time_zone: zone.unwrap_or(TimeZone::UTC), ..TextStyle::default() }
}
