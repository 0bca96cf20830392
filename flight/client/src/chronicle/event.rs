//! Decodes the batches of a replay or subscription into events and updates.

use arrow::{
    array::{Array, AsArray as _, BinaryArray, RecordBatch},
    buffer::Buffer,
    compute::cast,
    datatypes::{DataType, Int64Type, TimeUnit, TimestampNanosecondType},
};
use bytes::Bytes;

use super::{table::Table, tags::PAYLOAD};
use crate::error::{Error, Result};

/// A payload shares the memory of its batch if the batch is at most this many times as large as the
/// payload. Otherwise the payload is copied.
const SHARE_MIN: usize = 4;

/// An event of a chronicle of raw events: a tick and opaque bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The distance from the chronicle's base in units of its granularity.
    pub tick: i64,
    /// The global sequence number: the event's position in the order of commits, which is the same
    /// for every reader. Chronicle and gsn identify the event for ever: the EventID of the
    /// ChronoLog paper.
    pub gsn: u64,
    /// The time at which the tick begins: nanoseconds since 1970, UTC.
    pub time_ns: i64,
    /// The recorded bytes; empty for NULL, which is possible in a table created by SQL.
    pub payload: Bytes,
}

/// What a subscription delivers: an event, or a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Update {
    /// The next event in the order of commits.
    Event(Event),
    /// Events are missing here: they were deleted, or cannot be read.
    Gap {
        /// The first missing position (gsn).
        gsn: u64,
        /// The missing range and the reason, for example `gsn [1, 1000) deleted`.
        what: String,
    },
}

/// Decodes a batch with the columns `_tick`, `_seq`, `_gsn` and payload. Returns each event with
/// its `_seq` (the arrival number within the chronicle).
pub(crate) fn events(batch: &RecordBatch, table: &Table) -> Result<Vec<(Event, i64)>> {
    let number = |name: &str| {
        let column = batch.column_by_name(name).and_then(|at| at.as_primitive_opt::<Int64Type>());
        column.ok_or_else(|| unread(table, name))
    };
    let (ticks, seqs, gsns) = (number("_tick")?, number("_seq")?, number("_gsn")?);
    let payloads = payloads(batch, table)?;
    let event = |row: usize| {
        let tick = ticks.value(row);
        let time_ns = table.time_of(tick).ok_or_else(|| unread(table, "_tick"))?;
        let gsn = u64::try_from(gsns.value(row)).map_err(|_| unread(table, "_gsn"))?;
        Ok((Event { tick, gsn, time_ns, payload: payloads(row) }, seqs.value(row)))
    };
    (0..batch.num_rows()).map(event).collect()
}

/// Decodes a batch of a subscription into updates. The first two columns are `_gsn` and `_gap`. The
/// function finds them by position, because the table may have columns of the same names.
pub(crate) fn updates(batch: &RecordBatch, table: &Table) -> Result<Vec<Update>> {
    let gsns = batch.columns().first().and_then(|at| at.as_primitive_opt::<Int64Type>());
    let gsns = gsns.ok_or_else(|| unread(table, "_gsn"))?;
    let gaps = batch.columns().get(1).and_then(|column| column.as_string_opt::<i32>());
    let gaps = gaps.ok_or_else(|| unread(table, "_gap"))?;
    let batch = &batch.project(&(2..batch.num_columns()).collect::<Vec<_>>())?;
    let times = batch.column_by_name(&table.time).ok_or_else(|| unread(table, &table.time))?;
    // A table created by SQL may have another unit of time than nanoseconds.
    let times = match times.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => times.clone(),
        DataType::Timestamp(_, zone) => {
            cast(times, &DataType::Timestamp(TimeUnit::Nanosecond, zone.clone()))?
        }
        _ => return Err(unread(table, &table.time)),
    };
    let times = times.as_primitive_opt::<TimestampNanosecondType>();
    let times = times.ok_or_else(|| unread(table, &table.time))?;
    let payloads = payloads(batch, table)?;
    let update = |row: usize| {
        let gsn = u64::try_from(gsns.value(row)).map_err(|_| unread(table, "_gsn"))?;
        if gaps.is_valid(row) {
            return Ok(Update::Gap { gsn, what: gaps.value(row).to_string() });
        }
        let time_ns = times.value(row);
        let tick = table.tick_of(time_ns).ok_or_else(|| unread(table, &table.time))?;
        Ok(Update::Event(Event { tick, gsn, time_ns, payload: payloads(row) }))
    };
    (0..batch.num_rows()).map(update).collect()
}

/// The payload of each row, in the order of the rows.
fn payloads<'a>(
    batch: &'a RecordBatch,
    table: &Table,
) -> Result<impl Fn(usize) -> Bytes + use<'a>> {
    let column = batch.column_by_name(PAYLOAD).and_then(|column| column.as_binary_opt::<i32>());
    let column = column.ok_or_else(|| unread(table, PAYLOAD))?;
    Ok(move |row| match column.is_valid(row) {
        true => payload(column, row),
        false => Bytes::new(),
    })
}

