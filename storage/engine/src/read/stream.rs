//! Streams from an iterator, and streams over consecutive pieces.

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

/// Poll steps without a batch after which the stream yields, for a chance of cancellation.
const EMPTY_PIECES_MAX: usize = 64;

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

/// Reads pieces one after another until `limit` rows. A piece is opened at its turn.
pub struct PieceChain {
    pieces: std::vec::IntoIter<Box<dyn Piece>>,
    open: Option<BatchStream>,
    left: usize,
}

impl PieceChain {
    /// A stream of `pieces`. The stream ends after `limit` rows or slightly later, at the end of a
    /// batch.
    pub fn new(pieces: Vec<Box<dyn Piece>>, limit: Option<usize>) -> Self {
        Self { pieces: pieces.into_iter(), open: None, left: limit.unwrap_or(usize::MAX) }
    }
}

impl Stream for PieceChain {
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
