//! Execution of BEGIN, COMMIT, ROLLBACK and the savepoint statements.

use datafusion::sql::sqlparser::ast::{
    Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_postgres::names;

use super::ddl;
use crate::{
    Notice, Outcome, Session, TransactionState,
    session::{
        transaction::{EndedBlock, Isolation, Modes, append_is_lent},
        work::Work,
    },
};

/// Runs a transaction command.
///
/// # Errors
/// `FeatureNotSupported` for unsupported modes; an error of the commit.
pub async fn run(session: &Session, statement: &Statement, work: &Work) -> Result<Outcome> {
    match statement {
        Statement::StartTransaction { modes, begin, modifier, statements, .. } => {
            if modifier.is_some() || !statements.is_empty() {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    "BEGIN accepts only transaction modes",
                ));
            }
            let modes = self::modes(modes)?.over(session.variables().default_modes());
            let implicit = session.transaction.is_implicit();
            if session.transaction.begin(false, modes, session.parts().clock.now_ns()) {
                if !implicit {
                    session.variables().begin();
                }
            } else {
                session.say(Notice::warning("25001", "there is already a transaction in progress"));
            }
            Ok(done_outcome(if *begin { "BEGIN" } else { "START TRANSACTION" }))
        }
        Statement::Commit { chain, .. } => {
            let next = chained_modes(session, *chain, "COMMIT")?;
            work.commit()?;
            if session.transaction() == TransactionState::Idle || session.transaction.is_implicit()
            {
                session.say(no_transaction());
            }
            let tag = commit(session).await?;
            begin_next(session, next);
            Ok(done_outcome(tag))
        }
        Statement::Rollback { savepoint: Some(name), .. } => {
            let (settings, cursors) = session.transaction.roll_back_to(&names::fold(name))?;
            session.variables().go_back(settings);
            session.cursors().go_back(cursors);
            Ok(done_outcome("ROLLBACK"))
        }
        Statement::Savepoint { name } => {
            let marks = (session.variables().mark(), session.cursors().mark());
            session.transaction.savepoint(&names::fold(name), marks)?;
            Ok(done_outcome("SAVEPOINT"))
        }
        Statement::ReleaseSavepoint { name } => {
            session.transaction.release(&names::fold(name))?;
            Ok(done_outcome("RELEASE"))
        }
        Statement::Rollback { chain, savepoint: None } => {
            let next = chained_modes(session, *chain, "ROLLBACK")?;
            let implicit = session.transaction.is_implicit();
            let ended = session.transaction.end();
            if ended.state == TransactionState::Idle || implicit {
                session.say(no_transaction());
            }
            if ended.state != TransactionState::Idle {
                session.end_block(false);
            }
            begin_next(session, next);
            Ok(done_outcome("ROLLBACK"))
        }
        _ => Err(Error::internal("not a transaction command")),
    }
}

/// Opens an implicit block for the statements of one message or pipeline, unless a block is open.
pub fn begin_implicit(session: &Session) {
    let modes = session.variables().default_modes();
    if session.transaction.begin(true, modes, session.parts().clock.now_ns()) {
        session.variables().begin();
    }
}

/// Runs COMMIT: commits the block, or rolls back a failed block. Returns the command tag, `COMMIT`
/// or `ROLLBACK`.
///
/// # Errors
/// An error of the commit.
pub async fn commit(session: &Session) -> Result<&'static str> {
    let EndedBlock { state, wrote, append, definition, uses, lost } = session.transaction.end();
    match state {
        TransactionState::Idle => Ok("COMMIT"),
        TransactionState::Failed => {
            session.end_block(false);
            Ok("ROLLBACK")
        }
        TransactionState::Block => {
            // A lost lease matters only if the block has something to commit.
            let lost = lost.filter(|_| wrote || definition.is_some());
            let committed = match (lost, append, definition) {
                (Some(lost), ..) => Err(lost),
                (None, None, _) if wrote => Err(append_is_lent()),
                // The definitions reported their notices when the statements ran.
                (None, append, Some(definition)) => {
                    ddl::commit(session, definition, append, uses).await
                }
                (None, Some(append), None) => match session.commit_task(uses, append.commit()) {
                    Ok(committing) => committing.await.map(Some),
                    Err(lost) => Err(lost),
                },
                (None, None, None) => Ok(None),
            };
            session.end_block(committed.is_ok());
            if committed?.is_some_and(|appended| appended.duplicate) {
                session.say(already_stored());
            }
            Ok("COMMIT")
        }
    }
}

fn done_outcome(tag: &str) -> Outcome {
    Outcome::Done(tag.to_string())
}

/// The notice for a statement whose producer sequence number was already committed.
pub fn already_stored() -> Notice {
    Notice::new("already stored: the producer's statement was acknowledged before")
}

fn no_transaction() -> Notice {
    Notice::warning("25P01", "there is no transaction in progress")
}

/// The modes of the new block for AND CHAIN; `None` without AND CHAIN.
fn chained_modes(session: &Session, chain: bool, command: &str) -> Result<Option<Modes>> {
    if !chain {
        return Ok(None);
    }
    if session.transaction() == TransactionState::Idle || session.transaction.is_implicit() {
        return Err(Error::new(
            ErrorKind::NoActiveTransaction,
            format!("{command} AND CHAIN can only be used in transaction blocks"),
        ));
    }
    Ok(Some(session.transaction.modes()))
}

fn begin_next(session: &Session, next: Option<Modes>) {
    if let Some(modes) = next
        && session.transaction.begin(false, modes, session.parts().clock.now_ns())
    {
        session.variables().begin();
    }
}

/// Checks that the session may write now.
///
/// # Errors
/// `ReadOnlyTransaction`.
pub fn check_write(session: &Session) -> Result<()> {
    session.transaction.check_write(is_on(session, "default_transaction_read_only"))
}

/// The error of a statement in a block that has failed.
pub fn failed() -> Error {
    Error::new(
        ErrorKind::FailedTransaction,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

/// True if an on/off setting is on.
pub fn is_on(session: &Session, name: &str) -> bool {
    session.setting(name).as_deref() == Some("on")
}

/// The transaction modes that a statement names; `None` for a mode that the statement does not
/// name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamedModes {
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
    /// The isolation level.
    pub isolation: Option<Isolation>,
}

impl NamedModes {
    /// The named modes, and for each unnamed mode the mode of `others`.
    pub fn over(self, others: Modes) -> Modes {
        Modes {
            read_only: self.read_only.unwrap_or(others.read_only),
            isolation: self.isolation.unwrap_or(others.isolation),
        }
    }
}

/// Converts the list of modes of a statement.
///
/// # Errors
/// `FeatureNotSupported` for SERIALIZABLE.
pub fn modes(modes: &[TransactionMode]) -> Result<NamedModes> {
    let mut named = NamedModes::default();
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(access) => {
                named.read_only = Some(*access == TransactionAccessMode::ReadOnly);
            }
            TransactionMode::IsolationLevel(
                TransactionIsolationLevel::Serializable | TransactionIsolationLevel::Snapshot,
            ) => {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    "isolation level SERIALIZABLE is not supported",
                )
                .with_hint("use REPEATABLE READ: a block reads one snapshot"));
            }
            TransactionMode::IsolationLevel(level) => {
                named.isolation = Some(match level {
                    TransactionIsolationLevel::ReadUncommitted => Isolation::ReadUncommitted,
                    TransactionIsolationLevel::ReadCommitted => Isolation::ReadCommitted,
                    _ => Isolation::RepeatableRead,
                });
            }
        }
    }
    Ok(named)
}
