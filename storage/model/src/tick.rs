//! Tick arithmetic. No other file converts between times and ticks.
//!
//! ```text
//!   time_ns  = base_ns + tick × granularity_ns
//!   tick     = floor((time_ns − base_ns) ÷ granularity_ns)      (also below the base)
//! ```

use std::{fmt, num::NonZeroI64, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{Error, ErrorKind, Result};

mod grouping;

pub use grouping::Grouping;

/// Signed distance from a chronicle's base, in units of its granularity (F21).
///
/// `Tick::END` is not a tick: it is the exclusive end of a range without an upper limit.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tick(pub i64);

impl Tick {
    /// The smallest tick.
    pub const MIN: Tick = Tick(i64::MIN);
    /// The largest tick.
    pub const MAX: Tick = Tick(i64::MAX - 1);
    /// The exclusive end of a range without an upper limit.
    pub const END: Tick = Tick(i64::MAX);

    /// The next tick; `Tick::END` after `Tick::MAX`.
    #[must_use]
    pub const fn next(self) -> Tick {
        Tick(self.0.saturating_add(1))
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The unit of a chronicle's ticks, in nanoseconds: 1 ns to 1 day (F4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Granularity(NonZeroI64);

impl Granularity {
    /// 1 ns, the default.
    pub const NANOSECOND: Granularity = Granularity(NonZeroI64::new(1).unwrap());
    /// Number of nanoseconds in a day, the coarsest granularity.
    pub const DAY_NS: i64 = 86_400_000_000_000;

    /// A granularity of `ns` nanoseconds; an error unless `ns` is between 1 and one day.
    pub fn from_ns(ns: i64) -> Result<Self> {
        match NonZeroI64::new(ns) {
            Some(value) if (1..=Self::DAY_NS).contains(&ns) => Ok(Self(value)),
            _ => Err(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("granularity of {ns} ns is outside of 1 ns to 1 day"),
            )),
        }
    }

    /// Nanoseconds per tick.
    pub const fn ns(self) -> i64 {
        let ns = self.0.get();
        debug_assert!(ns >= 1, "a tick has no duration");
        debug_assert!(ns <= Self::DAY_NS, "a tick is longer than a day");
        ns
    }
}

impl Default for Granularity {
    fn default() -> Self {
        Self::NANOSECOND
    }
}

impl TryFrom<i64> for Granularity {
    type Error = Error;
    fn try_from(ns: i64) -> Result<Self> {
        Self::from_ns(ns)
    }
}

impl From<Granularity> for i64 {
    fn from(granularity: Granularity) -> i64 {
        granularity.ns()
    }
}

const UNITS: &[(&str, i64)] = &[
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

impl FromStr for Granularity {
    type Err = Error;

    /// Parses a number with a unit, such as `1ns`, `10us`, `5 ms`, `1s`, `1min`, `1h` or `1d`.
    fn from_str(text: &str) -> Result<Self> {
        let unknown = || {
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("granularity = '{text}' is not a number with a unit"),
            )
            .with_hint("write for example '1ns', '100us', '1ms', '1s', '1min', '1h' or '1d'")
        };
        debug_assert!(UNITS.iter().all(|(_, ns)| *ns >= 1), "a unit has no duration");
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit()).ok_or_else(unknown)?;
        let (number, unit) = trimmed.split_at(split);
        let number: i64 = number.parse().map_err(|_| unknown())?;
        let unit = unit.trim().to_ascii_lowercase();
        let unit = match unit.as_str() {
            "µs" | "microsecond" | "microseconds" => "us",
            "m" | "minute" | "minutes" => "min",
            "second" | "seconds" => "s",
            "hour" | "hours" => "h",
            "day" | "days" => "d",
            "millisecond" | "milliseconds" => "ms",
            "nanosecond" | "nanoseconds" => "ns",
            other => other,
        };
        let (_, ns) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(unknown)?;
        Self::from_ns(number.checked_mul(*ns).ok_or_else(unknown)?)
    }
}

impl fmt::Display for Granularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(UNITS.is_sorted_by(|one, next| one.1 > next.1), "a unit is out of order");
        let ns = self.ns();
        let (unit, size) =
            UNITS.iter().find(|(_, size)| ns.rem_euclid(*size) == 0).unwrap_or(&("ns", 1));
        debug_assert!(ns >= *size, "the unit is longer than the granularity");
        write!(f, "{}{unit}", ns.div_euclid(*size))
    }
}

