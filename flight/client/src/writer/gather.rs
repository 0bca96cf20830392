//! Gathers events that callers append one by one in the columns of one batch, until the writer
//! sends the batch. The server answers once for all events of the batch.
//!
//! ```text
//!   append ─► [time, payload] ─┐                     ┌─► the first event's answer
//!   append ─► [time, payload] ─┼► one entry ─► sent ─┼─► the second's
//!   append ─► [time, payload] ─┘                     └─► …
//! ```

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, BinaryArray, RecordBatch, TimestampNanosecondArray},
    buffer::{Buffer, OffsetBuffer},
    datatypes::{DataType, SchemaRef},
};
use futures::{FutureExt as _, future::Shared};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::acknowledgement::{Acknowledgement, Outcome};
use crate::error::{Error, ErrorKind, Result};

/// Bytes of an event in addition to its payload: a time and an end offset.
const EVENT_OVERHEAD_BYTES: usize = size_of::<i64>() + size_of::<i32>();

/// An event as the caller passes it, before the copy into columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawEvent<'a> {
    /// The columns of the batch: the payload, preceded by the time if the client assigns the times
    /// of the table.
    pub(crate) columns: &'a SchemaRef,
    /// Nanoseconds since 1970; ignored if the batch has no time column.
    pub(crate) time_ns: i64,
    pub(crate) payload: &'a [u8],
}

impl RawEvent<'_> {
    pub(crate) fn bytes(&self) -> usize {
        self.payload.len() + EVENT_OVERHEAD_BYTES
    }

    /// Checks that a column can hold the payload.
    ///
    /// # Errors
    /// `InvalidBatch` for a payload of 2 GiB or more.
    pub(crate) fn check(&self) -> Result<()> {
        if i32::try_from(self.payload.len()).is_ok() {
            return Ok(());
        }
        let bytes = self.payload.len();
        let message = format!("an event of {bytes} bytes: an event has less than 2 GiB");
        Err(Error::new(ErrorKind::InvalidBatch, message).with_hint("record the rows in parts"))
    }
}

/// Unsent events as Arrow columns under construction.
#[derive(Debug)]
pub(crate) struct GatheredEvents {
    columns: SchemaRef,
    times: Vec<i64>,
    ends: Vec<i32>,
    payloads: Vec<u8>,
}

impl GatheredEvents {
    pub(crate) fn new(columns: &SchemaRef) -> Self {
        Self { columns: Arc::clone(columns), times: vec![], ends: vec![0], payloads: vec![] }
    }

    pub(crate) fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    pub(crate) fn rows(&self) -> usize {
        self.times.len()
    }

    /// Adds an event; returns `false` if the payload column would exceed 2 GiB.
    pub(crate) fn push(&mut self, event: &RawEvent<'_>) -> bool {
        let Ok(end) = i32::try_from(self.payloads.len() + event.payload.len()) else {
            return false;
        };
        self.payloads.extend_from_slice(event.payload);
        self.ends.push(end);
        self.times.push(event.time_ns);
        true
    }

    /// Converts the events to a batch.
    ///
    /// # Errors
    /// `Protocol` if `columns` is not a payload column with an optional time column.
    pub(crate) fn finish(self) -> Result<RecordBatch> {
        let ends = OffsetBuffer::new(self.ends.into());
        let payloads = BinaryArray::try_new(ends, Buffer::from_vec(self.payloads), None)?;
        raw_batch(&self.columns, self.times, Arc::new(payloads))
    }
}

/// Builds a batch with the schema `columns` from raw events. The batch contains `times` only if
/// `columns` has a time column.
///
/// # Errors
/// `Protocol` if `columns` is not a payload column with an optional time column.
pub(crate) fn raw_batch(
    columns: &SchemaRef,
    times: Vec<i64>,
    payloads: ArrayRef,
) -> Result<RecordBatch> {
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(2);
    if let [time, _] = columns.fields().as_ref() {
        let zoned = matches!(time.data_type(), DataType::Timestamp(_, Some(_)));
        let times = TimestampNanosecondArray::from(times);
        let times = if zoned { times.with_timezone("UTC") } else { times };
        arrays.push(Arc::new(times));
    }
    arrays.push(payloads);
    Ok(RecordBatch::try_new(Arc::clone(columns), arrays)?)
}

/// The outcome of a batch of gathered events.
#[derive(Debug)]
pub(crate) enum GatheredOutcome {
    /// The server has stored all events.
    Stored(Acknowledgement),
    /// The server has stored no event. The batch allows another attempt; it is `None` if the events
    /// could not be converted to a batch.
    Refused(Error, Option<RecordBatch>),
    /// Each event has its own outcome, because the writer split the batch into single events.
    Each(Vec<Outcome>, RecordBatch),
}

