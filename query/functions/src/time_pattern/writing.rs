//! Formats times and intervals by a pattern, for `to_char`.

use std::fmt::Write as _;

use arrow::datatypes::IntervalMonthDayNano;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_text::{
    TimeZone,
    calendar::{Civil, DAY_SECONDS, UNIX_EPOCH_JULIAN, civil_of, days_of},
};

use super::{
    SECOND_US,
    fields::{Case, Field, Node, PatternField},
};

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(super) const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// A time or an interval, split into year, month, day and so on.
#[derive(Debug)]
pub(super) struct TimePieces {
    /// The year, where 0 is 1 BC.
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    /// The number of days since 1970-01-01; `None` for an interval.
    days: Option<i64>,
    /// The abbreviation of the zone and its offset in seconds east of Greenwich; `None` without a
    /// zone.
    zone: Option<(String, i64)>,
}

impl TimePieces {
    /// Splits a time, which is in microseconds since 1970, in the local time of `zone`.
    pub(super) fn of_time(micros: i64, zone: Option<&TimeZone>) -> Self {
        let seconds = micros.div_euclid(SECOND_US);
        let east = zone.map(|zone| i64::from(zone.offset_at(seconds)));
        let local = seconds.saturating_add(east.unwrap_or(0));
        let days = local.div_euclid(DAY_SECONDS);
        let of_day = local.rem_euclid(DAY_SECONDS);
        let Civil { year, month, day } = civil_of(days);
        Self {
            year,
            month: i64::from(month),
            day: i64::from(day),
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
            micros: micros.rem_euclid(SECOND_US),
            days: Some(days),
            zone: zone.zip(east).map(|(zone, east)| (zone.abbreviation_at(seconds), east)),
        }
    }

    pub(super) fn of_interval(interval: IntervalMonthDayNano) -> Self {
        let micros = interval.nanoseconds / 1_000;
        let seconds = micros / SECOND_US;
        Self {
            year: i64::from(interval.months / 12),
            month: i64::from(interval.months % 12),
            day: i64::from(interval.days),
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: micros % SECOND_US,
            days: None,
            zone: None,
        }
    }

    fn is_interval(&self) -> bool {
        self.days.is_none()
    }

    /// The displayed year, without an era: year 0 becomes 1 (BC). The year of an interval remains.
    fn shown_year(&self, year: i64) -> i64 {
        if self.is_interval() || year > 0 { year } else { 1 - year }
    }

    /// The number of days since 1970-01-01. The years, months and days of an interval count as a
    /// date.
    fn days(&self) -> i64 {
        self.days.unwrap_or_else(|| {
            let month = u32::try_from(self.month.max(1)).unwrap_or(1);
            days_of(Civil { year: self.year, month, day: 1 }) + self.day - 1
        })
    }

    fn day_of_year(&self) -> i64 {
        match self.days {
            Some(days) => days - days_of(Civil { year: self.year, month: 1, day: 1 }) + 1,
            None => (self.year * 12 + self.month) * 30 + self.day,
        }
    }

    /// The day of the week, from 0 for Sunday.
    fn weekday(&self) -> i64 {
        (self.days() + 4).rem_euclid(7)
    }

    /// The ISO year, the ISO week, and the number of the day in the ISO year, from 1.
    fn iso(&self) -> (i64, i64, i64) {
        let days = self.days();
        let mut year = civil_of(days).year + 1;
        while iso_year_start(year) > days {
            year -= 1;
        }
        let day = days - iso_year_start(year);
        (year, day / 7 + 1, day + 1)
    }

    fn century(&self) -> i64 {
        match self.year {
            year if self.is_interval() => year / 100,
            year if year > 0 => (year - 1) / 100 + 1,
            year => year / 100 - 1,
        }
    }
}

/// The Monday on which an ISO year starts, in days since 1970-01-01.
pub(super) fn iso_year_start(year: i64) -> i64 {
    let fourth = days_of(Civil { year, month: 1, day: 4 });
    fourth - (fourth + 3).rem_euclid(7)
}

