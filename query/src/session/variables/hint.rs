//! Checks of values of settings for PostgreSQL's planner. Stratalog accepts and shows these
//! settings, and sends a notice that they have no effect.

use stratalog_model::{Error, ErrorKind, Result};

use super::registry::SettingPage;

/// The accepted values of a planner setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// on or off.
    Switch,
    /// A whole number from the first to the second bound.
    Count(i64, i64),
    /// A size: the bytes of the default unit, and the minimum value in default units.
    Size(u64, u64),
    /// A number that is not negative.
    Cost,
    /// One of these words.
    Word(&'static [&'static str]),
}

const KB: u64 = 1 << 10;

/// The units of a size, with their number of bytes, largest first.
const UNITS: [(&str, u64); 5] =
    [("TB", KB << 30), ("GB", KB << 20), ("MB", KB << 10), ("kB", KB), ("B", 1)];

/// The canonical form of a size. The default unit has `unit` bytes; the minimum is `least` units.
///
/// # Errors
/// `InvalidParameterValue`.
pub fn size(setting: &SettingPage, text: &str, unit: u64, least: u64) -> Result<String> {
    let wrong = || {
        Error::new(
            ErrorKind::InvalidParameterValue,
            format!("invalid value for parameter \"{}\": \"{text}\"", setting.name),
        )
    };
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, word) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let factor = match word.trim() {
        "" => unit,
        word => {
            let found = UNITS.into_iter().find(|(name, _)| *name == word);
            found.map(|(_, bytes)| bytes).ok_or_else(|| {
                wrong().with_hint(
                    "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".",
                )
            })?
        }
    };
    // Exact: both numbers are far below 2^53.
    #[expect(clippy::cast_precision_loss, reason = "a unit has few digits")]
    let units = (number * factor as f64 / unit as f64).round();
    if !(units >= 0.0 && units <= f64::from(i32::MAX)) {
        return Err(wrong());
    }
    let units: u64 = format!("{units:.0}").parse().map_err(|_| wrong())?;
    if units < least {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!(
                "{units} {} is outside the valid range for parameter \"{}\" ({least} .. {})",
                if unit == KB { "kB" } else { "8kB" },
                setting.name,
                i32::MAX
            ),
        ));
    }
    let bytes = units * unit;
    let shown = UNITS.into_iter().find(|(_, size)| bytes > 0 && bytes.is_multiple_of(*size));
    Ok(shown.map_or_else(|| bytes.to_string(), |(name, size)| format!("{}{name}", bytes / size)))
}

/// The canonical form of a number.
///
/// # Errors
/// `InvalidParameterValue`.
pub fn cost(setting: &SettingPage, text: &str) -> Result<String> {
    let wrong = |message: String| Error::new(ErrorKind::InvalidParameterValue, message);
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number.to_string()),
        Ok(number) if number.is_finite() => Err(wrong(format!(
            "{number} is outside the valid range for parameter \"{}\" (0 .. 1.79769e+308)",
            setting.name
        ))),
        _ => Err(wrong(format!("invalid value for parameter \"{}\": \"{text}\"", setting.name))),
    }
}
