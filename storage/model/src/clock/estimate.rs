//! What the master clock shows, told from a clock that nobody sets: the paper's Figure 6 (F23).
//!
//! ```text
//!   master   ───────────┬───────s───────┬──────────────────► time
//!                      ╱         ╲       (s is read somewhere in between)
//!   client   ────────sent───────received───────────────────► its own clock
//!
//!   master at sent ≤ s ≤ master at received              one round trip bounds the distance
//!   (s₂ − s₁) ÷ (received₂ − sent₁) ≤ rate
//!   rate ≤ (s₂ − s₁) ÷ (sent₂ − received₁)               two of them bound the rate
//!
//!   time = client's time ÷ drift + distance              the paper's words: drift = 1 ÷ rate
//! ```
//!
//! Every bound is one that must hold, not a guess at how latency is spread: the master's time lies
//! inside of what is told as long as the rates stay within [`ClockRates`] and neither clock jumps
//! unseen. A jump shows as round trips that contradict each other, or as another [`TimeLine`]: then
//! only the newest round trip counts.
//!
//! What is told goes on from what was told before. A client whose own clock leapt far ahead, and which
//! told times before it noticed, would tell nothing that is accepted until the master is there, too. So
//! what is told begins anew once a round trip shows that it was farther ahead than any master accepts:
//! ```text
//!   told   ──┬── before the leap                      the leap ──── refused ────
//!            └─► goes on here                    ▲
//!                        master ────────► most ──┴─ the farthest that is accepted
//! ```
//! None of the times behind the leap was accepted from anybody, as they are ahead of the farthest even
//! now: so no event has a time that is told again. Where there is no such gap, because the clock was fast
//! instead, it goes on at the farthest.

use std::collections::VecDeque;

use super::{ClockReading, RATE_ONE_PPB, TimeLine};
use crate::acceptance::WINDOW_MS_MAX;

/// Round trips that are remembered.
const TRIPS_MAX: usize = 16;

/// Round trips that a new line needs before it is left alone for a while.
const TRIPS_AT_FIRST: usize = 4;

/// How long those wait for each other.
const FIRST_EVERY_NS: u64 = 50_000_000;

/// How long later ones do.
const LATER_EVERY_NS: u64 = 10_000_000_000;

/// A time that is farther ahead of the master's is accepted nowhere: the longest that a window reaches
/// ahead, and a second for what the master is not certain of.
const AHEAD_NS_MAX: u64 = (WINDOW_MS_MAX + 1_000) * 1_000_000;

/// Leaps of what was told that are remembered.
const LEAPS_MAX: usize = 8;

/// What is known of two machines' clocks before they have met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockRates {
    /// Least and most that the master's clock advances while the client's advances by one.
    pub between: (f64, f64),
    /// By how much that may change while round trips are remembered.
    pub wander: f64,
}

impl ClockRates {
    /// Clocks of machines: a tenth of a percent apart at most, and 20 millionths of wander.
    pub const MACHINES: ClockRates = ClockRates { between: (0.999, 1.001), wander: 20e-6 };

    /// Clocks of which one may be four times as fast as the other.
    pub const ANY: ClockRates = ClockRates { between: (0.25, 4.0), wander: 100e-6 };
}

/// A question to the master clock, and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// The client's clock when it asked.
    pub sent_ns: u64,
    /// What the master said.
    pub reading: ClockReading,
    /// The client's clock when the answer was there.
    pub received_ns: u64,
}

impl RoundTrip {
    /// How long it took.
    pub fn took_ns(&self) -> u64 {
        self.received_ns.saturating_sub(self.sent_ns)
    }
}

/// A time that was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Nanoseconds since 1970: the master's time, as far as this client knows.
    pub time_ns: i64,
    /// The master's own time is at most so far away.
    pub error_ns: u64,
}

/// Tells the master's time from a client's monotonic clock.
#[derive(Debug, Clone)]
pub struct Estimator {
    rates: ClockRates,
    /// The newest last; all of one line.
    trips: VecDeque<RoundTrip>,
    /// Bounds of the rate, by those.
    rate: (f64, f64),
    jumps: u64,
    told_ns: Option<i64>,
    /// Where what was told leapt by more than [`AHEAD_NS_MAX`], since the master was last known to be
    /// there: what was told before, and behind.
    leaps: VecDeque<(Option<i64>, i64)>,
    restarts: u64,
}

impl Estimator {
    /// An estimator that has not asked yet.
    pub fn new(rates: ClockRates) -> Self {
        Self {
            rates,
            trips: VecDeque::new(),
            rate: rates.between,
            jumps: 0,
            told_ns: None,
            leaps: VecDeque::new(),
            restarts: 0,
        }
    }

