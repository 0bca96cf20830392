//! The rights of a session.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Statement;
use stratalog_model::{ChronicleId, Error, ErrorKind, Result};
use stratalog_visor_core::{
    CatalogState,
    access::{Columns, Identity, Object, Privilege, Role},
};

use super::{Session, variables::Variables};
use crate::{
    AuditRecord, Parsed, StatementKind, service::SUCCESS, statement::column_reads::ColumnReads,
};

/// Calls of functions that act on other sessions or on the server, in lower case.
const AUDITED_CALLS: [&str; 2] = ["pg_terminate_backend", "pg_cancel_backend"];

/// The settings that ALTER ROLE … SET gives to the sessions of a role. A setting that is no longer
/// valid is left out, so that the role can log in.
pub(super) fn settings_of(role: &Role) -> Vec<(String, String)> {
    let is_valid = |pair: &&(String, String)| {
        let checked = Variables::new(("", false), std::slice::from_ref(*pair), Arc::default());
        if let Err(error) = &checked {
            let (role, setting) = (&role.name, &pair.0);
            tracing::warn!(%error, role, setting, "a setting of a role is invalid");
        }
        checked.is_ok()
    };
    role.settings.iter().filter(is_valid).cloned().collect()
}

impl Session {
    /// On whose behalf the session's statements run now.
    pub fn identity(&self) -> Identity {
        self.seen.identity()
    }

    /// The identity of the login, without SET ROLE.
    pub(crate) fn login_identity(&self) -> Identity {
        *self.seen.login.read()
    }

    /// Changes the identity of the login. All plans of the session become stale.
    pub(crate) fn become_identity(&self, identity: Identity) {
        *self.seen.login.write() = identity;
        self.variables.outdate();
        // An invalid identity fails at the next statement.
        let _ = self.show_identity();
    }

    /// Sets the settings that show the session's identity to clients.
    ///
    /// # Errors
    /// `InvalidAuthorization` if the identity is not valid.
    pub(crate) fn show_identity(&self) -> Result<()> {
        let catalog = &self.parts().catalog;
        let state = catalog.state();
        let rights = state.access().rights(&self.identity(), catalog.now_ns())?;
        self.variables.show_identity(rights.is_superuser(), state.access().is_protected());
        Ok(())
    }

    /// The catalog with all chronicles, also those that the session may not know of.
    pub(crate) fn whole_catalog(&self) -> Arc<CatalogState> {
        self.seen.whole()
    }

    /// Checks that the session may use a privilege on an object now.
    ///
    /// # Errors
    /// See [`CatalogState::authorize`].
    pub fn authorize(
        &self,
        privilege: Privilege,
        object: Object,
        columns: Columns<'_>,
    ) -> Result<()> {
        let now_ns = self.parts().catalog.now_ns();
        self.whole_catalog().authorize(&self.identity(), privilege, object, columns, now_ns)
    }

    /// Checks that the session may connect to its database.
    ///
    /// # Errors
    /// `InsufficientPrivilege` without the privilege CONNECT.
    pub(crate) fn check_connect(&self) -> Result<()> {
        if self.identity() == Identity::System {
            return Ok(());
        }
        let state = self.whole_catalog();
        let Some(database) = state.database_object(self.database()) else { return Ok(()) };
        self.authorize(Privilege::Connect, database, Columns::All)
    }

