//! BEGIN, COMMIT, ROLLBACK.

use datafusion::sql::sqlparser::ast::{
    Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use stratalog_model::{Error, ErrorKind, Result};

use super::ddl;
use crate::{
    Notice, Outcome, Session, TransactionState,
    session::{transaction::Ended, work::Work},
};

/// Runs a transaction command.
///
/// # Errors
/// `FeatureNotSupported` for modes that are not kept; what committing says.
pub async fn run(session: &Session, statement: &Statement, work: &Work) -> Result<Outcome> {
    match statement {
        Statement::StartTransaction { modes, begin, modifier, statements, .. } => {
            if modifier.is_some() || !statements.is_empty() {
                return Err(Error::new(
                    ErrorKind::SyntaxError,
                    "BEGIN takes transaction modes only",
                ));
            }
            let read_only = self::modes(modes)?
                .unwrap_or_else(|| is_on(session, "default_transaction_read_only"));
            if session.transaction.begin(read_only, session.parts().clock.now_ns()) {
                session.variables().begin();
            } else {
                session.say(Notice::warning("25001", "there is already a transaction in progress"));
            }
            Ok(done(if *begin { "BEGIN" } else { "START TRANSACTION" }))
        }
        Statement::Commit { chain, .. } => {
            refuse_chain(*chain)?;
            work.commit()?;
            let Ended { state, append, definition } = session.transaction.end();
            match state {
                TransactionState::Idle => {
                    session.say(no_transaction());
                    Ok(done("COMMIT"))
                }
                TransactionState::Failed => {
                    session.variables().end(false);
                    Ok(done("ROLLBACK"))
                }
                TransactionState::Block => {
                    // A block holds one or the other. What a definition has to tell was
                    // told when it was given.
                    let committed = match append {
                        Some(append) => append.commit().await.map(|_| ()),
                        None => ddl::apply(session, definition).await.map(|_| ()),
                    };
                    session.variables().end(committed.is_ok());
                    committed.map(|()| done("COMMIT"))
                }
            }
        }
        Statement::Rollback { chain, savepoint } => {
            refuse_chain(*chain)?;
            if savepoint.is_some() {
                return Err(Error::not_yet("ROLLBACK TO SAVEPOINT"));
            }
            let ended = session.transaction.end();
            if ended.state == TransactionState::Idle {
                session.say(no_transaction());
            } else {
                session.variables().end(false);
            }
            Ok(done("ROLLBACK"))
        }
        _ => Err(Error::internal("not a transaction command")),
    }
}

fn done(tag: &str) -> Outcome {
    Outcome::Done(tag.to_string())
}

fn no_transaction() -> Notice {
    Notice::warning("25P01", "there is no transaction in progress")
}

fn refuse_chain(chain: bool) -> Result<()> {
    if chain { Err(Error::not_yet("AND CHAIN")) } else { Ok(()) }
}

/// Whether a switch is on.
pub fn is_on(session: &Session, name: &str) -> bool {
    session.setting(name).as_deref() == Some("on")
}

/// Checks transaction modes; whether READ ONLY or READ WRITE was among them.
///
/// # Errors
/// `FeatureNotSupported` for SERIALIZABLE.
pub fn modes(modes: &[TransactionMode]) -> Result<Option<bool>> {
    let mut read_only = None;
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => read_only = Some(true),
            TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => {
                read_only = Some(false);
            }
            TransactionMode::IsolationLevel(
                TransactionIsolationLevel::Serializable | TransactionIsolationLevel::Snapshot,
            ) => {
                return Err(Error::new(
                    ErrorKind::FeatureNotSupported,
                    "isolation level SERIALIZABLE is not supported",
                )
                .with_hint("a block reads one snapshot: REPEATABLE READ"));
            }
            TransactionMode::IsolationLevel(_) => {}
        }
    }
    Ok(read_only)
}
