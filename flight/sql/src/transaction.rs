//! Handlers for transactions. Each transaction has its own session, with the settings of the
//! caller's session.

use std::sync::Arc;

use arrow_flight::sql::{ActionEndTransactionRequest, EndTransaction};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::{Outcome, Session, TransactionState};

use crate::caller::Caller;

/// Answers BeginTransaction: returns the id of the transaction.
///
/// # Errors
/// `LimitExceeded`, `TooManyConnections`.
pub(crate) async fn begin(caller: &Arc<Caller>) -> Result<Vec<u8>> {
    let session = caller.session().twin()?;
    run_command(&session, "BEGIN").await?;
    caller.open_transaction(session)
}

/// Answers EndTransaction: commits or rolls back.
///
/// # Errors
/// `InvalidTransactionState` for an unknown transaction; errors of the commit; `FailedTransaction`
/// if an earlier statement of the transaction failed; then nothing is committed.
pub(crate) async fn end(caller: &Arc<Caller>, request: &ActionEndTransactionRequest) -> Result<()> {
    let commits = match EndTransaction::try_from(request.action) {
        Ok(EndTransaction::Commit) => true,
        Ok(EndTransaction::Rollback) => false,
        Ok(EndTransaction::Unspecified) | Err(_) => {
            return Err(Error::new(
                ErrorKind::ProtocolViolation,
                "EndTransaction says neither COMMIT nor ROLLBACK",
            ));
        }
    };
    let session = caller.take_transaction(&request.transaction_id)?;
    let failed = session.transaction() == TransactionState::Failed;
    let ended = run_command(&session, if commits { "COMMIT" } else { "ROLLBACK" }).await;
    session.close();
    ended?;
    if commits && failed {
        return Err(Error::new(
            ErrorKind::FailedTransaction,
            "the transaction was rolled back, because a statement of the transaction had failed",
        ));
    }
    Ok(())
}

/// Runs a command that has neither rows nor parameters.
///
/// # Errors
/// Errors of the command.
pub(crate) async fn run_command(session: &Arc<Session>, sql: &str) -> Result<()> {
    for parsed in session.parse(sql)? {
        match session.run(&parsed).await? {
            Outcome::Done(_) | Outcome::Empty => {}
            Outcome::Rows(_) | Outcome::CopyIn(_) | Outcome::CopyOut(_) => {
                return Err(Error::internal("a command with rows"));
            }
        }
    }
    Ok(())
}

/// The error for the savepoint actions of Flight SQL, which Stratalog does not support.
pub(crate) fn no_savepoints() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "savepoints by Flight's actions are not offered")
        .with_hint("within the transaction, SAVEPOINT, ROLLBACK TO and RELEASE are statements")
}
