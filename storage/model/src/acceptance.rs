//! The acceptance time window of the paper: the ticks of events that the store still accepts (F24).
//!
//! ```text
//!          since      now − window              now        now + floor
//!   ─────────┼─────────────┼─────────────────────┼──────────────┼──────────►
//!   too old                [     accepted, from any session      ]  too far ahead
//! ```
//!
//! The window reaches back by twice the latency of the session, but at least by the chronicle's
//! floor plus the uncertainty of the clock. The window never becomes wider by itself. The client
//! states its latency, and no server can verify the statement. Therefore the chronicle's floor
//! limits the effect of the statement.

use crate::{Tick, TickScale, clock::ClockReading};

/// The default floor of a chronicle, in milliseconds.
pub const WINDOW_MS_DEFAULT: u64 = 1_000;

/// The maximum of a floor and of the round trip of a session, in milliseconds.
pub const WINDOW_MS_MAX: u64 = 60_000;

/// The round trip of a session counts up to this multiple of the chronicle's floor.
pub const ROUND_TRIP_FLOORS_MAX: u64 = 10;

/// The session's part of the acceptance rule.
///
/// The window of the paper begins when the session acquires the chronicle. A session without an
/// acquisition acquires the chronicle implicitly for each statement that writes, at the time when
/// the client sends the statement. The window reaches back to that time. Therefore a session states
/// only its own beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acceptance {
    /// The later of two times, in nanoseconds since 1970: the start of the session and its
    /// acquisition of the chronicle. Earlier ticks are too old.
    pub since_ns: i64,
    /// Twice the latency of the session.
    pub round_trip_ns: u64,
    /// True if the session restores a dump: the events keep their times. Only a chronicle without
    /// any committed event, past or present, keeps times outside of the window.
    pub restores: bool,
}

impl Default for Acceptance {
    /// No beginning and no latency.
    fn default() -> Self {
        Self { since_ns: i64::MIN, round_trip_ns: 0, restores: false }
    }
}

/// The ticks that the store accepts at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The instant, in nanoseconds since 1970.
    pub now_ns: i64,
    /// The length of the window before the instant, in nanoseconds.
    pub back_ns: u64,
    /// The first tick in the window.
    pub from: Tick,
    /// The last tick in the window.
    pub until: Tick,
}

impl Window {
    /// The window of a session when the clock shows `now`. The chronicle has the scale `scale` and
    /// the floor `floor_ns`.
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

/// The maximum round trip that counts in a chronicle with the floor `floor_ns`, in nanoseconds.
pub fn round_trip_ns_max(floor_ns: u64) -> u64 {
    let most_ns = WINDOW_MS_MAX * 1_000_000;
    let counted_ns = floor_ns.saturating_mul(ROUND_TRIP_FLOORS_MAX).min(most_ns);
    debug_assert!(counted_ns >= floor_ns.min(most_ns), "a round trip counts less than the floor");
    counted_ns
}

/// The tick of a time, or the nearest tick for a time outside of the scale.
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
