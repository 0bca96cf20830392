//! Checks of the values of settings, and conversion to a canonical form.

use stratalog_model::{Error, ErrorKind, Result};
use stratalog_text::TimeZone;

use super::{
    hint::{self, Hint},
    registry::{Rule, SettingPage},
};

/// Maximum bytes of a text, the length at which PostgreSQL truncates names.
const TEXT_BYTES_MAX: usize = 63;

/// Maximum bytes of a list of names.
const NAMES_BYTES_MAX: usize = 16 << 10;

/// Checks a value of a setting, and returns the canonical form.
///
/// # Errors
/// `InvalidParameterValue` for an invalid value, `FeatureNotSupported` for a value without effect
/// here.
pub fn value(setting: &SettingPage, value: &str) -> Result<String> {
    let trimmed = value.trim();
    match setting.rule {
        Rule::Fixed => Err(super::fixed(setting.name)),
        Rule::Text => Ok(cut(value).to_string()),
        Rule::OneOf(words) | Rule::Hint(Hint::Word(words)) => {
            one_of(words, trimmed).ok_or_else(|| {
                let hint = format!("Available values: {}.", words.join(", "));
                invalid(setting, value).with_hint(hint)
            })
        }
        Rule::Hint(Hint::Size(unit, least)) => hint::size(setting, trimmed, unit, least),
        Rule::Hint(Hint::Cost) => hint::cost(setting, trimmed),
        Rule::Only(words) => {
            one_of(words, trimmed).ok_or_else(|| no_effect(setting, value, &words.join(", ")))
        }
        Rule::Switch | Rule::Hint(Hint::Switch) => switch(trimmed).map(on_off).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("parameter \"{}\" requires a Boolean value", setting.name),
            )
        }),
        Rule::SwitchOnly(only) => match switch(trimmed) {
            Some(found) if found == only => Ok(on_off(found)),
            Some(_) => Err(no_effect(setting, value, &on_off(only))),
            None => Err(invalid(setting, value)),
        },
        Rule::Integer(min, max) | Rule::Hint(Hint::Count(min, max)) => {
            let number: i64 = trimmed.parse().map_err(|_| invalid(setting, value))?;
            if (min..=max).contains(&number) {
                Ok(number.to_string())
            } else {
                Err(Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!(
                        "{number} is outside the valid range for parameter \"{}\" ({min} .. {max})",
                        setting.name
                    ),
                ))
            }
        }
        Rule::Duration => {
            duration_ms(trimmed).map(show_duration).ok_or_else(|| no_duration(setting, value))
        }
        Rule::Names if value.len() > NAMES_BYTES_MAX => Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("parameter \"{}\" has more than {NAMES_BYTES_MAX} bytes", setting.name),
        )),
        Rule::Names => Ok(value.to_string()),
        Rule::TimeZone => TimeZone::canonical_setting(trimmed),
        Rule::DateStyle => date_style(setting, trimmed),
        // Some drivers quote the encoding at start-up.
        Rule::Encoding => match encoding_name(trimmed).as_str() {
            "utf8" | "unicode" => Ok("UTF8".to_string()),
            _ => Err(no_effect(setting, value, "UTF8")),
        },
        Rule::Uuid if trimmed.is_empty() => Ok(String::new()),
        Rule::Uuid => uuid::Uuid::parse_str(trimmed)
            .map(|uuid| uuid.to_string())
            .map_err(|_| invalid(setting, value)),
    }
}

/// The name of an encoding in a form for comparisons: in lower case, without quotes, dashes and
/// underscores.
fn encoding_name(text: &str) -> String {
    let quoted = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    quoted.unwrap_or(text).to_ascii_lowercase().replace(['-', '_'], "")
}

fn invalid(setting: &SettingPage, value: &str) -> Error {
    Error::new(
        ErrorKind::InvalidParameterValue,
        format!("invalid value for parameter \"{}\": \"{value}\"", setting.name),
    )
}

