//! Half-open ranges of ticks, and sets of ticks as lists of ranges (F18, F20).
//!
//! ```text
//!   [start ……… end)      start is inside, end is not; Tick::END means "no end"
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Tick;

/// The ticks from `start` (included) to `end` (excluded). Empty when `start >= end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TickRange {
    /// First tick inside.
    pub start: Tick,
    /// First tick after the range.
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

    /// The range that contains only `tick`.
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

    /// Whether all ticks of `other` are inside.
    pub fn covers(&self, other: &TickRange) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// Whether the ranges share at least one tick.
    pub fn overlaps(&self, other: &TickRange) -> bool {
        !self.intersect(other).is_empty()
    }

    /// The ticks inside both ranges.
    #[must_use]
    pub fn intersect(&self, other: &TickRange) -> TickRange {
        let common = TickRange { start: self.start.max(other.start), end: self.end.min(other.end) };
        debug_assert!(self.covers(&common), "a common tick is outside of the first range");
        debug_assert!(other.covers(&common), "a common tick is outside of the second range");
        common
    }

    /// The smallest range that contains both ranges; an empty range adds nothing.
    #[must_use]
    pub fn hull(&self, other: &TickRange) -> TickRange {
        let hull = match (self.is_empty(), other.is_empty()) {
            (true, _) => *other,
            (_, true) => *self,
            _ => TickRange { start: self.start.min(other.start), end: self.end.max(other.end) },
        };
        debug_assert!(hull.covers(self), "the hull cuts the first range");
        debug_assert!(hull.covers(other), "the hull cuts the second range");
        hull
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

    /// The union of the ranges, which may be in any order and may overlap.
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
        let ranges = Self(merged);
        ranges.assert_consistent();
        ranges
    }

    fn assert_consistent(&self) {
        debug_assert!(self.0.iter().all(|range| !range.is_empty()), "a range has no ticks");
        debug_assert!(
            self.0.is_sorted_by(|before, after| before.end < after.start),
            "ranges touch or are out of order"
        );
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
        let is_all = self.0.first() == Some(&TickRange::ALL);
        debug_assert!(!is_all || self.0.len() == 1, "a range is behind all ticks");
        is_all
    }

    /// Whether `tick` is inside.
    pub fn contains(&self, tick: Tick) -> bool {
        let at = self.0.partition_point(|range| range.end <= tick);
        self.0.get(at).is_some_and(|range| range.contains(tick))
    }

    /// Whether all ticks of `range` are inside.
    pub fn covers(&self, range: &TickRange) -> bool {
        let at = self.0.partition_point(|r| r.end <= range.start);
        range.is_empty() || self.0.get(at).is_some_and(|r| r.covers(range))
    }

    /// Whether at least one tick of `range` is inside.
    pub fn overlaps(&self, range: &TickRange) -> bool {
        let at = self.0.partition_point(|r| r.end <= range.start);
        self.0.get(at).is_some_and(|r| r.overlaps(range))
    }

    /// The smallest range that contains all ticks; empty if the set is empty.
    pub fn hull(&self) -> TickRange {
        let hull = match (self.0.first(), self.0.last()) {
            (Some(first), Some(last)) => TickRange::new(first.start, last.end),
            _ => TickRange::EMPTY,
        };
        debug_assert_eq!(hull.is_empty(), self.0.is_empty(), "the hull has lost the ticks");
        hull
    }

    /// The ticks inside at least one of the sets.
    #[must_use]
    pub fn union(&self, other: &TickRanges) -> TickRanges {
        let union = Self::from_ranges(self.0.iter().chain(&other.0).copied());
        debug_assert!(union.hull().covers(&self.hull()), "the union lacks ticks of the first set");
        debug_assert!(
            union.hull().covers(&other.hull()),
            "the union lacks ticks of the second set"
        );
        union
    }

    /// The ticks inside both sets.
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
        let common = Self(result);
        common.assert_consistent();
        debug_assert!(self.hull().covers(&common.hull()), "a common tick is not in the first set");
        debug_assert!(
            other.hull().covers(&common.hull()),
            "a common tick is not in the second set"
        );
        common
    }

    /// All ticks outside of this set.
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
        let others = Self(result);
        others.assert_consistent();
        debug_assert_eq!(others.is_all(), self.is_empty(), "the ticks of the set are not left out");
        debug_assert_eq!(others.is_empty(), self.is_all(), "ticks outside of the set are missing");
        others
    }

    /// The ticks inside `self`, but not inside `other`.
    #[must_use]
    pub fn difference(&self, other: &TickRanges) -> TickRanges {
        let rest = self.intersect(&other.complement());
        debug_assert!(self.hull().covers(&rest.hull()), "the difference has new ticks");
        debug_assert!(
            !other.is_all() || rest.is_empty(),
            "the difference with all ticks has ticks"
        );
        rest
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
