//! Time zones: zones of the tz database, and constant offsets.

use std::{fmt, str::FromStr};

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone as _};
use chrono_tz::{OffsetComponents as _, OffsetName as _, Tz};
use stratalog_model::{Error, ErrorKind, Result};

use crate::calendar::{Civil, DAY_SECONDS, civil_of, days_of};

/// The tz database has data up to the year 2100. A later time uses the data of a year of a 28-year
/// cycle that begins here: the year with the same length and the same first weekday. The rules of
/// zones refer to months and weekdays, so the rules of the two years are the same.
const CYCLE_FIRST_YEAR: i64 = 2060;
const CYCLE_YEARS: i64 = 28;

/// The earliest time for which zones are looked up, in seconds since 1970. No time zones existed
/// before this time.
const SECONDS_MIN: i64 = -100_000_000_000;

/// The largest offset from UTC in seconds: 15:59:59, as in PostgreSQL.
const OFFSET_SECONDS_MAX: i32 = 16 * 3600 - 1;

/// A time zone, for example the zone of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeZone {
    /// A zone of the tz database, with daylight saving time.
    Named(Tz),
    /// A constant offset from UTC.
    Fixed {
        /// Seconds east of Greenwich.
        east_seconds: i32,
    },
}

/// The properties of a tz database zone at one point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneName {
    /// The name of the zone.
    pub name: &'static str,
    /// The abbreviation of the zone at this time, for example `CET`. A zone without an abbreviation
    /// has a number.
    pub abbreviation: String,
    /// The offset at this time, in seconds east of Greenwich.
    pub east_seconds: i32,
    /// True if daylight saving time applies at this time.
    pub is_summer: bool,
}

/// The properties of all zones of the tz database at a time, which is in seconds since 1970.
pub fn zone_names(utc_seconds: i64) -> Vec<ZoneName> {
    let instant = DateTime::from_timestamp(within_database(utc_seconds), 0).unwrap_or_default();
    let at = |zone: &Tz| {
        let offset = zone.offset_from_utc_datetime(&instant.naive_utc());
        ZoneName {
            name: zone.name(),
            abbreviation: offset.to_string(),
            east_seconds: offset.fix().local_minus_utc(),
            is_summer: !offset.dst_offset().is_zero(),
        }
    };
    chrono_tz::TZ_VARIANTS.iter().map(at).collect()
}

impl TimeZone {
    /// Coordinated Universal Time.
    pub const UTC: TimeZone = TimeZone::Named(Tz::UTC);

    /// Creates a zone with a constant offset in seconds, positive to the east. `None` if the offset
    /// exceeds 15:59:59.
    pub fn fixed(east_seconds: i32) -> Option<Self> {
        (east_seconds.abs() <= OFFSET_SECONDS_MAX).then_some(Self::Fixed { east_seconds })
    }

