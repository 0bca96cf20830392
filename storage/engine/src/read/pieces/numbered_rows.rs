//! Caches rows of tablet blocks with many series. Most series of such a block have a single row,
//! and a block edge (one event per series) would save nothing. The cache therefore has the tick and
//! the group number of each row.

use std::sync::Arc;

use stratalog_model::{Result, newest::Best};

use super::reader::PieceReader;
use crate::{
    events::{budget::Budget, column::Column, numbered_rows::NumberedRows},
    read::newest::numbers_of,
    version::piece::Part,
};

/// Returns tick and group number of each row of a block. The snapshot must see all events of the
/// block, and the request must want them all. `reader` reads ticks and the columns that form the
/// groups. The result is cached with the piece if `budget` has room.
///
/// # Errors
/// `DataCorrupted`, `Io`.
pub fn numbered_rows(
    reader: &PieceReader,
    part: &Part,
    best: &Best,
    budget: &Arc<Budget>,
) -> Result<Arc<NumberedRows>> {
    debug_assert!(
        reader.sees_all(&part.hull) && reader.request().ticks.covers(&part.hull),
        "a block with unwanted events"
    );
    let of = best.numbers().id();
    if let Some(known) = reader.piece().numbered(part.number, of) {
        return Ok(known);
    }
    let events = reader.read_at_hand(part)?;
    reader.request().metrics.tablet.compared(part.rows);
    let keys = best.of().keys.iter().map(|at| reader.column(&events, *at));
    let keys = keys.collect::<Result<Vec<Column>>>()?;
    let numbers = numbers_of(best.numbers(), &keys, events.rows)?;
    debug_assert_eq!(numbers.len(), events.ticks.len(), "a tick has no group");
    let claim = budget.claim(events.rows * (size_of::<i64>() + size_of::<u32>())).ok();
    let kept = claim.is_some();
    let rows = Arc::new(NumberedRows::new(of, events.ticks, numbers, claim));
    if kept {
        reader.piece().keep_numbered(part.number, &rows);
    }
    Ok(rows)
}
