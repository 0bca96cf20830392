//! An estimate of the master clock from a monotonic clock: the paper's Figure 6 (F23).
//!
//! ```text
//!   master   ───────────┬───────s───────┬──────────────────► time
//!                      ╱         ╲       (s: the master's reading, taken somewhere in between)
//!   client   ────────sent───────received───────────────────► the client's own clock
//!
//!   master at sent ≤ s ≤ master at received              one round trip bounds the distance
//!   (s₂ − s₁) ÷ (received₂ − sent₁) ≤ rate
//!   rate ≤ (s₂ − s₁) ÷ (sent₂ − received₁)               two round trips bound the rate
//!
//!   time = client's time ÷ drift + distance              the paper's words: drift = 1 ÷ rate
//! ```
//!
//! Every bound holds for certain; no bound depends on the distribution of the latency. The master's
//! time lies inside the bounds while the rates stay within [`ClockRates`] and neither clock jumps
//! unnoticed. After a jump, round trips contradict each other, or the [`TimeLine`] is new: then
//! only the newest round trip counts.
//!
//! Each estimate that [`Estimator::tell`] returns is later than all earlier estimates. Suppose that
//! the client's clock leaps far ahead, and the client uses estimates before it notices the leap.
//! The master refuses these times as too far ahead. Without a restart, all later estimates would be
//! later still, and the master would refuse them until its own time catches up. Therefore the
//! estimator restarts once a round trip shows that the last estimate was farther ahead than any
//! master accepts:
//! ```text
//!   estimates ──┬── before the leap                      the leap ──── refused ────
//!               └─► continue here                  ▲
//!                        master ────────► most ────┴─ the farthest accepted time
//! ```
//! No master accepted a time after the leap, because all these times are beyond the farthest
//! accepted time even now. Therefore no stored event has a time that the estimator returns again.
//! If no single leap explains the lead, because the clock was too fast instead, the estimator
//! continues at the farthest accepted time.

use std::collections::VecDeque;

use super::{ClockReading, RATE_ONE_PPB, TimeLine};
use crate::acceptance::WINDOW_MS_MAX;

/// The maximum number of round trips that the estimator keeps.
const TRIPS_MAX: usize = 16;

/// The number of round trips after which the long interval applies, counted from the start of a new
/// line.
const TRIPS_AT_FIRST: usize = 4;

/// The interval of the first round trips of a line.
const FIRST_EVERY_NS: u64 = 50_000_000;

/// The interval of later round trips of a line.
const LATER_EVERY_NS: u64 = 10_000_000_000;

/// The maximum lead over the master's time that any chronicle accepts: the maximum acceptance
/// window, plus a second for the uncertainty of the master.
const AHEAD_NS_MAX: u64 = (WINDOW_MS_MAX + 1_000) * 1_000_000;

/// The maximum number of leaps that the estimator keeps.
const LEAPS_MAX: usize = 8;

/// The limits of the rates of the two machines' clocks, assumed before the first round trip.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockRates {
    /// The minimum and the maximum advance of the master's clock while the client's clock advances
    /// by 1.
    pub between: (f64, f64),
    /// The maximum change of the rate during the period of the kept round trips.
    pub wander: f64,
}

impl ClockRates {
    /// Limits for the clocks of ordinary machines: a rate difference of at most 0.1 %, and a change
    /// of the rate of at most 20 millionths.
    pub const MACHINES: ClockRates = ClockRates { between: (0.999, 1.001), wander: 20e-6 };

    /// Limits for any clocks: the rates differ by a factor of at most 4.
    pub const ANY: ClockRates = ClockRates { between: (0.25, 4.0), wander: 100e-6 };
}

/// One request to the master clock, with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// The client's clock when the request was sent.
    pub sent_ns: u64,
    /// The master's reading.
    pub reading: ClockReading,
    /// The client's clock when the answer arrived.
    pub received_ns: u64,
}