/// The base and the granularity of a chronicle's ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TickScale {
    base_ns: i64,
    granularity: Granularity,
}

impl TickScale {
    /// A scale whose base is `created_ns` (F21: the creation time, or the option `base`), rounded
    /// down to a multiple of the granularity since 1970. Coarse ticks therefore start at round
    /// times.
    pub fn starting_at(created_ns: i64, granularity: Granularity) -> Self {
        let offset = created_ns.rem_euclid(granularity.ns());
        let base_ns = created_ns.saturating_sub(offset);
        debug_assert!(base_ns <= created_ns, "the base is after the creation");
        debug_assert!(
            created_ns.abs_diff(base_ns) < granularity.ns().unsigned_abs(),
            "the creation is not in tick 0"
        );
        debug_assert!(
            base_ns == i64::MIN || base_ns.rem_euclid(granularity.ns()) == 0,
            "the base is not at a round time"
        );
        Self { base_ns, granularity }
    }

    /// The time of tick 0, in nanoseconds since 1970.
    pub const fn base_ns(&self) -> i64 {
        self.base_ns
    }

    /// The length of a tick.
    pub const fn granularity(&self) -> Granularity {
        self.granularity
    }

    /// The tick of `time_ns`; times within one granule share a tick.
    ///
    /// # Errors
    /// `DatetimeOverflow` when the distance from the base does not fit a tick.
    pub fn tick_of(&self, time_ns: i64) -> Result<Tick> {
        let distance = i128::from(time_ns) - i128::from(self.base_ns);
        let tick = distance.div_euclid(i128::from(self.granularity.ns()));
        match i64::try_from(tick) {
            Ok(tick) if tick <= Tick::MAX.0 => {
                debug_assert!(
                    self.time_ns_of(Tick(tick)).is_none_or(|start| start <= time_ns),
                    "the tick starts after its time"
                );
                debug_assert!(
                    self.time_ns_of(Tick(tick).next()).is_none_or(|start| start > time_ns),
                    "the next tick starts before the time"
                );
                Ok(Tick(tick))
            }
            _ => Err(self.overflow(time_ns)),
        }
    }

    /// The first tick that starts at or after `time_ns`: `Tick::MIN` for times before the first
    /// tick, `Tick::END` for times after the last tick. For bounds of ranges, which may lie outside
    /// of all ticks.
    pub fn bound_at_or_after(&self, time_ns: i128) -> Tick {
        let granularity = i128::from(self.granularity.ns());
        let distance = time_ns - i128::from(self.base_ns);
        let tick = -((-distance).div_euclid(granularity));
        let bound = match i64::try_from(tick) {
            Ok(tick) => Tick(tick),
            Err(_) if tick < 0 => Tick::MIN,
            Err(_) => Tick::END,
        };
        debug_assert!(
            bound == Tick::END
                || self.time_ns_of(bound).is_none_or(|start| i128::from(start) >= time_ns),
            "the bound starts before the time"
        );
        bound
    }

    /// The start of a tick, in nanoseconds since 1970; `None` if the time does not fit an i64.
    pub fn time_ns_of(&self, tick: Tick) -> Option<i64> {
        let time =
            i128::from(self.base_ns) + i128::from(tick.0) * i128::from(self.granularity.ns());
        i64::try_from(time).ok()
    }

    fn overflow(&self, time_ns: i64) -> Error {
        Error::new(
            ErrorKind::DatetimeOverflow,
            format!("time {time_ns} ns is out of the range of the chronicle's ticks"),
        )
        .with_detail(format!("base {} ns, granularity {}", self.base_ns, self.granularity))
        .with_hint("choose a coarser granularity for times this far from the table's creation")
    }
}

#[cfg(test)]
mod tests;
