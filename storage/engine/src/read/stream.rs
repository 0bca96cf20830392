//! Streams of batches: from an iterator, and from consecutive splits.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use arrow::array::RecordBatch;
use futures_core::Stream;
use stratalog_model::{
    Result,
    tier::{BatchStream, Split},
};

/// Number of polls without a batch after which the stream yields, so that the task can be
/// cancelled.
const EMPTY_SPLITS_MAX: usize = 64;

/// A stream of the items of an iterator.
pub fn of_iterator(
    items: impl Iterator<Item = Result<RecordBatch>> + Send + 'static,
) -> BatchStream {
    Box::pin(IteratorStream(Box::new(items)))
}

struct IteratorStream(Box<dyn Iterator<Item = Result<RecordBatch>> + Send>);

impl Stream for IteratorStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next())
    }
}

/// A stream that reads splits one after another, up to `limit` rows. A split is opened when the
/// split before has ended.
pub struct SplitChain {
    splits: std::vec::IntoIter<Box<dyn Split>>,
    open: Option<BatchStream>,
    left: usize,
}

impl SplitChain {
    /// A stream of `splits`. If there is a limit, the stream ends with the batch that reaches the
    /// limit.
    pub fn new(splits: Vec<Box<dyn Split>>, limit: Option<usize>) -> Self {
        Self { splits: splits.into_iter(), open: None, left: limit.unwrap_or(usize::MAX) }
    }
}

impl Stream for SplitChain {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        for _ in 0..EMPTY_SPLITS_MAX {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            let Some(open) = &mut self.open else {
                match self.splits.next() {
                    Some(split) => self.open = Some(split.read()),
                    None => return Poll::Ready(None),
                }
                continue;
            };
            match open.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => self.open = None,
                Poll::Ready(Some(Ok(batch))) => {
                    self.left = self.left.saturating_sub(batch.num_rows());
                    return Poll::Ready(Some(Ok(batch)));
                }
                Poll::Ready(Some(Err(error))) => {
                    self.left = 0;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
