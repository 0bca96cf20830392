//! Which ticks are still accepted (F24): the paper's acceptance time window.
//!
//! ```text
//!          since      now − window              now        now + floor
//!   ─────────┼─────────────┼─────────────────────┼──────────────┼──────────►
//!   too old                [     accepted, from whoever writes  ]  too far ahead
//! ```
//!
//! The window is twice the latency that a session measured, and at least the chronicle's floor and
//! what the clock itself is not certain of. It never becomes wider by itself. The client states its
//! latency, and no server can verify the statement: so the chronicle's floor limits its effect.

use crate::{Tick, TickScale, clock::ClockReading};

/// The floor of a chronicle that sets none, in milliseconds.
pub const WINDOW_MS_DEFAULT: u64 = 1_000;

/// The longest floor, and the longest round trip that counts in any chronicle, in milliseconds.
pub const WINDOW_MS_MAX: u64 = 60_000;

/// The round trip of a session counts up to this multiple of the chronicle's floor.
pub const ROUND_TRIP_FLOORS_MAX: u64 = 10;

/// What is accepted of one session.
///
/// The paper counts from the acquisition of the chronicle. Who does not acquire it first has it, without
/// saying so, for each statement that writes: from when that was sent, which is what the window reaches
/// back for. So only the beginning of the session is left to be told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acceptance {
    /// Nothing before the session began, or acquired the chronicle, whichever is later: nanoseconds
    /// since 1970.
    pub since_ns: i64,
    /// Twice its latency.
    pub round_trip_ns: u64,
    /// Whether its events keep their times: it restores a dump. Only a chronicle that never had a
    /// committed event keeps times outside of the window.
    pub restores: bool,
}

impl Default for Acceptance {
    /// Of somebody who is always there, and next to the clock.
    fn default() -> Self {
        Self { since_ns: i64::MIN, round_trip_ns: 0, restores: false }
    }
}

/// What is accepted of anybody at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Nanoseconds since 1970 of the instant.
    pub now_ns: i64,
    /// How far back it goes from there, in nanoseconds.
    pub back_ns: u64,
    /// The first tick in it.
    pub from: Tick,
    /// The last tick in it.
    pub until: Tick,
}

impl Window {
    /// The window of a session when the clock shows `now`, in a chronicle of this scale that has
    /// the floor `floor_ns`.
    pub fn of(scale: &TickScale, floor_ns: u64, session: &Acceptance, now: &ClockReading) -> Self {
        let least_ns = floor_ns.saturating_add(now.uncertainty_ns);
        let round_trip_ns = session.round_trip_ns.min(round_trip_ns_max(floor_ns));
        let back_ns = least_ns.max(round_trip_ns);
        let from_ns = now.now_ns.saturating_sub_unsigned(back_ns).max(session.since_ns);
        let until_ns = now.now_ns.saturating_add_unsigned(least_ns);
        let (from, until) = (tick_at(scale, from_ns), tick_at(scale, until_ns));
        Self { now_ns: now.now_ns, back_ns, from, until }
    }
}

/// The longest round trip that counts in a chronicle with the floor `floor_ns`, in nanoseconds.
pub fn round_trip_ns_max(floor_ns: u64) -> u64 {
    floor_ns.saturating_mul(ROUND_TRIP_FLOORS_MAX).min(WINDOW_MS_MAX * 1_000_000)
}

/// The tick of a time, or the one next to it that there is.
pub fn tick_at(scale: &TickScale, time_ns: i64) -> Tick {
    match scale.tick_of(time_ns) {
        Ok(tick) => tick,
        Err(_) if time_ns < scale.base_ns() => Tick::MIN,
        Err(_) => Tick::MAX,
    }
}

#[cfg(test)]
mod tests;
