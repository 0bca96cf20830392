//! Streams: of an iterator, and of pieces one after another.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use arrow::array::RecordBatch;
use futures_core::Stream;
use stratalog_model::{
    Result,
    tier::{BatchStream, Piece},
};

/// Pieces without a row after which the reader gets a chance to be cancelled.
const EMPTY_PIECES_MAX: usize = 64;

/// A stream of what an iterator yields.
pub fn of_iterator(
    items: impl Iterator<Item = Result<RecordBatch>> + Send + 'static,
) -> BatchStream {
    Box::pin(Iterated(Box::new(items)))
}

struct Iterated(Box<dyn Iterator<Item = Result<RecordBatch>> + Send>);

impl Stream for Iterated {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next())
    }
}

/// Pieces one after another, opened when their turn comes, until `limit` rows.
pub struct Chained {
    pieces: std::vec::IntoIter<Box<dyn Piece>>,
    open: Option<BatchStream>,
    left: usize,
}

impl Chained {
    /// A stream of `pieces` that ends after `limit` rows or a little more.
    pub fn new(pieces: Vec<Box<dyn Piece>>, limit: Option<usize>) -> Self {
        Self { pieces: pieces.into_iter(), open: None, left: limit.unwrap_or(usize::MAX) }
    }
}

impl Stream for Chained {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        for _ in 0..EMPTY_PIECES_MAX {
            if self.left == 0 {
                return Poll::Ready(None);
            }
            let Some(open) = &mut self.open else {
                match self.pieces.next() {
                    Some(piece) => self.open = Some(piece.read()),
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
