//! Determines for each field of `extract` the period of time during which the value of the field is
//! constant.

use super::part::{Kind, Part};

/// A unit of the calendar. A shorter unit is less than a longer unit.
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
    /// A week from Monday to Sunday.
    Week,
    /// A calendar month.
    Month,
    /// A quarter that starts in January, April, July or October.
    Quarter,
    /// A calendar year.
    Year,
}

/// The calendar unit during which this field of a timestamp is constant. `None` for a field with a
/// fraction of seconds or days, for a field of the time zone, and for an unknown name.
pub fn steady_unit(part: &str) -> Option<CalendarUnit> {
    Some(match Part::named(part, Kind::Timestamp).ok()? {
        Part::Minute => CalendarUnit::Minute,
        Part::Hour => CalendarUnit::Hour,
        Part::Day | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear => CalendarUnit::Day,
        Part::Week | Part::IsoYear => CalendarUnit::Week,
        Part::Month => CalendarUnit::Month,
        Part::Quarter => CalendarUnit::Quarter,
        Part::Year | Part::Decade | Part::Century | Part::Millennium => CalendarUnit::Year,
        // Fields with fractions, and fields of the time zone.
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
