//! The acceptance time window of the paper: the ticks of events that the store still accepts (F24).
//!
//! ```text
//!          since      now − window              now        now + floor
//!   ─────────┼─────────────┼─────────────────────┼──────────────┼──────────►
//!   too old                [     accepted, from any session      ]  too far ahead
//! ```
//!
//! The window starts before now by twice the latency of the session, but at least by the
//! chronicle's floor plus the uncertainty of the clock. The window never becomes wider by itself.
//! The client states its latency, and no server can verify this number. Therefore the chronicle's
//! floor limits how much the stated latency counts.

use crate::{Tick, TickScale, clock::ClockReading};

/// The default floor (minimum length) of a chronicle's acceptance window, in milliseconds.
pub const WINDOW_MS_DEFAULT: u64 = 1_000;

/// The maximum floor of a chronicle, and the maximum round trip of a session, in milliseconds.
pub const WINDOW_MS_MAX: u64 = 60_000;

/// The round trip of a session widens the window to at most this multiple of the chronicle's floor.
pub const ROUND_TRIP_FLOORS_MAX: u64 = 10;

/// The values of a session for the acceptance rule.
///
/// In the paper, the earliest accepted time is the time at which the session acquires the chronicle.
/// A session without an acquisition acquires the chronicle implicitly for each statement that writes,
/// at the time when the client sends the statement; the round trip widens the window back to this
/// time. Both kinds of session need only one start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acceptance {
    /// The start of the session, or its acquisition of the chronicle, whichever is later; in
    /// nanoseconds since 1970. Earlier ticks are too old.
    pub since_ns: i64,
    /// Twice the latency of the session, in nanoseconds.
    pub round_trip_ns: u64,
    /// True if the session restores a dump: the events keep their times. Times outside of the
    /// window are kept only in a chronicle that never had a committed event.
    pub restores: bool,
}

impl Default for Acceptance {
    /// Neither a start time nor a latency.
    fn default() -> Self {
        Self { since_ns: i64::MIN, round_trip_ns: 0, restores: false }
    }
}

/// The ticks that the store accepts at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The instant, in nanoseconds since 1970.
    pub now_ns: i64,
    /// How far the window reaches back from `now_ns`, in nanoseconds.
    pub back_ns: u64,
    /// The first tick in the window.
    pub from: Tick,
    /// The last tick in the window.
    pub until: Tick,
}

impl Window {
    /// The window of a session when the clock shows `now`, for a chronicle with the scale `scale`
    /// and the floor `floor_ns`.
    pub fn of(scale: &TickScale, floor_ns: u64, session: &Acceptance, now: &ClockReading) -> Self {
        let least_ns = floor_ns.saturating_add(now.uncertainty_ns);
        let round_trip_ns = session.round_trip_ns.min(round_trip_ns_max(floor_ns));
        let back_ns = least_ns.max(round_trip_ns);
        let from_ns = now.now_ns.saturating_sub_unsigned(back_ns).max(session.since_ns);
        let until_ns = now.now_ns.saturating_add_unsigned(least_ns);
        let (from, until) = (tick_at(scale, from_ns), tick_at(scale, until_ns));
        debug_assert!(from_ns > until_ns || from <= until, "the ends of the window are exchanged");
        debug_assert!(until >= tick_at(scale, now.now_ns), "the window ends before now");
        Self { now_ns: now.now_ns, back_ns, from, until }
    }
}

/// The longest round trip that counts for a chronicle with the floor `floor_ns`; both in
/// nanoseconds.
pub fn round_trip_ns_max(floor_ns: u64) -> u64 {
    let most_ns = WINDOW_MS_MAX * 1_000_000;
    let counted_ns = floor_ns.saturating_mul(ROUND_TRIP_FLOORS_MAX).min(most_ns);
    debug_assert!(counted_ns >= floor_ns.min(most_ns), "a round trip counts less than the floor");
    counted_ns
}

/// The tick at `time_ns`; for a time outside of the scale, the nearest tick.
pub fn tick_at(scale: &TickScale, time_ns: i64) -> Tick {
    let tick = match scale.tick_of(time_ns) {
        Ok(tick) => tick,
        Err(_) if time_ns < scale.base_ns() => Tick::MIN,
        Err(_) => Tick::MAX,
    };
    debug_assert!(tick != Tick::END, "the open end of ranges is no tick");
    tick
}

#[cfg(test)]
mod tests;
