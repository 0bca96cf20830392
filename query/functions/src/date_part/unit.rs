//! How long the parts of a time stay as they are.

use super::part::{Kind, Part};

/// A unit of the calendar; the shorter is the lesser.
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
    /// From Monday on.
    Week,
    /// From the first day on.
    Month,
    /// From January, April, July or October on.
    Quarter,
    /// From January on.
    Year,
}

/// The unit within which this part of a timestamp never changes. `None` for parts that move
/// with every tick, for those of the time zone, and for unknown ones.
pub fn steady_unit(part: &str) -> Option<CalendarUnit> {
    Some(match Part::named(part, Kind::Timestamp).ok()? {
        Part::Minute => CalendarUnit::Minute,
        Part::Hour => CalendarUnit::Hour,
        Part::Day | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear => CalendarUnit::Day,
        Part::Week | Part::IsoYear => CalendarUnit::Week,
        Part::Month => CalendarUnit::Month,
        Part::Quarter => CalendarUnit::Quarter,
        Part::Year | Part::Decade | Part::Century | Part::Millennium => CalendarUnit::Year,
        // Seconds have a fraction, and so have Julian days.
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
