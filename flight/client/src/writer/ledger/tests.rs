use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray as _, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use futures::FutureExt as _;
use tokio::sync::{Semaphore, oneshot};

use super::*;

/// A ledger with parcels of at most ten rows, and a linger time of a second.
fn ledger() -> Ledger {
    Ledger::new(Limits {
        rows_max: 10,
        bytes_max: 1 << 20,
        linger: Duration::from_secs(1),
        in_flight_max: 3,
        refuses_whole: false,
    })
}

fn numbers(values: &[i64]) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    RecordBatch::try_from_iter([("x", column)]).unwrap()
}

fn entry(number: u64, batch: RecordBatch, since: Instant) -> (Entry, oneshot::Receiver<Outcome>) {
    let (sender, receiver) = oneshot::channel();
    let room = Arc::new(Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap());
    let (name, bytes) = (None, 8 * batch.num_rows());
    let (rows, receivers) = (EntryRows::Batch(batch), OutcomeReceivers::One(sender));
    (Entry { number, numbered: false, rows, bytes, name, since, receivers, room }, receiver)
}

/// Adds an entry of one row per given number, and drops the receivers of the outcomes.
fn write(ledger: &mut Ledger, numbers_given: impl IntoIterator<Item = u64>) {
    for number in numbers_given {
        ledger.push(entry(number, numbers(&[number as i64]), Instant::now()).0);
    }
}

fn answer(sequence: u64) -> Answer {
    Answer {
        first_gsn: Some(sequence * 10),
        last_gsn: Some(sequence * 10),
        durability: "disk".to_string(),
        duplicate: false,
        sequence: Some(sequence),
    }
}

fn duplicate(sequence: u64) -> Answer {
    Answer { first_gsn: None, last_gsn: None, duplicate: true, ..answer(sequence) }
}

/// Sends a parcel; returns its number and its rows.
fn sent(ledger: &mut Ledger) -> (u64, Vec<i64>) {
    let parcel = ledger.send().unwrap().unwrap();
    let column = parcel.batch.column(0).as_primitive::<Int64Type>();
    (parcel.number, column.values().to_vec())
}

fn bad() -> Error {
    Error::new(ErrorKind::InvalidOption, "no good")
}

#[test]
fn entries_wait_for_others_but_not_for_long() {
    let mut ledger = ledger();
    let start = Instant::now();
    ledger.push(entry(1, numbers(&[1]), start).0);
    assert!(ledger.ready(start).is_none());
    assert_eq!(ledger.due_at(), Some(start + Duration::from_secs(1)));
    assert!(ledger.ready(start + Duration::from_secs(1)).is_some(), "by time");
    ledger.flush(1);
    assert!(ledger.ready(start).is_some(), "by request");
    write(&mut ledger, 2..=12);
    assert!(ledger.ready(start).is_some(), "by size");
    assert_eq!(sent(&mut ledger), (10, (1..=10).collect()));
    assert!(ledger.ready(Instant::now()).is_none(), "two are left");
    ledger.flush(12);
    assert_eq!(sent(&mut ledger), (12, vec![11, 12]));
}

#[test]
fn no_more_than_so_many_are_in_flight() {
    let mut ledger = ledger();
    write(&mut ledger, 1..=40);
    for _ in 0..3 {
        assert!(ledger.ready(Instant::now()).is_some());
        ledger.send().unwrap();
    }
    assert!(ledger.ready(Instant::now()).is_none() && ledger.due_at().is_none());
    ledger.acknowledged(&answer(10)).unwrap();
    assert!(ledger.ready(Instant::now()).is_some());
}

#[test]
fn other_columns_and_given_numbers_go_by_themselves() {
    let mut ledger = ledger();
    let now = Instant::now();
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    write(&mut ledger, 1..=2);
    ledger.push(entry(3, RecordBatch::try_from_iter([("x", text)]).unwrap(), now).0);
    ledger.push(Entry { numbered: true, ..entry(7, numbers(&[7]), now).0 });
    ledger.push(Entry { numbered: true, ..entry(8, numbers(&[8]), now).0 });
    write(&mut ledger, [9]);
    ledger.flush(9);
    assert_eq!(sent(&mut ledger), (2, vec![1, 2]));
    assert_eq!(ledger.send().unwrap().unwrap().number, 3);
    assert_eq!(sent(&mut ledger), (7, vec![7]));
    for number in [2, 3, 7] {
        ledger.acknowledged(&answer(number)).unwrap();
    }
    assert_eq!(sent(&mut ledger), (8, vec![8]));
    assert_eq!(sent(&mut ledger), (9, vec![9]));
}

