//! Time zones: names of the tz database, and fixed offsets.

use std::{fmt, str::FromStr};

use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone as _};
use chrono_tz::{OffsetComponents as _, OffsetName as _, Tz};
use stratalog_model::{Error, ErrorKind, Result};

use crate::calendar::{Civil, DAY_SECONDS, civil_of, days_of};

/// The zone database ends in 2100. Rules refer to months and weekdays, so the lookup of later years
/// uses one of these 28 years, with the same length and the same first weekday.
const CYCLE_FIRST_YEAR: i64 = 2060;
const CYCLE_YEARS: i64 = 28;

/// Before this time, in seconds since 1970, no time zones existed.
const SECONDS_MIN: i64 = -100_000_000_000;

/// The maximum offset from UTC in seconds, equal to PostgreSQL's maximum (15:59:59).
const OFFSET_SECONDS_MAX: i32 = 16 * 3600 - 1;

/// A time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeZone {
    /// A zone of the tz database, daylight saving included.
    Named(Tz),
    /// A constant offset from UTC.
    Fixed {
        /// Seconds east of Greenwich.
        east_seconds: i32,
    },
}

/// A zone of the tz database at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneName {
    /// The zone's name.
    pub name: &'static str,
    /// The abbreviation at the instant: `CET`; a number if the zone has no abbreviation.
    pub abbreviation: String,
    /// The offset at the instant, in seconds east of Greenwich.
    pub east_seconds: i32,
    /// True if daylight saving time is in effect at the instant.
    pub is_summer: bool,
}

/// The zones of the tz database at an instant, given in seconds since 1970.
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

    /// A zone `east_seconds` east of Greenwich; `None` beyond 15:59:59.
    pub fn fixed(east_seconds: i32) -> Option<Self> {
        (east_seconds.abs() <= OFFSET_SECONDS_MAX).then_some(Self::Fixed { east_seconds })
    }

    /// Reads the value of the setting `TimeZone`: a name of the tz database in any case, a
    /// number of hours east, or a POSIX offset with its inverted sign (`UTC-3`, `-03:30`).
    ///
    /// # Errors
    /// `InvalidParameterValue`.
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

    /// The setting `TimeZone` in SHOW's format: a name of the tz database in the database's
    /// spelling, a POSIX offset in upper case, a number as a POSIX offset.
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

    /// The zone of a tz database name in any case; `None` for an unknown name.
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

    /// Seconds east of Greenwich at an instant, given in seconds since 1970.
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

    /// The zone's abbreviation at an instant, given in seconds since 1970: `CEST`, `+03`.
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
                // The tz database writes +0545.
                Self::Named(_) => text.replace(':', ""),
                Self::Fixed { .. } => text,
            }
        })
    }

    /// The offset in seconds east of Greenwich at the local time `local_seconds` (since 1970). An
    /// ambiguous hour counts as standard time, and a skipped hour uses the offset before the
    /// change, like in PostgreSQL.
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

/// A time inside of the zone database with the same rules as the given time, in seconds.
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
        // No zone skips more than a day: the offset one day earlier is the offset before the
        // change.
        MappedLocalTime::None => TimeZone::Named(*zone).offset_at(local_seconds - 86_400),
    }
}

impl TimeZone {
    /// The zone's name for Arrow's types and functions: a name of the tz database, or `+hh:mm` east
    /// of Greenwich. Arrow's form has no seconds.
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
    /// The zone of a name from [`Self::arrow_name`]; `None` for any other name.
    pub fn of_arrow(name: &str) -> Option<Self> {
        match (Self::named(name), posix(name)) {
            (Some(named), _) => Some(named),
            // Arrow's sign counts east of Greenwich.
            (None, Some(Self::Fixed { east_seconds })) => Self::fixed(-east_seconds),
            _ => None,
        }
    }
}

impl fmt::Display for TimeZone {
    /// The text of `SHOW TimeZone`.
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

/// `5`, `-3.5`: hours east.
fn hours(text: &str) -> Option<TimeZone> {
    let hours: f64 = text.parse().ok()?;
    if !(-16.0..=16.0).contains(&hours) {
        return None;
    }
    let tenths = (hours * 3600.0).round();
    // Within ±57,600 because of the check above.
    #[expect(clippy::cast_possible_truncation, reason = "bounded by 16 hours")]
    TimeZone::fixed(tenths as i32)
}

/// `UTC-3`, `<+03>-03`, `-03:30`: POSIX counts west of Greenwich.
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
