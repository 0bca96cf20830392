//! What was written and is not acknowledged yet: pure, it does nothing by itself.
//!
//! ```text
//!   write ─► waiting ──── merged ───► sent ── acknowledged ─► told
//!                                      │  ▲
//!                         broken call  ▼  │  the same again
//!                                     unsent
//! ```
//!
//! Each entry has a number, and numbers go up in the order of writing. A parcel of several entries is
//! sent under the number of the last. So a parcel that was refused as a whole can be sent entry by
//! entry, under numbers that the server has not seen, and that are below those of all later parcels.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::acknowledgement::{Acknowledgement, Answer, Outcome};
use crate::error::{Error, ErrorKind, Result};

/// How much goes into a parcel, and when.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    pub(crate) rows_max: usize,
    pub(crate) bytes_max: usize,
    pub(crate) linger: Duration,
    pub(crate) in_flight_max: usize,
    /// A parcel that is refused for its times is refused as one: all of its entries are about as old.
    pub(crate) refuses_whole: bool,
}

/// Rows with a number.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    /// The caller gave the number.
    pub(crate) numbered: bool,
    pub(crate) batch: RecordBatch,
    pub(crate) bytes: usize,
    /// How errors name it.
    pub(crate) name: String,
    pub(crate) since: Instant,
    pub(crate) tell: Option<oneshot::Sender<Outcome>>,
    /// Its share of the memory of the writer; shared by the pieces of one batch.
    pub(crate) _room: std::sync::Arc<OwnedSemaphorePermit>,
}

