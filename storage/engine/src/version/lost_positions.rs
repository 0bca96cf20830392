//! The gsn's of deleted events. A subscription, which reads in commit order, reports them as a gap,
//! even after the fence and all files of the deleted events are gone.

use serde::{Deserialize, Serialize};
use stratalog_model::{Gsn, GsnRange};

/// Maximum number of ranges per chronicle. Beyond this number, the two closest ranges are joined.
const RANGES_MAX: usize = 64;

/// The gsn's of deleted events, as ranges (first, last), ascending and never adjacent. A range may
/// also include gsn's of events that were not deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LostPositions(Vec<(Gsn, Gsn)>);

impl LostPositions {
    /// True before the first delete.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a copy with the gsn's of one more delete.
    #[must_use]
    pub fn with(&self, deleted: GsnRange) -> Self {
        if deleted.is_empty() {
            return self.clone();
        }
        let mut all = self.0.clone();
        all.push((deleted.start, Gsn(deleted.end.0 - 1)));
        all.sort_unstable();
        let mut joined: Vec<(Gsn, Gsn)> = Vec::with_capacity(all.len());
        for (first, last) in all {
            match joined.last_mut() {
                Some(before) if first.0 <= before.1.0.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => joined.push((first, last)),
            }
        }
        while joined.len() > RANGES_MAX {
            join_closest(&mut joined);
        }
        debug_assert!(joined.len() <= RANGES_MAX);
        debug_assert!(
            joined.iter().any(|(first, last)| GsnRange::between(*first, *last).covers(&deleted)),
            "a deleted position is forgotten"
        );
        debug_assert!(joined.is_sorted_by(|before, after| before.1 < after.0));
        Self(joined)
    }

    /// The ranges that overlap `gsns`, ascending.
    pub fn within(&self, gsns: GsnRange) -> impl Iterator<Item = GsnRange> {
        let all = self.0.iter().map(|(first, last)| GsnRange::between(*first, *last));
        all.filter(move |range| range.overlaps(&gsns))
    }
}

fn join_closest(ranges: &mut Vec<(Gsn, Gsn)>) {
    debug_assert!(ranges.len() >= 2, "there are no two ranges to join");
    let apart = |pair: &[(Gsn, Gsn)]| match pair {
        [a, b] => b.0.0 - a.1.0,
        _ => u64::MAX,
    };
    let closest = ranges.windows(2).enumerate().min_by_key(|(_, pair)| apart(pair));
    let Some(at) = closest.map(|(at, _)| at) else { return };
    let last = ranges.remove(at + 1).1;
    if let Some(first) = ranges.get_mut(at) {
        first.1 = last;
    }
}

#[cfg(test)]
mod tests;