#[test]
fn what_was_sent_is_sent_again_as_it_was() {
    let mut ledger = ledger();
    write(&mut ledger, 1..=12);
    ledger.flush(12);
    let first = [sent(&mut ledger), sent(&mut ledger)];
    write(&mut ledger, [13]);
    ledger.broken();
    assert_eq!(ledger.in_flight(), 0);
    assert_eq!([sent(&mut ledger), sent(&mut ledger)], first);
    ledger.acknowledged(&duplicate(10)).unwrap();
    ledger.acknowledged(&answer(12)).unwrap();
    assert_eq!(ledger.done_through(), 12);
    let outcome = ledger.take_outcome().unwrap();
    assert_eq!((outcome.rows, outcome.duplicates), (12, 1));
    assert_eq!((outcome.first_gsn, outcome.last_gsn), (Some(120), Some(120)));
}

#[test]
fn of_a_parcel_only_the_entries_at_fault_are_refused() {
    let mut ledger = ledger();
    let outcomes: Vec<_> = (1..=3)
        .map(|number| {
            let (entry, outcome) = entry(number, numbers(&[number as i64]), Instant::now());
            ledger.push(entry);
            outcome
        })
        .collect();
    write(&mut ledger, 4..=11);
    assert_eq!(sent(&mut ledger).0, 10);
    ledger.flush(11);
    assert_eq!(sent(&mut ledger).0, 11);
    ledger.refused(&bad());
    assert_eq!((ledger.done_through(), ledger.in_flight()), (0, 0));
    assert_eq!(sent(&mut ledger), (1, vec![1]));
    assert_eq!(sent(&mut ledger), (2, vec![2]));
    ledger.acknowledged(&answer(1)).unwrap();
    ledger.refused(&bad());
    assert_eq!(ledger.done_through(), 2);
    for number in 3..=11 {
        assert_eq!(sent(&mut ledger), (number, vec![number as i64]), "also what came behind");
        ledger.acknowledged(&answer(number)).unwrap();
    }
    assert!(ledger.is_empty());
    let outcomes: Vec<Outcome> =
        outcomes.into_iter().map(|mut outcome| outcome.try_recv().unwrap()).collect();
    let refused = outcomes[1].as_ref().unwrap_err();
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
    assert_eq!((refused.batch(), refused.kind()), (Some(2), ErrorKind::InvalidBatch));
    assert_eq!(refused.message(), "batch 2 was refused: no good");
    assert!(ledger.take_outcome().is_ok(), "it was told already");
}

#[test]
fn what_nobody_was_told_comes_with_the_next_flush() {
    let mut ledger = ledger();
    for number in 1..=3 {
        write(&mut ledger, [number]);
        ledger.flush(number);
        ledger.send().unwrap();
        match number {
            2 => ledger.acknowledged(&answer(2)).unwrap(),
            _ => ledger.refused(&bad()),
        }
    }
    let error = ledger.take_outcome().unwrap_err();
    assert_eq!(error.message(), "2 batches were refused, first: batch 1 was refused: no good");
    assert_eq!(error.batch(), Some(1));
    assert_eq!(ledger.take_outcome().unwrap(), Acknowledgement::default());
}

#[test]
fn a_number_that_somebody_else_used_is_told() {
    let mut ledger = ledger();
    write(&mut ledger, [1]);
    ledger.flush(1);
    ledger.send().unwrap();
    let error = ledger.acknowledged(&duplicate(1)).unwrap_err();
    assert!(error.message().contains("another writer"), "{error}");
    assert_eq!(ledger.take_all().len(), 1, "it is not stored");
}

#[test]
fn answers_that_make_no_sense_are_refused() {
    let mut ledger = ledger();
    assert!(ledger.acknowledged(&answer(1)).is_err());
    write(&mut ledger, [1]);
    ledger.flush(1);
    ledger.send().unwrap();
    assert_eq!(ledger.acknowledged(&answer(2)).unwrap_err().kind(), ErrorKind::Protocol);
}

#[test]
fn what_is_left_comes_back_as_it_was_sent() {
    let mut ledger = ledger();
    write(&mut ledger, 1..=11);
    sent(&mut ledger);
    let (last, mut outcomes) = entry(12, numbers(&[12]), Instant::now());
    ledger.push(last);
    ledger.fail(&bad());
    assert_eq!(outcomes.try_recv().unwrap().unwrap_err().message(), "no good");
    let left: Vec<(u64, usize)> =
        ledger.take_all().iter().map(|(number, rows)| (*number, rows.num_rows())).collect();
    assert_eq!(left, [(10, 10), (11, 1), (12, 1)]);
    assert!(ledger.is_empty());
}

