//! Selects the wanted rows of a row group of a story, and builds batches of these rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use stratalog_model::{Result, tier::ScanOrder};
use stratalog_story::{FetchedColumns, KeyValues, Selection, Story};

use super::reader::PieceReader;
use crate::{events::part_events::PartEvents, version::piece::Part};

/// The batches of a row group, decoded on demand.
pub type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The visible events of a row group, in batches, in the order of the request.
///
/// # Errors
/// `DataCorrupted`.
pub fn visible_batches(
    reader: &PieceReader,
    part: &Part,
    read: Vec<PartEvents>,
) -> Result<Batches> {
    debug_assert!(
        read.iter().map(|events| events.rows as u64).sum::<u64>() <= part.rows,
        "more events are read than the row group has"
    );
    let batches = match reader.request().order {
        ScanOrder::Any => {
            let each = read.iter().map(|events| reader.unordered(events, &part.hull));
            each.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
        }
        _ => reader.ordered(read.into_iter().map(|events| (events, part.hull)).collect())?,
    };
    Ok(Box::new(batches.into_iter().map(Ok)))
}

/// The rows of a row group that may match the request, according to page index and Bloom filters;
/// `None` if no row can match.
///
/// # Errors
/// `DataCorrupted`, `Io`, `ConnectionFailure`.
pub async fn select(
    reader: &PieceReader,
    story: &Arc<Story>,
    part: &Part,
) -> Result<Option<Selection>> {
    let (keys, values) = (reader.key_values(), reader.column_values());
    let group = part.number;
    let Some(mut selection) = story.select(group, &reader.request().ticks, &keys, &values)? else {
        return Ok(None);
    };
    for numbers in reader.numbers() {
        selection = story.within_numbers(group, selection, *numbers)?;
    }
    debug_assert!(
        selection.rows() as u64 <= part.rows,
        "more rows are selected than the row group has"
    );
    if selection.rows() == 0 {
        return Ok(None);
    }
    let predicates: Vec<KeyValues> =
        keys.into_iter().chain(reader.indexed_values(&values)).collect();
    if !predicates.is_empty() && !story.may_hold(group, &predicates).await? {
        return Ok(None);
    }
    story.within_words(group, selection, &values).await
}

/// Decodes fetched columns of a row group into batches; on demand if the request accepts the stored
/// order.
///
/// # Errors
/// `DataCorrupted`.
pub fn decode(
    reader: &Arc<PieceReader>,
    part: &Part,
    fetched: FetchedColumns,
    begins: bool,
) -> Result<Batches> {
    let (request, rows, bytes) = (reader.request(), fetched.rows() as u64, fetched.bytes() as u64);
    debug_assert!(rows <= part.rows, "more rows are fetched than the row group has");
    match begins {
        true => request.metrics.story.read(rows, bytes),
        false => request.metrics.story.read_on(rows, bytes),
    }
    let hull = part.hull;
    let reader = Arc::clone(reader);
    // A descending request needs the last rows first, and must decode all fetched rows at once.
    if reader.reads_as_it_lies() && request.order != ScanOrder::Descending {
        let any = request.order == ScanOrder::Any;
        let rows_max = fetched.batch_rows(request.batch_rows_max);
        let rows = fetched.decode(rows_max)?;
        return Ok(Box::new(rows.flat_map(move |batch| {
            let batches =
                batch.and_then(|batch| reader.events(&batch, &hull)).and_then(|events| match any {
                    true => reader.unordered(&events, &hull),
                    false => reader.ordered(vec![(events, hull)]),
                });
            match batches {
                Ok(batches) => batches.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }
        })));
    }
    let rows = fetched.rows().max(1);
    let read = fetched.decode(rows)?.map(|batch| reader.events(&batch?, &hull));
    visible_batches(&reader, part, read.collect::<Result<_>>()?)
}
