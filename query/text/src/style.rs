//! The session settings that determine the text format of values.

use crate::TimeZone;

/// The number of digits of nanoseconds.
pub const FRACTION_DIGITS_MAX: u32 = 9;

/// The order of the numbers in a date such as `01/02/03` (setting `DateStyle`). Output always has
/// the order of ISO.
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
    /// `@ 1 mon 2 days 3 hours 4 mins 5 secs`
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
    /// Printable bytes as they are, other bytes as octal numbers, for example `\012`.
    Escape,
}

/// The session settings that determine the text format of values.
#[derive(Debug, Clone, PartialEq)]
pub struct TextStyle {
    /// The zone of timestamptz in output, and of texts without a zone in input.
    pub time_zone: TimeZone,
    /// The order of the numbers in an ambiguous date.
    pub date_order: DateOrder,
    /// The output format of intervals.
    pub interval_style: IntervalStyle,
    /// The output format of bytea.
    pub bytea_output: ByteaOutput,
    /// Above 0, a float has the fewest digits that read back exactly. Otherwise a float is rounded
    /// to 15 digits (real: 6) plus this number, which may be negative.
    pub extra_float_digits: i32,
    /// The number of digits of a second's fraction in timestamps, times and intervals, from 0 to 9;
    /// further digits are omitted.
    pub fraction_digits: u32,
    /// The time that `now`, `today`, `tomorrow` and `yesterday` refer to, in nanoseconds since
    /// 1970. If `None`, these words are errors.
    pub now_ns: Option<i64>,
}

impl TextStyle {
    /// Nanoseconds without the digits beyond [`Self::fraction_digits`]. The digits are cut and not
    /// rounded, so that the order of times stays.
    pub(crate) fn fraction(&self, nanos: u32) -> u32 {
        let cut = FRACTION_DIGITS_MAX.saturating_sub(self.fraction_digits);
        nanos - nanos % 10_u32.pow(cut)
    }

    /// The nanoseconds of an interval without the digits beyond [`Self::fraction_digits`], cut
    /// towards 0.
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
