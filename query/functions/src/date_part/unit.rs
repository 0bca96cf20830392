//! For each field of `extract`, the period of time during which the field is constant.

use super::part::{Kind, Part};

/// A unit of the calendar; a shorter unit compares as less than a longer unit.
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

/// The unit during which this field of a timestamp is constant. `None` for a field that changes
/// with every tick, for a field of the time zone, and for an unknown name.
pub fn steady_unit(part: &str) -> Option<CalendarUnit> {
    Some(match Part::named(part, Kind::Timestamp).ok()? {
        Part::Minute => CalendarUnit::Minute,
        Part::Hour => CalendarUnit::Hour,
        Part::Day | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear => CalendarUnit::Day,
        Part::Week | Part::IsoYear => CalendarUnit::Week,
        Part::Month => CalendarUnit::Month,
        Part::Quarter => CalendarUnit::Quarter,
        Part::Year | Part::Decade | Part::Century | Part::Millennium => CalendarUnit::Year,
        // The values of these fields have fractions.
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
