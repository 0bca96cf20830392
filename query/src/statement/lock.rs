//! LOCK TABLE, in the one mode that a block's snapshot has the effect of.

use datafusion::sql::sqlparser::ast::{Lock, LockTableMode};
use stratalog_model::{Error, ErrorKind, Result};

use crate::{Outcome, Session, TransactionState};

/// Runs LOCK TABLE. ACCESS SHARE keeps others from dropping what is read: a block reads one
/// snapshot, in which nobody else changes anything, and readers never wait.
///
/// # Errors
/// `NoActiveTransaction` outside of a block, `UndefinedTable`, `FeatureNotSupported` for the modes
/// that keep others from writing.
pub fn run(session: &Session, lock: &Lock) -> Result<Outcome> {
    if session.transaction() == TransactionState::Idle {
        return Err(Error::new(
            ErrorKind::NoActiveTransaction,
            "LOCK TABLE can only be used in transaction blocks",
        ));
    }
    for table in &lock.tables {
        session.chronicle(&table.name)?;
    }
    match lock.lock_mode {
        Some(LockTableMode::AccessShare) => Ok(Outcome::Done("LOCK TABLE".to_string())),
        _ => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "LOCK TABLE is supported IN ACCESS SHARE MODE only: readers and writers never block each other",
        )
        .with_hint("a block reads one snapshot without any lock; ACQUIRE CHRONICLE t EXCLUSIVE keeps others from writing")),
    }
}
