//! Writes log lines to standard error.

use crate::{
    StartError,
    settings::{LogFormat, Settings, SettingsError, log_filter},
};

/// Starts logging as the settings say. A second call in the process has no effect.
///
/// # Errors
/// An invalid filter in `log_level`.
pub fn start(settings: &Settings) -> Result<(), StartError> {
    let filter = log_filter(&settings.log_level).map_err(|reason| SettingsError::Value {
        name: "log_level".to_string(),
        place: "the settings".to_string(),
        reason,
    })?;
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr())
        && std::env::var_os("NO_COLOR").is_none();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colours);
    // A program with embedded Stratalog may already have a subscriber. The existing subscriber
    // stays.
    let _ = match settings.log_format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Compact => builder.compact().with_target(false).try_init(),
    };
    Ok(())
}
