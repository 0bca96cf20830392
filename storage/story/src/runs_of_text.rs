//! Run-length encoding of repetitive texts, such as the tags of a series.

use arrow::{
    array::{Array, ArrayRef, AsArray, StringViewArray, UInt32Array},
    compute::take,
};
use stratalog_model::Result;

/// Minimum average number of rows per run; with shorter runs, the encoding saves nothing.
const RUN_ROWS_MIN: usize = 8;

/// Run-length encoded texts.
#[derive(Debug)]
pub(crate) struct RunsOfText {
    /// One text per run.
    texts: StringViewArray,
    /// For each run, the number of its last row plus 1.
    ends: Vec<u32>,
}

impl RunsOfText {
    /// Encodes an array. `None` if it is not a text array, has NULLs, or has short runs.
    pub(crate) fn of(array: &ArrayRef) -> Result<Option<Self>> {
        let Some(all) = array.as_string_view_opt().filter(|all| all.null_count() == 0) else {
            return Ok(None);
        };
        debug_assert!(!all.is_empty(), "no rows have no runs");
        debug_assert!(u32::try_from(all.len()).is_ok(), "the end of a run does not fit");
        let mut starts: Vec<u32> = Vec::new();
        let views = all.views();
        for (row, view) in views.iter().enumerate() {
            // Short texts are stored inside their views. Equal views within one array mean equal
            // texts.
            let same = row > 0
                && (views.get(row - 1) == Some(view) || all.value(row) == all.value(row - 1));
            if !same {
                starts.push(row as u32);
                if starts.len() * RUN_ROWS_MIN > all.len() {
                    return Ok(None);
                }
            }
        }
        let ends: Vec<u32> = starts.iter().skip(1).copied().chain([all.len() as u32]).collect();
        debug_assert_eq!(starts.len(), ends.len(), "a run without an end");
        debug_assert!(ends.is_sorted_by(|a, b| a < b), "a run without rows");
        let texts = take(all, &UInt32Array::from(starts), None)?;
        Ok(texts.as_string_view_opt().map(|texts| Self { texts: texts.gc(), ends }))
    }

    /// The texts as an ordinary array.
    pub(crate) fn unpacked(&self) -> Result<ArrayRef> {
        debug_assert_eq!(self.texts.len(), self.ends.len(), "a run without a text");
        let mut runs: Vec<u32> = Vec::with_capacity(self.rows());
        for (run, end) in (0..).zip(&self.ends) {
            debug_assert!(runs.len() < *end as usize, "a run without rows");
            runs.resize(*end as usize, run);
        }
        debug_assert_eq!(runs.len(), self.rows(), "the runs are not all rows");
        Ok(take(&self.texts, &UInt32Array::from(runs), None)?)
    }

    fn rows(&self) -> usize {
        self.ends.last().map_or(0, |end| *end as usize)
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.texts.get_array_memory_size() + self.ends.len() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let tags = |rows: usize, every: usize| -> ArrayRef {
            let text = |row: usize| match row / every % 3 {
                0 => String::new(),
                1 => "short".to_string(),
                _ => format!("a text that is longer than a view, {}", row / every),
            };
            Arc::new(StringViewArray::from_iter_values((0..rows).map(text)))
        };
        for (rows, every) in [(1, 1), (100, 25), (2_048, 300), (2_048, 8), (2_047, 2_047)] {
            let array = tags(rows, every);
            let packed = RunsOfText::of(&array).unwrap();
            let few = rows.div_ceil(every) * RUN_ROWS_MIN <= rows;
            assert_eq!(packed.is_some(), few, "{rows} {every}");
            if let Some(packed) = packed {
                assert_eq!(&packed.unpacked().unwrap(), &array);
                assert!(packed.bytes() > 0);
            }
        }
        let nulls: ArrayRef = Arc::new(StringViewArray::from_iter(vec![None::<&str>; 100]));
        assert!(RunsOfText::of(&nulls).unwrap().is_none());
    }
}