impl GatheredOutcome {
    /// The outcome of the event at index `at` of the batch. The error of an unstored event includes
    /// the payload as a column.
    pub(crate) fn of(&self, at: usize) -> std::result::Result<Acknowledgement, StoreFailure> {
        let not_stored = |error: &Error, rows: Option<&RecordBatch>| {
            let rows = rows.filter(|rows| at < rows.num_rows());
            let payloads = rows.and_then(|rows| rows.columns().last());
            (error.clone(), payloads.map(|payloads| payloads.slice(at, 1)))
        };
        match self {
            Self::Stored(all) => {
                let mut one = Acknowledgement { rows: 1, ..all.clone() };
                one.narrow(at as u64, all.rows);
                Ok(one)
            }
            Self::Refused(error, rows) => Err(not_stored(error, rows.as_ref())),
            Self::Each(outcomes, rows) => match outcomes.get(at) {
                Some(Ok(stored)) => Ok(stored.clone()),
                Some(Err(error)) => Err(not_stored(error, Some(rows))),
                None => Err(not_stored(&Error::closed("writer"), None)),
            },
        }
    }
}

/// The error of an event that the server did not store, and the event's payload as a column for
/// another attempt.
pub(crate) type StoreFailure = (Error, Option<ArrayRef>);

/// A future of the outcome of a batch, shared by all events of the batch. The future fails if the
/// writer has ended.
pub(crate) type SharedOutcome = Shared<oneshot::Receiver<Arc<GatheredOutcome>>>;

/// The outcome of a batch of gathered events, and the callers that still await it.
#[derive(Debug)]
pub(crate) struct AwaitedEvents {
    pub(crate) answer: SharedOutcome,
    /// For each event of the batch, true if the caller does not await the outcome, because the
    /// caller has dropped the event's future.
    dropped: Mutex<Vec<bool>>,
}

impl AwaitedEvents {
    pub(crate) fn new() -> (oneshot::Sender<Arc<GatheredOutcome>>, Arc<Self>) {
        let (sender, receiver) = oneshot::channel();
        (sender, Arc::new(Self { answer: receiver.shared(), dropped: Mutex::default() }))
    }

    pub(crate) fn drop_one(&self, at: usize) {
        let mut dropped = self.dropped.lock();
        if dropped.len() <= at {
            dropped.resize(at + 1, false);
        }
        if let Some(place) = dropped.get_mut(at) {
            *place = true;
        }
    }

    fn is_dropped(&self, at: usize) -> bool {
        self.dropped.lock().get(at).is_some_and(|dropped| *dropped)
    }

    fn dropped(&self) -> usize {
        self.dropped.lock().iter().filter(|dropped| **dropped).count()
    }
}

/// The callers that receive the outcome of a written entry.
#[derive(Debug)]
pub(crate) enum OutcomeReceivers {
    /// One caller, which wrote a batch. The entry is the batch or a slice of the batch.
    One(oneshot::Sender<Outcome>),
    /// The callers that appended the events of the batch.
    Gathered(oneshot::Sender<Arc<GatheredOutcome>>, Arc<AwaitedEvents>),
    /// One caller that appended an event, after the writer split the batch into single events. The
    /// number is the index of the event in the batch.
    Part(usize, Arc<Mutex<EventParts>>),
    /// No caller: all have received the outcome.
    Nobody,
}

impl OutcomeReceivers {
    /// Reports that the server refused the entry. Returns the number of refusals that no caller
    /// awaits.
    pub(crate) fn refused(self, error: &Error, rows: Option<RecordBatch>) -> u64 {
        match self {
            Self::One(sender) => u64::from(sender.send(Err(error.clone())).is_err()),
            Self::Gathered(sender, awaited) => {
                let outcome = GatheredOutcome::Refused(error.clone(), rows);
                // Sending cannot fail: the ledger holds a receiver.
                let _ = sender.send(Arc::new(outcome));
                awaited.dropped() as u64
            }
            Self::Part(at, parts) => {
                let mut parts = parts.lock();
                let unreported = parts.awaited.is_dropped(at);
                parts.report(at, Err(error.clone()));
                u64::from(unreported)
            }
            Self::Nobody => 0,
        }
    }

    pub(crate) fn stored(self, acknowledged: Acknowledgement) {
        // The caller may have dropped the receiver.
        match self {
            Self::One(sender) => drop(sender.send(Ok(acknowledged))),
            Self::Gathered(sender, _) => {
                drop(sender.send(Arc::new(GatheredOutcome::Stored(acknowledged))))
            }
            Self::Part(at, parts) => parts.lock().report(at, Ok(acknowledged)),
            Self::Nobody => {}
        }
    }
}

/// Collects the outcomes of the events of a split batch.
#[derive(Debug)]
pub(crate) struct EventParts {
    outcomes: Vec<Option<Outcome>>,
    rows: RecordBatch,
    sender: Option<oneshot::Sender<Arc<GatheredOutcome>>>,
    awaited: Arc<AwaitedEvents>,
}

