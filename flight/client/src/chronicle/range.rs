//! Ranges of events, by time, tick or position.

use std::ops::{Bound, RangeBounds};

use arrow::temporal_conversions::timestamp_ns_to_datetime;

use crate::error::{Error, ErrorKind, Result};

/// A range of events of a chronicle, given by times, by ticks, or by positions in the log (gsn).
///
/// # Examples
/// ```
/// use stratalog_client::Range;
///
/// let first_second = Range::times(1_704_067_200_000_000_000..1_704_067_201_000_000_000);
/// let from_there_on = Range::ticks(1_000..);
/// let committed_first = Range::gsns(..=100);
/// # let _ = (first_second, from_there_on, committed_first);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    by: RangeUnit,
    /// The first time, tick or gsn of the range; `None` for no lower bound.
    start: Option<i64>,
    /// The first time, tick or gsn after the range; `None` for no upper bound.
    end: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RangeUnit {
    Time,
    Tick,
    Gsn,
}

impl Range {
    /// All events, up to the newest event at the call.
    pub fn all() -> Self {
        Self { by: RangeUnit::Tick, start: None, end: None }
    }

    /// A range of times: nanoseconds since 1970, UTC.
    pub fn times(range: impl RangeBounds<i64>) -> Self {
        Self::of(RangeUnit::Time, range.start_bound().cloned(), range.end_bound().cloned())
    }

    /// A range of ticks: distances from the chronicle's base, in units of its granularity.
    pub fn ticks(range: impl RangeBounds<i64>) -> Self {
        Self::of(RangeUnit::Tick, range.start_bound().cloned(), range.end_bound().cloned())
    }

    /// A range of positions in the log, in the order of commits.
    pub fn gsns(range: impl RangeBounds<u64>) -> Self {
        let number = |gsn: &u64| i64::try_from(*gsn).unwrap_or(i64::MAX);
        Self::of(RangeUnit::Gsn, range.start_bound().map(number), range.end_bound().map(number))
    }

    fn of(by: RangeUnit, start: Bound<i64>, end: Bound<i64>) -> Self {
        let start = match start {
            Bound::Included(start) => Some(start),
            Bound::Excluded(before) => Some(before.saturating_add(1)),
            Bound::Unbounded => None,
        };
        let end = match end {
            // The largest number has no successor, so the range has no end.
            Bound::Included(i64::MAX) | Bound::Unbounded => None,
            Bound::Included(last) => Some(last + 1),
            Bound::Excluded(end) => Some(end),
        };
        Self { by, start, end }
    }

    /// The range as an argument of the SQL function `replay`.
    pub(crate) fn text(&self) -> Result<String> {
        let word = match self.by {
            RangeUnit::Time => "",
            RangeUnit::Tick => "tick ",
            RangeUnit::Gsn => "gsn ",
        };
        let bound = |bound: Option<i64>| match (bound, self.by) {
            (None, _) => Ok(String::new()),
            (Some(time_ns), RangeUnit::Time) => time_text(time_ns),
            (Some(number), RangeUnit::Tick | RangeUnit::Gsn) => Ok(number.to_string()),
        };
        Ok(format!("{word}[{}, {})", bound(self.start)?, bound(self.end)?))
    }

    /// The range as a clause of ACQUIRE; empty for the full range.
    ///
    /// # Errors
    /// `InvalidOption` for a range of positions: ACQUIRE accepts only times and ticks.
    pub(crate) fn projection(&self) -> Result<String> {
        if self.by == RangeUnit::Gsn {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                "a chronicle is acquired in part by time or by tick, not by gsn",
            )
            .with_hint("Range::times or Range::ticks"));
        }
        let bound = |bound: i64| -> Result<String> {
            Ok(match self.by {
                RangeUnit::Time => format!("'{}'", time_text(bound)?),
                RangeUnit::Tick | RangeUnit::Gsn => bound.to_string(),
            })
        };
        Ok(match (self.start, self.end) {
            (None, None) => String::new(),
            (Some(start), None) => format!(" SINCE {}", bound(start)?),
            (None, Some(end)) => format!(" UNTIL {}", bound(end)?),
            (Some(start), Some(end)) => {
                format!(" RANGE FROM {} TO {}", bound(start)?, bound(end)?)
            }
        })
    }
}

/// A time in SQL syntax, without quotes.
///
/// # Errors
/// `InvalidOption` for a time out of range.
pub(crate) fn time_text(time_ns: i64) -> Result<String> {
    let time = timestamp_ns_to_datetime(time_ns).ok_or_else(|| {
        Error::new(ErrorKind::InvalidOption, format!("{time_ns} ns since 1970 is not a valid time"))
    })?;
    Ok(format!("{time}+00"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW_YEAR: i64 = 1_704_067_200_000_000_000;

    #[test]
    fn ranges_are_written_as_replay_reads_them() {
        for (range, text) in [
            (Range::all(), "tick [, )"),
            (Range::ticks(-5..10), "tick [-5, 10)"),
            (Range::ticks(7..=7), "tick [7, 8)"),
            (Range::ticks(0..=i64::MAX), "tick [0, )"),
            (Range::gsns(3..), "gsn [3, )"),
            (Range::gsns(..=9), "gsn [, 10)"),
            (
                Range::times(NEW_YEAR..NEW_YEAR + 1_500_000_000),
                "[2024-01-01 00:00:00+00, 2024-01-01 00:00:01.500+00)",
            ),
        ] {
            assert_eq!(range.text().unwrap(), text);
        }
    }

    #[test]
    fn projections_are_written_as_acquire_reads_them() {
        assert_eq!(Range::all().projection().unwrap(), "");
        assert_eq!(Range::ticks(5..).projection().unwrap(), " SINCE 5");
        assert_eq!(Range::ticks(1..2).projection().unwrap(), " RANGE FROM 1 TO 2");
        let until = Range::times(..NEW_YEAR).projection().unwrap();
        assert_eq!(until, " UNTIL '2024-01-01 00:00:00+00'");
        assert_eq!(Range::gsns(1..).projection().unwrap_err().kind(), ErrorKind::InvalidOption);
    }
}
