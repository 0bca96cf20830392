//! Batches cut to the size that is sent, and put together.

use std::ops::Range;

use arrow::array::RecordBatch;

/// What a batch takes, about, on its way: of a slice only what it shows.
pub(crate) fn bytes_of(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter().map(|column| {
        let data = column.to_data();
        data.get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    });
    columns.sum()
}

/// The rows of each piece of a batch, so that none has more than so many rows, or about so many bytes.
pub(crate) fn pieces(
    rows: usize,
    bytes: usize,
    rows_max: usize,
    bytes_max: usize,
) -> Vec<Range<usize>> {
    let by_bytes = match bytes {
        0 => rows,
        bytes => rows.saturating_mul(bytes_max) / bytes,
    };
    let step = rows_max.min(by_bytes).max(1);
    (0..rows).step_by(step).map(|start| start..rows.min(start + step)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array};

    use super::*;

    #[test]
    fn pieces_cover_all_rows_and_no_more() {
        assert_eq!(pieces(10, 100, 4, 1000), [0..4, 4..8, 8..10]);
        assert_eq!(pieces(10, 100, 100, 50), [0..5, 5..10]);
        assert_eq!(pieces(3, 3000, 100, 10), [0..1, 1..2, 2..3]);
        assert_eq!(pieces(5, 0, 100, 10), [0..5]);
        assert!(pieces(0, 0, 1, 1).is_empty());
    }

    #[test]
    fn a_slice_is_as_large_as_what_it_shows() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
        assert_eq!(bytes_of(&batch), 8000);
        assert_eq!(bytes_of(&batch.slice(10, 5)), 40);
    }
}
