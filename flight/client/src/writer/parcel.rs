//! Entries and parcels: an entry is one write of a caller, a parcel is a batch of entries that the
//! writer sends in one message.

use std::{sync::Arc, time::Instant};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;

use super::gather::{AwaitedEvents, EventParts, GatheredEvents, OutcomeReceivers};
use crate::error::Result;

/// The rows of one write, or events that callers appended one by one, under one batch number.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The batch number. Each appended event has its own number; an entry of appended events has
    /// the number of the last event.
    pub(crate) number: u64,
    /// True if the caller chose the number.
    pub(crate) numbered: bool,
    pub(crate) rows: EntryRows,
    pub(crate) bytes: usize,
    /// The name of the rows in error messages; if `None`, the messages name the batch number.
    pub(crate) name: Option<String>,
    pub(crate) since: Instant,
    pub(crate) receivers: OutcomeReceivers,
    /// The buffer space of the entry, freed on drop. All entries of a split batch share one
    /// reservation.
    pub(crate) room: Arc<OwnedSemaphorePermit>,
}

/// The rows of an entry.
#[derive(Debug)]
pub(crate) enum EntryRows {
    /// A complete batch; no event can join.
    Batch(RecordBatch),
    /// Appended events in columns under construction; more events may join.
    Gathered(GatheredEvents),
}

impl EntryRows {
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Batch(batch) => batch.num_rows(),
            Self::Gathered(events) => events.rows(),
        }
    }

    pub(super) fn schema(&self) -> SchemaRef {
        match self {
            Self::Batch(batch) => batch.schema(),
            Self::Gathered(events) => Arc::clone(events.columns()),
        }
    }

    /// Returns the rows as a batch. Converts appended events to a batch first; afterwards no
    /// further event can join.
    ///
    /// # Errors
    /// The errors of [`GatheredEvents::finish`]. After an error the entry is empty.
    pub(super) fn close(&mut self) -> Result<RecordBatch> {
        match self {
            Self::Batch(batch) => Ok(batch.clone()),
            Self::Gathered(events) => {
                let empty = GatheredEvents::new(events.columns());
                let batch = std::mem::replace(events, empty).finish()?;
                *self = Self::Batch(batch.clone());
                Ok(batch)
            }
        }
    }
}

/// The position of an event in its entry.
pub(crate) struct EventPlace {
    pub(crate) awaited: Arc<AwaitedEvents>,
    pub(crate) at: usize,
    /// True if the event is the first of its entry.
    pub(crate) is_first: bool,
}

/// Entries that the writer sends as one batch.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(super) entries: Vec<Entry>,
    pub(crate) batch: RecordBatch,
    pub(crate) number: u64,
    pub(super) attempts: u32,
}

impl Entry {
    /// Splits the entry: each appended event becomes an entry with its own number. Any other entry
    /// stays as one entry.
    pub(super) fn singles(mut self) -> Vec<(Entry, RecordBatch)> {
        let Ok(batch) = self.rows.close() else { return Vec::new() };
        let count = batch.num_rows();
        let (sender, awaited) = match self.receivers {
            OutcomeReceivers::Gathered(sender, awaited) if count > 1 => (sender, awaited),
            receivers => return vec![(Entry { receivers, ..self }, batch)],
        };
        let parts = Arc::new(Mutex::new(EventParts::new(sender, awaited, batch.clone())));
        let single = |at: usize| {
            let batch = batch.slice(at, 1);
            let behind = (count - 1 - at) as u64;
            let entry = Entry {
                number: self.number - behind,
                numbered: false,
                rows: EntryRows::Batch(batch.clone()),
                bytes: self.bytes / count,
                name: None,
                since: self.since,
                receivers: OutcomeReceivers::Part(at, Arc::clone(&parts)),
                room: Arc::clone(&self.room),
            };
            (entry, batch)
        };
        (0..count).map(single).collect()
    }
}

impl Parcel {
    pub(super) fn single(entry: Entry, batch: RecordBatch, attempts: u32) -> Self {
        let number = entry.number;
        Self { entries: vec![entry], batch, number, attempts }
    }

    /// True if the parcel consists of several entries or events.
    pub(super) fn is_several(&self) -> bool {
        match self.entries.as_slice() {
            [one] => {
                matches!(&one.receivers, OutcomeReceivers::Gathered(..))
                    && self.batch.num_rows() > 1
            }
            several => several.len() > 1,
        }
    }
}
