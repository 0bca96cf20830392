//! The arithmetic of time windows. Every computation of a window's start uses this module.

use arrow::datatypes::IntervalMonthDayNano;
use chrono::{DateTime, Datelike, Months};
use stratalog_model::{Error, ErrorKind, Result};

const DAY_NS: i128 = 86_400_000_000_000;
/// Monday 2000-01-03 in nanoseconds since 1970.
const MONDAY_NS: i128 = 946_857_600_000_000_000;
/// 2000-01-01 in months since year 0.
const MONTH_ORIGIN: i64 = 2000 * 12;

/// The widths and positions of a sequence of windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Windows with a fixed width in nanoseconds.
    Nanoseconds {
        /// The width of each window, in nanoseconds.
        width: i128,
        /// The start of any one window, in nanoseconds since 1970.
        origin: i128,
    },
    /// Windows of whole calendar months.
    Months {
        /// The width of each window, in months.
        width: i64,
        /// The first month of any one window, counted in months from year 0.
        origin: i64,
        /// The distance from the start of a window's first month to the start of the window, in
        /// nanoseconds.
        shift: i128,
    },
}

/// A sequence of windows over times that are stored as a number of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    window: Window,
    /// The number of nanoseconds in one stored unit.
    unit_ns: i128,
}

/// Windows whose width and origin are multiples of the stored unit. One division finds the window
/// of a time.
#[derive(Debug, Clone, Copy)]
pub struct WholeUnitWindows {
    width: i64,
    origin: i64,
}

pub(super) fn overflow() -> Error {
    Error::new(ErrorKind::DatetimeOverflow, "timestamp out of range in time_bucket")
}

fn not_positive() -> Error {
    Error::new(ErrorKind::InvalidParameterValue, "the width of time_bucket must be greater than 0")
}

impl Windows {
    /// Creates windows of `width` over times that are stored in units of `unit_ns` nanoseconds,
    /// with the default origin.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a width that is not positive, or that mixes months with days or
    /// times.
    pub fn new(width: IntervalMonthDayNano, unit_ns: i64) -> Result<Self> {
        let ns = i128::from(width.days) * DAY_NS + i128::from(width.nanoseconds);
        let window = if width.months == 0 {
            if ns <= 0 {
                return Err(not_positive());
            }
            Window::Nanoseconds { width: ns, origin: MONDAY_NS }
        } else if ns != 0 {
            return Err(Error::new(
                ErrorKind::InvalidParameterValue,
                "the width of time_bucket mixes months with days or times",
            )
            .with_hint("use whole months, or days and times"));
        } else if width.months < 0 {
            return Err(not_positive());
        } else {
            Window::Months { width: i64::from(width.months), origin: MONTH_ORIGIN, shift: 0 }
        };
        Ok(Self { window, unit_ns: i128::from(unit_ns.max(1)) })
    }

    /// Creates windows of `width` over integers; `offset` is the start of one window.
    ///
    /// # Errors
    /// `InvalidParameterValue` for a width that is not positive.
    pub fn of_integers(width: i64, offset: i64) -> Result<Self> {
        if width <= 0 {
            return Err(not_positive());
        }
        let window = Window::Nanoseconds { width: i128::from(width), origin: i128::from(offset) };
        Ok(Self { window, unit_ns: 1 })
    }

    /// The width of each window in nanoseconds; `None` for windows of months, whose lengths differ.
    pub fn width_ns(&self) -> Option<i64> {
        match self.window {
            Window::Nanoseconds { width, .. } => i64::try_from(width).ok(),
            Window::Months { .. } => None,
        }
    }

    /// Moves the windows to make `origin`, in stored units, the start of one window.
    ///
    /// # Errors
    /// `DatetimeOverflow` outside of the calendar's range.
    pub fn with_origin(mut self, origin: i64) -> Result<Self> {
        let origin_ns = i128::from(origin) * self.unit_ns;
        match &mut self.window {
            Window::Nanoseconds { origin, .. } => *origin = origin_ns,
            Window::Months { origin, shift, .. } => {
                let (month, start) = month_of(origin_ns)?;
                *origin = month;
                *shift = origin_ns - start;
            }
        }
        Ok(self)
    }

