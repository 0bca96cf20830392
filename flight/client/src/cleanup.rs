//! Requests that free objects on the server after the caller has dropped the matching object of the
//! client. One background task per client sends these requests from a bounded queue, and ends with
//! the client.

use std::time::Duration;

use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionEndTransactionRequest, EndTransaction,
    ProstMessageExt as _,
};
use bytes::Bytes;
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};

use crate::connection::{Connection, within};

/// Maximal number of waiting requests.
const TASKS_MAX: usize = 4096;
/// Timeout of a request. After a failed request, the server frees the object later without a
/// request.
const TASK_TIME: Duration = Duration::from_secs(2);

/// A request of the background task.
#[derive(Debug)]
pub(crate) enum CleanupTask {
    /// Rolls back a transaction.
    RollBack(Connection, Bytes),
    /// Closes a prepared statement.
    CloseStatement(Connection, Bytes),
    /// Closes a session.
    CloseSession(Connection),
    /// Replies on the channel when all earlier requests are finished.
    Confirm(oneshot::Sender<()>),
}

/// The sending end of the queue of requests.
#[derive(Debug, Clone)]
pub(crate) struct Cleanup(mpsc::Sender<CleanupTask>);

impl Cleanup {
    /// Starts the background task; it ends after the last sender is dropped.
    pub(crate) fn start() -> Self {
        let (sender, mut tasks) = mpsc::channel(TASKS_MAX);
        tokio::spawn(async move {
            while let Some(task) = tasks.recv().await {
                run(task).await;
            }
        });
        Self(sender)
    }

    /// Queues a request; drops it with a warning if the queue is full.
    pub(crate) fn enqueue(&self, task: CleanupTask) {
        if self.0.try_send(task).is_err() {
            tracing::warn!(
                "too many dropped objects at a time: the server is not informed of a dropped object"
            );
        }
    }

    /// Waits until all requests queued before this call are finished.
    pub(crate) async fn done(&self) {
        let (sender, done) = oneshot::channel();
        if self.0.send(CleanupTask::Confirm(sender)).await.is_ok() {
            // The channel breaks if the runtime has ended the background task.
            let _ = done.await;
        }
    }
}

async fn run(task: CleanupTask) {
    let (connection, action, body) = match task {
        CleanupTask::RollBack(connection, id) => (connection, "EndTransaction", roll_back(id)),
        CleanupTask::CloseStatement(connection, handle) => {
            (connection, "ClosePreparedStatement", close_statement(handle))
        }
        CleanupTask::CloseSession(connection) => (connection, "CloseSession", Vec::new()),
        CleanupTask::Confirm(sender) => {
            // The waiting caller may have given up.
            let _ = sender.send(());
            return;
        }
    };
    if connection.is_suspect() && action == "CloseSession" {
        return;
    }
    if let Err(error) = within(Some(TASK_TIME), connection.act(action, body)).await {
        tracing::debug!(%error, action, "the server was not informed");
    }
}

fn roll_back(transaction_id: Bytes) -> Vec<u8> {
    let action = EndTransaction::Rollback as i32;
    ActionEndTransactionRequest { transaction_id, action }.as_any().encode_to_vec()
}

/// The body of ClosePreparedStatement.
pub(crate) fn close_statement(prepared_statement_handle: Bytes) -> Vec<u8> {
    ActionClosePreparedStatementRequest { prepared_statement_handle }.as_any().encode_to_vec()
}
