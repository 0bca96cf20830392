//! The fields of `extract` and `date_part`, and their computation.

use arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};
use stratalog_text::{
    TimeZone,
    calendar::{Civil, UNIX_EPOCH_JULIAN, civil_of, days_of},
};

use crate::failed;

pub(super) const SECOND_NS: i64 = 1_000_000_000;
pub(super) const DAY_NS: i64 = 86_400 * SECOND_NS;
const HOUR_NS: i64 = 3_600 * SECOND_NS;

/// The number of digits after the decimal point of a Julian day with a time of day.
const JULIAN_DIGITS: i8 = 20;

/// The kind of value from which a field is extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Timestamp,
    TimestampTz,
    Date,
    Time,
    Interval,
}

impl Kind {
    pub(super) fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Timestamp(_, Some(_)) => Kind::TimestampTz,
            DataType::Date32 | DataType::Date64 => Kind::Date,
            DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
            DataType::Interval(_) | DataType::Duration(_) => Kind::Interval,
            _ => Kind::Timestamp,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Timestamp => "timestamp without time zone",
            Kind::TimestampTz => "timestamp with time zone",
            Kind::Date => "date",
            Kind::Time => "time without time zone",
            Kind::Interval => "interval",
        }
    }
}

/// A time or an interval from which fields are extracted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instant {
    /// A local time: days since 1970-01-01, and nanoseconds since midnight.
    Moment(i64, i64),
    Length(IntervalMonthDayNano),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Nanosecond,
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    IsoYear,
    DayOfWeek,
    IsoDayOfWeek,
    DayOfYear,
    Julian,
    Epoch,
    Zone,
    ZoneHour,
    ZoneMinute,
}

impl Part {
    /// The field with this name, in upper or lower case.
    ///
    /// # Errors
    /// `InvalidParameterValue` for an unknown name, `FeatureNotSupported` for a field that values
    /// of this kind do not have.
    pub(super) fn named(name: &str, kind: Kind) -> Result<Self> {
        let lower = name.trim_matches(['\'', '"']).to_ascii_lowercase();
        let part = match lower.as_str() {
            "nanosecond" | "nanoseconds" | "ns" => Part::Nanosecond,
            "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Part::Microsecond,
            "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Part::Millisecond,
            "second" | "seconds" | "s" | "sec" | "secs" => Part::Second,
            "minute" | "minutes" | "m" | "min" | "mins" => Part::Minute,
            "hour" | "hours" | "h" | "hr" | "hrs" => Part::Hour,
            "day" | "days" | "d" => Part::Day,
            "week" | "weeks" | "w" => Part::Week,
            "month" | "months" | "mon" | "mons" => Part::Month,
            "quarter" | "qtr" => Part::Quarter,
            "year" | "years" | "y" | "yr" | "yrs" => Part::Year,
            "decade" | "decades" | "dec" | "decs" => Part::Decade,
            "century" | "centuries" | "c" | "cent" => Part::Century,
            "millennium" | "millennia" | "mil" | "mils" => Part::Millennium,
            "isoyear" => Part::IsoYear,
            "dow" => Part::DayOfWeek,
            "isodow" => Part::IsoDayOfWeek,
            "doy" => Part::DayOfYear,
            "julian" | "j" | "jd" => Part::Julian,
            "epoch" => Part::Epoch,
            "timezone" => Part::Zone,
            "timezone_hour" | "timezone_h" => Part::ZoneHour,
            "timezone_minute" | "timezone_m" => Part::ZoneMinute,
            _ => {
                let message = format!("unit \"{lower}\" not recognized for type {}", kind.name());
                return Err(failed(Error::new(ErrorKind::InvalidParameterValue, message)));
            }
        };
        if !part.is_of(kind) {
            let message = format!("unit \"{lower}\" not supported for type {}", kind.name());
            return Err(failed(Error::new(ErrorKind::FeatureNotSupported, message)));
        }
        Ok(part)
    }

    fn is_of(self, kind: Kind) -> bool {
        let zone = matches!(self, Part::Zone | Part::ZoneHour | Part::ZoneMinute);
        let of_day = matches!(
            self,
            Part::Nanosecond
                | Part::Microsecond
                | Part::Millisecond
                | Part::Second
                | Part::Minute
                | Part::Hour
        );
        let of_calendar = matches!(
            self,
            Part::Week
                | Part::IsoYear
                | Part::DayOfWeek
                | Part::IsoDayOfWeek
                | Part::DayOfYear
                | Part::Julian
        );
        match kind {
            Kind::TimestampTz => true,
            Kind::Timestamp => !zone,
            Kind::Date => !zone && !of_day,
            Kind::Time => of_day || self == Part::Epoch,
            Kind::Interval => !zone && !of_calendar,
        }
    }