/// Formats a time or an interval by a pattern.
///
/// # Errors
/// `InvalidDatetimeFormat` for a field that intervals do not have.
pub(super) fn text(nodes: &[Node], shown: &TimePieces) -> Result<String> {
    let mut out = String::new();
    for node in nodes {
        match node {
            Node::Space(letter) | Node::Separator(letter) | Node::Letter(letter) => {
                out.push(*letter);
            }
            Node::Field(place) => write_field(&mut out, place, shown)?,
        }
    }
    Ok(out)
}

fn write_field(out: &mut String, place: &PatternField, shown: &TimePieces) -> Result<()> {
    if shown.is_interval() && needs_date(place.field) {
        return Err(Error::new(
            ErrorKind::InvalidDatetimeFormat,
            "invalid format specification for an interval value",
        )
        .with_hint("Intervals are not tied to specific calendar dates."));
    }
    if let Some((word, width)) = word(place.field, shown) {
        let word = match place.case {
            Case::Upper => word.to_uppercase(),
            Case::Capital => word,
            Case::Lower => word.to_lowercase(),
        };
        let width = if place.bare { 0 } else { width };
        let _ = write!(out, "{word:<width$}");
        return Ok(());
    }
    if write_zone(out, place, shown) {
        return Ok(());
    }
    let Some((value, width)) = number(place.field, shown) else { return Ok(()) };
    if place.field == Field::YearWithComma {
        let _ = write!(out, "{},{:03}", value / 1_000, value % 1_000);
    } else {
        let fraction =
            matches!(place.field, Field::Millisecond | Field::Microsecond | Field::Fraction(_));
        // A minus sign needs a further character, except before days.
        let sign = usize::from(value < 0 && place.field != Field::Day);
        let width = if place.bare && !fraction { 0 } else { width + sign };
        let _ = write!(out, "{value:0width$}");
    }
    if let Some(case) = place.ordinal {
        let suffix = match (value % 100, value % 10) {
            (11..=13, _) => "th",
            (_, 1) => "st",
            (_, 2) => "nd",
            (_, 3) => "rd",
            _ => "th",
        };
        match case {
            Case::Upper => out.push_str(&suffix.to_uppercase()),
            _ => out.push_str(suffix),
        }
    }
    Ok(())
}

fn needs_date(field: Field) -> bool {
    matches!(
        field,
        Field::Era { .. }
            | Field::MonthName { .. }
            | Field::DayName { .. }
            | Field::DayOfWeek
            | Field::IsoDayOfWeek
            | Field::Zone
            | Field::ZoneHours
            | Field::ZoneMinutes
            | Field::Offset
    )
}

/// Writes the field if it is a field of the time zone; otherwise returns false.
fn write_zone(out: &mut String, place: &PatternField, shown: &TimePieces) -> bool {
    let east = shown.zone.as_ref().map_or(0, |(_, east)| *east);
    let sign = if east < 0 { '-' } else { '+' };
    let (hours, minutes) = (east.abs() / 3_600, east.abs() / 60 % 60);
    let width = if place.bare { 0 } else { 2 };
    match place.field {
        Field::Zone => {
            if let Some((abbreviation, _)) = &shown.zone {
                out.push_str(&match place.case {
                    Case::Lower => abbreviation.to_lowercase(),
                    _ => abbreviation.clone(),
                });
            }
        }
        Field::ZoneHours => {
            let _ = write!(out, "{sign}{hours:02}");
        }
        Field::ZoneMinutes => {
            let _ = write!(out, "{minutes:02}");
        }
        Field::Offset => {
            let _ = write!(out, "{sign}{hours:0width$}");
            if minutes != 0 {
                let _ = write!(out, ":{minutes:02}");
            }
        }
        _ => return false,
    }
    true
}