fn no_effect(setting: &SettingPage, value: &str, accepted: &str) -> Error {
    Error::new(
        ErrorKind::FeatureNotSupported,
        format!("{} = \"{value}\" is not supported: the value would have no effect", setting.name),
    )
    .with_hint(format!("accepted: {accepted}"))
}

fn one_of(words: &[&str], value: &str) -> Option<String> {
    words.iter().find(|word| word.eq_ignore_ascii_case(value)).map(|word| (*word).to_string())
}

/// Parses a Boolean as in PostgreSQL: unique prefixes of on, off, true, false, yes, no; or 1, 0.
fn switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" | "tru" | "tr" | "t" | "yes" | "ye" | "y" | "1" => Some(true),
        "off" | "of" | "false" | "fals" | "fal" | "fa" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

fn on_off(value: bool) -> String {
    if value { "on".to_string() } else { "off".to_string() }
}

/// Converts a duration such as `1500` (milliseconds), `2s` or `5 min` to milliseconds, rounded. A
/// positive duration below a millisecond counts as 1.
pub fn duration_ms(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let ms = number * unit?;
    if !(0.0..=f64::from(i32::MAX)).contains(&ms) {
        return None;
    }
    let whole = ms.round();
    let whole = if ms > 0.0 && whole < 1.0 { 1.0 } else { whole };
    format!("{whole:.0}").parse().ok()
}

/// Splits a duration into the number and the milliseconds of its unit (`None` for an unknown unit).
fn number_and_unit(text: &str) -> Option<(f64, Option<f64>)> {
    let text = text.trim();
    let digits = text.strip_prefix('-').unwrap_or(text);
    let unit = digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
    let factor = match unit.trim() {
        "" | "ms" => Some(1.0),
        "us" => Some(0.001),
        "s" => Some(1_000.0),
        "min" => Some(60_000.0),
        "h" => Some(3_600_000.0),
        "d" => Some(86_400_000.0),
        _ => None,
    };
    Some((number, factor))
}

/// The error for a text that [`duration_ms`] does not accept.
fn no_duration(setting: &SettingPage, value: &str) -> Error {
    let most = i32::MAX;
    match number_and_unit(value) {
        None => invalid(setting, value),
        Some((_, None)) => invalid(setting, value).with_hint(
            "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".",
        ),
        Some((number, Some(unit))) if number < 0.0 => Error::new(
            ErrorKind::InvalidParameterValue,
            format!(
                "{} ms is outside the valid range for parameter \"{}\" (0 .. {most})",
                (number * unit).round(),
                setting.name
            ),
        ),
        Some(_) => invalid(setting, value).with_hint(format!("The valid range is 0 .. {most} ms.")),
    }
}

fn show_duration(ms: u64) -> String {
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)] {
        if ms > 0 && ms.is_multiple_of(size) {
            return format!("{}{unit}", ms / size);
        }
    }
    if ms == 0 { "0".to_string() } else { format!("{ms}ms") }
}

fn date_style(setting: &SettingPage, value: &str) -> Result<String> {
    let mut order = "MDY";
    for part in value.split(',').map(str::trim) {
        match part.to_ascii_lowercase().as_str() {
            "iso" => {}
            "mdy" | "us" | "noneuro" | "noneuropean" => order = "MDY",
            "dmy" | "euro" | "european" => order = "DMY",
            "ymd" => order = "YMD",
            "postgres" | "sql" | "german" => {
                return Err(no_effect(setting, value, "ISO with MDY, DMY or YMD"));
            }
            _ => return Err(invalid(setting, value)),
        }
    }
    Ok(format!("ISO, {order}"))
}

/// Splits a comma-separated list into names, in lower case unless quoted. `$user` is omitted,
/// because users have no schemas of their own.
pub fn names(list: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in list.split(',').map(str::trim) {
        let name = match part.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => part.to_lowercase(),
        };
        if !name.is_empty() && name != "$user" {
            found.push(name);
        }
    }
    found
}

/// Truncates `text` to the limit of bytes, at a character boundary.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or(text)
}
