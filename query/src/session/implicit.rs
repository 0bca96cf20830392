//! Implicit transaction blocks, which start without BEGIN: for the statements of one message, or of
//! a pipeline.

use datafusion::sql::sqlparser::ast::Statement;
use stratalog_model::Result;
use stratalog_postgres::names;

use super::Session;
use crate::{
    Parsed, StatementKind,
    statement::{insert, transaction},
};

impl Session {
    /// Whether an implicit block, opened by [`Session::enter_implicit`], is open.
    pub fn is_implicit(&self) -> bool {
        self.transaction.is_implicit()
    }

    /// Prepares for the next statement of a message or of a pipeline. The statement joins the
    /// implicit block if possible; [`Session::end_implicit`] ends the block. If the statement must
    /// run alone, the block ends first. `more` is true if other statements follow.
    ///
    /// # Errors
    /// The errors of [`Session::end_implicit`].
    pub async fn enter_implicit(&self, parsed: &Parsed, more: bool) -> Result<()> {
        match parsed.statement() {
            // These statements end the block themselves, or fail in the block.
            Statement::StartTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint { .. }
            | Statement::ReleaseSavepoint { .. }
            | Statement::Update(_)
            | Statement::Merge(_) => Ok(()),
            // A producer sequence number applies to a whole block, and the rows of a block have no
            // gsn before its end.
            _ if parsed.kind() == StatementKind::Write
                && (insert::is_numbered(self) || parsed.mentions(&["_gsn", "_toid"])) =>
            {
                self.end_implicit().await
            }
            // A DELETE with a Stratalog form is a TRIM.
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
            // Treat EXECUTE like its prepared statement. A missing prepared statement is an error
            // in the block.
            Statement::Execute { name: Some(name), .. } => {
                match self.prepared_statement(&names::single(name)?) {
                    Some(kept) => Box::pin(self.enter_implicit(kept.parsed(), more)).await,
                    None => Ok(()),
                }
            }
            _ => self.end_implicit().await,
        }
    }

    /// Ends the implicit block, if open: commits, or rolls back after a failed statement.
    ///
    /// # Errors
    /// The errors of the commit: nothing of the block is stored then.
    pub async fn end_implicit(&self) -> Result<()> {
        match self.is_implicit() {
            true => transaction::commit(self).await.map(drop),
            false => Ok(()),
        }
    }
}
