//! The session settings that determine the text format of values.

use crate::TimeZone;

/// The maximum number of digits of a second's fraction: nine, for nanoseconds.
pub const FRACTION_DIGITS_MAX: u32 = 9;

/// The order of the numbers in an input date such as `01/02/03` (setting `DateStyle`). Output
/// always has the ISO order: year, month, day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// The output format of intervals (setting `IntervalStyle`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntervalStyle {
    /// PostgreSQL's style: `1 mon 2 days 03:04:05`.
    #[default]
    Postgres,
    /// PostgreSQL's verbose style: `@ 1 mon 2 days 3 hours 4 mins 5 secs`.
    PostgresVerbose,
    /// The SQL standard's style: `+0-1 +2 +3:04:05`.
    SqlStandard,
    /// ISO 8601: `P1M2DT3H4M5S`.
    Iso8601,
}

/// The output format of bytea (setting `bytea_output`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteaOutput {
    /// Hexadecimal digits after `\x`: `\x0a0b`.
    #[default]
    Hex,
    /// Printable bytes are written unchanged, and other bytes as octal numbers, for example `\012`.
    Escape,
}

/// The session settings that determine the text format of values.
#[derive(Debug, Clone, PartialEq)]
pub struct TextStyle {
    /// The time zone in which a timestamptz is written. In input, the zone of a text that contains
    /// no zone.
    pub time_zone: TimeZone,
    /// The order of the numbers in an ambiguous date.
    pub date_order: DateOrder,
    /// The output format of intervals.
    pub interval_style: IntervalStyle,
    /// The output format of bytea.
    pub bytea_output: ByteaOutput,
    /// The setting `extra_float_digits`. If it is above 0, a float is written with the fewest
    /// digits that read back as the same float. Otherwise a float is rounded to 15 digits (real: 6)
    /// plus this number, which may be negative.
    pub extra_float_digits: i32,
    /// The number of digits of a second's fraction that are written in timestamps, times and
    /// intervals, from 0 to 9. Further digits are cut off.
    pub fraction_digits: u32,
    /// The time to which the input words `now`, `today`, `tomorrow` and `yesterday` refer, in
    /// nanoseconds since 1970. If `None`, these words are errors.
    pub now_ns: Option<i64>,
}

impl TextStyle {
    /// Removes the digits beyond [`Self::fraction_digits`] from a number of nanoseconds. The digits
    /// are cut off and not rounded, so that the order of times remains.
    pub(crate) fn fraction(&self, nanos: u32) -> u32 {
        let cut = FRACTION_DIGITS_MAX.saturating_sub(self.fraction_digits);
        nanos - nanos % 10_u32.pow(cut)
    }

    /// Removes the digits beyond [`Self::fraction_digits`] from the nanoseconds of an interval. The
    /// value is cut towards 0.
    pub(crate) fn interval_fraction(&self, nanos: i128) -> i128 {
        let cut = FRACTION_DIGITS_MAX.saturating_sub(self.fraction_digits);
        nanos - nanos % 10_i128.pow(cut)
    }
}

impl Default for TextStyle {
    fn default() -> Self {
        Self {
            time_zone: TimeZone::UTC,
            date_order: DateOrder::default(),
            interval_style: IntervalStyle::default(),
            bytea_output: ByteaOutput::default(),
            extra_float_digits: 1,
            fraction_digits: FRACTION_DIGITS_MAX,
            now_ns: None,
        }
    }
}
