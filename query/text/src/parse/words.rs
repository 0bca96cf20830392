//! The words that dates, times and intervals may contain.

use crate::TimeZone;

/// The number of a month, from 1 to 12, for its name or for at least the first three letters of its
/// name.
pub(super) fn month(word: &str) -> Option<u32> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = if word == "sept" { "sep" } else { word };
    let at = MONTHS
        .iter()
        .position(|month| *month == word || (word.len() == 3 && month.starts_with(word)))?;
    u32::try_from(at + 1).ok()
}

/// True if the word is the name of a weekday. PostgreSQL accepts and ignores weekdays.
pub(super) fn is_weekday(word: &str) -> bool {
    matches!(
        word,
        "sun"
            | "sunday"
            | "mon"
            | "monday"
            | "tue"
            | "tues"
            | "tuesday"
            | "wed"
            | "weds"
            | "wednesday"
            | "thu"
            | "thur"
            | "thurs"
            | "thursday"
            | "fri"
            | "friday"
            | "sat"
            | "saturday"
    )
}

/// The zone for an abbreviation in PostgreSQL's default set. Some abbreviations have no constant
/// offset, but follow the history of a place.
pub fn abbreviated(word: &str) -> Option<TimeZone> {
    let place = match word {
        "msk" => "Europe/Moscow",
        "vet" => "America/Caracas",
        "trt" => "Europe/Istanbul",
        "amt" => "America/Manaus",
        "art" => "America/Buenos_Aires",
        _ => return TimeZone::fixed(abbreviation(word)?),
    };
    TimeZone::named(place)
}

/// The offset for an abbreviation in PostgreSQL's default set, in seconds east of Greenwich. `None`
/// if the abbreviation has no constant offset.
fn abbreviation(word: &str) -> Option<i32> {
    let quarters = match word {
        "z" | "zulu" | "utc" | "ut" | "gmt" | "uct" | "wet" => 0,
        "bst" | "cet" | "met" | "west" => 4,
        "cest" | "eet" | "sast" | "mest" | "ist" => 8,
        "eest" | "idt" => 12,
        "kst" | "jst" => 36,
        "hkt" | "awst" | "sgt" => 32,
        "acst" => 38,
        "aest" => 40,
        "acdt" => 42,
        "aedt" => 44,
        "nzst" => 48,
        "nzdt" => 52,
        "nst" => -14,
        "ndt" => -10,
        "ast" => -16,
        "est" => -20,
        "adt" => -12,
        "edt" => -16,
        "cst" => -24,
        "cdt" => -20,
        "mst" => -28,
        "mdt" => -24,
        "pst" => -32,
        "pdt" => -28,
        "akst" => -36,
        "akdt" => -32,
        "hst" => -40,
        "sst" => -44,
        _ => return None,
    };
    Some(quarters * 900)
}

/// A unit of an interval, expressed as a number of months, days or nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// The number of months in the unit.
    Months(i64),
    /// The number of days in the unit.
    Days(i64),
    /// The number of nanoseconds in the unit.
    Nanos(i64),
}

/// The unit for a word in an interval, for example `hours`; `None` for an unknown word.
pub(super) fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "ns" | "nanosecond" | "nanoseconds" | "nanosec" | "nanosecs" => Unit::Nanos(1),
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds"
        | "microsec" | "microsecs" | "microsecon" => Unit::Nanos(1_000),
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds"
        | "millisec" | "millisecs" | "millisecon" => Unit::Nanos(1_000_000),
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Nanos(1_000_000_000),
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Nanos(60 * 1_000_000_000),
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Nanos(3_600 * 1_000_000_000),
        "d" | "day" | "days" => Unit::Days(1),
        "w" | "week" | "weeks" => Unit::Days(7),
        "mon" | "mons" | "month" | "months" => Unit::Months(1),
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Months(12),
        "dec" | "decs" | "decade" | "decades" => Unit::Months(120),
        "c" | "cent" | "century" | "centuries" => Unit::Months(1_200),
        "mil" | "mils" | "millennium" | "millennia" => Unit::Months(12_000),
        _ => return None,
    })
}