impl RoundTrip {
    /// The duration of the round trip.
    pub fn took_ns(&self) -> u64 {
        debug_assert!(self.sent_ns <= self.received_ns, "the answer precedes the request");
        self.received_ns.saturating_sub(self.sent_ns)
    }
}

/// An estimate of the master's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EstimatedTime {
    /// Nanoseconds since 1970: the estimate of the master's time.
    pub time_ns: i64,
    /// The maximum difference from the master's actual time.
    pub error_ns: u64,
}

/// Estimates the master's time from a client's monotonic clock.
#[derive(Debug, Clone)]
pub struct Estimator {
    rates: ClockRates,
    /// The kept round trips, all of one line, the newest last.
    trips: VecDeque<RoundTrip>,
    /// The lower and the upper bound of the rate, from the round trips.
    rate: (f64, f64),
    jumps: u64,
    last_estimate_ns: Option<i64>,
    /// Increases of the estimate by more than [`AHEAD_NS_MAX`] since the estimate was last known to
    /// be near the master's time. Each entry holds the estimates before and after the leap.
    leaps: VecDeque<(Option<i64>, i64)>,
    restarts: u64,
}

impl Estimator {
    /// An estimator without a round trip.
    pub fn new(rates: ClockRates) -> Self {
        debug_assert!(rates.between.0 > 0.0, "the master's clock may stand still");
        debug_assert!(rates.between.0 <= rates.between.1, "the limits of the rate are exchanged");
        debug_assert!(rates.wander >= 0.0, "the rate changes by less than nothing");
        Self {
            rates,
            trips: VecDeque::new(),
            rate: rates.between,
            jumps: 0,
            last_estimate_ns: None,
            leaps: VecDeque::new(),
            restarts: 0,
        }
    }

    /// Updates the estimate with a new round trip.
    pub fn learn(&mut self, trip: RoundTrip) {
        if trip.received_ns < trip.sent_ns {
            // A monotonic clock never goes backwards: ignore the round trip.
            return;
        }
        if self.line().is_some_and(|line| line != trip.reading.line) {
            self.trips.clear();
        } else if self.contradicts(&trip) {
            self.jumps += 1;
            self.trips.clear();
        }
        if self.trips.len() == TRIPS_MAX {
            self.trips.pop_front();
        }
        self.trips.push_back(trip);
        match self.rate_by_trips() {
            Some(rate) => self.rate = rate,
            None => {
                self.jumps += 1;
                self.trips.clear();
                self.trips.push_back(trip);
                self.rate = self.rate_before(&trip.reading);
            }
        }
        self.come_back(&trip);
        debug_assert_eq!(self.trips.back(), Some(&trip), "the newest round trip is not the last");
        self.assert_consistent();
    }

    fn assert_consistent(&self) {
        debug_assert!(self.trips.len() <= TRIPS_MAX, "too many round trips");
        debug_assert!(self.leaps.len() <= LEAPS_MAX, "too many leaps");
        debug_assert!(self.rate.0 <= self.rate.1, "the bounds of the rate are exchanged");
        debug_assert!(self.rate.0 >= 0.0, "the master's clock runs backwards");
        debug_assert!(
            self.trips.iter().all(|trip| Some(trip.reading.line) == self.line()),
            "round trips of several lines"
        );
        debug_assert!(
            self.trips.iter().all(|trip| trip.sent_ns <= trip.received_ns),
            "an answer precedes its request"
        );
        debug_assert!(
            self.leaps.iter().all(|(before, behind)| before.is_none_or(|told| told < *behind)),
            "a leap goes back"
        );
        debug_assert!(
            self.leaps.iter().is_sorted_by_key(|(_, behind)| *behind),
            "leaps are out of order"
        );
    }

