//! Ticks in groups of a coarser granularity (F6).

use super::{Granularity, TickScale};

/// Maps ticks to groups of a coarser granularity (the values of `_group`). The group of a tick is
/// the tick that its time would have in a chronicle created with the coarser granularity.
///
/// ```text
///   T · · · t t t t T t t t t t t t T      T: multiples of the coarser granularity
///   └offset─┴ tick 0
///   └── group 0 ───┘└── group 1 ───┘
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grouping {
    /// Ticks per group, at least 1.
    ticks: i64,
    /// Number of ticks between the start of group 0 and tick 0; less than `ticks`.
    offset: i64,
}

impl Grouping {
    /// Groups with the granularity `index`, which is a whole multiple of the scale's granularity.
    /// Groups begin at multiples of `index` since 1970.
    pub fn new(scale: &TickScale, index: Granularity) -> Self {
        let (native, index) = (scale.granularity().ns(), index.ns());
        debug_assert!(index.rem_euclid(native) == 0, "groups would begin within ticks");
        let ticks = index.div_euclid(native).max(1);
        let offset = scale.base_ns().rem_euclid(index).div_euclid(native);
        debug_assert!((0..ticks).contains(&offset), "tick 0 is not in group 0");
        Self { ticks, offset }
    }

    /// The group of a tick.
    pub const fn group_of(self, tick: i64) -> i64 {
        debug_assert!(self.offset < self.ticks, "tick 0 is not in group 0");
        // The sum `tick + offset` may overflow an i64; this comparison avoids the overflow.
        let (whole, rest) = (tick.div_euclid(self.ticks), tick.rem_euclid(self.ticks));
        if rest + self.offset < self.ticks { whole } else { whole + 1 }
    }

    /// The first tick of a group. `group` and the result may lie outside of the range of ticks.
    pub fn start(self, group: i128) -> i128 {
        let start = group.saturating_mul(i128::from(self.ticks)) - i128::from(self.offset);
        debug_assert!(
            i64::try_from(start).ok().is_none_or(|tick| i128::from(self.group_of(tick)) == group),
            "the first tick is in another group"
        );
        start
    }
}
