//! Estimates commit times of events. Keeps, in memory only, the highest gsn at recent points in
//! time.
//!
//! ```text
//!   grapher sees           gsn 90        gsn 90   gsn 140            gsn 200
//!   samples                (90, 10:00)            (140, 10:02)       (200, 10:03)
//!                                                  └ gsn's 91 to 140 count as committed at 10:02
//! ```
//! The commit time of an event is assumed to be the first time at which the grapher sees it: the
//! assumed age is never more than the real age. Events that recovery has restored count as
//! committed at the start.

use std::collections::VecDeque;

use parking_lot::Mutex;
use stratalog_model::Gsn;

/// Maximum number of samples. At this number, every second sample of the older half is dropped.
const SAMPLES_MAX: usize = 4096;

/// Estimated commit times of events; see the module's comment.
#[derive(Debug, Default)]
pub struct CommitTimes {
    /// Highest gsn, and time in nanoseconds since 1970, of each sample; both ascend.
    samples: Mutex<VecDeque<(u64, i64)>>,
}

impl CommitTimes {
    /// Records that events up to `gsn` are committed. Calls `now` only if there are new events.
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

    /// The assumed commit time of a gsn; at most `now_ns`.
    pub fn of(&self, gsn: u64, now_ns: i64) -> i64 {
        let samples = self.samples.lock();
        let first = samples.partition_point(|(known, _)| *known < gsn);
        samples.get(first).map_or(now_ns, |(_, at_ns)| *at_ns)
    }

    /// The highest gsn that was certainly committed at or before `time_ns`.
    pub fn until(&self, time_ns: i64) -> Gsn {
        let samples = self.samples.lock();
        let later = samples.partition_point(|(_, at_ns)| *at_ns <= time_ns);
        Gsn(later.checked_sub(1).and_then(|last| samples.get(last)).map_or(0, |(gsn, _)| *gsn))
    }
}

#[cfg(test)]
mod tests;