    /// Moves each window to a start later by `offset`.
    ///
    /// # Errors
    /// `InvalidParameterValue` if `offset` contains months, and the width is not in months.
    pub fn with_offset(mut self, offset: IntervalMonthDayNano) -> Result<Self> {
        let ns = i128::from(offset.days) * DAY_NS + i128::from(offset.nanoseconds);
        match &mut self.window {
            Window::Nanoseconds { .. } if offset.months != 0 => {
                return Err(Error::new(
                    ErrorKind::InvalidParameterValue,
                    "an offset of months needs a width of months",
                ));
            }
            Window::Nanoseconds { origin, .. } => *origin += ns,
            Window::Months { origin, shift, .. } => {
                *origin += i64::from(offset.months);
                *shift += ns;
            }
        }
        Ok(self)
    }

    /// The start of the window that contains `time`. Both times are in stored units.
    ///
    /// # Errors
    /// `DatetimeOverflow` if the start is out of range.
    pub fn start(&self, time: i64) -> Result<i64> {
        let ns = i128::from(time) * self.unit_ns;
        let start = match self.window {
            Window::Nanoseconds { width, origin } => {
                origin + (ns - origin).div_euclid(width) * width
            }
            Window::Months { width, origin, shift } => {
                let (month, _) = month_of(ns - shift)?;
                let first = origin + (month - origin).div_euclid(width) * width;
                month_start(first)? + shift
            }
        };
        i64::try_from(start.div_euclid(self.unit_ns)).map_err(|_| overflow())
    }

    /// The end of the window that contains `time`. Both times are in stored units. `None` if the
    /// end is out of range, or is not a whole number of units.
    pub fn end(&self, time: i64) -> Option<i64> {
        let ns = i128::from(time) * self.unit_ns;
        let end = match self.window {
            Window::Nanoseconds { width, origin } => {
                origin + ((ns - origin).div_euclid(width) + 1) * width
            }
            Window::Months { width, origin, shift } => {
                let (month, _) = month_of(ns - shift).ok()?;
                let next = origin + ((month - origin).div_euclid(width) + 1) * width;
                month_start(next).ok()? + shift
            }
        };
        (end.rem_euclid(self.unit_ns) == 0).then(|| i64::try_from(end / self.unit_ns).ok())?
    }

    /// Returns the same windows in a form with faster arithmetic. `None` for windows of months, and
    /// if the width or the origin is not a multiple of the unit.
    pub fn in_whole_units(&self) -> Option<WholeUnitWindows> {
        let Window::Nanoseconds { width, origin } = self.window else { return None };
        if width % self.unit_ns != 0 || origin % self.unit_ns != 0 {
            return None;
        }
        let width = i64::try_from(width / self.unit_ns).ok()?;
        let origin = i64::try_from((origin / self.unit_ns).rem_euclid(i128::from(width))).ok()?;
        Some(WholeUnitWindows { width, origin })
    }
}

impl WholeUnitWindows {
    /// True if [`Self::start`] overflows for none of these times.
    pub fn covers(&self, times: &[i64]) -> bool {
        let Some(lowest) = i64::MIN.checked_add(self.width) else { return false };
        let (low, high) = (lowest.saturating_add(self.origin), i64::MAX - self.origin);
        times.iter().fold(true, |all, time| all & (*time >= low) & (*time <= high))
    }

    /// The start of the window that contains `time`. Both times are in stored units.
    #[inline]
    pub fn start(&self, time: i64) -> i64 {
        let distance = time.wrapping_sub(self.origin);
        time.wrapping_sub(distance.rem_euclid(self.width))
    }
}

/// The month that contains a time, counted in months from year 0, and the start of this month in
/// nanoseconds since 1970.
fn month_of(ns: i128) -> Result<(i64, i128)> {
    let seconds = i64::try_from(ns.div_euclid(1_000_000_000)).map_err(|_| overflow())?;
    let time = DateTime::from_timestamp(seconds, 0).ok_or_else(overflow)?;
    let month = i64::from(time.year()) * 12 + i64::from(time.month0());
    Ok((month, month_start(month)?))
}

/// The start of a month, in nanoseconds since 1970. `month` counts months from year 0.
fn month_start(month: i64) -> Result<i128> {
    let from_2000 = u32::try_from(month - MONTH_ORIGIN);
    let epoch = DateTime::from_timestamp(946_684_800, 0).ok_or_else(overflow)?;
    let start = match from_2000 {
        Ok(months) => epoch.checked_add_months(Months::new(months)),
        Err(_) => u32::try_from(MONTH_ORIGIN - month)
            .ok()
            .and_then(|months| epoch.checked_sub_months(Months::new(months))),
    };
    Ok(i128::from(start.ok_or_else(overflow)?.timestamp()) * 1_000_000_000)
}

#[cfg(test)]
mod tests;
