//! Converts between days and dates of the proleptic Gregorian calendar.

use arrow::datatypes::TimeUnit;

/// The number of seconds in a day.
pub const DAY_SECONDS: i64 = 86_400;

/// The number of nanoseconds in a second.
pub const SECOND_NS: i64 = 1_000_000_000;

/// The number of nanoseconds in a day.
pub const DAY_NS: i64 = DAY_SECONDS * SECOND_NS;

/// The number of days from 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
pub const POSTGRES_EPOCH_DAYS: i64 = 10_957;

/// The number of seconds from 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
pub const POSTGRES_EPOCH_SECONDS: i64 = POSTGRES_EPOCH_DAYS * DAY_SECONDS;

/// The Julian day number of 1970-01-01.
pub const UNIX_EPOCH_JULIAN: i64 = 2_440_588;

/// A date of the calendar. Year 0 is 1 BC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// The year; 0 is 1 BC.
    pub year: i64,
    /// The month, from 1 to 12.
    pub month: u32,
    /// The day of the month, from 1 to 31.
    pub day: u32,
}

/// The number of days from 1970-01-01 to a date. Day and month may be out of range: month 13 is
/// January of the next year.
#[inline]
pub fn days_of(civil: Civil) -> i64 {
    let year = if civil.month <= 2 { civil.year - 1 } else { civil.year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((civil.month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(civil.day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date `days` days after 1970-01-01.
#[inline]
pub fn civil_of(days: i64) -> Civil {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = u32::try_from(day_of_year - (153 * month_from_march + 2) / 5 + 1).unwrap_or(1);
    let month_number =
        if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let month = u32::try_from(month_number).unwrap_or(1);
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    Civil { year, month, day }
}

const MICROSECOND_NS: i128 = 1_000;

/// Converts a time in nanoseconds since 1970 to a number of units, rounded to the nearest as in
/// PostgreSQL. Halves of a microsecond round to the even microsecond. Halves of other units round
/// away from the year 2000.
pub fn nearest_units(time_ns: i128, unit_ns: i128) -> i128 {
    let (whole, rest) = (time_ns.div_euclid(unit_ns), time_ns.rem_euclid(unit_ns));
    let base_ns = i128::from(POSTGRES_EPOCH_SECONDS) * i128::from(SECOND_NS);
    let up = match (rest * 2).cmp(&unit_ns) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal if unit_ns == MICROSECOND_NS => whole.rem_euclid(2) == 1,
        std::cmp::Ordering::Equal => time_ns >= base_ns,
        std::cmp::Ordering::Greater => true,
    };
    whole + i128::from(up)
}

/// The number of days in a month.
#[inline]
pub fn month_days(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.rem_euclid(4) == 0
            && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) =>
        {
            29
        }
        2 => 28,
        _ => 31,
    }
}

/// True if the date exists: the month is from 1 to 12, and the month has this day.
#[inline]
pub fn is_valid(civil: Civil) -> bool {
    (1..=12).contains(&civil.month)
        && civil.day >= 1
        && civil.day <= month_days(civil.year, civil.month)
}

/// The number of these units in a second.
pub fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_away_from_2000() {
        let base = i128::from(POSTGRES_EPOCH_SECONDS);
        for (millis, seconds) in [(500, 1), (499, 0), (-500, -1), (-499, 0), (-501, -1), (1_500, 2)]
        {
            let time_ns = base * 1_000_000_000 + millis * 1_000_000;
            assert_eq!(nearest_units(time_ns, 1_000_000_000) - base, seconds, "{millis}");
        }
    }
}
