//! A client's named statements and portals, kept between messages.
//!
//! The unnamed statement and portal are not counted: each exists at most once and is no larger than
//! a message. Therefore every allowed message works. An unnamed statement in use by a named portal
//! is counted like a named statement.

use std::sync::{Arc, OnceLock};

use datafusion::common::ScalarValue;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::Prepared;

use super::cursor::Cursor;
use crate::budget::{Budget, Claim};

/// Minimum bytes of a statement or portal.
const STATEMENT_BYTES: usize = 8 << 10;
const PORTAL_BYTES: usize = 1 << 10;

/// Bytes of a parameter, and of a column of the result.
const PARAMETER_BYTES: usize = 48;
const COLUMN_BYTES: usize = 512;

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct Statement {
    /// `None` for an empty string.
    pub(super) prepared: Option<Arc<Prepared>>,
    /// Object ids of the parameters, declared by the client or found by the server.
    pub(super) parameters: Vec<u32>,
    /// The protocol round of the Parse message; a round lasts from one Sync to the next.
    pub(super) round: u64,
    /// Given back when no name and no portal refers to the statement any more.
    claim: OnceLock<Claim>,
}

impl Statement {
    pub(super) fn new(prepared: Option<Arc<Prepared>>, parameters: Vec<u32>, round: u64) -> Self {
        Self { prepared, parameters, round, claim: OnceLock::new() }
    }

    /// The statement's own text.
    pub(super) fn text(&self) -> &str {
        self.prepared.as_ref().map_or("", |prepared| prepared.parsed().text())
    }

    /// Columns of the result.
    pub(super) fn columns(&self) -> usize {
        let schema = self.prepared.as_ref().and_then(|prepared| prepared.result());
        schema.map_or(0, |schema| schema.fields().len())
    }

    /// Counts the statement once; `name` is its name.
    pub(super) fn keep(&self, name: &str, budget: &Budget) -> Result<()> {
        if self.claim.get().is_some() {
            return Ok(());
        }
        let bytes = STATEMENT_BYTES
            .saturating_add(name.len())
            .saturating_add(self.prepared.as_ref().map_or(0, |prepared| prepared.memory_bytes()))
            .saturating_add(self.parameters.len().saturating_mul(PARAMETER_BYTES))
            .saturating_add(self.columns().saturating_mul(COLUMN_BYTES));
        // No other task sets the claim: a statement belongs to a single connection.
        let _ = self.claim.set(claimed(budget, bytes, "prepared statement")?);
        Ok(())
    }
}

/// A statement with its parameters.
pub(crate) struct Portal {
    pub(super) statement: Arc<Statement>,
    pub(super) formats: Vec<i16>,
    pub(super) state: PortalState,
    /// `None` for the unnamed portal.
    _claim: Option<Claim>,
}

pub(super) enum PortalState {
    /// Not yet run.
    Bound(Vec<ScalarValue>),
    /// The result is open, or at its end.
    Reading(Box<Cursor>),
    /// The statement has run or has failed.
    Finished,
}

impl Portal {
    /// A portal with the name `name`.
    pub(super) fn new(
        name: &str,
        statement: Arc<Statement>,
        formats: Vec<i16>,
        values: Vec<ScalarValue>,
        budget: &Budget,
    ) -> Result<Self> {
        let claim = if name.is_empty() {
            None
        } else {
            statement.keep("", budget)?;
            let bytes = PORTAL_BYTES
                .saturating_add(name.len())
                .saturating_add(size_of_val(formats.as_slice()));
            let bytes = values.iter().fold(bytes, |sum, value| sum.saturating_add(value.size()));
            Some(claimed(budget, bytes, "portal")?)
        };
        Ok(Self { statement, formats, state: PortalState::Bound(values), _claim: claim })
    }
}

fn claimed(budget: &Budget, bytes: usize, what: &str) -> Result<Claim> {
    budget.claim(bytes).ok_or_else(|| {
        Error::new(
            ErrorKind::LimitExceeded,
            format!(
                "no room for a {what} of about {bytes} bytes: the statements and portals of this connection use {} of {} bytes",
                budget.used(),
                budget.bytes_max()
            ),
        )
        .with_hint(
            "close unneeded prepared statements (DEALLOCATE) and portals, or end the transaction to close its portals",
        )
    })
}
