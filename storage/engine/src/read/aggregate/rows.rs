//! Aggregates rows that are in any order: collects the rows of each group, and then counts them as
//! consecutive rows.

use std::sync::Arc;

use ahash::RandomState;
use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, UInt32Array},
    compute::take,
    datatypes::Int64Type,
};
use futures::StreamExt;
use hashbrown::HashMap;
use stratalog_model::{Error, Result, aggregate::AggregateRequest, tier::BatchStream};

use super::{
    counter::{Counter, Lane},
    tally::GroupTally,
};
use crate::events::{column::Column, keys::Groups, shape::KeyColumns};

/// The partial aggregates of a stream of batches. The batches have the columns of
/// [`AggregateRequest::projection`]. Each batch gives one result batch.
pub fn of_rows(batches: BatchStream, request: &Arc<AggregateRequest>) -> BatchStream {
    let request = Arc::clone(request);
    Box::pin(batches.map(move |batch| of_batch(&batch?, &request)))
}

/// The partial aggregates of one batch: a row per group and window.
pub fn of_batch(batch: &RecordBatch, request: &AggregateRequest) -> Result<RecordBatch> {
    let missing = || Error::internal("rows to aggregate lack a column");
    let (keys, rest) = batch.columns().split_at_checked(request.keys.len()).ok_or_else(missing)?;
    let (ticks, values) = rest.split_first().ok_or_else(missing)?;
    let ticks = ticks.as_primitive_opt::<Int64Type>().ok_or_else(missing)?.values();
    let rows = batch.num_rows();
    let stored: Vec<Column> = keys.iter().map(|key| Column::Plain(Arc::clone(key))).collect();
    let groups = Groups::of(&stored, &KeyColumns::all(keys.len()), rows)?;

    // A number for each pair of group and window, in order of first appearance.
    let mut numbers: HashMap<(u32, i64), u32, RandomState> = HashMap::default();
    let mut windows: Vec<i64> = Vec::new();
    let mut of_row: Vec<u32> = Vec::with_capacity(rows);
    let mut last = None;
    for (row, tick) in ticks.iter().enumerate() {
        let window = match request.windows {
            Some(windows) => windows.start(*tick).ok_or_else(before_all)?,
            None => 0,
        };
        let place = (groups.group(row) as u32, window);
        let number = match last {
            Some((before, number)) if before == place => number,
            _ => *numbers.entry(place).or_insert_with(|| {
                windows.push(window);
                (windows.len() - 1) as u32
            }),
        };
        last = Some((place, number));
        of_row.push(number);
    }

    // Counting sort of the rows by group number; the rows of a group keep their order.
    let mut starts: Vec<u32> = vec![0; windows.len() + 1];
    for number in &of_row {
        if let Some(next) = starts.get_mut(*number as usize + 1) {
            *next += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        sum += *start;
        *start = sum;
    }
    debug_assert_eq!(of_row.len(), rows, "a row has no group");
    debug_assert_eq!(starts.last().map(|end| *end as usize), Some(rows), "the groups lack rows");
    let mut next = starts.clone();
    let mut order: Vec<u32> = vec![0; rows];
    for (row, number) in of_row.iter().enumerate() {
        if let Some(at) = next.get_mut(*number as usize) {
            if let Some(slot) = order.get_mut(*at as usize) {
                *slot = row as u32;
            }
            *at += 1;
        }
    }
    let firsts: UInt32Array = starts
        .iter()
        .take(windows.len())
        .filter_map(|start| order.get(*start as usize))
        .copied()
        .collect();
    debug_assert_eq!(firsts.values().len(), windows.len(), "a group has no row");
    let order = UInt32Array::from(order);
    let sorted: Vec<ArrayRef> =
        values.iter().map(|values| take(values, &order, None)).collect::<Result<_, _>>()?;
    let counter = Counter::new(request, sorted.iter().map(Lane::whole).collect());
    let mut tally = GroupTally::new(request);
    for (window, ends) in windows.iter().zip(starts.windows(2)) {
        if let [start, end] = ends {
            tally.group(*window);
            counter.count(*start as usize..*end as usize, &mut tally)?;
        }
    }
    let keys = keys.iter().map(|key| take(key, &firsts, None)).collect::<Result<_, _>>()?;
    tally.batch(request, keys)
}

/// The error for a tick whose window would begin before all ticks. Never returned in practice:
/// [`stratalog_model::Snapshot::aggregate`] declines such a request earlier.
pub fn before_all() -> Error {
    Error::internal("a window begins before all ticks")
}
