//! Calendar days.

use std::{fmt, time::SystemTime};

const SECONDS_PER_DAY: u64 = 86_400;

/// A day, counted from 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(i64);

impl Date {
    /// The present day, in UTC.
    pub fn today() -> Result<Self, String> {
        let elapsed = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_err(|_| "the clock of this machine is before 1970: set the clock".to_string())?;
        Ok(Self::of_seconds(elapsed.as_secs()))
    }

    /// The day of a number of seconds since 1970.
    pub fn of_seconds(seconds: u64) -> Self {
        Self(i64::try_from(seconds / SECONDS_PER_DAY).unwrap_or(i64::MAX))
    }

    /// Reads `2026-10-09`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fields: Vec<i64> = text.split('-').filter_map(|field| field.parse().ok()).collect();
        let [year, month, day] = fields.as_slice() else { return Err(refusal(text)) };
        let date = Self(days(*year, *month, *day));
        if date.to_string() == text { Ok(date) } else { Err(refusal(text)) }
    }

    /// The number of days from `earlier` to this day.
    pub fn days_since(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }
}

fn refusal(text: &str) -> String {
    format!("{text:?} is no date: write the year, the month and the day, as in 2026-10-09")
}

/// The days from 1970-01-01 to a date. Years begin in March here, so that the leap day is the last
/// day of a year; an era has 400 years.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    year.div_euclid(400) * 146_097 + day_of_era - 719_468
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shifted = self.0 + 719_468;
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = year_of_era + shifted.div_euclid(146_097) * 400 + i64::from(month <= 2);
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}
