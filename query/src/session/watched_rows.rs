//! Result rows whose errors fail the open block.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use arrow::array::RecordBatch;
use futures::{Stream, stream::BoxStream};
use stratalog_model::Result;
use stratalog_visor_core::acquisition::UseGuard;

use super::{Session, transaction::Transaction};

impl Session {
    /// Wraps a stream: an error in the stream fails the open block, and the chronicles of `uses`
    /// stay in use until the stream drops.
    pub(crate) fn watch(
        &self,
        stream: BoxStream<'static, Result<RecordBatch>>,
        uses: Option<Arc<[UseGuard]>>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        Box::pin(WatchedRows { stream, transaction: Arc::clone(&self.transaction), _uses: uses })
    }
}

struct WatchedRows {
    stream: BoxStream<'static, Result<RecordBatch>>,
    transaction: Arc<Transaction>,
    _uses: Option<Arc<[UseGuard]>>,
}

impl Stream for WatchedRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.stream.as_mut().poll_next(context);
        if let Poll::Ready(Some(Err(_))) = &next {
            self.transaction.fail();
        }
        next
    }
}