/// The payload of a row. A payload that is a large share of the batch refers to the memory of the
/// batch. A smaller payload is a copy, so that a caller that keeps one payload does not keep the
/// whole batch in memory.
fn payload(column: &BinaryArray, row: usize) -> Bytes {
    let value = column.value(row);
    let all = column.values();
    let start = column.value_offsets().get(row).and_then(|start| usize::try_from(*start).ok());
    match start {
        Some(start) if value.len() * SHARE_MIN >= all.capacity() && !value.is_empty() => {
            Bytes::from_owner(OwnedBuffer(all.slice_with_length(start, value.len())))
        }
        _ => Bytes::copy_from_slice(value),
    }
}

/// The buffer of a batch; the buffer stays in memory as long as a payload refers to it.
struct OwnedBuffer(Buffer);

impl AsRef<[u8]> for OwnedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

fn unread(table: &Table, column: &str) -> Error {
    Error::protocol(format!("column {column} of an event of {} cannot be read", table.name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray, TimestampMicrosecondArray};
    use stratalog_model::{Collision, TickScale, TickSource};

    use super::*;

    /// The definition of a chronicle with a granularity of a microsecond.
    fn table() -> Table {
        Table {
            name: "e".to_string(),
            quoted: "\"public\".\"e\"".to_string(),
            time: "time".to_string(),
            scale: TickScale::starting_at(1_000_000, "1us".parse().unwrap()),
            collision: Collision::All,
            source: TickSource::Client,
            raw: None,
        }
    }

    fn numbers(values: [i64; 2]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    #[test]
    fn events_are_read_out_of_batches() {
        let payloads: ArrayRef = Arc::new(BinaryArray::from(vec![Some(&b"a"[..]), None]));
        let columns =
            [("_tick", numbers([5, -1])), ("_seq", numbers([1, 2])), ("_gsn", numbers([7, 9]))];
        let columns = columns.into_iter().chain([("payload", payloads)]);
        let nullable = columns.map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
        let events = events(&batch, &table()).unwrap();
        let (first, seq) = &events[0];
        assert_eq!((first.tick, first.gsn, first.time_ns, *seq), (5, 7, 1_005_000, 1));
        assert_eq!(first.payload.as_ref(), b"a");
        assert_eq!((events[1].0.time_ns, events[1].0.payload.len()), (999_000, 0));
        let without = batch.project(&[0, 1, 2]).unwrap();
        assert!(super::events(&without, &table()).unwrap_err().to_string().contains("payload"));
    }

    #[test]
    fn a_payload_that_is_most_of_its_batch_is_not_copied() {
        let all = BinaryArray::from_iter_values([vec![1_u8; 4000], vec![2; 40], vec![3; 3000]]);
        let [large, small, last] = [0, 1, 2].map(|row| payload(&all, row));
        let lies_in = |bytes: &Bytes| all.values().as_ptr_range().contains(&bytes.as_ptr());
        assert_eq!([&large, &small, &last].map(lies_in), [true, false, true]);
        assert_eq!(
            (large, small, last),
            (vec![1; 4000].into(), vec![2; 40].into(), vec![3; 3000].into())
        );
        let sliced = all.slice(1, 2);
        assert_eq!(payload(&sliced, 1), vec![3; 3000]);
        let empty = BinaryArray::from_iter_values([b""]);
        assert_eq!(payload(&empty, 0), Bytes::new());
    }

    #[test]
    fn updates_are_events_and_gaps() {
        let gaps: ArrayRef = Arc::new(StringArray::from(vec![Some("gsn [1, 7) deleted"), None]));
        let micros = TimestampMicrosecondArray::from(vec![None, Some(1_005)]);
        let times: ArrayRef = Arc::new(micros.with_timezone("UTC"));
        let payloads: ArrayRef = Arc::new(BinaryArray::from(vec![None, Some(&b"x"[..])]));
        let columns =
            [("_gsn", numbers([1, 7])), ("_gap", gaps), ("time", times), ("payload", payloads)];
        let nullable = columns.map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
        let updates = updates(&batch, &table()).unwrap();
        assert_eq!(updates[0], Update::Gap { gsn: 1, what: "gsn [1, 7) deleted".to_string() });
        let Update::Event(event) = &updates[1] else { panic!("{updates:?}") };
        assert_eq!((event.gsn, event.tick, event.time_ns), (7, 5, 1_005_000));
    }

    /// The table is created by SQL and has columns with the names `_gsn` and `_gap`, the names of
    /// the columns that a subscription adds.
    #[test]
    fn what_a_subscription_adds_is_found_by_its_place() {
        let gaps: ArrayRef = Arc::new(StringArray::from(vec![Some("gsn [1, 7) deleted"), None]));
        let times = TimestampMicrosecondArray::from(vec![None, Some(1_005)]);
        let times: ArrayRef = Arc::new(times.with_timezone("UTC"));
        let payloads: ArrayRef = Arc::new(BinaryArray::from(vec![None, Some(&b"x"[..])]));
        let columns =
            [("_gsn", numbers([1, 7])), ("_gap", gaps), ("_gap", times), ("payload", payloads)];
        let nullable = columns.map(|(name, column)| (name, column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
        let table = Table { time: "_gap".to_string(), ..table() };
        let updates = updates(&batch, &table).unwrap();
        assert!(matches!(&updates[0], Update::Gap { gsn: 1, .. }), "{updates:?}");
        let Update::Event(event) = &updates[1] else { panic!("{updates:?}") };
        assert_eq!((event.gsn, event.tick, event.time_ns), (7, 5, 1_005_000));
    }
}
