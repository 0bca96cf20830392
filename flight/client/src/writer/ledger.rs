//! The ledger: all rows of a writer that the server has not yet acknowledged. The ledger is pure
//! data without I/O.
//!
//! ```text
//!   write ─► waiting ──── merged ───► sent ── acknowledged ─► reported to the caller
//!                                      │  ▲
//!                         broken call  ▼  │  the same parcel again
//!                                     unsent
//! ```
//!
//! An entry is one write of a caller, with a batch number. A parcel is the batch that the writer
//! sends: one entry, or several merged entries. Entry numbers ascend in the order of writing. A
//! parcel of several entries has the number of its last entry. Therefore the writer can send a
//! refused parcel again entry by entry: the server has not seen the numbers of the single entries,
//! and these numbers are below the numbers of all later parcels.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    ROOM_BYTES,
    acknowledgement::{Acknowledgement, Answer, Outcome},
    gather::{AwaitedEvents, GatheredEvents, OutcomeReceivers, RawEvent},
    parcel::{Entry, EntryRows, EventPlace, Parcel},
};
use crate::error::{Error, ErrorKind, Result};

/// The maximal rows, bytes and waiting time of a parcel, and the maximal number of parcels in
/// flight.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) rows_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) linger: Duration,
    pub(crate) in_flight_max: usize,
    /// True if the ledger refuses all events of a parcel when the server reports a time outside of
    /// the acceptance window: all events of the parcel have about the same age. If false, the
    /// writer sends the entries again one by one.
    pub(crate) refuses_whole: bool,
}

/// The written rows that the server has not yet acknowledged.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Limits,
    waiting: VecDeque<Entry>,
    waiting_rows: usize,
    waiting_bytes: usize,
    unsent: VecDeque<Parcel>,
    sent: VecDeque<Parcel>,
    /// The writer sends entries up to this number immediately, without the linger time.
    flush_through: u64,
    done_through: u64,
    /// The sum of the acknowledgements since the last flush. `unreported` is the first refusal
    /// since the last flush that no caller awaited, and the number of such refusals.
    acknowledged: Acknowledgement,
    unreported: Option<(Error, u64)>,
}

