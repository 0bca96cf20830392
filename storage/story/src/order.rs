//! Checks that rows are sorted as the file declares.

use std::cmp::Ordering;

use arrow::{
    array::{ArrayRef, DynComparator, make_comparator},
    compute::SortOptions,
};
use stratalog_model::Result;

/// The position of the first row that should come before its predecessor, when rows are sorted by
/// `columns`.
pub(crate) fn first_out_of_order(columns: &[&ArrayRef]) -> Result<Option<usize>> {
    let options = SortOptions { descending: false, nulls_first: false };
    let comparators = columns.iter().map(|column| make_comparator(column, column, options));
    let comparators = comparators.collect::<Result<Vec<DynComparator>, _>>()?;
    let rows = columns.first().map_or(0, |column| column.len());
    debug_assert!(columns.iter().all(|column| column.len() == rows), "columns of other lengths");
    Ok((1..rows).find(|row| {
        let order = comparators.iter().map(|compare| compare(row - 1, *row));
        order.fold(Ordering::Equal, Ordering::then) == Ordering::Greater
    }))
}

#[cfg(test)]
mod tests;
