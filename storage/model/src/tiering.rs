//! The rules for moving events down the tiers and for deleting old events (F5, F35, F60).

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// The tiering options of a chronicle; `None` means that the server's setting applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tiering {
    /// Retention: events are deleted this number of milliseconds after their time; `None` keeps
    /// events forever.
    pub retention_ms: Option<u64>,
    /// If this number of events is in the tiers above the stories, the server makes a new story.
    pub story_rows_max: Option<u64>,
    /// If this number of bytes is in the tiers above the stories, the server makes a new story.
    pub story_bytes_max: Option<u64>,
    /// Milliseconds between the commit of an event and its move into a story.
    pub story_age_max_ms: Option<u64>,
    /// Events stay in the journal for this number of milliseconds after their commit, unless
    /// journal space or memory runs short. During this time, the events do not move into a story,
    /// and stay in memory longer than events of other chronicles (F12).
    pub pin_for_ms: Option<u64>,
}

/// Units of durations, in milliseconds.
const DURATIONS: [(&str, u64); 14] = [
    ("ms", 1),
    ("s", 1_000),
    ("second", 1_000),
    ("seconds", 1_000),
    ("min", 60_000),
    ("minute", 60_000),
    ("minutes", 60_000),
    ("h", 3_600_000),
    ("hour", 3_600_000),
    ("hours", 3_600_000),
    ("d", 86_400_000),
    ("day", 86_400_000),
    ("days", 86_400_000),
    ("w", 604_800_000),
];

/// Units of sizes, in bytes.
const SIZES: [(&str, u64); 8] = [
    ("", 1),
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
];

/// Parses the value `text` of a duration option: `90d`, `12h`, `30 min`, `500ms`. Returns
/// milliseconds. `option` is the option's name for error messages.
///
/// # Errors
/// `InvalidParameterValue` if the text is not a duration, or the duration is zero.
pub fn duration_ms(option: &str, text: &str) -> Result<u64> {
    measured(text, &DURATIONS).filter(|ms| *ms > 0).ok_or_else(|| {
        invalid(
            option,
            text,
            "a duration",
            "write a number and a unit, as in '90d', '12h' or '30min'",
        )
    })
}

/// Parses the value `text` of a size option: `256MiB`, `1 GiB`, `4096`. Returns bytes. Units are
/// powers of 1024.
///
/// # Errors
/// Like [`duration_ms`].
pub fn size_bytes(option: &str, text: &str) -> Result<u64> {
    measured(text, &SIZES).filter(|bytes| *bytes > 0).ok_or_else(|| {
        invalid(option, text, "a size", "write a number and a unit, as in '256MiB' or '1GiB'")
    })
}

/// Parses the value `text` of an option that is a number of events.
///
/// # Errors
/// Like [`duration_ms`].
pub fn count(option: &str, text: &str) -> Result<u64> {
    let number = text.trim().parse().ok().filter(|count| *count > 0);
    number
        .ok_or_else(|| invalid(option, text, "a number of rows", "write a whole number from 1 on"))
}

fn measured(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    debug_assert!(
        units.iter().all(|(name, _)| !name.contains(char::is_uppercase)),
        "no text matches a unit in upper case"
    );
    debug_assert!(units.iter().all(|(_, size)| *size >= 1), "a unit measures nothing");
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    let (_, size) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*size)
}

fn invalid(option: &str, text: &str, what: &str, hint: &str) -> Error {
    let message = format!("{option} = '{text}' is not {what}");
    Error::new(ErrorKind::InvalidParameterValue, message).with_hint(hint.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_with_their_units() {
        assert_eq!(duration_ms("retention", "90d").unwrap(), 90 * 86_400_000);
        assert_eq!(duration_ms("retention", " 30 Minutes ").unwrap(), 1_800_000);
        assert_eq!(size_bytes("story_bytes_max", "256MiB").unwrap(), 256 << 20);
        assert_eq!(size_bytes("story_bytes_max", "4096").unwrap(), 4096);
        assert_eq!(count("story_rows_max", "1000").unwrap(), 1000);
        for wrong in ["", "d", "0d", "-1d", "1.5h", "9 fortnights", "99999999999999999999d"] {
            let error = duration_ms("retention", wrong).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidParameterValue);
            assert!(error.message().contains("retention") && error.hint().is_some());
        }
        assert!(size_bytes("x", "18446744073709551615gb").is_err() && count("x", "0").is_err());
    }
}
