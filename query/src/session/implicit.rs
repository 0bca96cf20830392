//! Blocks that nobody began: of the statements of a message, or of a pipeline.

use datafusion::sql::sqlparser::ast::Statement;
use stratalog_model::Result;

use super::Session;
use crate::{
    Parsed, StatementKind,
    statement::{insert, names, transaction},
};

impl Session {
    /// Whether the block of [`Session::enter_implicit`] is open.
    pub fn is_implicit(&self) -> bool {
        self.transaction.is_implicit()
    }

    /// A statement comes that is one of several of a message, or of a pipeline: what can be
    /// is one block, which ends with [`Session::end_implicit`]. One that must be by itself ends
    /// the block before. `more` when others follow.
    ///
    /// # Errors
    /// As [`Session::end_implicit`].
    pub async fn enter_implicit(&self, parsed: &Parsed, more: bool) -> Result<()> {
        match parsed.statement() {
            // These end the block themselves, or are wrong in it.
            Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. }
            | Statement::Update(_)
            | Statement::Merge(_) => Ok(()),
            // A block is numbered as a whole, and has no gsn's before it ends.
            _ if parsed.kind() == StatementKind::Write
                && (insert::is_numbered(self) || parsed.mentions(&["_gsn", "_toid"])) =>
            {
                self.end_implicit().await
            }
            // TRIM.
            Statement::Delete(_) if parsed.own().is_some() => self.end_implicit().await,
            Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Delete(_)
            | Statement::Truncate(_)
            | Statement::Copy { .. }
            | Statement::Explain { .. }
            | Statement::ShowVariable { .. }
            | Statement::Set(_)
            | Statement::Reset(_)
            | Statement::Prepare { .. }
            | Statement::Deallocate { .. }
            | Statement::Declare { .. }
            | Statement::Fetch { .. }
            | Statement::Close { .. }
            | Statement::UNLISTEN { .. } => {
                if more {
                    transaction::begin_implicit(self);
                }
                Ok(())
            }
            // As the one that it names; one that does not exist is wrong in the block.
            Statement::Execute { name: Some(name), .. } => match self.kept(&names::single(name)?) {
                Some(kept) => Box::pin(self.enter_implicit(kept.parsed(), more)).await,
                None => Ok(()),
            },
            _ => self.end_implicit().await,
        }
    }

    /// Ends the block of [`Session::enter_implicit`], if it is open: commits, or, when a
    /// statement has failed, rolls back.
    ///
    /// # Errors
    /// What committing says: nothing of the block is stored then.
    pub async fn end_implicit(&self) -> Result<()> {
        match self.is_implicit() {
            true => transaction::commit(self).await.map(drop),
            false => Ok(()),
        }
    }
}
