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

use super::{
    Session, acquisitions::PinnedSnapshot, transaction::Transaction, views::SessionCatalogView,
};
use crate::{outcome::RightsCheck, statement::column_reads::ColumnReads};

impl Session {
    /// The check that the session may still read the columns of a query.
    pub(crate) fn rights_check(&self, reads: &Arc<ColumnReads>) -> RightsCheck {
        let (reads, seen) = (Arc::clone(reads), Arc::clone(&self.seen));
        Box::new(move || seen.check_reads(&reads))
    }

    /// Wraps a stream: an error in the stream fails the open block. The chronicles of `pinned` stay
    /// in use until the stream drops, and the rights to read them are checked for each batch.
    pub(crate) fn watch(
        &self,
        stream: BoxStream<'static, Result<RecordBatch>>,
        pinned: Option<&PinnedSnapshot>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        Box::pin(WatchedRows {
            stream,
            transaction: Arc::clone(&self.transaction),
            reads: pinned.map(|pinned| (Arc::clone(pinned.reads()), Arc::clone(&self.seen))),
            _uses: pinned.and_then(PinnedSnapshot::uses),
        })
    }
}

struct WatchedRows {
    stream: BoxStream<'static, Result<RecordBatch>>,
    transaction: Arc<Transaction>,
    /// The columns of the rows, and the rights of the session.
    reads: Option<(Arc<ColumnReads>, Arc<SessionCatalogView>)>,
    _uses: Option<Arc<[UseGuard]>>,
}

impl Stream for WatchedRows {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut next = self.stream.as_mut().poll_next(context);
        if let (Poll::Ready(Some(Ok(_))), Some((reads, seen))) = (&next, &self.reads)
            && let Err(denied) = seen.check_reads(reads)
        {
            next = Poll::Ready(Some(Err(denied)));
        }
        if let Poll::Ready(Some(Err(_))) = &next {
            self.transaction.fail();
        }
        next
    }
}
