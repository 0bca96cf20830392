//! Work of a connection, and the reasons to cancel it.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use stratalog_model::{Error, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};

use super::{Connection, Step, StepEnd, shutting_down};
use crate::frontend::Disconnect;

/// A task that ends when its handle is dropped.
#[derive(Debug)]
pub(crate) struct SpawnedTask<T>(Option<JoinHandle<Result<T>>>);

impl<T: Send + 'static> SpawnedTask<T> {
    pub(crate) fn spawn(work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(work)))
    }

    /// The result of the task, available once. The future is safe to drop and call again.
    pub(crate) async fn result(&mut self) -> Result<T> {
        let Some(task) = self.0.as_mut() else {
            return Err(Error::internal("the result of a task was taken already"));
        };
        let result = task.await;
        self.0 = None;
        result.unwrap_or_else(|error| Err(broke_off().with_source(error)))
    }
}

impl<T> Drop for SpawnedTask<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

fn broke_off() -> Error {
    Error::internal("the statement failed: a defect of the server")
}

/// The condition for a disconnected client.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CancelPolicy {
    /// The client is gone, and no received message needs an answer. For a statement waiting for
    /// other sessions, a Terminate message also counts: PostgreSQL would continue to wait without a
    /// client and block other sessions. Other statements run to their ends, like in PostgreSQL,
    /// which reads the Terminate message only afterwards.
    Gone,
    /// The client has closed its end, for endless work: later messages are never answered, and do
    /// not keep the work running.
    Closed,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Runs `work` unless the client disconnects or the server ends first; a drop of the work
    /// cancels the work. A panic inside is an error of the statement and does not end the
    /// connection.
    pub(crate) fn watched<T>(
        &mut self,
        work: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Step<T>> {
        self.watched_until(CancelPolicy::Gone, work)
    }

    /// Like [`Self::watched`], with the given condition for a disconnected client.
    pub(crate) async fn watched_until<T>(
        &mut self,
        until: CancelPolicy,
        work: impl Future<Output = Result<T>>,
    ) -> Step<T> {
        let result = AssertUnwindSafe(work).catch_unwind();
        let (reader, session, followed) = (&mut self.reader, &self.session, self.followed);
        let left = async move {
            match until {
                CancelPolicy::Closed => reader.closed().await,
                CancelPolicy::Gone => match reader.left().await {
                    Disconnect::Closed => {}
                    Disconnect::Farewell if followed => std::future::pending().await,
                    Disconnect::Farewell => session.waiting().await,
                },
            }
        };
        tokio::select! {
            biased;
            result = result => result.unwrap_or_else(|_| Err(broke_off())).map_err(StepEnd::Error),
            () = left => Err(StepEnd::Gone),
            () = self.stop.hard.cancelled() => Err(shutting_down()),
        }
    }
}
