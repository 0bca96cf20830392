//! How the events of a chronicle go down the tiers, and when they go for good (F5, F35, F60).

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

/// What a chronicle's options say; `None` leaves it to the server's settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tiering {
    /// Milliseconds after their time at which events go; `None` keeps them.
    pub retention_ms: Option<u64>,
    /// Events above the stories from which on they become one.
    pub story_rows_max: Option<u64>,
    /// Bytes above the stories from which on they become one.
    pub story_bytes_max: Option<u64>,
    /// Milliseconds after their commit at which events become a story.
    pub story_age_max_ms: Option<u64>,
    /// Milliseconds after their commit for which events stay in the journal, unless it or memory is short,
    /// do not become a story, and stay in memory longer than those of others (F12).
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

/// The milliseconds of a duration as options have it: `90d`, `12h`, `30 min`, `500ms`.
///
/// # Errors
/// `InvalidParameterValue` for anything else, and for none at all.
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

/// The bytes of a size as options have it: `256MiB`, `1 GiB`, `4096`; units are powers of 1024.
///
/// # Errors
/// As [`duration_ms`].
pub fn size_bytes(option: &str, text: &str) -> Result<u64> {
    measured(text, &SIZES).filter(|bytes| *bytes > 0).ok_or_else(|| {
        invalid(option, text, "a size", "write a number and a unit, as in '256MiB' or '1GiB'")
    })
}

/// A number of events as options have it.
///
/// # Errors
/// As [`duration_ms`].
pub fn count(option: &str, text: &str) -> Result<u64> {
    let number = text.trim().parse().ok().filter(|count| *count > 0);
    number
        .ok_or_else(|| invalid(option, text, "a number of rows", "write a whole number from 1 on"))
}

fn measured(text: &str, units: &[(&str, u64)]) -> Option<u64> {
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
