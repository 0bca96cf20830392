//! How fast moves may write: what takes long must not take the disk from appends and queries
//! (F40).

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// Work that is further ahead than this waits.
const AHEAD_MAX: Duration = Duration::from_millis(100);

/// A number of bytes in a second, at most.
#[derive(Debug)]
pub struct Pace {
    /// 0 for as many as there can be.
    bytes_per_second: u64,
    /// When what was written so far would be written at this pace.
    due: Mutex<Option<Instant>>,
    /// Nobody waits any more.
    ended: AtomicBool,
}

impl Pace {
    /// So many; 0 for no limit.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, due: Mutex::default(), ended: AtomicBool::new(false) }
    }

    /// From here on nothing waits: what is under way is to end soon.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// So many bytes were written: returns when more may be.
    pub async fn keep(&self, bytes: u64) {
        let Some(rate) = std::num::NonZero::new(self.bytes_per_second) else { return };
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
        let takes = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let due = {
            let (mut due, now) = (self.due.lock(), Instant::now());
            // What was not used does not add up.
            let from = due.map_or(now, |due| due.max(now));
            *due.insert(from.checked_add(takes).unwrap_or(from))
        };
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left <= AHEAD_MAX || self.ended.load(Ordering::Acquire) {
                return;
            }
            sleep(AHEAD_MAX).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_take_their_time() {
        let (pace, began) = (Pace::new(10_000_000), Instant::now());
        for _ in 0..50 {
            pace.keep(100_000).await;
        }
        // All but what may be ahead.
        assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
        // A rest is not made up for.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let began = Instant::now();
        pace.keep(5_000_000).await;
        assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
        // Who ends does not wait for years.
        pace.end();
        pace.keep(u64::MAX).await;
    }

    #[tokio::test]
    async fn without_a_limit_nothing_waits() {
        let pace = Pace::new(0);
        pace.keep(u64::MAX).await;
        assert_eq!(*pace.due.lock(), None);
    }
}
