//! Where events of a chronicle were deleted: what a reader in the order of commits is told of,
//! also when no fence and no piece tells of it any more.

use serde::{Deserialize, Serialize};
use stratalog_model::{Gsn, GsnRange};

/// Ranges that are kept apart; the closest ones are told as one then.
const RANGES_MAX: usize = 64;

/// Positions of which events were deleted, others may lie between them: first and last, ascending,
/// with positions between each two that are no such ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lost(Vec<(Gsn, Gsn)>);

impl Lost {
    /// Whether nothing was ever deleted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These, and those of one more delete.
    #[must_use]
    pub fn with(&self, gone: GsnRange) -> Self {
        if gone.is_empty() {
            return self.clone();
        }
        let mut all = self.0.clone();
        all.push((gone.start, Gsn(gone.end.0 - 1)));
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
        Self(joined)
    }

    /// The ranges that have a position of `gsns`, ascending.
    pub fn within(&self, gsns: GsnRange) -> impl Iterator<Item = GsnRange> {
        let all = self.0.iter().map(|(first, last)| GsnRange::between(*first, *last));
        all.filter(move |range| range.overlaps(&gsns))
    }
}

fn join_closest(ranges: &mut Vec<(Gsn, Gsn)>) {
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
