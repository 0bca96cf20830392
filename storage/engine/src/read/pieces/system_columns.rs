//! Builds the system columns (such as `_tick`, `_seq`, `_gsn`) of rows of a piece, and converts
//! filters on them.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int16Array, Int64Array, StringViewArray},
    datatypes::Int64Type,
};
use stratalog_model::{
    Error, GsnRange, Result,
    chronicle::SYSTEM_COLUMNS,
    tier::ScanRequest,
    values::{OrderedValue, ValuePredicate},
};
use stratalog_story::Source;

use crate::{events::part_events::PartEvents, version::piece::OpenPiece};

/// Position of `_seq` among the system columns.
const SEQ_COLUMN: usize = 1;

/// The filters of the request on seq and gsn: stored column, and inclusive bounds. `cut` is true if
/// the request excludes some gsn's of the piece.
pub fn numbers_of(request: &ScanRequest, cut: bool) -> Vec<(Source, i64, i64)> {
    let mut numbers = Vec::new();
    if cut {
        let whole = |gsn: u64| i64::try_from(gsn).unwrap_or(i64::MAX);
        let GsnRange { start, end } = request.gsns;
        numbers.push((Source::Gsn, whole(start.0), whole(end.0.saturating_sub(1))));
    }
    let seqs = seqs_of(request);
    numbers.extend(seqs.map(|(low, high)| (Source::Seq, low, high)));
    numbers
}

/// Lowest and highest arrival number that the request wants; `None` without a filter on the arrival
/// number.
pub fn seqs_of(request: &ScanRequest) -> Option<(i64, i64)> {
    debug_assert_eq!(SYSTEM_COLUMNS.get(SEQ_COLUMN), Some(&"_seq"), "_seq has another position");
    let at = request.chronicle.columns.len() + SEQ_COLUMN;
    let bound = |bound: &Option<OrderedValue>| match bound {
        Some(OrderedValue::Whole(value)) => {
            let beyond = if *value < 0 { i64::MIN } else { i64::MAX };
            Some(i64::try_from(*value).unwrap_or(beyond))
        }
        _ => None,
    };
    let mut seqs: Option<(i64, i64)> = None;
    for filter in request.values.iter().filter(|filter| filter.column == at) {
        let ValuePredicate::Between(low, high) = &filter.predicate else { continue };
        let (low, high) = (bound(low), bound(high));
        if low.is_some() || high.is_some() {
            let (least, most) = seqs.unwrap_or((i64::MIN, i64::MAX));
            seqs = Some((least.max(low.unwrap_or(least)), most.min(high.unwrap_or(most))));
        }
    }
    seqs
}

/// Builds a system column, given by its position in `SYSTEM_COLUMNS`. Each entry of `rows` has an
/// index in `parts`, and a row there.
///
/// # Errors
/// `Internal` for an unknown position.
pub fn system_column(
    parts: &[PartEvents],
    rows: &[(usize, u32)],
    at: usize,
    piece: &OpenPiece,
    request: &ScanRequest,
) -> Result<ArrayRef> {
    debug_assert!(
        rows.iter().all(|(part, row)| {
            parts.get(*part).is_some_and(|events| (*row as usize) < events.rows)
        }),
        "a row lies outside of its part"
    );
    let numbers = |of: fn(&PartEvents) -> &[i64]| -> Int64Array {
        debug_assert!(
            parts.iter().all(|events| of(events).len() == events.rows),
            "numbers of events were not read"
        );
        let values = rows.iter().map(|(part, row)| {
            let values = parts.get(*part).map(of).unwrap_or(&[]);
            values.get(*row as usize).copied().unwrap_or_default()
        });
        Int64Array::from_iter_values(values)
    };
    let column: ArrayRef = match at {
        0 => Arc::new(numbers(|events| &events.ticks)),
        1 => Arc::new(numbers(|events| &events.seqs)),
        2 | 4 => Arc::new(numbers(|events| &events.gsns)),
        3 => Arc::new(Int16Array::from_value(0, rows.len())),
        5 => {
            let tier = piece.tier().to_string();
            let names = std::iter::repeat_n(tier.as_str(), rows.len());
            Arc::new(StringViewArray::from_iter_values(names))
        }
        6 => {
            let groups = request.chronicle.grouping();
            let ticks = numbers(|events| &events.ticks);
            Arc::new(ticks.unary::<_, Int64Type>(|tick| groups.group_of(tick)))
        }
        other => return Err(Error::internal(format!("there is no system column {other}"))),
    };
    Ok(column)
}
