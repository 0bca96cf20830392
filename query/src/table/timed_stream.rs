//! Measures the time that storage spends on a scan, for EXPLAIN ANALYZE.

use std::{pin::Pin, task::Poll};

use arrow::array::RecordBatch;
use datafusion::physical_plan::metrics::Time;
use futures::{Stream, StreamExt, stream};
use stratalog_model::{Result, tier::BatchStream};

/// Returns the batches of `streams`, one stream after another. `spent` counts the time until each
/// batch is ready, without the time of the consumer.
pub fn timed(
    streams: Vec<BatchStream>,
    spent: Time,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let mut batches = stream::iter(streams).flatten().boxed();
    stream::poll_fn(move |context| -> Poll<Option<Result<RecordBatch>>> {
        let timer = spent.timer();
        let next = Pin::as_mut(&mut batches).poll_next(context);
        timer.done();
        next
    })
}
