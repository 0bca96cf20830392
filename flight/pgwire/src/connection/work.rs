//! Runs the statements of a connection, and cancels a statement when the client disconnects or the
//! server stops.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use stratalog_model::{Error, Result};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinHandle,
};

use super::{Connection, Step, StepEnd, shutting_down};
use crate::frontend::Disconnect;

/// A spawned task that is aborted when the handle is dropped.
#[derive(Debug)]
pub(crate) struct SpawnedTask<T>(Option<JoinHandle<Result<T>>>);

impl<T: Send + 'static> SpawnedTask<T> {
    pub(crate) fn spawn(work: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self(Some(tokio::spawn(work)))
    }

    /// Waits for the result of the task, which is available once. The caller may drop this future
    /// and call again.
    pub(crate) async fn result(&mut self) -> Result<T> {
        let Some(task) = self.0.as_mut() else {
            return Err(Error::internal("the result of a task was taken already"));
        };
        let result = task.await;
        self.0 = None;
        result.unwrap_or_else(|error| Err(panicked().with_source(error)))
    }
}

impl<T> Drop for SpawnedTask<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

fn panicked() -> Error {
    Error::internal("the statement failed: a defect of the server")
}

/// The condition under which a client counts as disconnected, so that its work is cancelled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CancelPolicy {
    /// The client has closed the connection, and no received message needs an answer. While a
    /// statement waits for other sessions, a Terminate message also counts: unlike PostgreSQL, the
    /// statement then does not keep blocking other sessions. Any other statement runs to its end
    /// after Terminate, as in PostgreSQL.
    Gone,
    /// The client has closed its side of the connection, even if received messages are unanswered.
    /// For endless work, which would never come to these messages.
    Closed,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Runs `work`. Drops the future, and so cancels the work, if the client disconnects or the
    /// server stops. A panic of the work becomes an error of the statement, and the connection
    /// stays open.
    pub(crate) fn watched<T>(
        &mut self,
        work: impl Future<Output = Result<T>>,
    ) -> impl Future<Output = Step<T>> {
        self.watched_until(CancelPolicy::Gone, work)
    }

    /// Runs `work` as [`Self::watched`] does; `until` decides when the client counts as
    /// disconnected.
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
            result = result => result.unwrap_or_else(|_| Err(panicked())).map_err(StepEnd::Error),
            () = left => Err(StepEnd::Gone),
            () = self.stop.hard.cancelled() => Err(shutting_down()),
        }
    }
}
