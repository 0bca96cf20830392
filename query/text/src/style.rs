//! The session settings for the text form of values.

use crate::TimeZone;

/// Digits of nanoseconds.
pub const FRACTION_DIGITS_MAX: u32 = 9;

/// Order of the numbers in a date like `01/02/03` (setting `DateStyle`). Output is always ISO.
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

/// Output form of intervals (setting `IntervalStyle`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IntervalStyle {
    /// `1 mon 2 days 03:04:05`
    #[default]
    Postgres,
    /// `@ 1 mon 2 days 3 hours 4 mins 5 secs`
    PostgresVerbose,
    /// `+0-1 +2 +3:04:05`
    SqlStandard,
    /// `P1M2DT3H4M5S`
    Iso8601,
}

/// Output form of bytes (setting `bytea_output`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ByteaOutput {
    /// `\x0a0b`
    #[default]
    Hex,
    /// Printable bytes unchanged, other bytes like `\012`.
    Escape,
}

/// The session settings for the text form of values.
#[derive(Debug, Clone, PartialEq)]
pub struct TextStyle {
    /// The output zone of timestamptz, and the input zone for text without a zone.
    pub time_zone: TimeZone,
    /// Order of the numbers of an ambiguous date.
    pub date_order: DateOrder,
    /// Output form of intervals.
    pub interval_style: IntervalStyle,
    /// Output form of bytes.
    pub bytea_output: ByteaOutput,
    /// Above 0: floats have the fewest digits that read back exactly; otherwise floats are rounded
    /// to 15 (real: 6) digits plus this number, which may be negative.
    pub extra_float_digits: i32,
    /// Digits of a second's fraction in timestamps, times and intervals, 0 to 9; further digits are
    /// cut off.
    pub fraction_digits: u32,
    /// The time behind `now`, `today`, `tomorrow` and `yesterday`, in nanoseconds since 1970; with
    /// `None` these words are errors.
    pub now_ns: Option<i64>,
}

impl TextStyle {
    /// Nanoseconds of a second without the digits beyond [`Self::fraction_digits`]. The digits are
    /// cut, not rounded, to keep the order of times.
    pub(crate) fn fraction(&self, nanos: u32) -> u32 {
        let cut = FRACTION_DIGITS_MAX.saturating_sub(self.fraction_digits);
        nanos - nanos % 10_u32.pow(cut)
    }

    /// The same cut for the nanoseconds of an interval, towards 0.
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
