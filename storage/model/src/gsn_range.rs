//! Half-open ranges of gsn's (positions in commit order).

use std::fmt;

use crate::Gsn;

/// The gsn's from `start` (included) to `end` (excluded). Empty when `start >= end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GsnRange {
    /// First gsn inside.
    pub start: Gsn,
    /// First gsn after the range.
    pub end: Gsn,
}

impl GsnRange {
    /// All gsn's. The store never assigns the gsn `u64::MAX`.
    pub const ALL: GsnRange = GsnRange { start: Gsn(0), end: Gsn(u64::MAX) };
    /// No gsn.
    pub const EMPTY: GsnRange = GsnRange { start: Gsn(0), end: Gsn(0) };

    /// The range `[start, end)`.
    pub const fn new(start: Gsn, end: Gsn) -> Self {
        Self { start, end }
    }

    /// The range from `first` to `last`, both included.
    pub const fn between(first: Gsn, last: Gsn) -> Self {
        Self { start: first, end: Gsn(last.0.saturating_add(1)) }
    }

    /// The range that contains only `gsn`.
    pub const fn at(gsn: Gsn) -> Self {
        Self::between(gsn, gsn)
    }

    /// Whether every gsn is inside.
    pub fn is_all(&self) -> bool {
        *self == Self::ALL
    }

    /// Whether no gsn is inside.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Whether `gsn` is inside.
    pub fn contains(&self, gsn: Gsn) -> bool {
        self.start <= gsn && gsn < self.end
    }

    /// Whether all gsn's of `other` are inside.
    pub fn covers(&self, other: &GsnRange) -> bool {
        other.is_empty() || (self.start <= other.start && other.end <= self.end)
    }

    /// Whether the ranges share at least one gsn.
    pub fn overlaps(&self, other: &GsnRange) -> bool {
        !self.intersect(other).is_empty()
    }

    /// The gsn's inside both ranges.
    #[must_use]
    pub fn intersect(&self, other: &GsnRange) -> GsnRange {
        let common = GsnRange { start: self.start.max(other.start), end: self.end.min(other.end) };
        debug_assert!(self.covers(&common), "a common position is outside of the first range");
        debug_assert!(other.covers(&common), "a common position is outside of the second range");
        common
    }

    /// The smallest range that contains both ranges; an empty range adds nothing.
    #[must_use]
    pub fn hull(&self, other: &GsnRange) -> GsnRange {
        let hull = match (self.is_empty(), other.is_empty()) {
            (true, _) => *other,
            (_, true) => *self,
            _ => GsnRange { start: self.start.min(other.start), end: self.end.max(other.end) },
        };
        debug_assert!(hull.covers(self), "the hull cuts the first range");
        debug_assert!(hull.covers(other), "the hull cuts the second range");
        hull
    }
}

impl fmt::Display for GsnRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_empty() {
            true => f.write_str("gsn [)"),
            false if self.end == Self::ALL.end => write!(f, "gsn [{}, )", self.start),
            false => write!(f, "gsn [{}, {})", self.start, self.end),
        }
    }
}

#[cfg(test)]
mod tests;
