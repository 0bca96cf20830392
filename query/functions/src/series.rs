//! The series of times that `generate_series` returns for timestamps.

use arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::Result;
use stratalog_model::{Error, ErrorKind};
use stratalog_text::TimeZone;

use crate::{failed, zone::later};

const DAY_NS: i128 = 86_400_000_000_000;

/// Iterates over the times from a first to a last time, in nanoseconds since 1970. Each time is the
/// previous time plus a step in the calendar of a zone, so a day may have more or fewer than 24
/// hours.
#[derive(Debug, Clone)]
pub struct TimeSeries {
    next_ns: Option<i128>,
    last_ns: i128,
    step: IntervalMonthDayNano,
    zone: TimeZone,
    rises: bool,
}

impl TimeSeries {
    /// Creates a series from `first_ns` to a last time, with `step` between two times.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a step of length zero.
    pub fn new(
        first_ns: i128,
        last_ns: i128,
        step: IntervalMonthDayNano,
        zone: TimeZone,
    ) -> Result<Self> {
        let days = i128::from(step.months) * 30 + i128::from(step.days);
        let length = days * DAY_NS + i128::from(step.nanoseconds);
        if length == 0 {
            let message = "step size cannot equal zero";
            return Err(failed(Error::new(ErrorKind::InvalidParameterValue, message)));
        }
        Ok(Self { next_ns: Some(first_ns), last_ns, step, zone, rises: length > 0 })
    }
}

impl Iterator for TimeSeries {
    type Item = i128;

    fn next(&mut self) -> Option<i128> {
        let time_ns = self.next_ns.filter(|time_ns| match self.rises {
            true => *time_ns <= self.last_ns,
            false => *time_ns >= self.last_ns,
        })?;
        self.next_ns = later(time_ns, self.step, &self.zone);
        Some(time_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_the_clocks_of_the_zone() {
        let zone = TimeZone::parse_setting("America/New_York").unwrap();
        let day = IntervalMonthDayNano::new(0, 1, 0);
        let hour = 3_600_000_000_000_i128;
        // The series starts at 2024-03-09 02:30 at the offset -05. On the next day, the clocks skip
        // this local time; the later days keep the time that replaced it.
        let first = 1_709_969_400_000_000_000_i128;
        let times: Vec<i128> =
            TimeSeries::new(first, first + 72 * hour, day, zone).unwrap().collect();
        assert_eq!(times, [first, first + 24 * hour, first + 48 * hour, first + 72 * hour]);
        let back = IntervalMonthDayNano::new(0, -1, 0);
        let times: Vec<i128> =
            TimeSeries::new(first, first - 24 * hour, back, TimeZone::UTC).unwrap().collect();
        assert_eq!(times, [first, first - 24 * hour]);
        let none = IntervalMonthDayNano::new(1, -30, 0);
        assert!(TimeSeries::new(first, first, none, TimeZone::UTC).is_err());
    }
}