impl EventParts {
    pub(crate) fn new(
        sender: oneshot::Sender<Arc<GatheredOutcome>>,
        awaited: Arc<AwaitedEvents>,
        rows: RecordBatch,
    ) -> Self {
        Self { outcomes: vec![None; rows.num_rows()], rows, sender: Some(sender), awaited }
    }

    fn report(&mut self, at: usize, outcome: Outcome) {
        if let Some(place) = self.outcomes.get_mut(at) {
            *place = Some(outcome);
        }
    }
}

/// Sends the collected outcomes when the last event of the split batch is finished. An event
/// without an outcome was not sent and gets the error `Closed`.
impl Drop for EventParts {
    fn drop(&mut self) {
        let known = std::mem::take(&mut self.outcomes).into_iter();
        let outcomes = known.map(|known| known.unwrap_or_else(|| Err(Error::closed("writer"))));
        if let Some(sender) = self.sender.take() {
            // Sending cannot fail: the ledger holds a receiver.
            let _ =
                sender.send(Arc::new(GatheredOutcome::Each(outcomes.collect(), self.rows.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema, TimeUnit};

    use super::*;

    fn columns() -> SchemaRef {
        let time = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let payload = Field::new("payload", DataType::Binary, false);
        Arc::new(Schema::new(vec![Field::new("time", time, false), payload]))
    }

    fn gathered(columns: &SchemaRef) -> RecordBatch {
        let mut all = GatheredEvents::new(columns);
        for (time_ns, payload) in [(5, "a".as_bytes()), (7, b""), (9, b"ccc")] {
            assert!(all.push(&RawEvent { columns, time_ns, payload }));
        }
        assert_eq!(all.rows(), 3);
        all.finish().unwrap()
    }

    #[test]
    fn gathered_events_are_the_columns_they_would_be_alone() {
        let payloads = BinaryArray::from_iter_values([b"a".as_slice(), b"", b"ccc"]);
        let times = TimestampNanosecondArray::from(vec![5, 7, 9]).with_timezone("UTC");
        let whole: Vec<ArrayRef> = vec![Arc::new(times), Arc::new(payloads)];
        assert_eq!(gathered(&columns()), RecordBatch::try_new(columns(), whole.clone()).unwrap());
        let alone = Arc::new(columns().project(&[1]).unwrap());
        let payloads = RecordBatch::try_new(Arc::clone(&alone), whole[1..].to_vec()).unwrap();
        assert_eq!(gathered(&alone), payloads);
    }

    #[test]
    fn each_event_has_its_own_number_and_gets_its_own_payload_back() {
        let all = Acknowledgement {
            rows: 3,
            first_gsn: Some(40),
            last_gsn: Some(42),
            ..Acknowledgement::default()
        };
        let second = GatheredOutcome::Stored(all).of(1).unwrap();
        assert_eq!((second.rows, second.first_gsn, second.last_gsn), (1, Some(41), Some(41)));
        let error = Error::new(ErrorKind::InvalidBatch, "no");
        let (_, payload) =
            GatheredOutcome::Refused(error, Some(gathered(&columns()))).of(2).unwrap_err();
        let expected: ArrayRef = Arc::new(BinaryArray::from_iter_values([b"ccc"]));
        assert_eq!(payload, Some(expected));
    }

    #[test]
    fn events_that_are_sent_one_by_one_are_told_once_all_are_through() {
        let (sender, awaited) = AwaitedEvents::new();
        let rows = gathered(&columns());
        let parts =
            Arc::new(Mutex::new(EventParts::new(sender, Arc::clone(&awaited), rows.clone())));
        let part = |at| OutcomeReceivers::Part(at, Arc::clone(&parts));
        awaited.drop_one(2);
        let error = Error::new(ErrorKind::InvalidBatch, "no");
        assert_eq!(part(1).refused(&error, None), 0);
        part(0).stored(Acknowledgement::default());
        assert!(awaited.answer.clone().now_or_never().is_none());
        assert_eq!(part(2).refused(&error, None), 1);
        drop(parts);
        let outcome = awaited.answer.clone().now_or_never().unwrap().unwrap();
        assert!(outcome.of(0).is_ok() && outcome.of(1).is_err() && outcome.of(2).is_err());
    }

    #[test]
    fn what_is_stored_is_told_also_when_the_others_are_not_sent_any_more() {
        let (sender, awaited) = AwaitedEvents::new();
        let parts = EventParts::new(sender, Arc::clone(&awaited), gathered(&columns()));
        let parts = Arc::new(Mutex::new(parts));
        OutcomeReceivers::Part(0, Arc::clone(&parts)).stored(Acknowledgement::default());
        drop(parts);
        let outcome = awaited.answer.clone().now_or_never().unwrap().unwrap();
        assert!(outcome.of(0).is_ok());
        assert_eq!(outcome.of(1).unwrap_err().0.kind(), ErrorKind::Closed);
    }
}