impl Ledger {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: VecDeque::new(),
            waiting_rows: 0,
            waiting_bytes: 0,
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            flush_through: 0,
            done_through: 0,
            acknowledged: Acknowledgement::default(),
            unreported: None,
        }
    }

    /// Adds an entry. The entry's number must be above all earlier numbers.
    pub(crate) fn push(&mut self, entry: Entry) {
        self.waiting_rows += entry.rows.count();
        self.waiting_bytes += entry.bytes;
        self.waiting.push_back(entry);
    }

    /// Adds an event. `number` must be above all earlier numbers. The event joins the last unsent
    /// entry if this entry consists of appended events; otherwise the event begins an entry. `room`
    /// is buffer space that the caller has reserved. Returns `None` if the event needs more buffer
    /// space; then the caller reserves space and calls again.
    pub(crate) fn append(
        &mut self,
        number: u64,
        event: &RawEvent<'_>,
        room: Option<OwnedSemaphorePermit>,
    ) -> Option<EventPlace> {
        let room = match self.join(number, event, room) {
            Ok(place) => return Some(place),
            Err(room) => room?,
        };
        let (sender, awaited) = AwaitedEvents::new();
        let mut events = GatheredEvents::new(event.columns);
        if !events.push(event) {
            return None;
        }
        self.push(Entry {
            number,
            numbered: false,
            rows: EntryRows::Gathered(events),
            bytes: event.bytes(),
            name: None,
            since: Instant::now(),
            receivers: OutcomeReceivers::Gathered(sender, Arc::clone(&awaited)),
            room: Arc::new(room),
        });
        Some(EventPlace { awaited, at: 0, is_first: true })
    }

    /// Adds an event to the last entry if the event fits; otherwise returns the unused `room`.
    fn join(
        &mut self,
        number: u64,
        event: &RawEvent<'_>,
        mut room: Option<OwnedSemaphorePermit>,
    ) -> std::result::Result<EventPlace, Option<OwnedSemaphorePermit>> {
        let Some(last) = self.waiting.back_mut() else { return Err(room) };
        let (EntryRows::Gathered(events), OutcomeReceivers::Gathered(_, awaited)) =
            (&mut last.rows, &last.receivers)
        else {
            return Err(room);
        };
        let bytes = last.bytes + event.bytes();
        let follows = events.columns() == event.columns
            && events.rows() < self.limits.rows_max
            && bytes <= self.limits.bytes_max;
        let Some(held) = Arc::get_mut(&mut last.room).filter(|_| follows) else {
            return Err(room);
        };
        if let Some(more) = room.take() {
            held.merge(more);
        }
        let at = events.rows();
        if bytes > held.num_permits() * ROOM_BYTES || !events.push(event) {
            return Err(None);
        }
        last.number = number;
        last.bytes = bytes;
        let awaited = Arc::clone(awaited);
        self.waiting_rows += 1;
        self.waiting_bytes += event.bytes();
        Ok(EventPlace { awaited, at, is_first: false })
    }

    /// Makes entries up to `number` due immediately, without the linger time.
    pub(crate) fn flush(&mut self, number: u64) {
        self.flush_through = self.flush_through.max(number);
    }

    /// The highest number N such that every entry up to N is acknowledged or refused.
    pub(crate) fn done_through(&self) -> u64 {
        self.done_through
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.unsent.is_empty() && self.sent.is_empty()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.sent.len()
    }

    /// The columns of the next parcel; `None` if no parcel is due at `now`.
    pub(crate) fn ready(&self, now: Instant) -> Option<SchemaRef> {
        if self.sent.len() >= self.limits.in_flight_max {
            return None;
        }
        if let Some(parcel) = self.unsent.front() {
            return Some(parcel.batch.schema());
        }
        let first = self.waiting.front()?;
        let due = first.numbered
            || first.number <= self.flush_through
            || self.waiting_rows >= self.limits.rows_max
            || self.waiting_bytes >= self.limits.bytes_max
            || now.saturating_duration_since(first.since) >= self.limits.linger;
        due.then(|| first.rows.schema())
    }

    /// The time at which the linger time of the oldest entry ends.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        if self.sent.len() >= self.limits.in_flight_max {
            return None;
        }
        self.waiting.front().map(|entry| entry.since + self.limits.linger)
    }

    /// Builds the next parcel, marks it as sent, and returns it. The caller then sends the parcel.
    ///
    /// # Errors
    /// The errors of [`EntryRows::close`], after which the writer cannot continue.
    pub(crate) fn send(&mut self) -> Result<Option<&Parcel>> {
        let next = match self.unsent.pop_front() {
            Some(parcel) => Some(parcel),
            None => self.merge()?,
        };
        let Some(mut parcel) = next else { return Ok(None) };
        parcel.attempts += 1;
        self.sent.push_back(parcel);
        Ok(self.sent.back())
    }

    /// Builds a parcel from the oldest waiting entries: as many entries with equal columns as the
    /// limits allow.
    fn merge(&mut self) -> Result<Option<Parcel>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut batches: Vec<RecordBatch> = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while let Some(next) = self.waiting.front_mut() {
            let fits = match (entries.first(), batches.first()) {
                (Some(first), Some(batch)) => {
                    !first.numbered
                        && !next.numbered
                        && rows + next.rows.count() <= self.limits.rows_max
                        && bytes + next.bytes <= self.limits.bytes_max
                        && batch.schema() == next.rows.schema()
                }
                _ => true,
            };
            if !fits {
                break;
            }
            let batch = match next.rows.close() {
                Ok(batch) => batch,
                // The writer reports this error to all waiting callers, among them the callers of
                // this entry.
                Err(error) => {
                    let single = entries.into_iter().zip(batches);
                    let single = single.map(|(entry, batch)| Parcel::single(entry, batch, 0));
                    self.unsent.extend(single);
                    return Err(error);
                }
            };
            rows += batch.num_rows();
            bytes += next.bytes;
            self.waiting_rows -= batch.num_rows().min(self.waiting_rows);
            self.waiting_bytes -= next.bytes.min(self.waiting_bytes);
            batches.push(batch);
            entries.extend(self.waiting.pop_front());
        }
        let (Some(first), Some(last)) = (batches.first(), entries.last()) else { return Ok(None) };
        let number = last.number;
        let merged = match batches.as_slice() {
            [one] => Ok(one.clone()),
            several => concat_batches(&first.schema(), several),
        };
        match merged {
            Ok(batch) => {
                // The entries become slices of the merged batch and share its memory.
                let mut start = 0;
                for entry in &mut entries {
                    let rows = entry.rows.count();
                    entry.rows = EntryRows::Batch(batch.slice(start, rows));
                    start += rows;
                }
                Ok(Some(Parcel { entries, batch, number, attempts: 0 }))
            }
            // The offsets of the merged columns would overflow: the writer sends each entry alone.
            Err(_) => {
                let single = entries.into_iter().zip(batches);
                self.unsent =
                    single.map(|(entry, batch)| Parcel::single(entry, batch, 0)).collect();
                Ok(self.unsent.pop_front())
            }
        }
    }

    /// Marks the oldest parcel as stored.
    ///
    /// # Errors
    /// `Protocol` if `answer` has the number of another parcel; `Closed` if another writer has used
    /// the number.
    pub(crate) fn acknowledged(&mut self, answer: &Answer) -> Result<()> {
        let Some(parcel) = self.sent.front() else {
            return Err(Error::protocol("the server acknowledged a batch that was not sent"));
        };
        if answer.sequence != Some(parcel.number) {
            return Err(Error::protocol(format!(
                "batch {} was acknowledged as {:?}",
                parcel.number, answer.sequence
            )));
        }
        let ours = parcel.entries.iter().any(|entry| !entry.numbered);
        if answer.duplicate && parcel.attempts == 1 && ours {
            return Err(Error::new(
                ErrorKind::Closed,
                format!(
                    "batch {} was not stored: another writer uses the numbers of this producer",
                    parcel.number
                ),
            )
            .with_hint(
                "a producer belongs to one writer at a time; give each writer its own producer",
            ));
        }
        let Some(parcel) = self.sent.pop_front() else { return Ok(()) };
        self.done_through = parcel.number;
        let mut first = true;
        let mut row = 0;
        for entry in parcel.entries {
            let rows = entry.rows.count() as u64;
            let mut acknowledgement = Acknowledgement::of(rows, answer);
            acknowledgement.narrow(row, parcel.batch.num_rows() as u64);
            row += rows;
            // One duplicate per parcel, however many writes the parcel contains.
            let all = Acknowledgement {
                duplicates: if first { acknowledgement.duplicates } else { 0 },
                ..acknowledgement.clone()
            };
            first = false;
            self.acknowledged.add(&all);
            acknowledgement.duplicates = acknowledgement.duplicates.min(1);
            entry.receivers.stored(acknowledgement);
        }
        Ok(())
    }

    /// Handles the refusal of the oldest parcel; the server did not process the later parcels. The
    /// ledger splits the refused parcel into single entries and queues these again, so that the
    /// server refuses only the faulty entries.
    pub(crate) fn refused(&mut self, error: &Error) {
        let Some(parcel) = self.sent.pop_front() else { return };
        self.broken();
        let whole = self.limits.refuses_whole && error.is_outside_window();
        if parcel.is_several() && !whole {
            let attempts = parcel.attempts;
            for (entry, batch) in parcel.entries.into_iter().flat_map(Entry::singles).rev() {
                self.unsent.push_front(Parcel::single(entry, batch, attempts));
            }
            return;
        }
        self.done_through = parcel.number;
        for entry in parcel.entries {
            self.tell_refused(entry, error);
        }
    }

    fn tell_refused(&mut self, mut entry: Entry, error: &Error) {
        let name = entry.name.unwrap_or_else(|| format!("batch {}", entry.number));
        let error = error.clone().of_batch(entry.number, &name);
        match (entry.receivers.refused(&error, entry.rows.close().ok()), &mut self.unreported) {
            (0, _) => {}
            (unreported, Some((_, count))) => *count += unreported,
            (unreported, none) => *none = Some((error, unreported)),
        }
    }

    /// Handles a broken call: queues all unacknowledged parcels again, unchanged.
    pub(crate) fn broken(&mut self) {
        while let Some(parcel) = self.sent.pop_back() {
            self.unsent.push_front(parcel);
        }
    }

    /// The sum of the acknowledgements since the previous call.
    ///
    /// # Errors
    /// `InvalidBatch` if the server refused a batch and no caller has received the error.
    pub(crate) fn take_outcome(&mut self) -> Outcome {
        let acknowledged = std::mem::take(&mut self.acknowledged);
        match self.unreported.take() {
            None => Ok(acknowledged),
            Some((error, 1)) => Err(error),
            Some((error, count)) => {
                Err(error.during(format!("{count} batches were refused, first")))
            }
        }
    }

    /// Ends the writer: reports `error` to all waiting callers.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.broken();
        let sent = self.unsent.iter_mut().flat_map(|parcel| parcel.entries.iter_mut());
        for entry in sent.chain(self.waiting.iter_mut()) {
            // The caller may have dropped the receiver.
            let receivers = std::mem::replace(&mut entry.receivers, OutcomeReceivers::Nobody);
            receivers.refused(error, entry.rows.close().ok());
        }
    }

    /// Marks the newest sent parcel as unsent again.
    pub(crate) fn unsend(&mut self) {
        if let Some(parcel) = self.sent.pop_back() {
            self.unsent.push_front(parcel);
        }
    }

    /// Removes and returns all unacknowledged rows with their batch numbers, in order. Sent parcels
    /// are not split, because the server may have stored a parcel under its number.
    pub(crate) fn take_all(&mut self) -> Vec<(u64, RecordBatch)> {
        self.broken();
        let sent = self.unsent.drain(..).map(|parcel| (parcel.number, parcel.batch));
        let waiting = self.waiting.drain(..);
        let waiting =
            waiting.filter_map(|mut entry| Some((entry.number, entry.rows.close().ok()?)));
        sent.chain(waiting).collect()
    }
}

#[cfg(test)]
mod tests;
