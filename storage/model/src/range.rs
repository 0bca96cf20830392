//! Half-open tick ranges and vectors of them (F18, F20).
//!
//! ```text
//!   [start ……… end)      start is inside, end is not; Tick::END means "no end"
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Tick;

/// Ticks from `start` up to, not including, `end`. Empty when `start >= end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TickRange {
    /// First tick inside.
    pub start: Tick,
    /// First tick after.
    pub end: Tick,
}

impl TickRange {
    /// Every tick.
    pub const ALL: TickRange = TickRange { start: Tick::MIN, end: Tick::END };
    /// No tick.
    pub const EMPTY: TickRange = TickRange { start: Tick(0), end: Tick(0) };

    /// The range `[start, end)`.
    pub const fn new(start: Tick, end: Tick) -> Self {
        Self { start, end }
    }

    /// The range of one tick.
    pub const fn at(tick: Tick) -> Self {
        Self { start: tick, end: tick.next() }
    }

    /// Whether no tick is inside.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Whether `tick` is inside.
    pub fn contains(&self, tick: Tick) -> bool {
        self.start <= tick && tick < self.end
    }

    /// Whether all of `other` is inside.
    pub fn covers(&self, other: &TickRange) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// Whether a tick is inside both.
    pub fn overlaps(&self, other: &TickRange) -> bool {
        !self.intersect(other).is_empty()
    }

    /// The ticks inside both.
    #[must_use]
    pub fn intersect(&self, other: &TickRange) -> TickRange {
        TickRange { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// The smallest range around both; an empty range adds nothing.
    #[must_use]
    pub fn hull(&self, other: &TickRange) -> TickRange {
        match (self.is_empty(), other.is_empty()) {
            (true, _) => *other,
            (_, true) => *self,
            _ => TickRange { start: self.start.min(other.start), end: self.end.max(other.end) },
        }
    }
}

impl fmt::Display for TickRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("[)");
        }
        f.write_str("[")?;
        if self.start == Tick::MIN {
            f.write_str("-inf")?
        } else {
            write!(f, "{}", self.start)?
        }
        f.write_str(", ")?;
        if self.end == Tick::END {
            f.write_str("+inf")?
        } else {
            write!(f, "{}", self.end)?
        }
        f.write_str(")")
    }
}

/// A set of ticks as sorted, disjoint, non-adjacent, non-empty ranges.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct TickRanges(Vec<TickRange>);

impl TickRanges {
    /// Every tick.
    pub fn all() -> Self {
        Self(vec![TickRange::ALL])
    }

    /// No tick.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// The union of any ranges, in any order.
    pub fn from_ranges(ranges: impl IntoIterator<Item = TickRange>) -> Self {
        let mut sorted: Vec<TickRange> = ranges.into_iter().filter(|r| !r.is_empty()).collect();
        sorted.sort_by_key(|range| range.start);
        let mut merged: Vec<TickRange> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        debug_assert!(merged.is_sorted_by(|before, after| before.end < after.start));
        Self(merged)
    }

    /// The ranges in ascending order.
    pub fn as_slice(&self) -> &[TickRange] {
        &self.0
    }

    /// Whether no tick is inside.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether every tick is inside.
    pub fn is_all(&self) -> bool {
        self.0.first() == Some(&TickRange::ALL)
    }

    /// Whether `tick` is inside.
    pub fn contains(&self, tick: Tick) -> bool {
        let at = self.0.partition_point(|range| range.end <= tick);
        self.0.get(at).is_some_and(|range| range.contains(tick))
    }

    /// Whether all of `range` is inside.
    pub fn covers(&self, range: &TickRange) -> bool {
        let at = self.0.partition_point(|r| r.end <= range.start);
        range.is_empty() || self.0.get(at).is_some_and(|r| r.covers(range))
    }

    /// Whether a tick of `range` is inside.
    pub fn overlaps(&self, range: &TickRange) -> bool {
        let at = self.0.partition_point(|r| r.end <= range.start);
        self.0.get(at).is_some_and(|r| r.overlaps(range))
    }

    /// The smallest range around all; empty for no ticks.
    pub fn hull(&self) -> TickRange {
        match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => TickRange::new(first.start, last.end),
            _ => TickRange::EMPTY,
        }
    }

    /// Ticks inside either.
    #[must_use]
    pub fn union(&self, other: &TickRanges) -> TickRanges {
        Self::from_ranges(self.0.iter().chain(&other.0).copied())
    }

    /// Ticks inside both.
    #[must_use]
    pub fn intersect(&self, other: &TickRanges) -> TickRanges {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut result = Vec::new();
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let common = x.intersect(y);
            if !common.is_empty() {
                result.push(common);
            }
            if x.end <= y.end {
                a.next();
            } else {
                b.next();
            }
        }
        debug_assert!(result.is_sorted_by(|before, after| before.end < after.start));
        Self(result)
    }

    /// Ticks not inside.
    #[must_use]
    pub fn complement(&self) -> TickRanges {
        let mut result = Vec::with_capacity(self.0.len() + 1);
        let mut start = Tick::MIN;
        for range in &self.0 {
            if start < range.start {
                result.push(TickRange::new(start, range.start));
            }
            start = range.end;
        }
        if start < Tick::END {
            result.push(TickRange::new(start, Tick::END));
        }
        Self(result)
    }

    /// Ticks inside `self` and not inside `other`.
    #[must_use]
    pub fn difference(&self, other: &TickRanges) -> TickRanges {
        self.intersect(&other.complement())
    }
}

impl From<TickRange> for TickRanges {
    fn from(range: TickRange) -> Self {
        Self::from_ranges([range])
    }
}

impl fmt::Display for TickRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (at, range) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            range.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
