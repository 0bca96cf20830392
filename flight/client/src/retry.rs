//! Retries: how often, and after which waiting times.

use std::time::{Duration, Instant};

use crate::statement::is_pure;

/// The policy for repeating failed requests. The client repeats only safe requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximal number of attempts, including the first.
    pub attempts_max: u32,
    /// The waiting time before the second attempt; doubles with each further attempt.
    pub backoff_min: Duration,
    /// The longest waiting time between two attempts.
    pub backoff_max: Duration,
    /// The maximal time between the first failure and the beginning of the last attempt.
    pub deadline: Duration,
}

impl Default for RetryPolicy {
    /// The policy of clients: eight attempts within 30 seconds.
    fn default() -> Self {
        Self {
            attempts_max: 8,
            backoff_min: Duration::from_millis(50),
            backoff_max: Duration::from_secs(5),
            deadline: Duration::from_secs(30),
        }
    }
}

impl RetryPolicy {
    /// A policy of any number of attempts within `deadline`. The default policy of writers is
    /// `within` five minutes.
    pub fn within(deadline: Duration) -> Self {
        Self { attempts_max: u32::MAX, deadline, ..Self::default() }
    }

    /// A policy of a single attempt, without retries.
    pub fn never() -> Self {
        Self { attempts_max: 1, ..Self::default() }
    }
}

/// The state of a series of consecutive failures under a policy.
#[derive(Debug)]
pub(crate) struct Backoff {
    policy: RetryPolicy,
    failures: u32,
    since: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self { policy, failures: 0, since: None }
    }

    /// Forgets the failures, after a success.
    pub(crate) fn reset(&mut self) {
        (self.failures, self.since) = (0, None);
    }

    /// Counts a failure. Returns the waiting time before the next attempt, or `None` if the caller
    /// must give up. `chance`, a random number from 0 to 1, decides half of the waiting time, so
    /// that clients that failed together do not retry together.
    pub(crate) fn failed(&mut self, now: Instant, chance: f64) -> Option<Duration> {
        self.failures = self.failures.saturating_add(1);
        let since = *self.since.get_or_insert(now);
        if self.failures >= self.policy.attempts_max {
            return None;
        }
        let doublings = self.failures.saturating_sub(1).min(20);
        let longest = self.policy.backoff_min.saturating_mul(1 << doublings);
        let longest = longest.min(self.policy.backoff_max);
        let wait = longest.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        let left = self.policy.deadline.saturating_sub(now.saturating_duration_since(since));
        (wait < left).then_some(wait)
    }

    /// The text for the final error: the number of attempts and their duration.
    pub(crate) fn summary(&self, now: Instant) -> String {
        let since = self.since.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        format!("given up after {} tries in {:.1} s", self.failures, since.as_secs_f64())
    }
}

/// A random number between 0 and 1.
pub(crate) fn chance() -> f64 {
    let [low, high, ..] = uuid::Uuid::new_v4().into_bytes();
    f64::from(u16::from_le_bytes([low, high])) / f64::from(u16::MAX)
}

/// The failures after which a request may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatCondition {
    /// Any transient failure: to run the request twice has the same effect as to run the request
    /// once.
    Pure,
    /// Only a failure after which the request certainly had no effect.
    OnlyUnsent,
}

impl RepeatCondition {
    pub(crate) fn of(sql: &str) -> Self {
        if is_pure(sql) { RepeatCondition::Pure } else { RepeatCondition::OnlyUnsent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut backoff = Backoff::new(RetryPolicy::default());
        let now = Instant::now();
        let waits: Vec<u128> =
            (0..7).filter_map(|_| backoff.failed(now, 1.0)).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 3200]);
        assert_eq!(backoff.failed(now, 1.0), None, "the eighth try was the last");
        backoff.reset();
        assert_eq!(backoff.failed(now, 0.0), Some(Duration::from_millis(25)));
    }

    #[test]
    fn nothing_begins_after_the_deadline() {
        let mut backoff = Backoff::new(RetryPolicy::within(Duration::from_secs(1)));
        let start = Instant::now();
        assert!(backoff.failed(start, 1.0).is_some());
        assert!(backoff.failed(start + Duration::from_millis(950), 1.0).is_none());
        let text = backoff.summary(start + Duration::from_millis(950));
        assert_eq!(text, "given up after 2 tries in 0.9 s");
    }

    #[test]
    fn never_is_once() {
        assert_eq!(Backoff::new(RetryPolicy::never()).failed(Instant::now(), 0.5), None);
    }
}
