//! The link between a client and the server: slow, lossy, and without order.

use stratalog_sim::Random;

use super::clocks::{MS, SECOND};

/// A link with the same properties in both directions.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    least_ns: u64,
    spread_ns: u64,
    /// Percent of the messages that are lost, are duplicated, or take very long.
    lost: u64,
    doubled: u64,
    delayed: u64,
}

impl Link {
    pub fn random(random: &mut Random) -> Self {
        let least_ns = [20_000, MS, 20 * MS][random.below(3) as usize];
        let spread_ns = [10_000, MS, 30 * MS][random.below(3) as usize];
        let mut percent = || [0, 0, 3, 12][random.below(4) as usize];
        Self { least_ns, spread_ns, lost: percent(), doubled: percent(), delayed: percent() }
    }

    /// The same link without losses.
    pub fn calm(self) -> Self {
        Self { lost: 0, doubled: 0, delayed: 0, ..self }
    }

    /// The delay of each copy of a message that arrives.
    pub fn delays(&self, random: &mut Random) -> Vec<u64> {
        let mut copies = u64::from(!random.chance(self.lost));
        copies += u64::from(random.chance(self.doubled));
        let mut delay = || {
            let usual = self.least_ns + random.below(self.spread_ns);
            let more = if random.chance(self.delayed) { random.below(2 * SECOND) } else { 0 };
            usual + more
        };
        (0..copies).map(|_| delay()).collect()
    }

    /// The time to wait for an answer.
    pub fn patience_ns(&self) -> u64 {
        3 * (self.least_ns + self.spread_ns) + 5 * MS
    }
}
