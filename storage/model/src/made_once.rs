//! What thousands would make of the same batch, made once: subscribers of a chronicle get batches whose
//! columns are the very same arrays.

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

/// Batches that are remembered.
const KEPT_MAX: usize = 16;

/// Bytes of a batch that is worth it: of a larger one most is the work on its bytes.
const BYTES_MAX: usize = 64 << 10;

/// What was made of the last batches.
#[derive(Debug)]
pub struct MadeOnce<T> {
    kept: Mutex<VecDeque<Made<T>>>,
    /// Those that somebody still has.
    shapes: Mutex<Vec<Weak<Schema>>>,
}

#[derive(Debug)]
struct Made<T> {
    /// As long as they are held, nobody else's lie there.
    of: Vec<ArrayRef>,
    shape: SchemaRef,
    made: T,
}

impl<T> Default for MadeOnce<T> {
    fn default() -> Self {
        Self { kept: Mutex::default(), shapes: Mutex::default() }
    }
}

impl<T: Clone> MadeOnce<T> {
    /// The very same shape for all who ask with an equal one, as long as one of them has it: to compare
    /// them for each batch would take longer than most of what is made of it.
    pub fn shape(&self, asked: &SchemaRef) -> SchemaRef {
        let mut shapes = self.shapes.lock();
        shapes.retain(|shape| shape.strong_count() > 0);
        let mut known = shapes.iter().filter_map(Weak::upgrade);
        if let Some(known) = known.find(|known| known == asked) {
            return known;
        }
        shapes.push(Arc::downgrade(asked));
        Arc::clone(asked)
    }

    /// What is made of a batch for a shape that [`Self::shape`] gave: by `make`, unless that was done for
    /// the same arrays a moment ago. It depends on nothing else.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get(
        &self,
        batch: &RecordBatch,
        shape: &SchemaRef,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let is_it = |known: &Made<T>| {
            known.of.len() == batch.num_columns()
                && known.of.iter().zip(batch.columns()).all(|(a, b)| Arc::ptr_eq(a, b))
                && Arc::ptr_eq(&known.shape, shape)
        };
        if batch.num_columns() == 0 {
            return make();
        }
        if let Some(known) = self.kept.lock().iter().rev().find(|known| is_it(known)) {
            return Ok(known.made.clone());
        }
        let made = make()?;
        if batch_bytes(batch) <= BYTES_MAX {
            let known =
                Made { of: batch.columns().to_vec(), shape: Arc::clone(shape), made: made.clone() };
            let mut kept = self.kept.lock();
            kept.push_back(known);
            if kept.len() > KEPT_MAX {
                kept.pop_front();
            }
        }
        Ok(made)
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
        let (once, count) = (MadeOnce::<i64>::default(), Cell::new(0));
        let make = || {
            count.set(count.get() + 1);
            Ok(count.get())
        };
        let first = batch(1, "x");
        let shape = first.schema();
        assert_eq!(once.get(&first, &shape, make).unwrap(), 1);
        let equal = once.shape(&first.schema());
        assert!(Arc::ptr_eq(&once.shape(&Arc::new(Schema::clone(&equal))), &equal));
        assert_eq!(once.get(&first.clone(), &equal, make).unwrap(), 1);
        // Equal ones are others: whoever has the same has the same arrays.
        assert_eq!(once.get(&batch(1, "x"), &shape, make).unwrap(), 2);
        let narrow = Arc::new(shape.project(&[0]).unwrap());
        assert_eq!(once.get(&first, &narrow, make).unwrap(), 3);
        assert_eq!(once.get(&first.project(&[0]).unwrap(), &shape, make).unwrap(), 4);
        for value in 0..20 {
            once.get(&batch(value, "y"), &shape, make).unwrap();
        }
        assert_eq!(once.get(&first, &shape, make).unwrap(), 25);
        // What is large is made each time, and so is what failed.
        let large = batch(1, &"z".repeat(BYTES_MAX));
        assert_eq!(once.get(&large, &shape, make).unwrap(), 26);
        assert_eq!(once.get(&large, &shape, make).unwrap(), 27);
        let failing = batch(2, "w");
        let failed = once.get(&failing, &shape, || Err(crate::Error::internal("no")));
        assert!(failed.is_err());
        assert_eq!(once.get(&failing, &shape, make).unwrap(), 28);
    }
}