    /// Takes a round trip into account.
    pub fn learn(&mut self, trip: RoundTrip) {
        if trip.received_ns < trip.sent_ns {
            // No clock that only goes forward says this.
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
    }

    /// Begins anew with what is told, if that was too far ahead to be accepted.
    fn come_back(&mut self, trip: &RoundTrip) {
        let Some(told_ns) = self.told_ns else { return };
        let Some((_, most)) = self.bounds_ns(trip.received_ns) else { return };
        let farthest = most.saturating_add_unsigned(AHEAD_NS_MAX);
        if told_ns <= farthest {
            // What the master has shown is beyond doubt.
            if told_ns <= trip.reading.now_ns.saturating_add_unsigned(AHEAD_NS_MAX) {
                self.leaps.clear();
            }
            return;
        }
        self.restarts += 1;
        let refused = self.leaps.drain(..).find(|(_, behind)| *behind > farthest);
        self.told_ns = match refused {
            Some((before, _)) => before.map(|before| before.min(farthest)),
            None => Some(farthest),
        };
    }

    /// The line of the newest reading.
    pub fn line(&self) -> Option<TimeLine> {
        self.trips.back().map(|trip| trip.reading.line)
    }

    /// How often one of the clocks jumped without a word.
    pub fn jumps(&self) -> u64 {
        self.jumps
    }

    /// How often what is told began anew, because it was farther ahead than is accepted.
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Whether it is time for another round trip.
    pub fn is_due(&self, at_ns: u64) -> bool {
        let Some(newest) = self.trips.back() else { return true };
        let every_ns =
            if self.trips.len() < TRIPS_AT_FIRST { FIRST_EVERY_NS } else { LATER_EVERY_NS };
        at_ns.saturating_sub(newest.received_ns) >= every_ns
    }

    /// Twice the latency (F24): the longest of the round trips that are remembered; 0 before the
    /// first.
    pub fn round_trip_ns(&self) -> u64 {
        self.trips.iter().map(RoundTrip::took_ns).max().unwrap_or(0)
    }

    /// The client's clock advances by so much while the master's advances by one: the paper's
    /// drift rate.
    pub fn drift(&self) -> f64 {
        2.0 / (self.rate.0 + self.rate.1)
    }

    /// What is added to the client's time, divided by [`Self::drift`], to have the master's: the
    /// paper's distance. `None` before the first round trip.
    pub fn distance_ns(&self) -> Option<i64> {
        let newest = self.trips.back()?;
        let (least, most) = self.bounds_ns(newest.received_ns)?;
        let client = newest.received_ns as f64 / self.drift();
        Some(middle_of(least, most).saturating_sub(client as i64))
    }

    /// Least and most that the master's clock can show when the client's shows `at_ns`; `None`
    /// before the first round trip.
    pub fn bounds_ns(&self, at_ns: u64) -> Option<(i64, i64)> {
        let mut bounds: Option<(i64, i64)> = None;
        for trip in &self.trips {
            let (least, most) = self.bounds_by(trip, at_ns);
            bounds = Some(match bounds {
                Some((low, high)) => (low.max(least), high.min(most)),
                None => (least, most),
            });
        }
        // Rounding may bring them past each other by a nanosecond.
        bounds.map(|(low, high)| (low.min(high), high.max(low)))
    }

    /// The master's time when the client's clock shows `at_ns`. Never again the same, or one
    /// before it: events of one client that are told one after another are in that order. Only times
    /// that no master accepts, as they were too far ahead of it, may be followed by earlier ones, and
    /// come again ([`Self::restarts`]). `None` before the first round trip.
    pub fn tell(&mut self, at_ns: u64) -> Option<Told> {
        let (least, most) = self.bounds_ns(at_ns)?;
        let middle = middle_of(least, most);
        let time_ns = match self.told_ns {
            Some(before) => middle.max(before.saturating_add(1)),
            None => middle,
        };
        self.note_leap(time_ns);
        self.told_ns = Some(time_ns);
        let error_ns = time_ns.abs_diff(least).max(time_ns.abs_diff(most));
        Some(Told { time_ns, error_ns })
    }

    /// Remembers that what is told leaps, if it does.
    fn note_leap(&mut self, time_ns: i64) {
        let before = self.told_ns;
        if before.is_some_and(|before| before.abs_diff(time_ns) <= AHEAD_NS_MAX) {
            return;
        }
        if self.leaps.len() == LEAPS_MAX {
            self.leaps.pop_front();
        }
        self.leaps.push_back((before, time_ns));
    }

    /// Where the master can be at `at_ns`, by one round trip: it was at its reading at some
    /// instant between sending and receiving.
    fn bounds_by(&self, trip: &RoundTrip, at_ns: u64) -> (i64, i64) {
        let (slow, fast) = self.rate;
        let least = distance(trip.received_ns, at_ns);
        let most = distance(trip.sent_ns, at_ns);
        let least = least * if least < 0.0 { fast } else { slow };
        let most = most * if most < 0.0 { slow } else { fast };
        // Outward, so that rounding keeps what must hold.
        let (least, most) = (least.floor() as i64, most.ceil() as i64);
        (trip.reading.now_ns.saturating_add(least), trip.reading.now_ns.saturating_add(most))
    }

    /// Whether a reading is not where those before it say that it must be.
    fn contradicts(&self, trip: &RoundTrip) -> bool {
        let (Some((least, _)), Some((_, most))) =
            (self.bounds_ns(trip.sent_ns), self.bounds_ns(trip.received_ns))
        else {
            return false;
        };
        trip.reading.now_ns < least || trip.reading.now_ns > most
    }

    /// Bounds of the rate that all round trips agree on; `None` when they do not.
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

    /// Bounds of the rate before anything was measured.
    fn rate_before(&self, reading: &ClockReading) -> (f64, f64) {
        let told = reading.rate_ppb as f64 / RATE_ONE_PPB as f64;
        (self.rates.between.0 * told, self.rates.between.1 * told)
    }
}

/// From one time of the client's clock to another.
fn distance(from_ns: u64, to_ns: u64) -> f64 {
    (i128::from(to_ns) - i128::from(from_ns)) as f64
}

fn middle_of(least: i64, most: i64) -> i64 {
    least.midpoint(most)
}

#[cfg(test)]
mod tests;
