//! The seal: the end of the time without further events (F24), for chronicles with clocked ticks.
//!
//! ```text
//!   now − widest window        a pending event          now
//!   ──────────┼──────────────────────┼───────────────────┼──►
//!    sealed   │ can still come
//!             └ the horizon: the lowest of both; it never goes back
//! ```
//!
//! The keeper refuses every event before the horizon under the same lock, in any acceptance window.
//! Readers can therefore rely on the horizon. After a start, the horizon begins at the time of the
//! start. All sessions are younger than the start, and the keeper accepts no event older than its
//! session. The new horizon is therefore never before a horizon shown to readers earlier.
//!
//! A chronicle that never had an event has no horizon: a dump may bring events of any time. The
//! first commit sets the horizon.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, Tick,
    acceptance::{Window, tick_at},
    clock::ClockReading,
    invariant,
};

use super::{Chronicle, state::ChronicleState};
use crate::version::Version;

/// A wide window counts for at least this time after its last use, and for at most twice this time.
const REMEMBERED_NS: i64 = 30_000_000_000;

/// The horizon of a chronicle: the first tick still open for events.
#[derive(Debug)]
pub(super) struct Horizon {
    /// The first open tick; [`Tick::MIN`] before the first event.
    first: Tick,
    /// The tick of the engine's start: sessions of an earlier run write no longer.
    opened: Tick,
    /// The widest windows of the running period and of the period before, in nanoseconds.
    widest_ns: [u64; 2],
    period_began_ns: i64,
}

impl Horizon {
    /// The horizon of a chronicle in an engine started at `opened_ns`.
    pub(super) fn of(definition: &ChronicleDefinition, opened_ns: i64) -> Self {
        let opened = match definition.time_source.is_clocked() {
            true => tick_at(&definition.scale, opened_ns),
            false => Tick::MIN,
        };
        Self { first: Tick::MIN, opened, widest_ns: [0; 2], period_began_ns: opened_ns }
    }

    /// The first tick still open for events.
    pub(super) fn first(&self) -> Tick {
        self.first
    }

    /// The first accepted tick of events within the window.
    pub(super) fn first_accepted(&self) -> Tick {
        self.first.max(self.opened)
    }

    /// Moves the horizon to the start: the chronicle had events before the start.
    pub(super) fn continue_from_start(&mut self) {
        self.first = self.first.max(self.opened);
    }

    /// The horizon for a version; `None` before the first event.
    pub(super) fn horizon_tick(&self) -> Option<Tick> {
        Some(self.first).filter(|first| *first > Tick::MIN)
    }

    /// Records the window of a write.
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
        // Not `now_ns`: a late look must not lengthen the period.
        self.period_began_ns += periods * REMEMBERED_NS;
    }

    /// Moves the horizon forward to `now`; `pending` is the lowest uncommitted tick.
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
    /// The last sealed tick under `late = 'reject'`: the tick before the highest committed tick,
    /// and before all uncommitted ticks.
    pub fn sealed_by_order(&self) -> Option<Tick> {
        let state = self.state.lock();
        let highest = state.highest?;
        let first = state.lowest_pending().map_or(highest, |pending| pending.min(highest));
        first.checked_sub(1).map(Tick)
    }

    /// Moves the seal forward, up to the limit set by `now` and by pending events. Returns the
    /// version with the new seal; `None` for a forgotten chronicle. Only under the publisher's
    /// lock: readers of the version see all earlier commits.
    pub fn seal(
        &self,
        definition: &ChronicleDefinition,
        now: &ClockReading,
    ) -> Option<Arc<Version>> {
        debug_assert_eq!(definition.id, self.id, "the definition of another chronicle");
        let mut state = self.state.lock();
        let pending = state.lowest_pending().filter(|_| !crate::sabotage::active("sealed-early"));
        let ChronicleState { horizon, version, forgotten, highest, .. } = &mut *state;
        if *forgotten {
            return None;
        }
        if highest.is_none() {
            return Some(Arc::clone(version));
        }
        horizon.advance(definition, now, pending);
        invariant!(
            SnapshotsFrozen,
            version.open_from().is_none_or(|open_from| open_from <= horizon.first()),
            "the seal of chronicle {} goes back to tick {}",
            definition.id,
            horizon.first()
        );
        if version.open_from() != Some(horizon.first()) {
            *version = Arc::new(version.with_open_from(horizon.first()));
        }
        Some(Arc::clone(version))
    }
}

#[cfg(test)]
mod tests;
