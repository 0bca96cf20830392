//! What was read of history for a follower, and not told yet. A follower whose client is slow has it
//! for long, and there may be thousands: so all of them together have so much, and for whom there is
//! no room the rest is read again when its turn comes.
//!
//! ```text
//!   window:  [events 1–100] gap [events 101–200] [events 201–300]
//!   room:    ───────────────────── all of it ────────────────────► all is kept
//!   no room: [events 1–100] gap │ read again: a window from 101 on
//! ```

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayData, Int64Array, RecordBatch},
    buffer::NullBuffer,
};
use stratalog_model::{
    Gsn, GsnRange,
    subscribe::{Gap, GapCause, Update},
};

use super::history::Window;
use crate::budget::{Budget, Claim};

/// Updates that come next.
#[derive(Debug, Default)]
pub struct Untold {
    updates: VecDeque<Update>,
    /// Of the memory for what all followers were not told; given back with the last of them.
    room: Option<Claim>,
}

impl Untold {
    /// The next one, which is told.
    pub fn next(&mut self) -> Option<Update> {
        let next = self.updates.pop_front();
        if self.updates.is_empty() {
            self.room = None;
        }
        next
    }
}

/// Where a follower is.
#[derive(Debug, Clone, Copy)]
pub struct Position {
    /// The first position that it was not told of.
    pub next: Gsn,
    /// It was told of deletes up to this gsn.
    pub deleted: Gsn,
}

/// What was read for a follower.
#[derive(Debug)]
pub struct Read {
    /// What it is told.
    pub untold: Untold,
    /// Where it is then.
    pub position: Position,
    /// Whether that is where reading goes on.
    pub whole: bool,
}

impl Read {
    /// A window that was read at a position, and where events were deleted, among its positions and
    /// around them; in batches of `rows_max` at most, as far as `memory` has room. What comes first is
    /// kept in any case.
    pub fn new(
        window: Window,
        lost: Vec<GsnRange>,
        at: Position,
        rows_max: usize,
        memory: &Arc<Budget>,
    ) -> Self {
        let mut position = Position { next: window.end.max(at.next), deleted: at.deleted };
        let mut gaps = window.damaged;
        for lost in lost {
            let start = lost.start.max(at.next).max(Gsn(position.deleted.0 + 1));
            let untold = GsnRange::new(start, lost.end);
            if !untold.is_empty() {
                position.deleted = Gsn(untold.end.0 - 1);
                gaps.push(Gap { gsns: untold, cause: GapCause::Deleted });
            }
        }
        gaps.sort_by_key(|gap| gap.gsns.start);
        let claim = memory.claim(bytes_of(window.rows.iter().map(|(rows, _)| rows)));
        let mut updates = in_order(window.rows, gaps.into(), rows_max);
        let mut whole = true;
        let room = claim.unwrap_or_else(|_| {
            let places = updates.iter().enumerate();
            let mut events = places.filter(|(_, (_, update))| rows_of(update).is_some());
            if let Some((at, from)) = events.nth(1).map(|(at, (from, _))| (at, *from)) {
                (position.next, whole) = (from, false);
                updates.truncate(at);
                updates.retain_mut(|(_, update)| is_before(update, from));
            }
            memory.claim_anyway(bytes_of(updates.iter().filter_map(|(_, update)| rows_of(update))))
        });
        if !whole {
            let deleted = updates.iter().filter_map(|(_, update)| deleted_to(update));
            position.deleted = deleted.fold(at.deleted, Gsn::max);
        }
        let updates = updates.into_iter().map(|(_, update)| update).collect();
        Self { untold: Untold { updates, room: Some(room) }, position, whole }
    }

    /// There is nothing before a position.
    pub fn nothing(end: Gsn, at: Position) -> Self {
        let position = Position { next: end.max(at.next), ..at };
        Self { untold: Untold::default(), position, whole: true }
    }
}

fn rows_of(update: &Update) -> Option<&RecordBatch> {
    match update {
        Update::Events(rows) => Some(rows),
        Update::Gap(_) => None,
    }
}

/// Cuts damage off where reading goes on, which finds the rest of it again; whether something is left.
fn is_before(update: &mut Update, from: Gsn) -> bool {
    match update {
        Update::Gap(Gap { gsns, cause: GapCause::Damaged(_) }) => {
            *gsns = GsnRange::new(gsns.start, gsns.end.min(from));
            !gsns.is_empty()
        }
        _ => true,
    }
}

/// The last gsn of deletes that an update tells of.
fn deleted_to(update: &Update) -> Option<Gsn> {
    match update {
        Update::Gap(Gap { gsns, cause: GapCause::Deleted }) => Some(Gsn(gsns.end.0 - 1)),
        _ => None,
    }
}

/// Events, and gaps where they begin, each with its first position: whoever goes on behind what was
/// told last has missed nothing.
fn in_order(
    rows: Vec<(RecordBatch, Int64Array)>,
    mut gaps: VecDeque<Gap>,
    rows_max: usize,
) -> Vec<(Gsn, Update)> {
    let mut all = Vec::new();
    for (rows, gsns) in rows {
        let gsns = gsns.values();
        let before = |gap: &Gap| gsns.partition_point(|gsn| gsn.cast_unsigned() < gap.gsns.start.0);
        let mut told = 0;
        while told < gsns.len() {
            let next = gaps.front().map_or(gsns.len(), before);
            if next <= told
                && let Some(gap) = gaps.pop_front()
            {
                all.push((gap.gsns.start, Update::Gap(gap)));
                continue;
            }
            let count = rows_max.max(1).min(next - told);
            let first = gsns.get(told).map_or(Gsn(0), |gsn| Gsn(gsn.cast_unsigned()));
            all.push((first, Update::Events(rows.slice(told, count))));
            told += count;
        }
    }
    all.extend(gaps.into_iter().map(|gap| (gap.gsns.start, Update::Gap(gap))));
    all
}

/// Bytes that batches take, each buffer once: they share those of what they were made of.
fn bytes_of<'a>(batches: impl Iterator<Item = &'a RecordBatch>) -> usize {
    let columns = batches.flat_map(RecordBatch::columns);
    let mut open: Vec<ArrayData> = columns.map(|column| column.to_data()).collect();
    let (mut seen, mut bytes) = (HashSet::new(), 0);
    while let Some(data) = open.pop() {
        for buffer in data.buffers().iter().chain(data.nulls().map(NullBuffer::buffer)) {
            if seen.insert(buffer.data_ptr()) {
                bytes += buffer.capacity();
            }
        }
        open.extend(data.child_data().iter().cloned());
    }
    bytes
}

#[cfg(test)]
mod tests;
