//! Admission of events, and reservation of their keys.

use std::sync::Arc;

use stratalog_model::{LatePolicy, TakenKeyAction, Tick, TickRange, store::OnConflict};

use super::{
    Chronicle,
    state::{ChronicleState, KeyOverride, PendingRange},
};
use crate::{
    ingest::{
        admission_request::{AdmissionRefusal, AdmissionRequest, AdmittedEvents, StoredKeys},
        chunk::KeyReservation,
        merge::{EarlierEvent, Merges},
        series::SeriesId,
    },
    read::pieces::lookup::StoredEvent,
    sabotage,
};

/// The result of [`Chronicle::place_in_index`].
struct AdmissionVerdict {
    /// End (exclusive) of the arrival numbers of the kept events.
    end_seq: u64,
    /// True if an event was moved to a later tick.
    moved: bool,
    /// For each requested event, true if kept; `None` if all events are kept.
    kept_mask: Option<Vec<bool>>,
    /// The rows that take values of an earlier event, and the places of these earlier events.
    merges: Vec<(usize, EarlierEvent)>,
}

impl Chronicle {
    /// Admits all events, except for skipped events, or refuses them all. Under `collision =
    /// 'next'`, admission changes `ticks`.
    pub fn admit(
        self: &Arc<Self>,
        candidates: &AdmissionRequest<'_>,
        ticks: &mut [i64],
    ) -> Result<AdmittedEvents, AdmissionRefusal> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut reserved = KeyReservation {
            chronicle: Arc::clone(self),
            first_seq: candidates.first_seq,
            end_seq: candidates.first_seq + ticks.len() as u64,
            touched: Vec::new(),
            // Disables the drop of the reservation for now: the drop would lock the state, which is
            // locked here. Each error path below undoes its changes itself.
            committed: true,
        };
        debug_assert!(reserved.end_seq <= state.next_seq, "arrival numbers of no append");
        debug_assert!(
            candidates.groups.of_row.is_empty() || ticks.len() <= candidates.groups.of_row.len(),
            "an event without a group"
        );
        let mut pending = PendingRange {
            end_seq: reserved.end_seq,
            outcome: Arc::clone(candidates.outcome),
            lowest: None,
            merged: TickRange::EMPTY,
            overrides: Vec::new(),
            replaced: Vec::new(),
        };
        if candidates.stored_keys.epoch() != state.version.epoch()
            && !state.version.pieces().is_empty()
        {
            return Err(AdmissionRefusal::Moved);
        }
        if candidates.restores && state.highest.is_some() {
            return Err(AdmissionRefusal::Begun);
        }
        if candidates.late == LatePolicy::Reject {
            // `highest` covers all tiers, and survives restarts.
            let highest = state.highest.unwrap_or(i64::MIN);
            if let Some(row) = ticks.iter().position(|tick| *tick < highest) {
                return Err(AdmissionRefusal::Late(row, highest));
            }
        }
        let mut until = i64::MAX;
        if let Some(window) = &candidates.window
            && !sabotage::active("window-ignored")
        {
            state.horizon.note(window);
            let ignored = sabotage::active("horizon-ignored");
            let first = if ignored { window.from } else { state.horizon.first_accepted() };
            let from = window.from.max(first).0;
            if let Some(row) = ticks.iter().position(|tick| *tick < from) {
                return Err(AdmissionRefusal::Early(row, from));
            }
            until = window.until.0;
            if let Some(row) = ticks.iter().position(|tick| *tick > until) {
                return Err(AdmissionRefusal::Ahead(row, until));
            }
        }
        let mut kept_mask = None;
        let mut moved = false;
        let mut merges = None;
        if self.indexed {
            let keys = &candidates.groups.keys;
            reserved.touched =
                keys.iter().map(|key| (state.series.intern(key), i64::MAX)).collect();
            let verdict = self.place_in_index(
                state,
                candidates,
                ticks,
                until,
                &mut reserved.touched,
                &mut pending,
            );
            match verdict {
                Ok(verdict) => {
                    debug_assert!(
                        verdict.end_seq <= reserved.end_seq,
                        "more events are admitted than requested"
                    );
                    reserved.end_seq = verdict.end_seq;
                    (kept_mask, moved) = (verdict.kept_mask, verdict.moved);
                    if !verdict.merges.is_empty() {
                        let version = Arc::clone(&state.version);
                        merges = Some(Merges { rows: verdict.merges, version });
                    }
                }
                Err(refused) => {
                    state.forget_successors(&pending);
                    state.remove_entries(&reserved);
                    return Err(refused);
                }
            }
        }
        debug_assert!(kept_mask.as_ref().is_none_or(|kept: &Vec<bool>| {
            let kept = kept.iter().filter(|kept| **kept).count() as u64;
            kept == reserved.end_seq - reserved.first_seq
        }));
        pending.end_seq = reserved.end_seq;
        // Includes the ticks of skipped events, which delay the seal only for a short time.
        pending.lowest = ticks.iter().copied().min();
        if reserved.end_seq > reserved.first_seq {
            debug_assert!(
                !state.pending.contains_key(&reserved.first_seq),
                "the arrival numbers are pending already"
            );
            state.pending.insert(reserved.first_seq, pending);
        }
        state.account();
        reserved.committed = false;
        Ok(AdmittedEvents { reserved, kept_mask, moved, merges })
    }

    /// Adds an entry to the tick index for each event. Under `collision = 'next'`, events move to
    /// free ticks, at most to the tick `until`.
    fn place_in_index(
        &self,
        state: &mut ChronicleState,
        candidates: &AdmissionRequest<'_>,
        ticks: &mut [i64],
        until: i64,
        touched: &mut [(SeriesId, i64)],
        pending: &mut PendingRange,
    ) -> Result<AdmissionVerdict, AdmissionRefusal> {
        let rows = ticks.len();
        let stored_keys = candidates.stored_keys;
        let mut next = candidates.first_seq;
        let (mut moved, mut kept_mask) = (false, None::<Vec<bool>>);
        let mut merges = Vec::new();
        let has_newer = state.newest_version > candidates.version;
        for (row, tick) in ticks.iter_mut().enumerate() {
            let Some((series, lowest)) = touched.get_mut(candidates.groups.group(row)) else {
                continue;
            };
            let series = *series;
            let holder = match self.collision.is_unique() {
                true => state.holder(series, *tick),
                false => None,
            };
            let group = candidates.groups.group(row);
            let filed = stored_keys.seq(group, *tick);
            if self.collision.keeps_holder()
                && !holder.is_some_and(|seq| (candidates.first_seq..next).contains(&seq))
                && state.is_vacated(candidates, *tick, holder)
            {
                match holder {
                    None => state.series.insert(series, *tick, next),
                    Some(_) => {
                        state.successors.entry((series, *tick)).or_default().push(next);
                        pending.overrides.push(KeyOverride { series, tick: *tick, seq: next });
                    }
                }
                *lowest = (*lowest).min(*tick);
                next += 1;
                continue;
            }
            if self.collision.replaces() {
                pending.replaced.extend(filed.map(|filed| (filed, next)));
            }
            if self.collision.takes_earlier_values()
                && let Some(holder) = holder.or(filed)
            {
                let event = stored_keys.event(group, *tick);
                let lacks = candidates.incomplete.is_some_and(|rows| rows.value(row));
                let incomplete = lacks || has_newer;
                let incoming = IncomingEvent { tick: *tick, seq: next, holder, incomplete };
                let earlier = earlier_event(state, candidates, incoming, event)?;
                if let Some(earlier) = earlier {
                    merges.push((row, earlier));
                    if matches!(earlier, EarlierEvent::Memory(_) | EarlierEvent::Stored(_)) {
                        let end = Tick(tick.saturating_add(1));
                        let ticks = TickRange::new(Tick(*tick), end);
                        pending.merged = pending.merged.hull(&ticks);
                    }
                }
            }
            match (self.collision.on_taken_key(), holder) {
                (TakenKeyAction::Share | TakenKeyAction::Replace, None) => {
                    state.series.insert(series, *tick, next);
                }
                (TakenKeyAction::Share | TakenKeyAction::Replace, Some(_)) => {
                    if self.collision.takes_earlier_values() {
                        state.successors.entry((series, *tick)).or_default().push(next);
                    }
                    pending.overrides.push(KeyOverride { series, tick: *tick, seq: next });
                }
                (_, None) if filed.is_none() => state.series.insert(series, *tick, next),
                (TakenKeyAction::Move, _) => {
                    *tick = free_tick(state, stored_keys, series, group, *tick)?;
                    if *tick > until {
                        return Err(AdmissionRefusal::Ahead(row, until));
                    }
                    moved = true;
                    state.series.insert(series, *tick, next);
                }
                (TakenKeyAction::Refuse, holder) => {
                    if let Some(other) = holder.and_then(|holder| state.pending_of(holder))
                        && other.outcome.id() != candidates.outcome.id()
                    {
                        return Err(AdmissionRefusal::Pending(Arc::clone(&other.outcome)));
                    }
                    if candidates.on_conflict == OnConflict::Error {
                        return Err(AdmissionRefusal::Taken(row));
                    }
                    if let Some(keep) =
                        kept_mask.get_or_insert_with(|| vec![true; rows]).get_mut(row)
                    {
                        *keep = false;
                    }
                    continue;
                }
            }
            *lowest = (*lowest).min(*tick);
            next += 1;
        }
        debug_assert!(
            kept_mask.as_ref().is_none_or(|kept| kept.len() == rows),
            "the mask does not cover the events"
        );
        debug_assert!(
            merges.is_sorted_by(|before, after| before.0 < after.0),
            "the merges are out of order"
        );
        Ok(AdmissionVerdict { end_seq: next, moved, kept_mask, merges })
    }
}

