//! Up to where no event can come any more (F24): for chronicles whose ticks go by the clock.
//!
//! ```text
//!   now − widest window        a pending event          now
//!   ──────────┼──────────────────────┼───────────────────┼──►
//!    sealed   │ can still come
//!             └ the horizon: the lowest of both; it never goes back
//! ```
//!
//! Whatever the windows say, an event before the horizon is refused, under the same lock: so the
//! horizon may be told to readers. A start begins at its own time: sessions are younger, and nothing
//! of before them is accepted, so it is not before any horizon that was told earlier.
//!
//! A chronicle that never had an event has no horizon: a dump may bring events of any time. The first
//! commit sets the horizon.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, Tick,
    acceptance::{Window, tick_at},
    clock::ClockReading,
};

use super::{Chronicle, state::State};
use crate::version::Version;

/// A window that was wide counts for so long after it was used last, twice that at most.
const REMEMBERED_NS: i64 = 30_000_000_000;

/// Where events can still come.
#[derive(Debug)]
pub(super) struct Horizon {
    /// The first tick; [`Tick::MIN`] until there are events.
    first: Tick,
    /// The tick of the engine's start: sessions of an earlier run write no more.
    opened: Tick,
    /// The widest windows of the running period and of the one before, in nanoseconds.
    widest_ns: [u64; 2],
    period_began_ns: i64,
}

impl Horizon {
    /// Of a chronicle in an engine that began at `opened_ns`.
    pub(super) fn of(definition: &ChronicleDefinition, opened_ns: i64) -> Self {
        let opened = match definition.time_source.is_clocked() {
            true => tick_at(&definition.scale, opened_ns),
            false => Tick::MIN,
        };
        Self { first: Tick::MIN, opened, widest_ns: [0; 2], period_began_ns: opened_ns }
    }

    /// The first tick at which events can still come.
    pub(super) fn first(&self) -> Tick {
        self.first
    }

    /// The first accepted tick of events within the window.
    pub(super) fn first_accepted(&self) -> Tick {
        self.first.max(self.opened)
    }

    /// The chronicle had events before the start.
    pub(super) fn go_on(&mut self) {
        self.first = self.first.max(self.opened);
    }

    /// The same, as versions tell it from the beginning.
    pub(super) fn told(&self) -> Option<Tick> {
        Some(self.first).filter(|first| *first > Tick::MIN)
    }

    /// Somebody writes with this window.
    pub(super) fn note(&mut self, window: &Window) {
        self.age(window.now_ns);
        let [running, _] = &mut self.widest_ns;
        *running = window.back_ns.max(*running);
    }

    fn age(&mut self, now_ns: i64) {
        let periods = now_ns.saturating_sub(self.period_began_ns).div_euclid(REMEMBERED_NS);
        if periods < 1 {
            return;
        }
        let [running, _] = self.widest_ns;
        self.widest_ns = [0, if periods == 1 { running } else { 0 }];
        // Not now: a period that is looked at late is no longer than others.
        self.period_began_ns += periods * REMEMBERED_NS;
    }

    /// Time has passed; `pending` is the lowest tick that is not committed.
    fn advance(
        &mut self,
        definition: &ChronicleDefinition,
        now: &ClockReading,
        pending: Option<i64>,
    ) {
        self.age(now.now_ns);
        let floor_ns = definition.window_ns().saturating_add(now.uncertainty_ns);
        let back_ns = self.widest_ns.iter().copied().fold(floor_ns, u64::max);
        let by_time = tick_at(&definition.scale, now.now_ns.saturating_sub_unsigned(back_ns));
        let first = pending.map_or(by_time, |pending| by_time.min(Tick(pending)));
        self.first = self.first.max(first);
    }
}

impl Chronicle {
    /// The last tick of which no event can come any more where late events are refused: the one before
    /// the highest that was committed, and before those that are not committed.
    pub fn sealed_by_order(&self) -> Option<Tick> {
        let state = self.state.lock();
        let highest = state.highest?;
        let first = state.lowest_pending().map_or(highest, |pending| pending.min(highest));
        first.checked_sub(1).map(Tick)
    }

    /// Ends the time in which events can come, as far as `now` and pending events allow. Returns
    /// the version that tells it, `None` of a chronicle that was forgotten. Only under the publisher's
    /// lock: what was committed before it is seen with the version.
    pub fn seal(
        &self,
        definition: &ChronicleDefinition,
        now: &ClockReading,
    ) -> Option<Arc<Version>> {
        let mut state = self.state.lock();
        let pending = state.lowest_pending().filter(|_| !crate::sabotage::active("sealed-early"));
        let State { horizon, version, forgotten, highest, .. } = &mut *state;
        if *forgotten {
            return None;
        }
        if highest.is_none() {
            return Some(Arc::clone(version));
        }
        horizon.advance(definition, now, pending);
        if version.open_from() != Some(horizon.first()) {
            *version = Arc::new(version.with_open_from(horizon.first()));
        }
        Some(Arc::clone(version))
    }
}

#[cfg(test)]
mod tests;