    /// Parses a value of the setting `TimeZone`. The value is a name of the tz database in upper or
    /// lower case, a number of hours east of Greenwich, or a POSIX offset, which counts to the west
    /// (`UTC-3`, `-03:30`).
    ///
    /// # Errors
    /// `InvalidParameterValue` for any other text.
    pub fn parse_setting(text: &str) -> Result<Self> {
        let trimmed = text.trim();
        if let Some(named) = Self::named(trimmed) {
            return Ok(named);
        }
        if let Some(zone) = hours(trimmed).or_else(|| posix(trimmed)) {
            return Ok(zone);
        }
        Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("invalid value for parameter \"TimeZone\": \"{text}\""),
        )
        .with_hint("use a name like Europe/Berlin, or a number of hours east of UTC"))
    }

    /// The form in which SHOW prints a value of the setting `TimeZone`: a name in the spelling of
    /// the tz database, or a POSIX offset in upper case, even if `text` is a number.
    ///
    /// # Errors
    /// As [`Self::parse_setting`].
    pub fn canonical_setting(text: &str) -> Result<String> {
        let trimmed = text.trim();
        let zone = Self::parse_setting(trimmed)?;
        if trimmed.parse::<f64>().is_ok() {
            return Ok(zone.to_string());
        }
        let spelled =
            chrono_tz::TZ_VARIANTS.iter().find(|zone| zone.name().eq_ignore_ascii_case(trimmed));
        Ok(spelled.map_or_else(|| trimmed.to_ascii_uppercase(), |zone| zone.name().to_string()))
    }

    /// The zone of the tz database with this name, in upper or lower case. `None` for an unknown
    /// name.
    pub fn named(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("utc")
            || name.eq_ignore_ascii_case("gmt")
            || name.eq_ignore_ascii_case("zulu")
            || name.eq_ignore_ascii_case("z")
        {
            return Some(match name.len() {
                3 if name.eq_ignore_ascii_case("gmt") => Self::Named(Tz::GMT),
                _ => Self::UTC,
            });
        }
        Tz::from_str(name)
            .ok()
            .or_else(|| {
                chrono_tz::TZ_VARIANTS
                    .iter()
                    .find(|zone| zone.name().eq_ignore_ascii_case(name))
                    .copied()
            })
            .map(Self::Named)
    }

    /// The offset from UTC at a time. The time is in seconds since 1970, and the offset in seconds
    /// east of Greenwich.
    pub fn offset_at(&self, utc_seconds: i64) -> i32 {
        match self {
            Self::Fixed { east_seconds } => *east_seconds,
            Self::Named(Tz::UTC) => 0,
            Self::Named(zone) => {
                DateTime::from_timestamp(within_database(utc_seconds), 0).map_or(0, |instant| {
                    zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc()
                })
            }
        }
    }

    /// The abbreviation of the zone at a time, for example `CEST` or `+03`. The time is in seconds
    /// since 1970.
    pub fn abbreviation_at(&self, utc_seconds: i64) -> String {
        let named = match self {
            Self::Named(zone) => DateTime::from_timestamp(within_database(utc_seconds), 0)
                .and_then(|instant| {
                    let offset = zone.offset_from_utc_datetime(&instant.naive_utc());
                    offset.abbreviation().map(str::to_string)
                }),
            Self::Fixed { .. } => None,
        };
        named.unwrap_or_else(|| {
            let mut text = Vec::new();
            crate::write::datetime::write_offset(self.offset_at(utc_seconds), &mut text);
            let text = String::from_utf8(text).unwrap_or_default();
            match self {
                // The tz database writes an offset without a colon: +0545.
                Self::Named(_) => text.replace(':', ""),
                Self::Fixed { .. } => text,
            }
        })
    }

    /// The offset from UTC at a local time. The local time is in seconds since 1970-01-01 00:00
    /// local time, and the offset in seconds east of Greenwich. As in PostgreSQL, an hour that the
    /// clocks repeat counts as standard time, and an hour that the clocks skip has the offset
    /// before the change.
    pub fn offset_of_local(&self, local_seconds: i64) -> i32 {
        match self {
            Self::Fixed { east_seconds } => *east_seconds,
            Self::Named(Tz::UTC) => 0,
            Self::Named(zone) => {
                let seconds = within_database(local_seconds);
                let Some(local) = DateTime::from_timestamp(seconds, 0).map(|at| at.naive_utc())
                else {
                    return 0;
                };
                local_offset(zone, &local, seconds)
            }
        }
    }
}

/// Maps a time to a time for which the tz database has data and the zones have the same rules. Both
/// times are in seconds since 1970.
fn within_database(seconds: i64) -> i64 {
    let days = seconds.div_euclid(DAY_SECONDS);
    let year = civil_of(days).year;
    if year < CYCLE_FIRST_YEAR + CYCLE_YEARS {
        return seconds.max(SECONDS_MIN);
    }
    let first_day = |year| days_of(Civil { year, month: 1, day: 1 });
    let length = |year| first_day(year + 1) - first_day(year);
    let alike = (CYCLE_FIRST_YEAR..CYCLE_FIRST_YEAR + CYCLE_YEARS).find(|candidate| {
        length(*candidate) == length(year)
            && (first_day(*candidate) - first_day(year)).rem_euclid(7) == 0
    });
    let shift = alike.map_or(0, |alike| first_day(alike) - first_day(year));
    seconds + shift * DAY_SECONDS
}