/// An event during its admission under `collision = 'merge'`, and the event with the same collision
/// key.
struct IncomingEvent {
    tick: i64,
    /// Arrival number of the incoming event.
    seq: u64,
    /// Arrival number of the event that has the key now.
    holder: u64,
    /// True if the incoming event may lack a value that the earlier event has: it has a NULL, or
    /// newer events have further columns.
    incomplete: bool,
}

/// Finds the earlier event whose values the incoming event takes. Returns `None` if the incoming
/// event is complete, or if the same append deletes the earlier event. `stored` is the event with
/// this key in a tablet or story, if known.
fn earlier_event(
    state: &mut ChronicleState,
    candidates: &AdmissionRequest<'_>,
    incoming: IncomingEvent,
    stored: Option<StoredEvent>,
) -> Result<Option<EarlierEvent>, AdmissionRefusal> {
    let IncomingEvent { tick, seq, holder, incomplete: is_incomplete } = incoming;
    debug_assert!(candidates.first_seq <= seq, "an event outside of the request");
    if (candidates.first_seq..seq).contains(&holder) {
        let row = (holder - candidates.first_seq) as usize;
        return Ok(is_incomplete.then_some(EarlierEvent::Row(row)));
    }
    let statement = candidates.outcome.id();
    let is_uncommitted = match state.pending_of(holder) {
        Some(other) if other.outcome.id() != statement => {
            return Err(AdmissionRefusal::Pending(Arc::clone(&other.outcome)));
        }
        other => other.is_some(),
    };
    if !is_incomplete || state.is_vacated(candidates, tick, Some(holder)) {
        return Ok(None);
    }
    if is_uncommitted {
        return Ok(Some(EarlierEvent::Uncommitted(holder)));
    }
    if let Some(outcome) = state.delete_blocking(tick, statement) {
        return Err(AdmissionRefusal::Pending(Arc::clone(outcome)));
    }
    let stored = stored.filter(|stored| stored.seq == holder);
    if stored.is_some_and(|stored| state.version.pieces().get(stored.piece).is_none()) {
        // The event is in another piece now, or was deleted.
        return Err(AdmissionRefusal::Moved);
    }
    Ok(match stored {
        Some(stored) => Some(EarlierEvent::Stored(stored)),
        // gsn 0 stands for an unknown gsn. No event has gsn 0, and the later read of the event
        // fails with `Internal`.
        None => Some(EarlierEvent::Memory(state.locator.gsn(holder).unwrap_or_default())),
    })
}

/// The first free tick of the series after `tick`, which is taken.
fn free_tick(
    state: &mut ChronicleState,
    stored_keys: &StoredKeys,
    series: SeriesId,
    group: usize,
    tick: i64,
) -> Result<i64, AdmissionRefusal> {
    let mut free = tick;
    loop {
        free = state.series.next_free(series, free).ok_or(AdmissionRefusal::NoTickLeft)?;
        if stored_keys.seq(group, free).is_none() && !state.successors.contains_key(&(series, free))
        {
            debug_assert!(
                tick < free && free < i64::MAX,
                "the free tick {free} is not after {tick}"
            );
            return Ok(free);
        }
        free = free
            .checked_add(1)
            .filter(|free| *free < i64::MAX)
            .ok_or(AdmissionRefusal::NoTickLeft)?;
    }
}
