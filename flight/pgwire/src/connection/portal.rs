//! The prepared statements and portals of a connection, and the memory budget for the named ones.
//!
//! The unnamed statement and the unnamed portal do not count toward the budget: a connection has at
//! most one of each, and each is at most as large as a message. Thus every message within the size
//! limit works. If a named portal uses the unnamed statement, the statement counts.

use std::sync::{Arc, OnceLock};

use datafusion::common::ScalarValue;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::Prepared;

use super::cursor::Cursor;
use crate::budget::{Budget, Claim};

/// Bytes that each statement or portal adds to the budget, in addition to its contents.
const STATEMENT_BYTES: usize = 8 << 10;
const PORTAL_BYTES: usize = 1 << 10;

/// The bytes that each parameter, and each column of the result, adds to the budget.
const PARAMETER_BYTES: usize = 48;
const COLUMN_BYTES: usize = 512;

/// A prepared statement, named or unnamed.
#[derive(Debug)]
pub(crate) struct Statement {
    /// `None` for an empty statement text.
    pub(super) prepared: Option<Arc<Prepared>>,
    /// Object ids of the parameters' types, declared by the client or determined by the planner.
    pub(super) parameters: Vec<u32>,
    /// The number of the round in which the Parse message came. A round lasts from one Sync to the
    /// next.
    pub(super) round: u64,
    /// The statement's share of the budget, which is freed when no name and no portal refers to the
    /// statement.
    claim: OnceLock<Claim>,
}

impl Statement {
    pub(super) fn new(prepared: Option<Arc<Prepared>>, parameters: Vec<u32>, round: u64) -> Self {
        Self { prepared, parameters, round, claim: OnceLock::new() }
    }

    /// The SQL text of the statement.
    pub(super) fn text(&self) -> &str {
        self.prepared.as_ref().map_or("", |prepared| prepared.parsed().text())
    }

    /// The number of columns of the result.
    pub(super) fn columns(&self) -> usize {
        let schema = self.prepared.as_ref().and_then(|prepared| prepared.result());
        schema.map_or(0, |schema| schema.fields().len())
    }

    /// Adds the statement to the budget, unless it is already counted. `name` is the statement's
    /// name for the error message.
    pub(super) fn keep(&self, name: &str, budget: &Budget) -> Result<()> {
        if self.claim.get().is_some() {
            return Ok(());
        }
        let bytes = STATEMENT_BYTES
            .saturating_add(name.len())
            .saturating_add(self.prepared.as_ref().map_or(0, |prepared| prepared.memory_bytes()))
            .saturating_add(self.parameters.len().saturating_mul(PARAMETER_BYTES))
            .saturating_add(self.columns().saturating_mul(COLUMN_BYTES));
        // A statement belongs to one connection, so no other task sets the claim.
        let _ = self.claim.set(claimed(budget, bytes, "prepared statement")?);
        Ok(())
    }
}

/// A statement with the values of its parameters.
pub(crate) struct Portal {
    pub(super) statement: Arc<Statement>,
    pub(super) formats: Vec<i16>,
    pub(super) state: PortalState,
    /// The portal's share of the budget; `None` for the unnamed portal.
    _claim: Option<Claim>,
}

pub(super) enum PortalState {
    /// The statement has not yet run. The vector contains the values of the parameters.
    Bound(Vec<ScalarValue>),
    /// The client reads the result, or has reached its end.
    Reading(Box<Cursor>),
    /// The statement returned no rows, or has failed.
    Finished,
}

impl Portal {
    /// Creates a portal with the name `name`. Unless the name is empty, the portal counts toward
    /// the budget.
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