fn local_offset(zone: &Tz, local: &NaiveDateTime, local_seconds: i64) -> i32 {
    match zone.offset_from_local_datetime(local) {
        MappedLocalTime::Single(offset) => offset.fix().local_minus_utc(),
        MappedLocalTime::Ambiguous(first, second) => {
            first.fix().local_minus_utc().min(second.fix().local_minus_utc())
        }
        // No zone skips more than a day of local time, so the offset one day earlier is the offset
        // before the change.
        MappedLocalTime::None => TimeZone::Named(*zone).offset_at(local_seconds - 86_400),
    }
}

impl TimeZone {
    /// The name of the zone for Arrow's types and functions: a name of the tz database, or an
    /// offset `+hh:mm` east of Greenwich, without seconds.
    pub fn arrow_name(&self) -> String {
        match self {
            Self::Named(zone) => zone.name().to_string(),
            Self::Fixed { east_seconds } => {
                let minutes = east_seconds.abs() / 60;
                let sign = if *east_seconds < 0 { '-' } else { '+' };
                format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

impl TimeZone {
    /// The zone whose [`Self::arrow_name`] is `name`; `None` for any other name.
    pub fn of_arrow(name: &str) -> Option<Self> {
        match (Self::named(name), posix(name)) {
            (Some(named), _) => Some(named),
            // `posix` reads an offset west of Greenwich. In Arrow, a positive offset lies to the
            // east.
            (None, Some(Self::Fixed { east_seconds })) => Self::fixed(-east_seconds),
            _ => None,
        }
    }
}

impl fmt::Display for TimeZone {
    /// Writes the text that `SHOW TimeZone` prints.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(zone) => f.write_str(zone.name()),
            Self::Fixed { east_seconds } => {
                let mut east = Vec::new();
                let mut west = Vec::new();
                crate::write::datetime::write_offset(*east_seconds, &mut east);
                crate::write::datetime::write_offset(-*east_seconds, &mut west);
                write!(f, "<{}>{}", String::from_utf8_lossy(&east), String::from_utf8_lossy(&west))
            }
        }
    }
}

/// Parses a number of hours east of Greenwich, for example `5` or `-3.5`.
fn hours(text: &str) -> Option<TimeZone> {
    let hours: f64 = text.parse().ok()?;
    if !(-16.0..=16.0).contains(&hours) {
        return None;
    }
    let tenths = (hours * 3600.0).round();
    // The check above limits the number to ±57,600 seconds.
    #[expect(clippy::cast_possible_truncation, reason = "bounded by 16 hours")]
    TimeZone::fixed(tenths as i32)
}

/// Parses a POSIX zone, for example `UTC-3`, `<+03>-03` or `-03:30`. A positive offset lies west of
/// Greenwich.
fn posix(text: &str) -> Option<TimeZone> {
    let rest = match text.strip_prefix('<') {
        Some(quoted) => quoted.split_once('>')?.1,
        None => text.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
    };
    let (sign, digits) = match rest.as_bytes().first()? {
        b'+' => (1, rest.get(1..)?),
        b'-' => (-1, rest.get(1..)?),
        _ => (1, rest),
    };
    let mut seconds = 0;
    let mut unit = 3600;
    let mut parts = 0;
    for part in digits.split(':') {
        if part.is_empty() || part.len() > 2 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        seconds += part.parse::<i32>().ok()? * unit;
        unit /= 60;
        parts += 1;
    }
    if parts > 3 {
        return None;
    }
    TimeZone::fixed(-sign * seconds)
}
