//! What a connection waits for, and when it stops waiting.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use stratalog_model::{Error, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};

use super::{Connection, Ending, Step, shutting_down};
use crate::frontend::Left;

/// A task that ends when nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct Work<T>(Option<JoinHandle<Result<T>>>);

impl<T: Send + 'static> Work<T> {
    pub(crate) fn spawn(work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(work)))
    }

    /// What the task returns, once. Safe to drop and call again.
    pub(crate) async fn result(&mut self) -> Result<T> {
        let Some(task) = self.0.as_mut() else {
            return Err(Error::internal("the result of a task was taken already"));
        };
        let result = task.await;
        self.0 = None;
        result.unwrap_or_else(|error| Err(broke_off().with_source(error)))
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

fn broke_off() -> Error {
    Error::internal("the statement broke off: a defect of the server")
}

/// When a client has gone away.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// It is gone, and nothing that it sent is still to be answered. One that has said goodbye is gone for a
    /// statement that waits for others: PostgreSQL would go on waiting, for nobody, in the way of all who are
    /// there. Other statements are carried out to their ends, as in PostgreSQL, which reads the goodbye
    /// only then.
    Gone,
    /// It has closed its end, for work that need not end: what it sent after that is never
    /// answered, and does not keep it.
    Closed,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Runs `work` unless the client goes away or the server ends first; dropping the
    /// work cancels it. A panic within is the statement's error, not the connection's end.
    pub(crate) fn watched<T>(
        &mut self,
        work: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Step<T>> {
        self.watched_until(Until::Gone, work)
    }

    /// As [`Self::watched`], with what it means here that the client goes away.
    pub(crate) async fn watched_until<T>(
        &mut self,
        until: Until,
        work: impl Future<Output = Result<T>>,
    ) -> Step<T> {
        let result = AssertUnwindSafe(work).catch_unwind();
        let (reader, session, followed) = (&mut self.reader, &self.session, self.followed);
        let left = async move {
            match until {
                Until::Closed => reader.closed().await,
                Until::Gone => match reader.left().await {
                    Left::Closed => {}
                    Left::Farewell if followed => std::future::pending().await,
                    Left::Farewell => session.waiting().await,
                },
            }
        };
        tokio::select! {
            biased;
            result = result => result.unwrap_or_else(|_| Err(broke_off())).map_err(Ending::Error),
            () = left => Err(Ending::Gone),
            () = self.stop.hard.cancelled() => Err(shutting_down()),
        }
    }
}
