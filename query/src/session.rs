//! One connection's state.

use std::sync::Arc;

use datafusion::scalar::ScalarValue;
use stratalog_model::{ColumnType, Error, ErrorKind, Result};
use stratalog_text::TextStyle;

use crate::{Outcome, Parsed, Prepared};

/// Where a session stands, for ReadyForQuery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransactionState {
    /// Outside of a block.
    #[default]
    Idle,
    /// In a block.
    Block,
    /// In a block in which a statement failed.
    Failed,
}

/// A message beside the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// `NOTICE` or `WARNING`.
    pub severity: &'static str,
    /// SQLSTATE; `00000` for a plain notice.
    pub sqlstate: &'static str,
    /// What is said.
    pub message: String,
    /// The values concerned.
    pub detail: Option<String>,
    /// What the user can do.
    pub hint: Option<String>,
}

/// One connection: settings, prepared statements, transaction.
#[derive(Debug)]
pub struct Session {}

impl Session {
    /// Process id and secret, with which another connection cancels this one's statement.
    pub fn key(&self) -> (i32, i32) {
        (0, 0)
    }

    /// The statements of a string; none for an empty one.
    pub fn parse(&self, sql: &str) -> Result<Vec<Arc<Parsed>>> {
        Err(Error::new(ErrorKind::Internal, sql))
    }

    /// Finds the parameters' types and the result's shape. `types` are those that the
    /// client told; fewer than there are parameters is fine.
    pub async fn prepare(
        &self,
        parsed: &Arc<Parsed>,
        types: &[Option<ColumnType>],
    ) -> Result<Arc<Prepared>> {
        Err(Error::internal(format!("{parsed:?} {types:?}")))
    }

    /// Runs a prepared statement. `parameters` have the Arrow types of
    /// [`Prepared::parameter_types`].
    pub async fn execute(
        &self,
        prepared: &Arc<Prepared>,
        parameters: Vec<ScalarValue>,
    ) -> Result<Outcome> {
        Err(Error::internal(format!("{prepared:?} {parameters:?}")))
    }

    /// Prepares without parameters, and runs.
    pub async fn run(&self, parsed: &Arc<Parsed>) -> Result<Outcome> {
        Err(Error::internal(format!("{parsed:?}")))
    }

    /// Where the session stands.
    pub fn transaction(&self) -> TransactionState {
        TransactionState::Idle
    }

    /// Makes an open block fail, after an error that the protocol found.
    pub fn fail_transaction(&self) {}

    /// A setting as SHOW shows it.
    pub fn setting(&self, name: &str) -> Option<String> {
        Some(name.to_string())
    }

    /// How values are written as text.
    pub fn text_style(&self) -> TextStyle {
        TextStyle::default()
    }

    /// Settings that the client must be told of, since the last call.
    pub fn take_parameter_changes(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Messages since the last call.
    pub fn take_notices(&self) -> Vec<Notice> {
        Vec::new()
    }

    /// Ends the session: cancels what runs, drops what is prepared.
    pub fn close(&self) {}
}
