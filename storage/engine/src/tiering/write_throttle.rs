//! Limits the write rate of moves: a long move must leave enough of the disk for appends and
//! queries (F40).

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// A writer waits only if it is ahead of the allowed rate by more than this time.
const AHEAD_MAX: Duration = Duration::from_millis(100);

/// A limit in bytes per second.
#[derive(Debug)]
pub struct WriteThrottle {
    /// Allowed bytes per second; 0 for no limit.
    bytes_per_second: u64,
    /// Time at which the writes so far would end at the allowed rate.
    due: Mutex<Option<Instant>>,
    /// True after [`Self::end`]: nothing waits any more.
    ended: AtomicBool,
}

impl WriteThrottle {
    /// A limit of `bytes_per_second`; 0 for no limit.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, due: Mutex::default(), ended: AtomicBool::new(false) }
    }

    /// Ends all waits, now and in future: the running move must end soon.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Records that `bytes` were written, and waits until the next write is allowed.
    pub async fn throttle(&self, bytes: u64) {
        let Some(rate) = std::num::NonZero::new(self.bytes_per_second) else { return };
        let nanoseconds = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
        let takes = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        let due = {
            let (mut due, now) = (self.due.lock(), Instant::now());
            // Idle time gives no credit for later writes.
            let from = due.map_or(now, |due| due.max(now));
            let end = from.checked_add(takes).unwrap_or(from);
            debug_assert!(due.is_none_or(|due| due <= end), "the end of the writes goes back");
            *due.insert(end)
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
        let (write_throttle, began) = (WriteThrottle::new(10_000_000), Instant::now());
        for _ in 0..50 {
            write_throttle.throttle(100_000).await;
        }
        // 0.5 s at this pace, without the 0.1 s allowed ahead.
        assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
        // Unused time does not add up.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let began = Instant::now();
        write_throttle.throttle(5_000_000).await;
        assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
        // After the end, a write of years returns at once.
        write_throttle.end();
        write_throttle.throttle(u64::MAX).await;
    }

    #[tokio::test]
    async fn without_a_limit_nothing_waits() {
        let write_throttle = WriteThrottle::new(0);
        write_throttle.throttle(u64::MAX).await;
        assert_eq!(*write_throttle.due.lock(), None);
    }
}