#[test]
fn entries_that_went_as_one_have_their_own_positions() {
    let mut ledger = ledger();
    let mut outcomes = Vec::new();
    for (number, values) in [(1, vec![1, 2]), (2, vec![3]), (3, vec![4, 5, 6])] {
        let (entry, receiver) = entry(number, numbers(&values), Instant::now());
        ledger.push(entry);
        outcomes.push(receiver);
    }
    ledger.flush(3);
    assert_eq!(sent(&mut ledger).0, 3);
    let stored = Answer { first_gsn: Some(100), last_gsn: Some(105), ..answer(3) };
    ledger.acknowledged(&stored).unwrap();
    let outcomes = outcomes.iter_mut().map(|outcomes| outcomes.try_recv().unwrap().unwrap());
    let gsns: Vec<_> = outcomes
        .map(|outcomes| (outcomes.first_gsn.unwrap(), outcomes.last_gsn.unwrap()))
        .collect();
    assert_eq!(gsns, [(100, 101), (102, 102), (103, 105)]);
    let all = ledger.take_outcome().unwrap();
    assert_eq!((all.rows, all.first_gsn, all.last_gsn), (6, Some(100), Some(105)));
}

#[test]
fn a_parcel_that_is_too_old_is_refused_as_one_where_that_is_wanted() {
    let mut status = tonic::Status::aborted("too old");
    status.metadata_mut().insert("sqlstate", "SL001".parse().unwrap());
    let too_old = Error::from(status);
    for whole in [true, false] {
        let mut ledger = ledger();
        ledger.limits.refuses_whole = whole;
        write(&mut ledger, 1..=3);
        ledger.flush(3);
        assert_eq!(sent(&mut ledger), (3, vec![1, 2, 3]));
        ledger.refused(&too_old);
        match whole {
            true => assert!(ledger.is_empty() && ledger.done_through() == 3),
            false => assert_eq!(sent(&mut ledger), (1, vec![1])),
        }
        ledger.refused(&bad());
        assert!(ledger.take_outcome().unwrap_err().needs_new_time() == whole);
    }
}

/// Appends single events.
fn append(ledger: &mut Ledger, first: u64, payloads: &[&[u8]]) -> Vec<EventPlace> {
    let payload = Field::new("payload", DataType::Binary, false);
    let columns = Arc::new(Schema::new(vec![payload]));
    let room = Arc::new(Semaphore::new(100));
    let mut places = Vec::new();
    for (number, payload) in (first..).zip(payloads.iter().copied()) {
        let event = RawEvent { columns: &columns, time_ns: 0, payload };
        let place = ledger.append(number, &event, None).or_else(|| {
            let room = Arc::clone(&room).try_acquire_owned().unwrap();
            ledger.append(number, &event, Some(room))
        });
        places.push(place.unwrap());
    }
    places
}

#[test]
fn events_are_sent_with_those_before_them_that_wait() {
    let mut ledger = ledger();
    let large = vec![7; 2 * ROOM_BYTES];
    let places = append(&mut ledger, 1, &[b"a", b"bb"]);
    assert_eq!((places[0].is_first, places[1].is_first, places[1].at), (true, false, 1));
    ledger.flush(10);
    let parcel = ledger.send().unwrap().unwrap();
    assert_eq!((parcel.number, parcel.batch.num_rows()), (2, 2));
    // A sent entry does not grow.
    assert!(append(&mut ledger, 3, &[&large])[0].is_first);
    assert_eq!(ledger.send().unwrap().unwrap().number, 3);
    ledger.acknowledged(&Answer { last_gsn: Some(21), ..answer(2) }).unwrap();
    let outcomes = places[1].awaited.answer.clone().now_or_never().unwrap().unwrap();
    assert_eq!(outcomes.of(1).unwrap().first_gsn, Some(21));
}

#[test]
fn of_events_that_were_sent_together_only_those_at_fault_are_refused() {
    let mut ledger = ledger();
    let places = append(&mut ledger, 1, &[b"a", b"bb", b"c"]);
    places[1].awaited.drop_one(1);
    ledger.flush(10);
    assert_eq!(ledger.send().unwrap().unwrap().number, 3);
    ledger.refused(&bad());
    for number in 1..=3 {
        let parcel = ledger.send().unwrap().unwrap();
        assert_eq!((parcel.number, parcel.batch.num_rows()), (number, 1));
        match number {
            2 => ledger.refused(&bad()),
            _ => ledger.acknowledged(&answer(number)).unwrap(),
        }
    }
    assert!(ledger.is_empty());
    let outcomes = places[0].awaited.answer.clone().now_or_never().unwrap().unwrap();
    assert_eq!(outcomes.of(2).unwrap().first_gsn, Some(30));
    let (error, payload) = outcomes.of(1).unwrap_err();
    assert_eq!((error.batch(), payload.unwrap().len()), (Some(2), 1));
    assert!(outcomes.of(0).is_ok());
    // The caller did not await the outcome.
    assert_eq!(ledger.take_outcome().unwrap_err().batch(), Some(2));
    assert_eq!(ledger.done_through(), 3);
}
