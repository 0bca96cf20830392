//! COPY.

use arrow::array::RecordBatch;
use stratalog_model::{Error, Result};

/// Takes the rows of a COPY … FROM STDIN. Dropping it before `finish` stores nothing.
#[derive(Debug)]
pub struct CopySink {}

impl CopySink {
    /// Takes rows with the columns of [`CopyIn::columns`](crate::CopyIn::columns), in order. Waits under
    /// back-pressure.
    pub async fn push(&mut self, rows: RecordBatch) -> Result<()> {
        Err(Error::internal(format!("{} rows", rows.num_rows())))
    }

    /// Makes all rows durable and visible at once; returns how many they were.
    pub async fn finish(self) -> Result<u64> {
        Err(Error::internal("copy"))
    }
}
