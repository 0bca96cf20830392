//! Background cleanup on the server after something was dropped: a single task per client, with a
//! bounded queue. The task ends with the client.

use std::time::Duration;

use arrow_flight::sql::{
    ActionClosePreparedStatementRequest, ActionEndTransactionRequest, EndTransaction,
    ProstMessageExt as _,
};
use bytes::Bytes;
use prost::Message as _;
use tokio::sync::{mpsc, oneshot};

use crate::connection::{Connection, within};

/// Capacity of the queue.
const ERRANDS_MAX: usize = 4096;
/// Timeout of an errand: without the errand, the server cleans up later by itself.
const ERRAND_TIME: Duration = Duration::from_secs(2);

/// A message for the server.
#[derive(Debug)]
pub(crate) enum Errand {
    /// A transaction will not be committed.
    RollBack(Connection, Bytes),
    /// A prepared statement is not needed any more.
    CloseStatement(Connection, Bytes),
    /// A session is not needed any more.
    CloseSession(Connection),
    /// Reports that all earlier errands are done.
    Tell(oneshot::Sender<()>),
}

/// The queue of errands.
#[derive(Debug, Clone)]
pub(crate) struct Cleanup(mpsc::Sender<Errand>);

impl Cleanup {
    /// Starts the task; it ends after the last sender is dropped.
    pub(crate) fn start() -> Self {
        let (sender, mut errands) = mpsc::channel(ERRANDS_MAX);
        tokio::spawn(async move {
            while let Some(errand) = errands.recv().await {
                run(errand).await;
            }
        });
        Self(sender)
    }

    /// Queues an errand.
    pub(crate) fn leave(&self, errand: Errand) {
        if self.0.try_send(errand).is_err() {
            tracing::warn!(
                "too many dropped objects at a time: the server is not informed of a dropped object"
            );
        }
    }

    /// Waits until all errands so far are done.
    pub(crate) async fn done(&self) {
        let (sender, done) = oneshot::channel();
        if self.0.send(Errand::Tell(sender)).await.is_ok() {
            // Without an answer, the task has ended with its runtime.
            let _ = done.await;
        }
    }
}

async fn run(errand: Errand) {
    let (connection, action, body) = match errand {
        Errand::RollBack(connection, id) => (connection, "EndTransaction", roll_back(id)),
        Errand::CloseStatement(connection, handle) => {
            (connection, "ClosePreparedStatement", close_statement(handle))
        }
        Errand::CloseSession(connection) => (connection, "CloseSession", Vec::new()),
        Errand::Tell(sender) => {
            // The receiver may be gone.
            let _ = sender.send(());
            return;
        }
    };
    if connection.is_suspect() && action == "CloseSession" {
        return;
    }
    if let Err(error) = within(Some(ERRAND_TIME), connection.act(action, body)).await {
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
