//! The period in which a part of a time is constant.

use super::part::{Kind, Part};

/// A unit of the calendar; shorter units compare as less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CalendarUnit {
    /// 1,000,000,000 nanoseconds.
    Second,
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// From midnight to midnight.
    Day,
    /// Starts on Monday.
    Week,
    /// Starts on the first day.
    Month,
    /// Starts in January, April, July or October.
    Quarter,
    /// Starts in January.
    Year,
}

/// The unit within which this part of a timestamp is constant. `None` for parts that change with
/// every tick, for parts of the time zone, and for unknown parts.
pub fn steady_unit(part: &str) -> Option<CalendarUnit> {
    Some(match Part::named(part, Kind::Timestamp).ok()? {
        Part::Minute => CalendarUnit::Minute,
        Part::Hour => CalendarUnit::Hour,
        Part::Day | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear => CalendarUnit::Day,
        Part::Week | Part::IsoYear => CalendarUnit::Week,
        Part::Month => CalendarUnit::Month,
        Part::Quarter => CalendarUnit::Quarter,
        Part::Year | Part::Decade | Part::Century | Part::Millennium => CalendarUnit::Year,
        // Seconds and Julian days have a fraction.
        Part::Nanosecond
        | Part::Microsecond
        | Part::Millisecond
        | Part::Second
        | Part::Julian
        | Part::Epoch
        | Part::Zone
        | Part::ZoneHour
        | Part::ZoneMinute => return None,
    })
}
