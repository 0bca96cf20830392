//! Combines the parsed fields of a pattern to a date and a time.

use stratalog_model::{Error, ErrorKind, Result};
use stratalog_text::calendar::{Civil, UNIX_EPOCH_JULIAN, civil_of, days_of, is_valid, month_days};

use super::{ParsedTime, invalid};
use crate::time_pattern::writing::iso_year_start;

/// The calendar that the fields of a pattern use. Fields of Gregorian dates and of ISO weeks cannot
/// be mixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternCalendar {
    Gregorian,
    IsoWeek,
}

/// The parsed values of the fields; `None` for a field that the pattern does not contain.
#[derive(Debug, Default)]
pub(super) struct TimeFields {
    pub(super) calendar: Option<PatternCalendar>,
    pub(super) year: Option<i64>,
    /// The number of digits of the year field: 4 for `YYYY`, 2 for `YY`.
    pub(super) year_digits: u8,
    pub(super) before_christ: bool,
    pub(super) century: Option<i64>,
    pub(super) month: Option<i64>,
    pub(super) week: Option<i64>,
    pub(super) week_of_month: Option<i64>,
    pub(super) day: Option<i64>,
    pub(super) day_of_year: Option<i64>,
    /// The day of the week, from 1 for Sunday to 7 for Saturday.
    pub(super) day_of_week: Option<i64>,
    pub(super) julian: Option<i64>,
    pub(super) hour: Option<i64>,
    pub(super) minute: Option<i64>,
    pub(super) second: Option<i64>,
    pub(super) second_of_day: Option<i64>,
    pub(super) millis: Option<i64>,
    pub(super) micros: Option<i64>,
    pub(super) half: Option<bool>,
    pub(super) twelve: bool,
    pub(super) zone_sign: Option<i64>,
    pub(super) zone_hours: Option<i64>,
    pub(super) zone_minutes: Option<i64>,
}

