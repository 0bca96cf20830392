//! LOCK TABLE, in the only supported mode: ACCESS SHARE.

use datafusion::sql::sqlparser::ast::{Lock, LockTableMode};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_visor_core::access::Privilege;

use crate::{Outcome, Session, TransactionState};

/// Runs LOCK TABLE, which takes no lock. In PostgreSQL, ACCESS SHARE protects the read tables from
/// DROP. A block in Stratalog reads one snapshot, other sessions do not change the snapshot, and
/// readers never wait.
///
/// # Errors
/// `NoActiveTransaction` outside of a block, `UndefinedTable`, `FeatureNotSupported` for the modes
/// that block writers.
pub fn run(session: &Session, lock: &Lock) -> Result<Outcome> {
    if session.transaction() == TransactionState::Idle {
        return Err(Error::new(
            ErrorKind::NoActiveTransaction,
            "LOCK TABLE can only be used in transaction blocks",
        ));
    }
    for table in &lock.tables {
        let chronicle = session.chronicle(&table.name)?;
        session.authorize_on(Privilege::Select, chronicle.id)?;
    }
    match lock.lock_mode {
        Some(LockTableMode::AccessShare) => Ok(Outcome::Done("LOCK TABLE".to_string())),
        _ => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "LOCK TABLE is supported IN ACCESS SHARE MODE only: readers and writers never block each other",
        )
        .with_hint("a block reads one snapshot without any lock; ACQUIRE CHRONICLE t EXCLUSIVE prevents writes of other sessions")),
    }
}
