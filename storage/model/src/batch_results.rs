//! A cache of results computed from record batches. Thousands of subscribers of a chronicle receive
//! batches with identical arrays; the cache lets them share each result.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use arrow::{
    array::{ArrayRef, RecordBatch},
    datatypes::{Schema, SchemaRef},
};
use parking_lot::Mutex;

use crate::{Result, ipc::batch_bytes};

/// The maximum number of batches in the cache.
const KEPT_MAX: usize = 16;

/// The maximum size of a batch in the cache. For a larger batch, work that grows with its bytes
/// takes most of the time, and the cache saves little.
const BYTES_MAX: usize = 64 << 10;

/// Results computed from the most recent batches.
#[derive(Debug)]
pub struct BatchResults<T> {
    recent: Mutex<VecDeque<BatchResult<T>>>,
    /// The schemas that callers use now; see [`BatchResults::shape`].
    shapes: Mutex<Vec<Weak<Schema>>>,
}

#[derive(Debug)]
struct BatchResult<T> {
    /// The arrays of the batch. The cache keeps them alive, so that no other arrays can have the
    /// same addresses.
    of: Vec<ArrayRef>,
    shape: SchemaRef,
    result: T,
}

impl<T> Default for BatchResults<T> {
    fn default() -> Self {
        Self { recent: Mutex::default(), shapes: Mutex::default() }
    }
}

impl<T: Clone> BatchResults<T> {
    /// The shared instance of a schema: while any caller keeps the instance, equal schemas give the
    /// same instance. [`Self::get`] can then compare addresses; a comparison of the schemas for
    /// each batch would often take longer than the computation of the result.
    pub fn shape(&self, requested: &SchemaRef) -> SchemaRef {
        let mut shapes = self.shapes.lock();
        shapes.retain(|shape| shape.strong_count() > 0);
        let mut known = shapes.iter().filter_map(Weak::upgrade);
        if let Some(known) = known.find(|known| known == requested) {
            return known;
        }
        shapes.push(Arc::downgrade(requested));
        Arc::clone(requested)
    }

    /// The result for a batch and a schema from [`Self::shape`]. The cache returns a stored result
    /// for a batch with the same arrays; otherwise `compute` makes the result. The result must
    /// depend only on the batch and the schema.
    ///
    /// # Errors
    /// The errors of `compute`.
    pub fn get(
        &self,
        batch: &RecordBatch,
        shape: &SchemaRef,
        compute: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let is_it = |known: &BatchResult<T>| {
            known.of.len() == batch.num_columns()
                && known.of.iter().zip(batch.columns()).all(|(a, b)| Arc::ptr_eq(a, b))
                && Arc::ptr_eq(&known.shape, shape)
        };
        if batch.num_columns() == 0 {
            return compute();
        }
        if let Some(known) = self.recent.lock().iter().rev().find(|known| is_it(known)) {
            return Ok(known.result.clone());
        }
        let result = compute()?;
        if batch_bytes(batch) <= BYTES_MAX {
            let known = BatchResult {
                of: batch.columns().to_vec(),
                shape: Arc::clone(shape),
                result: result.clone(),
            };
            let mut recent = self.recent.lock();
            recent.push_back(known);
            if recent.len() > KEPT_MAX {
                recent.pop_front();
            }
            debug_assert!(recent.len() <= KEPT_MAX, "the cache keeps too many batches");
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn batch(value: i64, text: &str) -> RecordBatch {
        let number: ArrayRef = Arc::new(Int64Array::from(vec![value]));
        let text: ArrayRef = Arc::new(StringArray::from(vec![text]));
        RecordBatch::try_from_iter([("a", number), ("b", text)]).unwrap()
    }

    #[test]
    fn it_is_made_once_for_the_same_arrays_and_shape() {
        let (once, count) = (BatchResults::<i64>::default(), Cell::new(0));
        let compute = || {
            count.set(count.get() + 1);
            Ok(count.get())
        };
        let first = batch(1, "x");
        let shape = first.schema();
        assert_eq!(once.get(&first, &shape, compute).unwrap(), 1);
        let equal = once.shape(&first.schema());
        assert!(Arc::ptr_eq(&once.shape(&Arc::new(Schema::clone(&equal))), &equal));
        assert_eq!(once.get(&first.clone(), &equal, compute).unwrap(), 1);
        // Equal arrays at other addresses are a miss. Subscribers of the same batch have the same
        // arrays, not copies.
        assert_eq!(once.get(&batch(1, "x"), &shape, compute).unwrap(), 2);
        let narrow = Arc::new(shape.project(&[0]).unwrap());
        assert_eq!(once.get(&first, &narrow, compute).unwrap(), 3);
        assert_eq!(once.get(&first.project(&[0]).unwrap(), &shape, compute).unwrap(), 4);
        for value in 0..20 {
            once.get(&batch(value, "y"), &shape, compute).unwrap();
        }
        assert_eq!(once.get(&first, &shape, compute).unwrap(), 25);
        // Large batches are computed each time; failed results are not kept.
        let large = batch(1, &"z".repeat(BYTES_MAX));
        assert_eq!(once.get(&large, &shape, compute).unwrap(), 26);
        assert_eq!(once.get(&large, &shape, compute).unwrap(), 27);
        let failing = batch(2, "w");
        let failed = once.get(&failing, &shape, || Err(crate::Error::internal("no")));
        assert!(failed.is_err());
        assert_eq!(once.get(&failing, &shape, compute).unwrap(), 28);
    }
}