    /// Restarts the estimates at an earlier time if the last estimate was too far ahead for the
    /// master.
    fn come_back(&mut self, trip: &RoundTrip) {
        let Some(last_estimate_ns) = self.last_estimate_ns else { return };
        let Some((_, most)) = self.bounds_ns(trip.received_ns) else { return };
        let farthest = most.saturating_add_unsigned(AHEAD_NS_MAX);
        if last_estimate_ns <= farthest {
            // The master's reading shows that the master accepts the last estimate: no leap needs
            // to be undone.
            if last_estimate_ns <= trip.reading.now_ns.saturating_add_unsigned(AHEAD_NS_MAX) {
                self.leaps.clear();
            }
            return;
        }
        self.restarts += 1;
        let refused = self.leaps.drain(..).find(|(_, behind)| *behind > farthest);
        self.last_estimate_ns = match refused {
            Some((before, _)) => before.map(|before| before.min(farthest)),
            None => Some(farthest),
        };
        debug_assert!(self.leaps.is_empty(), "a leap outlives the restart");
        debug_assert!(
            self.last_estimate_ns.is_none_or(|told| told <= farthest),
            "the restart is still too far ahead"
        );
    }

    /// The line of the newest reading; `None` before the first round trip.
    pub fn line(&self) -> Option<TimeLine> {
        self.trips.back().map(|trip| trip.reading.line)
    }

    /// The number of clock jumps detected only because round trips contradicted each other.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    /// The number of restarts at an earlier time, after estimates too far ahead for the master.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Whether another round trip is due when the client's clock shows `at_ns`.
    pub fn is_due(&self, at_ns: u64) -> bool {
        let Some(newest) = self.trips.back() else { return true };
        let every_ns =
            if self.trips.len() < TRIPS_AT_FIRST { FIRST_EVERY_NS } else { LATER_EVERY_NS };
        at_ns.saturating_sub(newest.received_ns) >= every_ns
    }

    /// Twice the latency of the session (F24), in nanoseconds: the longest kept round trip; 0
    /// before the first.
    pub fn round_trip_ns(&self) -> u64 {
        self.trips.iter().map(RoundTrip::took_ns).max().unwrap_or(0)
    }

    /// The advance of the client's clock while the master's clock advances by 1: the paper's drift
    /// rate.
    pub fn drift(&self) -> f64 {
        2.0 / (self.rate.0 + self.rate.1)
    }

    /// The paper's distance: the master's time is the client's time divided by [`Self::drift`],
    /// plus this distance. `None` before the first round trip.
    pub fn distance_ns(&self) -> Option<i64> {
        let newest = self.trips.back()?;
        let (least, most) = self.bounds_ns(newest.received_ns)?;
        let client = newest.received_ns as f64 / self.drift();
        Some(middle_of(least, most).saturating_sub(client as i64))
    }

    /// The earliest and the latest possible time of the master when the client's clock shows
    /// `at_ns`; `None` before the first round trip.
    pub fn bounds_ns(&self, at_ns: u64) -> Option<(i64, i64)> {
        let mut bounds: Option<(i64, i64)> = None;
        for trip in &self.trips {
            let (least, most) = self.bounds_by(trip, at_ns);
            bounds = Some(match bounds {
                Some((low, high)) => (low.max(least), high.min(most)),
                None => (least, most),
            });
        }
        // Rounding may swap the bounds by a nanosecond.
        bounds.map(|(low, high)| (low.min(high), high.max(low)))
    }

    /// The estimate of the master's time when the client's clock shows `at_ns`. Each result is
    /// later than the previous result, so successive events of one client have ascending times.
    /// Exception: after estimates too far ahead for any master, earlier times may follow and may
    /// repeat ([`Self::restarts`]). `None` before the first round trip.
    pub fn tell(&mut self, at_ns: u64) -> Option<EstimatedTime> {
        let (least, most) = self.bounds_ns(at_ns)?;
        let middle = middle_of(least, most);
        let time_ns = match self.last_estimate_ns {
            Some(before) => middle.max(before.saturating_add(1)),
            None => middle,
        };
        debug_assert!(
            self.last_estimate_ns.is_none_or(|told| told < time_ns || told == i64::MAX),
            "the told time does not advance"
        );
        self.note_leap(time_ns);
        self.last_estimate_ns = Some(time_ns);
        let error_ns = time_ns.abs_diff(least).max(time_ns.abs_diff(most));
        debug_assert!(error_ns >= least.abs_diff(most) / 2, "the error does not reach the bounds");
        self.assert_consistent();
        Some(EstimatedTime { time_ns, error_ns })
    }

