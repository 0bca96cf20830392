//! What is kept for a client from one message to the next: statements and portals that
//! it gave a name.
//!
//! The unnamed statement and portal are not counted: there is one of each, no larger than
//! a message, and so a message that is allowed always works. An unnamed statement that a
//! named portal goes on using is counted like a named one.

use std::sync::{Arc, OnceLock};

use datafusion::common::ScalarValue;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_query::Prepared;

use super::cursor::Cursor;
use crate::budget::{Budget, Claim};

/// What a statement or portal takes at the least.
const STATEMENT_BYTES: usize = 8 << 10;
const PORTAL_BYTES: usize = 1 << 10;

/// Copies of a text that its tree and its plan hold.
const COPIES: usize = 4;

/// What a byte of SQL becomes, as node of a tree and of a plan. The text of literals does not.
const NODE_BYTES: usize = 128;

/// What a parameter and a column of the result take.
const PARAMETER_BYTES: usize = 48;
const COLUMN_BYTES: usize = 512;

/// A prepared statement.
#[derive(Debug)]
pub(crate) struct Statement {
    /// `None` for an empty string.
    pub(super) prepared: Option<Arc<Prepared>>,
    /// Object ids of the parameters, as the client declared or the server found them.
    pub(super) parameters: Vec<u32>,
    /// Round of the protocol, from one Sync to the next, in which it was parsed.
    pub(super) round: u64,
    /// Given back when neither a name nor a portal leads here any more.
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

    /// Counts the statement, once; `name` is what it is kept by.
    pub(super) fn keep(&self, name: &str, budget: &Budget) -> Result<()> {
        if self.claim.get().is_some() {
            return Ok(());
        }
        let bytes = STATEMENT_BYTES
            .saturating_add(name.len())
            .saturating_add(text_bytes(self.text()))
            .saturating_add(self.parameters.len().saturating_mul(PARAMETER_BYTES))
            .saturating_add(self.columns().saturating_mul(COLUMN_BYTES));
        // Nobody else sets it: a statement belongs to one connection.
        let _ = self.claim.set(claimed(budget, bytes, "prepared statement")?);
        Ok(())
    }
}

/// A statement with its parameters.
pub(crate) struct Portal {
    pub(super) statement: Arc<Statement>,
    pub(super) formats: Vec<i16>,
    pub(super) state: PortalState,
    /// `None` for the unnamed one.
    _claim: Option<Claim>,
}

pub(super) enum PortalState {
    /// Not yet run.
    Bound(Vec<ScalarValue>),
    /// Has rows left, or had.
    Reading(Box<Cursor>),
    /// Ran, or failed.
    Finished,
}

impl Portal {
    /// A portal that is kept by `name`.
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

/// What a statement of this text holds, about: measured, and on the safe side for none
/// but rows of very short values.
fn text_bytes(text: &str) -> usize {
    let mut quoted = false;
    let mut bytes = text.len().saturating_mul(COPIES);
    for byte in text.bytes() {
        if byte == b'\'' {
            quoted = !quoted;
        } else if !quoted {
            bytes = bytes.saturating_add(NODE_BYTES);
        }
    }
    bytes
}

fn claimed(budget: &Budget, bytes: usize, what: &str) -> Result<Claim> {
    budget.claim(bytes).ok_or_else(|| {
        Error::new(
            ErrorKind::LimitExceeded,
            format!(
                "no room for a {what} of about {bytes} bytes: the statements and portals of this connection hold {} of {} bytes",
                budget.used(),
                budget.bytes_max()
            ),
        )
        .with_hint(
            "close prepared statements (DEALLOCATE) and portals that are no longer needed, or end the transaction, and its portals with it",
        )
    })
}
