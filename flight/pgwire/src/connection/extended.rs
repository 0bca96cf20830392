//! The extended query protocol: prepared statements, portals, and suspended results.

use std::sync::Arc;

use stratalog_model::{ColumnType, Error, ErrorKind};
use stratalog_query::{Outcome, Parsed, Prepared, PreparedBy};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    Connection, Step, StepEnd,
    cursor::Cursor,
    portal::{Portal, PortalState, Statement},
};
use crate::{
    encode::format_of,
    frontend::{Bind, Close, Describe, Execute, Parse, Target},
    parameter::decode,
    types::{column_type, element_of, named_type, oid, wire_type},
};

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(super) async fn parse(&mut self, parse: Parse) -> Step<()> {
        if parse.name.is_empty() {
            self.statements.remove("");
        } else if self.statements.contains_key(&parse.name)
            || self.session.prepared_statement(&parse.name).is_some()
        {
            return Err(StepEnd::Error(Error::new(
                ErrorKind::DuplicatePreparedStatement,
                format!("prepared statement \"{}\" already exists", parse.name),
            )));
        }
        if self.statements.len() >= self.settings.statements_max {
            return Err(StepEnd::Error(
                Error::new(
                    ErrorKind::LimitExceeded,
                    format!("more than {} prepared statements", self.settings.statements_max),
                )
                .with_hint("close unneeded prepared statements"),
            ));
        }
        let parsed = self.session.parse(&parse.sql)?;
        let statement = match parsed.as_slice() {
            [] => Statement::new(None, parse.types, self.rounds),
            [one] => self.prepare(one, parse.types).await?,
            _ => {
                return Err(StepEnd::Error(Error::new(
                    ErrorKind::SyntaxError,
                    "cannot insert multiple commands into a prepared statement",
                )));
            }
        };
        if !parse.name.is_empty() {
            statement.keep(&parse.name, &self.prepared_budget)?;
            if let Some(prepared) = &statement.prepared {
                let by = PreparedBy::Protocol(statement.parameters.clone());
                self.session.keep(&parse.name, Arc::clone(prepared), by)?;
            }
        }
        self.statements.insert(parse.name, Arc::new(statement));
        self.out.parse_complete()?;
        Ok(())
    }

    async fn prepare(&mut self, parsed: &Arc<Parsed>, declared: Vec<u32>) -> Step<Statement> {
        let types: Vec<Option<ColumnType>> = declared.iter().map(|id| column_type(*id)).collect();
        let has_numeric = declared.iter().any(|id| numeric_type(*id).is_some());
        // In an expression with two numerics, a parameter takes the precision of the other operand.
        let fits = |prepared: &Prepared, at: usize, numeric: &ColumnType| {
            match prepared.parameter_types().get(at) {
                Some(ColumnType::Numeric { .. }) => true,
                Some(ColumnType::Array(_)) => matches!(numeric, ColumnType::Array(_)),
                // The parameter has the type of a column or of a cast.
                Some(ColumnType::Double | ColumnType::Real | ColumnType::Text) => {
                    !prepared.is_guessed(at)
                }
                _ => false,
            }
        };
        let numbers = declared.clone();
        let parameter_types = move |prepared: Option<&Prepared>| -> Vec<Option<ColumnType>> {
            let all = numbers.iter().enumerate();
            all.map(|(at, id)| match numeric_type(*id) {
                Some(numeric) if prepared.is_some_and(|prepared| fits(prepared, at, &numeric)) => {
                    None
                }
                Some(numeric) => Some(numeric),
                None => column_type(*id),
            })
            .collect()
        };
        let session = Arc::clone(&self.session);
        let statement = Arc::clone(parsed);
        let prepared = self
            .watched(async move {
                if !has_numeric {
                    return session.prepare(&statement, &types).await;
                }
                let first = session.try_prepare(&statement, &types).await.ok();
                let parameter_types = parameter_types(first.as_deref());
                match first {
                    Some(prepared) if parameter_types == types => Ok(prepared),
                    _ => session.prepare(&statement, &parameter_types).await,
                }
            })
            .await?;
        let parameters = prepared
            .parameter_types()
            .iter()
            .enumerate()
            .map(|(at, found)| match declared.get(at) {
                None | Some(0 | &oid::UNKNOWN) => {
                    let named = prepared.shown_type(at).and_then(named_type);
                    named.map_or_else(|| wire_type(found).oid, |named| named.oid)
                }
                Some(declared) => *declared,
            })
            .collect();
        Ok(Statement::new(Some(prepared), parameters, self.rounds))
    }

    pub(super) fn bind(&mut self, bind: Bind) -> Step<()> {
        let statement = Arc::clone(self.statement(&bind.statement)?);
        if bind.portal.is_empty() {
            self.portals.remove("");
        } else if self.portals.contains_key(&bind.portal) {
            return Err(StepEnd::Error(Error::new(
                ErrorKind::DuplicateCursor,
                format!("cursor \"{}\" already exists", bind.portal),
            )));
        }
        if self.portals.len() >= self.settings.portals_max {
            return Err(StepEnd::Error(
                Error::new(
                    ErrorKind::LimitExceeded,
                    format!("more than {} portals", self.settings.portals_max),
                )
                .with_hint("close unneeded portals, or end the transaction"),
            ));
        }
        let violation =
            |message: String| StepEnd::Error(Error::new(ErrorKind::ProtocolViolation, message));
        let expected = statement.prepared.as_ref().map_or(0, |p| p.parameter_types().len());
        if bind.values.len() != expected {
            return Err(violation(format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {expected}",
                bind.values.len(),
                bind.statement
            )));
        }
        if bind.formats.len() > 1 && bind.formats.len() != bind.values.len() {
            return Err(violation(format!(
                "bind message has {} parameter formats but {} parameters",
                bind.formats.len(),
                bind.values.len()
            )));
        }
        let columns = statement.columns();
        if bind.result_formats.len() > 1 && bind.result_formats.len() != columns {
            return Err(violation(format!(
                "bind message has {} result formats but query has {columns} columns",
                bind.result_formats.len()
            )));
        }
        if let Some(format) = bind.result_formats.iter().find(|code| !matches!(code, 0 | 1)) {
            return Err(StepEnd::Error(Error::new(
                ErrorKind::InvalidParameterValue,
                format!("unsupported format code: {format}"),
            )));
        }
        let mut values = Vec::with_capacity(bind.values.len());
        if let Some(prepared) = &statement.prepared {
            let style = self.session.text_style();
            for (at, (value, target)) in
                bind.values.iter().zip(prepared.parameter_types()).enumerate()
            {
                let wire = statement.parameters.get(at).copied().unwrap_or(0);
                let format = format_of(&bind.formats, at);
                let value =
                    decode(value.as_ref(), format, wire, target, &style).map_err(|error| {
                        let name = match bind.portal.as_str() {
                            "" => "unnamed portal".to_string(),
                            portal => format!("portal \"{portal}\""),
                        };
                        error.with_context(format!("{name} parameter ${}", at + 1))
                    })?;
                values.push(value);
            }
        }
        let portal = Portal::new(
            &bind.portal,
            statement,
            bind.result_formats,
            values,
            &self.prepared_budget,
        )?;
        self.portals.insert(bind.portal, portal);
        self.out.bind_complete()?;
        Ok(())
    }

    pub(super) fn describe(&mut self, describe: &Describe) -> Step<()> {
        let (statement, formats) = match describe.target {
            Target::Statement => {
                let statement = Arc::clone(self.statement(&describe.name)?);
                self.out.parameter_description(statement.parameters.clone())?;
                (statement, Vec::new())
            }
            Target::Portal => match self.portals.get(&describe.name) {
                Some(portal) => (Arc::clone(&portal.statement), portal.formats.clone()),
                None => {
                    let cursor = self.session.cursor_schema(&describe.name);
                    let schema = cursor.ok_or_else(|| no_portal(&describe.name))?;
                    self.out.row_description(&schema, |_| 0)?;
                    return Ok(());
                }
            },
        };
        let prepared = statement.prepared.as_ref();
        let cursor = prepared.and_then(|prepared| prepared.parsed().fetches());
        let fetched = cursor.and_then(|cursor| self.session.cursor_schema(&cursor));
        match fetched.as_ref().or_else(|| prepared.and_then(|prepared| prepared.result())) {
            Some(schema) => {
                self.out.row_description(schema, |column| format_of(&formats, column))?;
            }
            None => self.out.no_data()?,
        }
        Ok(())
    }

    pub(super) async fn execute(&mut self, execute: &Execute) -> Step<()> {
        let Some(mut cursor) = self.open_portal(&execute.portal).await? else {
            return self.tell();
        };
        let sent = if cursor.is_ended() {
            0
        } else {
            self.send_rows(&mut cursor, execute.rows_max).await?
        };
        if cursor.is_ended() {
            let tag = cursor.rows().tag_kind().after(sent);
            self.complete(&tag)?;
        } else {
            self.out.suspended()?;
        }
        if let Some(portal) = self.portals.get_mut(&execute.portal) {
            portal.state = PortalState::Reading(cursor);
        }
        self.tell()
    }

    /// Skips rows of a portal, for the SQL command MOVE with the portal's name; `None` for an
    /// unknown portal.
    pub(super) async fn skip_portal_rows(
        &mut self,
        portal: &str,
        rows: Option<u64>,
    ) -> Step<Option<u64>> {
        if rows == Some(0) || !self.portals.contains_key(portal) {
            return Ok(None);
        }
        let Some(mut cursor) = self.open_portal(portal).await? else { return Ok(Some(0)) };
        let passed = self.pass_rows(&mut cursor, rows.unwrap_or(u64::MAX), false).await?;
        if let Some(portal) = self.portals.get_mut(portal) {
            portal.state = PortalState::Reading(cursor);
        }
        Ok(Some(passed))
    }

    /// Returns the result rows of a portal, for reading. A statement that returns no rows runs
    /// here: then the function sends the answer and returns `None`.
    async fn open_portal(&mut self, name: &str) -> Step<Option<Box<Cursor>>> {
        let portal = self.portals.get_mut(name).ok_or_else(|| no_portal(name))?;
        // After an error, or if this future is dropped, the portal stays finished.
        let state = std::mem::replace(&mut portal.state, PortalState::Finished);
        let statement = Arc::clone(&portal.statement);
        let formats = portal.formats.clone();
        let values = match state {
            PortalState::Reading(cursor) => {
                cursor.rows().check_rights()?;
                return Ok(Some(cursor));
            }
            PortalState::Finished => {
                return Err(StepEnd::Error(Error::new(
                    ErrorKind::ObjectNotInPrerequisiteState,
                    format!("portal \"{name}\" cannot be run"),
                )));
            }
            PortalState::Bound(values) => values,
        };
        let Some(prepared) = statement.prepared.clone() else {
            self.out.empty_query()?;
            return Ok(None);
        };
        let more = !self.reader.is_sync_next();
        self.enter_implicit(prepared.parsed(), more).await?;
        let outcome = match self.deallocate(statement.text()) {
            Some(outcome) => outcome,
            None => {
                let session = Arc::clone(&self.session);
                // PostgreSQL locks the tables of a statement from Parse to Sync. So a plan made in
                // the same round is still valid.
                let is_current = statement.round == self.rounds;
                self.watched(async move {
                    match is_current {
                        true => session.execute_with_reported_columns(&prepared, values).await,
                        false => session.execute(&prepared, values).await,
                    }
                })
                .await?
            }
        };
        match outcome {
            Outcome::Rows(rows) => {
                Ok(Some(Box::new(Cursor::new(rows, formats, self.session.result_style()))))
            }
            other => {
                self.answer_without_rows(other).await?;
                Ok(None)
            }
        }
    }

    pub(super) fn close(&mut self, close: &Close) -> Step<()> {
        // Closing an unknown statement or portal is not an error.
        match close.target {
            Target::Statement => {
                self.statements.remove(&close.name);
                self.session.forget(&close.name);
            }
            Target::Portal => {
                if self.portals.remove(&close.name).is_none() {
                    self.session.close_cursor(&close.name);
                }
            }
        }
        self.out.close_complete()?;
        Ok(())
    }

    fn statement(&self, name: &str) -> Step<&Arc<Statement>> {
        self.statements.get(name).ok_or_else(|| {
            let which = match name {
                "" => "unnamed prepared statement".to_string(),
                name => format!("prepared statement \"{name}\""),
            };
            StepEnd::Error(Error::new(
                ErrorKind::UndefinedPreparedStatement,
                format!("{which} does not exist"),
            ))
        })
    }

    /// Applies DEALLOCATE and DISCARD ALL also to the statements prepared by Parse messages,
    /// because SQL's PREPARE and the protocol share one set of names. `None` if the session must
    /// run the statement.
    pub(super) fn deallocate(&mut self, text: &str) -> Option<Outcome> {
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?;
        if first.eq_ignore_ascii_case("discard") {
            if words.next()?.trim_end_matches(';').eq_ignore_ascii_case("all") {
                self.statements.clear();
                self.portals.clear();
            }
            return None;
        }
        if !first.eq_ignore_ascii_case("deallocate") {
            return None;
        }
        let mut name = words.next()?;
        if name.eq_ignore_ascii_case("prepare") {
            name = words.next()?;
        }
        let name = name.trim_end_matches(';');
        if name.eq_ignore_ascii_case("all") {
            self.statements.clear();
            return None;
        }
        let name = match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => name.to_ascii_lowercase(),
        };
        // The session also knows the statement and must drop it, unless the text of the statement
        // is empty.
        let is_empty = self.statements.remove(&name)?.prepared.is_none();
        is_empty.then(|| Outcome::Done("DEALLOCATE".to_string()))
    }
}

fn no_portal(name: &str) -> StepEnd {
    StepEnd::Error(Error::new(
        ErrorKind::InvalidCursorName,
        format!("portal \"{name}\" does not exist"),
    ))
}

/// The type with the object id `id`, if this type is numeric or an array of numerics. The object id
/// does not contain a precision.
fn numeric_type(id: u32) -> Option<ColumnType> {
    match id {
        oid::NUMERIC => Some(ColumnType::NUMERIC),
        id if element_of(id) == Some(oid::NUMERIC) => {
            Some(ColumnType::Array(Box::new(ColumnType::NUMERIC)))
        }
        _ => None,
    }
}