    /// Records a leap if `time_ns` is far ahead of the last estimate.
    fn note_leap(&mut self, time_ns: i64) {
        let before = self.last_estimate_ns;
        debug_assert!(before.is_none_or(|before| before <= time_ns), "the told time goes back");
        if before.is_some_and(|before| before.abs_diff(time_ns) <= AHEAD_NS_MAX) {
            return;
        }
        if self.leaps.len() == LEAPS_MAX {
            self.leaps.pop_front();
        }
        self.leaps.push_back((before, time_ns));
    }

    /// The bounds of the master's time at `at_ns`, from one round trip: the master read its clock
    /// between `sent_ns` and `received_ns`.
    fn bounds_by(&self, trip: &RoundTrip, at_ns: u64) -> (i64, i64) {
        debug_assert!(trip.sent_ns <= trip.received_ns, "the answer precedes the request");
        let (slow, fast) = self.rate;
        let least = distance(trip.received_ns, at_ns);
        let most = distance(trip.sent_ns, at_ns);
        let least = least * if least < 0.0 { fast } else { slow };
        let most = most * if most < 0.0 { slow } else { fast };
        // Round outward: rounding must not exclude the master's time.
        let (least, most) = (least.floor() as i64, most.ceil() as i64);
        debug_assert!(least <= most, "the bounds of one round trip are exchanged");
        (trip.reading.now_ns.saturating_add(least), trip.reading.now_ns.saturating_add(most))
    }

    /// Whether the reading of a new round trip lies outside of the bounds from earlier round trips.
    fn contradicts(&self, trip: &RoundTrip) -> bool {
        debug_assert!(trip.sent_ns <= trip.received_ns, "the answer precedes the request");
        let (Some((least, _)), Some((_, most))) =
            (self.bounds_ns(trip.sent_ns), self.bounds_ns(trip.received_ns))
        else {
            return false;
        };
        trip.reading.now_ns < least || trip.reading.now_ns > most
    }

    /// The bounds of the rate from all round trips; `None` if the round trips contradict each
    /// other.
    fn rate_by_trips(&self) -> Option<(f64, f64)> {
        let newest = self.trips.back()?;
        let (mut slow, mut fast) = self.rate_before(&newest.reading);
        for (at, later) in self.trips.iter().enumerate() {
            for earlier in self.trips.iter().take(at) {
                let advanced =
                    i128::from(later.reading.now_ns) - i128::from(earlier.reading.now_ns);
                let advanced = advanced as f64;
                let longest = distance(earlier.sent_ns, later.received_ns);
                let shortest = distance(earlier.received_ns, later.sent_ns);
                if longest > 0.0 {
                    slow = slow.max(advanced / longest - self.rates.wander);
                }
                if shortest > 0.0 {
                    fast = fast.min(advanced / shortest + self.rates.wander);
                }
            }
        }
        (slow <= fast).then_some((slow, fast))
    }

    /// The bounds of the rate before two round trips have measured it.
    fn rate_before(&self, reading: &ClockReading) -> (f64, f64) {
        let rate = reading.rate_ppb as f64 / RATE_ONE_PPB as f64;
        let (slow, fast) = (self.rates.between.0 * rate, self.rates.between.1 * rate);
        debug_assert!(slow <= fast, "the bounds of the rate are exchanged");
        (slow, fast)
    }
}

/// The time between two readings of the client's clock.
fn distance(from_ns: u64, to_ns: u64) -> f64 {
    (i128::from(to_ns) - i128::from(from_ns)) as f64
}

fn middle_of(least: i64, most: i64) -> i64 {
    debug_assert!(least <= most, "the bounds are exchanged");
    let middle = least.midpoint(most);
    debug_assert!((least..=most).contains(&middle), "the middle is outside of the bounds");
    middle
}

#[cfg(test)]
mod tests;
