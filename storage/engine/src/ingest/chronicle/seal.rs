//! The seal of a chronicle with clocked ticks: the time up to which no further event can arrive
//! (F24).
//!
//! ```text
//!   now − widest window        a pending event          now
//!   ──────────┼──────────────────────┼───────────────────┼──►
//!    sealed   │ events can still arrive
//!             └ the horizon: the earlier of both; never moves back
//! ```
//!
//! The keeper refuses every event before the horizon, under the same lock and in every acceptance
//! window. Readers can therefore rely on the horizon. After a start, the horizon begins at the time
//! of the start. All sessions began after the start, and the keeper accepts no event older than its
//! session. The new horizon is therefore never before a horizon that readers saw earlier.
//!
//! A chronicle that never had an event has no horizon: a restored dump may bring events of any
//! time. The first commit sets the horizon.

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, Tick,
    acceptance::{Window, tick_at},
    clock::ClockReading,
    invariant,
};

use super::{Chronicle, state::ChronicleState};
use crate::version::Version;

/// The horizon respects the widest acceptance window of recent writes. A window counts for at least
/// this time after its last use, and for at most twice this time.
const REMEMBERED_NS: i64 = 30_000_000_000;

/// The horizon of a chronicle: the first tick at which events can still arrive.
#[derive(Debug)]
pub(super) struct Horizon {
    /// The first tick at which events can still arrive; [`Tick::MIN`] before the first event.
    first: Tick,
    /// The tick at which the engine started: sessions from before the start no longer write.
    opened: Tick,
    /// The widest acceptance windows in the current period and in the previous period, in
    /// nanoseconds. A period lasts [`REMEMBERED_NS`].
    widest_ns: [u64; 2],
    period_began_ns: i64,
}

impl Horizon {
    /// A new horizon, for an engine started at `opened_ns`.
    pub(super) fn of(definition: &ChronicleDefinition, opened_ns: i64) -> Self {
        let opened = match definition.time_source.is_clocked() {
            true => tick_at(&definition.scale, opened_ns),
            false => Tick::MIN,
        };
        Self { first: Tick::MIN, opened, widest_ns: [0; 2], period_began_ns: opened_ns }
    }

    /// The first tick at which events can still arrive.
    pub(super) fn first(&self) -> Tick {
        self.first
    }

    /// The first tick that the horizon allows: events that the acceptance window accepts must also
    /// respect this limit.
    pub(super) fn first_accepted(&self) -> Tick {
        self.first.max(self.opened)
    }

    /// Moves the horizon forward to the start of the engine, for a chronicle that had events before
    /// the start.
    pub(super) fn continue_from_start(&mut self) {
        self.first = self.first.max(self.opened);
    }

    /// The horizon as stored in a version; `None` before the first event.
    pub(super) fn horizon_tick(&self) -> Option<Tick> {
        Some(self.first).filter(|first| *first > Tick::MIN)
    }

    /// Records the acceptance window of a write.
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
        // Advances by whole periods instead of setting `now_ns`: a late call must not lengthen the
        // period.
        self.period_began_ns += periods * REMEMBERED_NS;
    }

    /// Moves the horizon forward to `now` minus the widest recent window, but not past `pending`,
    /// the lowest uncommitted tick.
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
    /// The last sealed tick under `late = 'reject'`: the last tick that is before the highest
    /// committed tick and before all uncommitted ticks.
    pub fn sealed_by_order(&self) -> Option<Tick> {
        let state = self.state.lock();
        let highest = state.highest?;
        let first = state.lowest_pending().map_or(highest, |pending| pending.min(highest));
        first.checked_sub(1).map(Tick)
    }

    /// Moves the seal forward, as far as `now` and the uncommitted events allow. Returns the
    /// version with the new seal; `None` for a dropped chronicle. Call only under the publisher's
    /// lock, so that readers of the version see all earlier commits.
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
