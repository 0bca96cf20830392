//! Commit times of events: the highest gsn at recent instants, in memory only.
//!
//! ```text
//!   look of the grapher    gsn 90        gsn 90   gsn 140            gsn 200
//!   samples                (90, 10:00)            (140, 10:02)       (200, 10:03)
//!                                                  └ gsn's 91 to 140 count as committed at 10:02
//! ```
//! An event counts as committed at the first look after its commit: the assumed age is never more
//! than the real age. Events recovered by a start count as committed at the start.

use std::collections::VecDeque;

use parking_lot::Mutex;
use stratalog_model::Gsn;

/// Maximum number of samples. Beyond this number, the older half keeps every second sample.
const SAMPLES_MAX: usize = 4096;

/// Commit times of events; see the module's comment.
#[derive(Debug, Default)]
pub struct CommitTimes {
    /// Highest gsn and time of each sample; both ascend.
    samples: Mutex<VecDeque<(u64, i64)>>,
}

impl CommitTimes {
    /// Records the commit of events up to `gsn`; calls `now` only for new events.
    pub fn note(&self, gsn: Gsn, now: impl FnOnce() -> i64) {
        let mut samples = self.samples.lock();
        let last = samples.back().copied();
        if last.is_some_and(|(known, _)| gsn.0 <= known) {
            return;
        }
        let now_ns = last.map_or(i64::MIN, |(_, at_ns)| at_ns).max(now());
        debug_assert!(last.is_none_or(|(known, at_ns)| known < gsn.0 && at_ns <= now_ns));
        samples.push_back((gsn.0, now_ns));
        if samples.len() > SAMPLES_MAX {
            let mut at: usize = 0;
            samples.retain(|_| {
                at += 1;
                at > SAMPLES_MAX / 2 || at.is_multiple_of(2)
            });
        }
        debug_assert!(samples.len() <= SAMPLES_MAX, "there are too many samples");
        debug_assert!(
            samples.back().is_some_and(|(known, _)| *known == gsn.0),
            "the newest sample is lost"
        );
    }

    /// The assumed commit time of a gsn: not after `now_ns`.
    pub fn of(&self, gsn: u64, now_ns: i64) -> i64 {
        let samples = self.samples.lock();
        let first = samples.partition_point(|(known, _)| *known < gsn);
        samples.get(first).map_or(now_ns, |(_, at_ns)| *at_ns)
    }

    /// The highest gsn certainly committed at `time_ns` or before.
    pub fn until(&self, time_ns: i64) -> Gsn {
        let samples = self.samples.lock();
        let later = samples.partition_point(|(_, at_ns)| *at_ns <= time_ns);
        Gsn(later.checked_sub(1).and_then(|last| samples.get(last)).map_or(0, |(gsn, _)| *gsn))
    }
}

#[cfg(test)]
mod tests;