    /// Checks the CONNECTION LIMIT of the session's role; `open` are the other sessions.
    ///
    /// # Errors
    /// `TooManyConnections`.
    pub(crate) fn check_connection_limit(&self, open: &[Arc<Session>]) -> Result<()> {
        let Identity::Role(own) = self.login_identity() else { return Ok(()) };
        let state = self.whole_catalog();
        let Some(role) = state.access().role(own.session) else { return Ok(()) };
        let Some(most) = role.attributes.connections_max else { return Ok(()) };
        if role.attributes.superuser {
            return Ok(());
        }
        // A twin belongs to the same connection.
        let is_other = |other: &&Arc<Session>| {
            other.holder() != self.holder()
                && matches!(other.login_identity(), Identity::Role(roles) if roles.session == own.session)
        };
        let holders: std::collections::BTreeSet<_> =
            open.iter().filter(is_other).map(|other| other.holder().0).collect();
        match holders.len() < usize::try_from(most).unwrap_or(usize::MAX) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::TooManyConnections,
                format!("too many connections for role \"{}\"", role.name),
            )
            .with_hint("close connections, or ALTER ROLE … CONNECTION LIMIT")),
        }
    }

    /// Checks that the session may read columns now.
    ///
    /// # Errors
    /// See [`ColumnReads::check`].
    pub(crate) fn check_reads(&self, reads: &ColumnReads) -> Result<()> {
        self.seen.check_reads(reads)
    }

    /// Checks that the session may use a privilege on a whole chronicle now.
    ///
    /// # Errors
    /// See [`CatalogState::authorize`].
    pub(crate) fn authorize_on(&self, privilege: Privilege, chronicle: ChronicleId) -> Result<()> {
        self.authorize(privilege, Object::Chronicle(chronicle), Columns::All)
    }

    /// Stores an audit record about a statement that has ended, if the statement changed rights,
    /// definitions or stored events, or was denied. The record is durable before the client gets
    /// the result.
    ///
    /// # Errors
    /// The error of the statement itself. If the statement succeeded and no record could be stored:
    /// the error of the store, with the note that the statement was carried out.
    pub(crate) async fn audited<T>(&self, parsed: &Parsed, result: Result<T>) -> Result<T> {
        let is_denied = |error: &Error| {
            let kind = error.kind();
            matches!(kind, ErrorKind::InsufficientPrivilege | ErrorKind::InvalidAuthorization)
        };
        let (event, sqlstate, detail) = match &result {
            Err(error) if is_denied(error) => {
                ("denied", error.kind().sqlstate(), Some(error.message().to_string()))
            }
            _ if !is_audited(parsed) => return result,
            Ok(_) => ("statement", SUCCESS, None),
            Err(error) => ("statement", error.kind().sqlstate(), Some(error.message().to_string())),
        };
        let statement = Some(parsed.text().to_string());
        let record = AuditRecord { statement, sqlstate, detail, ..self.audit_record(event) };
        let Err(error) = self.service.audit(record).await else { return result };
        tracing::error!(%error, "no audit record could be stored");
        match result {
            Ok(_) => Err(Error::new(
                error.kind(),
                format!("the audit log could not be written: {}", error.message()),
            )
            .with_detail("The statement itself was carried out.")
            .with_hint("free disk space, then check the result of the statement")),
            denied => denied,
        }
    }

    /// Checks that the identity of the session is still valid: the role exists, the token was not
    /// revoked and has not expired.
    ///
    /// # Errors
    /// `InvalidAuthorization`.
    pub(crate) fn check_identity(&self) -> Result<()> {
        let (login, identity) = (self.login_identity(), self.identity());
        if identity == Identity::System {
            return Ok(());
        }
        let catalog = &self.parts().catalog;
        let (state, now_ns) = (catalog.state(), catalog.now_ns());
        let access = state.access();
        if login == identity {
            return access.rights(&identity, now_ns).map(drop);
        }
        // SET ROLE may name a role that the open block has created.
        match access.role(identity.current()) {
            Some(_) => access.rights(&identity, now_ns).map(drop)?,
            None => self.whole_catalog().access().rights(&identity, now_ns).map(drop)?,
        }
        access.rights(&login, now_ns)?;
        // SET SESSION AUTHORIZATION needs the login of a superuser also afterwards.
        let is_other = self.variables.chosen_roles().session.is_some();
        match is_other && !access.is_superuser(login.session()) {
            true => Err(Error::new(
                ErrorKind::InvalidAuthorization,
                "the role of the connection is no longer a superuser, as SET SESSION AUTHORIZATION needs",
            )
            .with_hint("connect again")),
            false => Ok(()),
        }
    }
}

/// True if each run of the statement leaves an audit record: definitions, grants, CALL, DELETE,
/// TRIM, TRUNCATE, and calls that end other sessions.
fn is_audited(parsed: &Parsed) -> bool {
    let removes = || {
        let statement = parsed.statement();
        matches!(statement, Statement::Delete(_) | Statement::Truncate(_))
    };
    match parsed.kind() {
        StatementKind::Definition => true,
        StatementKind::Write => removes(),
        StatementKind::Read => {
            let text = parsed.text();
            AUDITED_CALLS.iter().any(|call| contains_ignoring_case(text, call))
        }
        StatementKind::Session | StatementKind::Transaction => false,
    }
}

fn contains_ignoring_case(text: &str, wanted: &str) -> bool {
    text.as_bytes().windows(wanted.len()).any(|part| part.eq_ignore_ascii_case(wanted.as_bytes()))
}