/// For a field with a word as output: the word and its padded width. `None` for any other field.
fn word(field: Field, shown: &TimePieces) -> Option<(String, usize)> {
    let name = |names: &[&'static str], at: i64| -> &'static str {
        usize::try_from(at).ok().and_then(|at| names.get(at)).copied().unwrap_or("")
    };
    let named = |name: &'static str, short: bool| match short {
        true => (name.get(..3).unwrap_or(name), 0),
        false => (name, 9),
    };
    let (word, width) = match field {
        Field::MonthName { short } => named(name(&MONTHS, shown.month - 1), short),
        Field::DayName { short } => named(name(&DAYS, shown.weekday()), short),
        Field::RomanMonth if shown.is_interval() => {
            let month = match (shown.month, shown.year) {
                (0, 0) => return Some((String::new(), 0)),
                (0, year) if year > 0 => 12,
                (0, _) => 1,
                (month, _) if month < 0 => 13 + month,
                (month, _) => month,
            };
            (name(&ROMAN, month - 1), 4)
        }
        Field::RomanMonth => (name(&ROMAN, shown.month - 1), 4),
        Field::HalfOfDay { dots } => match (shown.hour.rem_euclid(24) < 12, dots) {
            (true, false) => ("AM", 0),
            (true, true) => ("A.M.", 0),
            (false, false) => ("PM", 0),
            (false, true) => ("P.M.", 0),
        },
        Field::Era { dots } => match (shown.year > 0, dots) {
            (true, false) => ("AD", 0),
            (true, true) => ("A.D.", 0),
            (false, false) => ("BC", 0),
            (false, true) => ("B.C.", 0),
        },
        _ => return None,
    };
    Some((word.to_string(), width))
}

/// For a field with digits as output: the number and its padded width. `None` for any other field.
fn number(field: Field, shown: &TimePieces) -> Option<(i64, usize)> {
    let last_digits = |year: i64, digits: u8| match digits {
        4.. => (year, 4),
        _ => (year % 10_i64.pow(u32::from(digits)), usize::from(digits)),
    };
    Some(match field {
        Field::Year(digits) => last_digits(shown.shown_year(shown.year), digits),
        Field::YearWithComma => (shown.shown_year(shown.year), 0),
        Field::IsoYear(digits) => last_digits(shown.shown_year(shown.iso().0), digits),
        Field::Century => (shown.century(), 2),
        Field::Quarter if shown.month == 0 => return None,
        Field::Quarter => ((shown.month - 1) / 3 + 1, 1),
        Field::Month => (shown.month, 2),
        Field::IsoWeek => (shown.iso().1, 2),
        Field::Week => ((shown.day_of_year() - 1) / 7 + 1, 2),
        Field::WeekOfMonth => ((shown.day - 1) / 7 + 1, 1),
        Field::DayOfYear => (shown.day_of_year(), 3),
        Field::IsoDayOfYear => (shown.iso().2, 3),
        Field::Day => (shown.day, 2),
        Field::DayOfWeek => (shown.weekday() + 1, 1),
        Field::IsoDayOfWeek => ((shown.weekday() + 6) % 7 + 1, 1),
        Field::Julian => (shown.days() + UNIX_EPOCH_JULIAN, 1),
        Field::Hour24 => (shown.hour, 2),
        Field::Hour12 => (if shown.hour % 12 == 0 { 12 } else { shown.hour % 12 }, 2),
        Field::Minute => (shown.minute, 2),
        Field::Second => (shown.second, 2),
        Field::SecondOfDay => (shown.hour * 3_600 + shown.minute * 60 + shown.second, 1),
        Field::Millisecond => (shown.micros / 1_000, 3),
        Field::Microsecond => (shown.micros, 6),
        Field::Fraction(digits) => {
            let unit = 10_i64.pow(6_u32.saturating_sub(u32::from(digits)));
            (shown.micros / unit, usize::from(digits))
        }
        // All other fields are written as words.
        _ => return None,
    })
}
