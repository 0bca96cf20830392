//! Checks that rows are in the declared order of the file.

use std::cmp::Ordering;

use arrow::{
    array::{ArrayRef, DynComparator, make_comparator},
    compute::SortOptions,
};
use stratalog_model::Result;

/// The first row that sorts before its predecessor, by `columns` in turn.
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