/// Entries that go as one.
#[derive(Debug)]
pub(crate) struct Parcel {
    entries: Vec<Entry>,
    pub(crate) batch: RecordBatch,
    pub(crate) number: u64,
    attempts: u32,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Limits,
    waiting: VecDeque<Entry>,
    waiting_rows: usize,
    waiting_bytes: usize,
    unsent: VecDeque<Parcel>,
    sent: VecDeque<Parcel>,
    /// Entries up to this number are sent without waiting for more.
    flush_through: u64,
    done_through: u64,
    /// Since the last flush: what was acknowledged, and what was refused that nobody was told of.
    acknowledged: Acknowledgement,
    untold: Option<(Error, u64)>,
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
            untold: None,
        }
    }

    /// Takes an entry; its number is above those before it.
    pub(crate) fn push(&mut self, entry: Entry) {
        self.waiting_rows += entry.batch.num_rows();
        self.waiting_bytes += entry.bytes;
        self.waiting.push_back(entry);
    }

    /// What was written up to `number` is not to wait for more.
    pub(crate) fn flush(&mut self, number: u64) {
        self.flush_through = self.flush_through.max(number);
    }

    /// All entries up to this number are acknowledged or refused.
    pub(crate) fn done_through(&self) -> u64 {
        self.done_through
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.unsent.is_empty() && self.sent.is_empty()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.sent.len()
    }

    /// The columns of the parcel that can be sent now.
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
        due.then(|| first.batch.schema())
    }

    /// When the oldest entry has waited for long enough.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        if self.sent.len() >= self.limits.in_flight_max {
            return None;
        }
        self.waiting.front().map(|entry| entry.since + self.limits.linger)
    }

    /// Takes the next parcel as sent; the caller sends it.
    pub(crate) fn send(&mut self) -> Option<&Parcel> {
        let mut parcel = match self.unsent.pop_front() {
            Some(parcel) => parcel,
            None => self.merge()?,
        };
        parcel.attempts += 1;
        self.sent.push_back(parcel);
        self.sent.back()
    }

    /// As many waiting entries as fit into a parcel and have the same columns.
    fn merge(&mut self) -> Option<Parcel> {
        let mut entries: Vec<Entry> = Vec::new();
        let (mut rows, mut bytes) = (0, 0);
        while let Some(next) = self.waiting.front() {
            let fits = match entries.first() {
                None => true,
                Some(first) => {
                    !first.numbered
                        && !next.numbered
                        && rows + next.batch.num_rows() <= self.limits.rows_max
                        && bytes + next.bytes <= self.limits.bytes_max
                        && first.batch.schema() == next.batch.schema()
                }
            };
            if !fits {
                break;
            }
            rows += next.batch.num_rows();
            bytes += next.bytes;
            entries.extend(self.waiting.pop_front());
        }
        self.waiting_rows -= rows.min(self.waiting_rows);
        self.waiting_bytes -= bytes.min(self.waiting_bytes);
        let first = entries.first()?;
        let merged = match entries.as_slice() {
            [one] => Ok(one.batch.clone()),
            several => {
                let batches = several.iter().map(|entry| &entry.batch);
                concat_batches(&first.batch.schema(), batches)
            }
        };
        match merged {
            Ok(batch) => {
                let number = entries.last()?.number;
                // The rows are kept once.
                let mut start = 0;
                for entry in &mut entries {
                    let rows = entry.batch.num_rows();
                    entry.batch = batch.slice(start, rows);
                    start += rows;
                }
                Some(Parcel { entries, batch, number, attempts: 0 })
            }
            // Offsets of one array can overflow where those of its parts do not: each by itself, then.
            Err(_) => {
                self.unsent = entries.into_iter().map(|entry| Parcel::single(entry, 0)).collect();
                self.unsent.pop_front()
            }
        }
    }

    /// The oldest parcel is stored.
    ///
    /// # Errors
    /// `Protocol` when it is another one; `Closed` when the number was somebody else's.
    pub(crate) fn acknowledged(&mut self, answer: &Answer) -> Result<()> {
        let Some(parcel) = self.sent.front() else {
            return Err(Error::protocol("a batch was acknowledged that was not sent"));
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
                    "batch {} was not stored: somebody else writes with the number of this producer",
                    parcel.number
                ),
            )
            .with_hint("a producer is for one writer at a time; give each its own"));
        }
        let Some(parcel) = self.sent.pop_front() else { return Ok(()) };
        self.done_through = parcel.number;
        let mut first = true;
        let mut row = 0;
        for mut entry in parcel.entries {
            let rows = entry.batch.num_rows() as u64;
            let mut told = Acknowledgement::of(rows, answer);
            told.narrow(row, parcel.batch.num_rows() as u64);
            row += rows;
            // One duplicate, however many writes it was merged from.
            let all = Acknowledgement {
                duplicates: if first { told.duplicates } else { 0 },
                ..told.clone()
            };
            first = false;
            self.acknowledged.add(&all);
            told.duplicates = told.duplicates.min(1);
            if let Some(tell) = entry.tell.take() {
                // Whoever wrote it does not want to know.
                let _ = tell.send(Ok(told));
            }
        }
        Ok(())
    }

    /// The oldest parcel was refused, and those behind it were not looked at. One of several entries is
    /// sent again entry by entry: only those that are at fault are refused in the end.
    pub(crate) fn refused(&mut self, error: &Error) {
        let Some(parcel) = self.sent.pop_front() else { return };
        self.broken();
        let whole = self.limits.refuses_whole && error.is_outside_window();
        if parcel.entries.len() > 1 && !whole {
            let attempts = parcel.attempts;
            for entry in parcel.entries.into_iter().rev() {
                self.unsent.push_front(Parcel::single(entry, attempts));
            }
            return;
        }
        self.done_through = parcel.number;
        for entry in parcel.entries {
            self.tell_refused(entry, error);
        }
    }

    fn tell_refused(&mut self, mut entry: Entry, error: &Error) {
        let error = error.clone().of_batch(entry.number, &entry.name);
        let told = match entry.tell.take() {
            Some(tell) => tell.send(Err(error.clone())).is_ok(),
            None => false,
        };
        if !told {
            match &mut self.untold {
                Some((_, count)) => *count += 1,
                None => self.untold = Some((error, 1)),
            }
        }
    }

    /// The call broke: what was sent is sent again, as it was.
    pub(crate) fn broken(&mut self) {
        while let Some(parcel) = self.sent.pop_back() {
            self.unsent.push_front(parcel);
        }
    }

    /// What came of everything since the last time.
    ///
    /// # Errors
    /// `InvalidBatch` when a batch was refused that nobody was told of.
    pub(crate) fn take_outcome(&mut self) -> Outcome {
        let acknowledged = std::mem::take(&mut self.acknowledged);
        match self.untold.take() {
            None => Ok(acknowledged),
            Some((error, 1)) => Err(error),
            Some((error, count)) => {
                Err(error.during(format!("{count} batches were refused, first")))
            }
        }
    }

    /// Nothing is sent any more: whoever waits is told.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.broken();
        let sent = self.unsent.iter_mut().flat_map(|parcel| parcel.entries.iter_mut());
        for entry in sent.chain(self.waiting.iter_mut()) {
            if let Some(tell) = entry.tell.take() {
                // Whoever wrote it does not want to know.
                let _ = tell.send(Err(error.clone()));
            }
        }
    }

    /// The newest parcel was not sent after all.
    pub(crate) fn unsend(&mut self) {
        if let Some(parcel) = self.sent.pop_back() {
            self.unsent.push_front(parcel);
        }
    }

    /// Everything that is not acknowledged, in order: as it was sent, if it was, since some of it may
    /// be stored under just these numbers.
    pub(crate) fn take_all(&mut self) -> Vec<(u64, RecordBatch)> {
        self.broken();
        let sent = self.unsent.drain(..).map(|parcel| (parcel.number, parcel.batch));
        sent.chain(self.waiting.drain(..).map(|entry| (entry.number, entry.batch))).collect()
    }
}

impl Parcel {
    fn single(entry: Entry, attempts: u32) -> Self {
        let (batch, number) = (entry.batch.clone(), entry.number);
        Self { entries: vec![entry], batch, number, attempts }
    }
}

#[cfg(test)]
mod tests;