    /// The precision and the scale of the numeric that `extract` returns for this field.
    pub(super) fn digits(self, kind: Kind) -> (u8, i8) {
        match self {
            Part::Second => (8, 6),
            Part::Millisecond => (8, 3),
            Part::Epoch if kind == Kind::Date => (18, 0),
            Part::Epoch => (24, 6),
            Part::Julian if kind != Kind::Date => (38, JULIAN_DIGITS),
            Part::Nanosecond => (12, 0),
            _ => (10, 0),
        }
    }

    /// The field of a value, times ten to the power of the scale in [`Self::digits`].
    pub(super) fn of(self, instant: Instant, kind: Kind, zone: &TimeZone) -> i128 {
        match instant {
            Instant::Moment(days, time) => self.of_moment(days, time, kind, zone),
            Instant::Length(length) => self.of_length(length),
        }
    }

    fn of_moment(self, days: i64, time: i64, kind: Kind, zone: &TimeZone) -> i128 {
        let civil = civil_of(days);
        let day_of_year = || days - days_of(Civil { year: civil.year, month: 1, day: 1 }) + 1;
        let east = || i128::from(zone.offset_at(days * 86_400 + time / SECOND_NS));
        match self {
            Part::Day => civil.day.into(),
            Part::Week => iso_week(days).1.into(),
            Part::Month => civil.month.into(),
            Part::Quarter => civil.month.div_ceil(3).into(),
            Part::Year => shown_year(civil.year),
            Part::Decade => civil.year.div_euclid(10).into(),
            Part::Century => windows_of(civil.year, 100),
            Part::Millennium => windows_of(civil.year, 1_000),
            Part::IsoYear => shown_year(iso_week(days).0),
            // 1970-01-01 was a Thursday.
            Part::DayOfWeek => (days + 4).rem_euclid(7).into(),
            Part::IsoDayOfWeek => ((days + 3).rem_euclid(7) + 1).into(),
            Part::DayOfYear => day_of_year().into(),
            Part::Julian if kind == Kind::Date => i128::from(days + UNIX_EPOCH_JULIAN),
            Part::Julian => {
                let day = 10_i128.pow(JULIAN_DIGITS.unsigned_abs().into());
                let day_ns = i128::from(DAY_NS);
                let fraction = (i128::from(time) * day + day_ns / 2) / day_ns;
                i128::from(days + UNIX_EPOCH_JULIAN) * day + fraction
            }
            Part::Epoch if kind == Kind::Date => i128::from(days) * 86_400,
            Part::Epoch => i128::from(days) * i128::from(DAY_NS / 1_000) + i128::from(time / 1_000),
            Part::Zone => east(),
            Part::ZoneHour => east() / 3_600,
            Part::ZoneMinute => east() / 60 % 60,
            _ => self.of_time(time),
        }
    }

    fn of_length(self, length: IntervalMonthDayNano) -> i128 {
        let (months, days) = (i128::from(length.months), i128::from(length.days));
        let (years, months) = (months / 12, months % 12);
        match self {
            Part::Day => days,
            Part::Month => months,
            Part::Quarter => months / 3 + 1,
            Part::Year => years,
            Part::Decade => years / 10,
            Part::Century => years / 100,
            Part::Millennium => years / 1_000,
            // Each year counts 365.25 days, and each remaining month counts 30 days.
            Part::Epoch => {
                let quarters = years * 1_461 + months * 120 + days * 4;
                let time = i128::from(length.nanoseconds);
                (quarters * i128::from(DAY_NS / 4) + time) / 1_000
            }
            _ => self.of_time(length.nanoseconds),
        }
    }

    /// The field of a time of day; `time` is in nanoseconds since midnight.
    fn of_time(self, time: i64) -> i128 {
        let in_minute = time % (60 * SECOND_NS);
        i128::from(match self {
            Part::Hour => time / HOUR_NS,
            Part::Minute => time % HOUR_NS / (60 * SECOND_NS),
            Part::Nanosecond => in_minute,
            // Seconds have six digits after the decimal point, and milliseconds have three. Both
            // count whole microseconds.
            _ => in_minute / 1_000,
        })
    }
}

/// The year in the result of `extract`: 1 BC is -1, and there is no year 0.
fn shown_year(year: i64) -> i128 {
    i128::from(if year > 0 { year } else { year - 1 })
}

/// The number of the century or millennium that contains a year; `length` is its number of years.
/// Numbers count up from 1 for year 1, and down from -1 for the years before.
fn windows_of(year: i64, length: i64) -> i128 {
    i128::from(if year > 0 { (year + length - 1) / length } else { -((length - year) / length) })
}

/// The ISO year and the ISO week of a day; `days` counts from 1970-01-01.
fn iso_week(days: i64) -> (i64, i64) {
    // An ISO week belongs to the year of its Thursday.
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let year = civil_of(thursday).year;
    (year, (thursday - days_of(Civil { year, month: 1, day: 1 })) / 7 + 1)
}
