//! Units of timestamps.

use std::str::FromStr;

use stratalog_model::{Error, ErrorKind};

const SECOND_NS: i64 = 1_000_000_000;

/// The unit of the timestamps of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// 10⁻⁹ s; the default.
    #[default]
    Nanosecond,
    /// 10⁻⁶ s.
    Microsecond,
    /// 10⁻³ s.
    Millisecond,
    /// Seconds.
    Second,
    /// Minutes; only in version 1 of InfluxDB's API.
    Minute,
    /// Hours; only in version 1 of InfluxDB's API.
    Hour,
    /// The unit depends on the magnitude of each timestamp, with the thresholds of InfluxDB 3:
    /// below 5·10⁹ seconds, below 5·10¹² milliseconds, below 5·10¹⁵ microseconds, otherwise
    /// nanoseconds.
    Auto,
}

impl Precision {
    /// Converts a timestamp in this unit to nanoseconds since 1970. `None` if the result exceeds 64
    /// bits: before the year 1677 or after 2262.
    #[inline]
    pub fn to_ns(self, timestamp: i64) -> Option<i64> {
        timestamp.checked_mul(match self {
            Self::Nanosecond => return Some(timestamp),
            Self::Microsecond => 1_000,
            Self::Millisecond => 1_000_000,
            Self::Second => SECOND_NS,
            Self::Minute => 60 * SECOND_NS,
            Self::Hour => 3_600 * SECOND_NS,
            Self::Auto => match timestamp.unsigned_abs() {
                0..5_000_000_000 => SECOND_NS,
                5_000_000_000..5_000_000_000_000 => 1_000_000,
                5_000_000_000_000..5_000_000_000_000_000 => 1_000,
                _ => 1,
            },
        })
    }

    /// The name of the unit in error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nanosecond => "nanoseconds",
            Self::Microsecond => "microseconds",
            Self::Millisecond => "milliseconds",
            Self::Second => "seconds",
            Self::Minute => "minutes",
            Self::Hour => "hours",
            Self::Auto => "a unit guessed by magnitude",
        }
    }
}

/// Parses the names of units in versions 1, 2 and 3 of InfluxDB's API.
impl FromStr for Precision {
    type Err = Error;

    /// # Errors
    /// `InvalidParameterValue` for any other name; the error lists the valid names.
    fn from_str(text: &str) -> Result<Self, Error> {
        Ok(match text {
            "n" | "ns" | "nanosecond" => Self::Nanosecond,
            "u" | "us" | "µ" | "µs" | "microsecond" => Self::Microsecond,
            "ms" | "millisecond" => Self::Millisecond,
            "s" | "second" => Self::Second,
            "m" | "minute" => Self::Minute,
            "h" | "hour" => Self::Hour,
            "auto" => Self::Auto,
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidParameterValue,
                    format!("precision \"{}\" does not exist", crate::fault::excerpt(other)),
                )
                .with_hint(
                    "write ns, us, ms, s, m or h, or nanosecond, microsecond, millisecond, second or auto",
                ));
            }
        })
    }
}

#[cfg(test)]
mod tests;