impl TimeFields {
    /// The date and time that the fields determine. `text` is shown in error messages.
    ///
    /// # Errors
    /// `DatetimeOverflow` for a field that is out of range, `InvalidDatetimeFormat` for missing
    /// fields, `InvalidTimeZoneOffset`.
    pub(super) fn settled(&self, text: &str) -> Result<ParsedTime> {
        let overflow = || {
            Error::new(
                ErrorKind::DatetimeOverflow,
                format!("date/time field value out of range: \"{text}\""),
            )
        };
        let second_of_day = self.time()?.ok_or_else(overflow)?;
        let micros = self.millis.unwrap_or(0) * 1_000 + self.micros.unwrap_or(0);
        if !(0..1_000_000).contains(&micros) {
            return Err(overflow());
        }
        let date = self.date()?.ok_or_else(overflow)?;
        let east_seconds = match self.zone_sign {
            Some(sign) => {
                let (hours, minutes) =
                    (self.zone_hours.unwrap_or(0), self.zone_minutes.unwrap_or(0));
                if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) {
                    return Err(Error::new(
                        ErrorKind::InvalidTimeZoneOffset,
                        format!("time zone displacement out of range: \"{text}\""),
                    ));
                }
                i32::try_from(sign * (hours * 3_600 + minutes * 60)).ok()
            }
            None => None,
        };
        Ok(ParsedTime { date, second_of_day, micros, east_seconds })
    }

    /// The time of day in seconds since midnight; `None` if the time is invalid.
    fn time(&self) -> Result<Option<i64>> {
        let (mut hour, mut minute, mut second) = match self.second_of_day {
            Some(seconds) => (seconds / 3_600, seconds / 60 % 60, seconds % 60),
            None => (0, 0, 0),
        };
        // As in PostgreSQL, a field with the value 0 counts as missing.
        let nonzero =
            |value: Option<i64>, before: i64| value.filter(|value| *value != 0).unwrap_or(before);
        second = nonzero(self.second, second);
        minute = nonzero(self.minute, minute);
        hour = nonzero(self.hour, hour);
        if self.twelve {
            if !(1..=12).contains(&hour) {
                return Err(invalid(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                    .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            match self.half {
                Some(true) if hour < 12 => hour += 12,
                Some(false) | None if hour == 12 => hour = 0,
                _ => {}
            }
        }
        let fits =
            (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        Ok(fits.then_some(hour * 3_600 + minute * 60 + second))
    }

    /// The year, where 0 means 1 BC. `None` if no field determines the year.
    fn year(&self) -> Option<i64> {
        let century = self.century.filter(|century| *century != 0);
        let century = century.map(|century| if self.before_christ { -century } else { century });
        match (self.year.filter(|year| *year != 0), century) {
            (Some(year), Some(century)) if self.year_digits <= 2 => {
                Some(match (year % 100, century >= 0) {
                    (0, true) => century * 100,
                    (0, false) => century * 100 + 1,
                    (year, true) => year + (century - 1) * 100,
                    (year, false) => (century + 1) * 100 - year + 1,
                })
            }
            (Some(year), _) => {
                let year = if self.before_christ { -year } else { year };
                Some(if year < 0 { year + 1 } else { year })
            }
            (None, Some(century)) if century >= 0 => Some((century - 1) * 100 + 1),
            (None, Some(century)) => Some(century * 100 + 1),
            (None, None) => None,
        }
    }

    /// The date; `None` if the date is invalid.
    fn date(&self) -> Result<Option<Civil>> {
        let nonzero = |value: Option<i64>| value.filter(|value| *value != 0);
        let known_year = self.year();
        let (mut year, mut month, mut day) = (known_year.unwrap_or(0), 1, 1);
        let set = |civil: Civil, year: &mut i64, month: &mut i64, day: &mut i64| {
            (*year, *month, *day) = (civil.year, i64::from(civil.month), i64::from(civil.day));
        };
        if let Some(julian) = nonzero(self.julian) {
            set(civil_of(julian - UNIX_EPOCH_JULIAN), &mut year, &mut month, &mut day);
        }
        let mut day_of_year = nonzero(self.day_of_year);
        if let Some(week) = nonzero(self.week) {
            if self.calendar == Some(PatternCalendar::IsoWeek) {
                // An ISO week without a day means the Monday of the week.
                let weekday = nonzero(self.day_of_week).map_or(0, |day| (day + 5) % 7);
                let days = iso_year_start(year) + (week - 1) * 7 + weekday;
                set(civil_of(days), &mut year, &mut month, &mut day);
            } else {
                day_of_year = Some((week - 1) * 7 + 1);
            }
        }
        if let Some(week) = nonzero(self.week_of_month) {
            day = (week - 1) * 7 + 1;
        }
        day = nonzero(self.day).unwrap_or(day);
        month = nonzero(self.month).unwrap_or(month);
        if let Some(day_of_year) = day_of_year
            && (month <= 1 || day <= 1)
        {
            if year == 0 && !self.before_christ {
                return Err(invalid(
                    "cannot calculate day of year without year information".to_string(),
                ));
            }
            if self.calendar == Some(PatternCalendar::IsoWeek) {
                set(
                    civil_of(iso_year_start(year) + day_of_year - 1),
                    &mut year,
                    &mut month,
                    &mut day,
                );
            } else {
                let first = days_of(Civil { year, month: 1, day: 1 });
                let last = i64::from(365 + month_days(year, 2) - 28);
                if !(1..=last).contains(&day_of_year) {
                    return Ok(None);
                }
                let found = civil_of(first + day_of_year - 1);
                month = if month <= 1 { i64::from(found.month) } else { month };
                day = if day <= 1 { i64::from(found.day) } else { day };
            }
        }
        let (Ok(month), Ok(day)) = (u32::try_from(month), u32::try_from(day)) else {
            return Ok(None);
        };
        let date = Civil { year, month, day };
        Ok(is_valid(date).then_some(date).filter(|date| date.year.abs() < 6_000_000))
    }
}
