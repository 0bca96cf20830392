//! History events that were read for a follower but not yet delivered. A follower with a slow
//! client keeps these events in memory for a long time, and thousands of followers may exist. All
//! followers therefore share a memory budget. If the budget has no room, the rest of a window is
//! dropped and read again later.
//!
//! ```text
//!   window:  [events 1–100] gap [events 101–200] [events 201–300]
//!   room:    ────────────────── all updates ───────────────────► all are kept
//!   no room: [events 1–100] gap │ the rest, from 101 on, is read again later
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

use super::history::HistoryWindow;
use crate::events::budget::{Budget, Claim};

/// The updates (events and gaps) to deliver next.
#[derive(Debug, Default)]
pub struct PendingUpdates {
    updates: VecDeque<Update>,
    /// Claim on the budget that all followers share; released with the last update.
    room: Option<Claim>,
}

impl PendingUpdates {
    /// Removes and returns the next update.
    pub fn next(&mut self) -> Option<Update> {
        let next = self.updates.pop_front();
        if self.updates.is_empty() {
            self.room = None;
        }
        next
    }
}

/// The progress of a follower.
#[derive(Debug, Clone, Copy)]
pub struct Position {
    /// The first gsn that is not yet delivered.
    pub next: Gsn,
    /// Deletes up to this gsn have been delivered.
    pub deleted: Gsn,
}

/// The result of a read for a follower.
#[derive(Debug)]
pub struct FollowerRead {
    /// The updates to deliver.
    pub pending_updates: PendingUpdates,
    /// The position of the follower after the delivery of these updates.
    pub position: Position,
    /// True if the updates cover the whole window. Otherwise, the rest is read again from
    /// `position` onward.
    pub whole: bool,
}

impl FollowerRead {
    /// Builds the updates from a window that starts at the position `at`. `lost` has the gsn's of
    /// deleted events. Each update has at most `rows_max` rows. Keeps as many updates as `memory`
    /// has room for, and always keeps the first update with events.
    pub fn new(
        window: HistoryWindow,
        lost: Vec<GsnRange>,
        at: Position,
        rows_max: usize,
        memory: &Arc<Budget>,
    ) -> Self {
        let mut position = Position { next: window.end.max(at.next), deleted: at.deleted };
        debug_assert!(
            lost.is_sorted_by_key(|lost| lost.start),
            "the deleted ranges are not in order"
        );
        let mut gaps = window.damaged;
        for lost in lost {
            let start = lost.start.max(at.next).max(Gsn(position.deleted.0 + 1));
            let undelivered = GsnRange::new(start, lost.end);
            if !undelivered.is_empty() {
                position.deleted = Gsn(undelivered.end.0 - 1);
                gaps.push(Gap { gsns: undelivered, cause: GapCause::Deleted });
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
        debug_assert!(at.next <= position.next, "a follower goes back");
        debug_assert!(at.deleted <= position.deleted, "a delete is delivered again");
        let updates = updates.into_iter().map(|(_, update)| update).collect();
        Self { pending_updates: PendingUpdates { updates, room: Some(room) }, position, whole }
    }

    /// A result without updates: the follower skips to `end`, because there are no events before.
    pub fn nothing(end: Gsn, at: Position) -> Self {
        let position = Position { next: end.max(at.next), ..at };
        Self { pending_updates: PendingUpdates::default(), position, whole: true }
    }
}

fn rows_of(update: &Update) -> Option<&RecordBatch> {
    match update {
        Update::Events(rows) => Some(rows),
        Update::Gap(_) => None,
    }
}

/// Shortens a damaged range: the range then ends before `from`. The next read starts at `from` and
/// finds the rest of the damage. Returns false if nothing of the range remains.
fn is_before(update: &mut Update, from: Gsn) -> bool {
    match update {
        Update::Gap(Gap { gsns, cause: GapCause::Damaged(_) }) => {
            *gsns = GsnRange::new(gsns.start, gsns.end.min(from));
            !gsns.is_empty()
        }
        _ => true,
    }
}

/// The last gsn of a gap of deleted events; `None` for other updates.
fn deleted_to(update: &Update) -> Option<Gsn> {
    match update {
        Update::Gap(Gap { gsns, cause: GapCause::Deleted }) => Some(Gsn(gsns.end.0 - 1)),
        _ => None,
    }
}

/// Merges events and gaps by first gsn, and returns each update with its first gsn. After any
/// update, a follower can continue from the next update's gsn without missing an event.
fn in_order(
    rows: Vec<(RecordBatch, Int64Array)>,
    mut gaps: VecDeque<Gap>,
    rows_max: usize,
) -> Vec<(Gsn, Update)> {
    let mut all = Vec::new();
    for (rows, gsns) in rows {
        debug_assert_eq!(rows.num_rows(), gsns.len(), "a row has no position");
        let gsns = gsns.values();
        let before = |gap: &Gap| gsns.partition_point(|gsn| gsn.cast_unsigned() < gap.gsns.start.0);
        let mut delivered = 0;
        while delivered < gsns.len() {
            let next = gaps.front().map_or(gsns.len(), before);
            if next <= delivered
                && let Some(gap) = gaps.pop_front()
            {
                all.push((gap.gsns.start, Update::Gap(gap)));
                continue;
            }
            let count = rows_max.max(1).min(next - delivered);
            debug_assert!(count > 0, "the updates of a window stand still");
            let first = gsns.get(delivered).map_or(Gsn(0), |gsn| Gsn(gsn.cast_unsigned()));
            all.push((first, Update::Events(rows.slice(delivered, count))));
            delivered += count;
        }
    }
    all.extend(gaps.into_iter().map(|gap| (gap.gsns.start, Update::Gap(gap))));
    debug_assert!(all.is_sorted_by_key(|(first, _)| *first), "the updates are not in order");
    all
}

/// Bytes of the buffers of batches. A buffer shared by several batches counts once.
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
