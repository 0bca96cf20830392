//! The simple query protocol: a Query message contains a string of statements.

use std::sync::Arc;

use stratalog_query::{Outcome, Parsed, TransactionState};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, Step, StepEnd, cursor::Cursor};
use crate::encode::{BINARY, TEXT};

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Runs the statements of a string in order, up to the first failure.
    pub(super) async fn simple_query(&mut self, sql: &str) -> Step<()> {
        // A simple query ends the unnamed statement and portal, as in PostgreSQL.
        self.statements.remove("");
        self.portals.remove("");
        let answered = self.statements_of(sql).await;
        self.followed = false;
        match answered {
            Err(StepEnd::Error(error)) => self.report(&error)?,
            other => other?,
        }
        self.end_implicit().await?;
        self.ready()
    }

    async fn statements_of(&mut self, sql: &str) -> Step<()> {
        let statements = self.session.parse(sql)?;
        if statements.is_empty() {
            return self.out.empty_query().map_err(StepEnd::Error);
        }
        for (at, statement) in statements.iter().enumerate() {
            let last = at + 1 == statements.len();
            self.followed = !last;
            self.enter_implicit(statement, !last).await?;
            if let Some((portal, rows)) = statement.moves_forward()
                && self.session.transaction() != TransactionState::Failed
                && let Some(passed) = self.skip_portal_rows(&portal, rows).await?
            {
                self.complete(&format!("MOVE {passed}"))?;
                continue;
            }
            let outcome = self.run_statement(statement).await?;
            if last && matches!(outcome, Outcome::Done(_)) {
                // The implicit transaction must commit before the client receives the answer to the
                // last statement.
                self.commit_implicit().await?;
            }
            self.answer_outcome(outcome).await?;
            self.tell()?;
            self.flush_if_full().await?;
        }
        Ok(())
    }

    /// Puts the statements of one message, or of one pipeline (the messages up to Sync), into an
    /// implicit transaction where possible. `more` is true if further statements follow.
    pub(super) async fn enter_implicit(&mut self, statement: &Arc<Parsed>, more: bool) -> Step<()> {
        if !more && !self.session.is_implicit() {
            return Ok(());
        }
        let (session, statement) = (Arc::clone(&self.session), Arc::clone(statement));
        self.watched(async move { session.enter_implicit(&statement, more).await }).await
    }

    /// Commits the implicit transaction.
    async fn commit_implicit(&mut self) -> Step<()> {
        if !self.session.is_implicit() {
            return Ok(());
        }
        let session = Arc::clone(&self.session);
        self.watched(async move { session.end_implicit().await }).await
    }

    /// Ends the implicit transaction at the end of a message or pipeline.
    pub(super) async fn end_implicit(&mut self) -> Step<()> {
        match self.commit_implicit().await {
            Err(StepEnd::Error(error)) => self.report(&error),
            other => other,
        }
    }

    async fn run_statement(&mut self, statement: &Arc<Parsed>) -> Step<Outcome> {
        if let Some(outcome) = self.deallocate(statement.text()) {
            return Ok(outcome);
        }
        let session = Arc::clone(&self.session);
        let statement = Arc::clone(statement);
        self.watched(async move { session.run(&statement).await }).await
    }

    async fn answer_outcome(&mut self, outcome: Outcome) -> Step<()> {
        match outcome {
            Outcome::Rows(rows) => {
                let format = if rows.is_binary() { BINARY } else { TEXT };
                self.out.row_description(rows.schema(), |_| format)?;
                let mut cursor = Cursor::new(rows, vec![format], self.session.result_style());
                self.send_rows(&mut cursor, 0).await?;
                self.complete(&cursor.rows().tag())?;
            }
            other => self.answer_without_rows(other).await?,
        }
        Ok(())
    }

    /// Sends the answer to a statement without rows. The answer is the same in the simple and in
    /// the extended protocol.
    pub(super) async fn answer_without_rows(&mut self, outcome: Outcome) -> Step<()> {
        match outcome {
            Outcome::Done(tag) => self.complete(&tag)?,
            Outcome::CopyIn(copy) => self.copy_in(*copy).await?,
            Outcome::CopyOut(copy) => self.copy_out(copy).await?,
            Outcome::Empty => self.out.empty_query()?,
            Outcome::Rows(rows) => self.complete(&rows.tag())?,
        }
        Ok(())
    }
}
