//! Splits large batches into slices of the size of a parcel (the batch that a writer sends in one
//! message).

use std::ops::Range;

use arrow::array::RecordBatch;

/// The approximate bytes of a batch in a message. A slice counts only its own rows.
pub(crate) fn bytes_of(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter().map(|column| {
        let data = column.to_data();
        data.get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size())
    });
    columns.sum()
}

/// Splits a batch into slices of at most `rows_max` rows and about `bytes_max` bytes. Only a slice
/// of a single row can exceed `limit` bytes. Returns the row range and the bytes of each slice.
pub(crate) fn cut(
    batch: &RecordBatch,
    rows_max: usize,
    bytes_max: usize,
    limit: usize,
) -> Vec<(Range<usize>, usize)> {
    let mut left = pieces(batch.num_rows(), bytes_of(batch), rows_max, bytes_max);
    left.reverse();
    let mut all = Vec::with_capacity(left.len());
    while let Some(rows) = left.pop() {
        let bytes = bytes_of(&batch.slice(rows.start, rows.len()));
        if bytes > limit && rows.len() > 1 {
            let middle = rows.start + rows.len() / 2;
            left.extend([middle..rows.end, rows.start..middle]);
        } else {
            all.push((rows, bytes));
        }
    }
    all
}

/// Computes the row range of each slice under the assumption that all rows have the same size.
fn pieces(rows: usize, bytes: usize, rows_max: usize, bytes_max: usize) -> Vec<Range<usize>> {
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

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use super::*;

    #[test]
    fn pieces_cover_all_rows_and_no_more() {
        assert_eq!(pieces(10, 100, 4, 1000), [0..4, 4..8, 8..10]);
        assert_eq!(pieces(10, 100, 100, 50), [0..5, 5..10]);
        assert_eq!(pieces(3, 3000, 100, 10), [0..1, 1..2, 2..3]);
        assert_eq!(pieces(5, 0, 100, 10).first(), Some(&(0..5)));
        assert!(pieces(0, 0, 1, 1).is_empty());
    }

    #[test]
    fn a_piece_with_a_large_row_is_cut_again() {
        let large = "x".repeat(1000);
        let values = (0..100).map(|at| if at == 42 { large.as_str() } else { "x" });
        let column: ArrayRef = Arc::new(StringArray::from_iter_values(values));
        let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
        let all = cut(&batch, 1000, 10_000, 600);
        assert!(all.iter().all(|(rows, bytes)| *bytes <= 600 || rows.clone().eq(42..43)));
        let ends: Vec<usize> = all.iter().map(|(rows, _)| rows.end).collect();
        let starts: Vec<usize> = all.iter().map(|(rows, _)| rows.start).collect();
        assert_eq!((starts[0], ends.last()), (0, Some(&100)));
        assert_eq!(starts[1..], ends[..ends.len() - 1]);
    }

    #[test]
    fn a_slice_is_as_large_as_what_it_shows() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("x", column)]).unwrap();
        assert_eq!(bytes_of(&batch), 8000);
        assert_eq!(bytes_of(&batch.slice(10, 5)), 40);
    }
}
