//! Data about sessions and settings for the system tables.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::RwLock;
use stratalog_model::{ChronicleId, Error, ErrorKind, Result};
use stratalog_pg_catalog::{
    CatalogView, CopyRow, SessionRow, SessionsView, SettingRow, SettingsView,
};
use stratalog_visor_core::{
    Catalog, CatalogState,
    access::{Columns, Identity, Object, Privilege, RoleIdentity},
};

use super::{
    Session, TransactionState,
    transaction::Transaction,
    variables::{ChosenRoles, ListedSetting, Rule, Variables, duration_ms},
    work::Stop,
};
use crate::{service::Sessions, statement::column_reads::ColumnReads};

/// The catalog as a session sees it, including the definitions of its open block.
#[derive(Debug)]
pub struct SessionCatalogView {
    /// The common catalog.
    pub catalog: Arc<Catalog>,
    /// The transaction state of the session.
    pub transaction: Arc<Transaction>,
    /// The identity of the login.
    pub login: RwLock<Identity>,
    /// The settings of the session, among them the roles of SET ROLE and SET SESSION AUTHORIZATION.
    pub variables: Arc<Variables>,
}

impl SessionCatalogView {
    /// The catalog with all chronicles, also those that the session may not know of: for
    /// definitions, which check the rights themselves.
    pub fn whole(&self) -> Arc<CatalogState> {
        self.transaction.catalog().unwrap_or_else(|| self.catalog.state())
    }

    /// The identity of the session's statements: the login, or the roles of SET ROLE and SET SESSION
    /// AUTHORIZATION.
    pub fn identity(&self) -> Identity {
        let login = *self.login.read();
        let ChosenRoles { session, current } = self.variables.chosen_roles();
        if session.is_none() && current.is_none() {
            return login;
        }
        let (token, expires_ns) = match login {
            // The trust ends for all sessions, also after SET ROLE.
            Identity::Trusted if self.catalog.state().access().is_protected() => return login,
            Identity::System | Identity::Trusted => (None, None),
            Identity::Role(roles) => (roles.token, roles.expires_ns),
        };
        let session = session.unwrap_or_else(|| login.session());
        let current = current.unwrap_or(session);
        Identity::Role(RoleIdentity { session, current, token, expires_ns })
    }
}

impl SessionCatalogView {
    /// Checks that the session may read the columns now.
    ///
    /// # Errors
    /// See [`ColumnReads::check`]; `InsufficientPrivilege` if row policies would filter rows after
    /// `SET row_security = off`.
    pub fn check_reads(&self, reads: &ColumnReads) -> Result<()> {
        let filtered = match reads.has_policies() {
            true if self.variables.get("row_security").is_some_and(|value| value == "off") => {
                reads.filtered()
            }
            _ => None,
        };
        reads.check(&self.whole(), self.identity(), || self.catalog.now_ns())?;
        filtered.map_or(Ok(()), Err)
    }

    /// Checks that the session may subscribe to a chronicle and read its columns now.
    ///
    /// # Errors
    /// The errors of [`Self::check_reads`] and [`CatalogState::authorize`].
    pub fn check_subscription(&self, chronicle: ChronicleId, reads: &ColumnReads) -> Result<()> {
        self.check_reads(reads)?;
        let (object, now_ns) = (Object::Chronicle(chronicle), self.catalog.now_ns());
        let (identity, privilege) = (self.identity(), Privilege::Subscribe);
        self.whole().authorize(&identity, privilege, object, Columns::All, now_ns)
    }
}

impl CatalogView for SessionCatalogView {
    fn state(&self) -> Arc<CatalogState> {
        let (whole, identity) = (self.whole(), self.identity());
        match self.catalog.visible(Arc::clone(&whole), &identity) {
            Ok(visible) => visible,
            // The session's next statement fails; until then, the session sees no table.
            Err(_) => Arc::new(whole.without_chronicles()),
        }
    }

    fn identity(&self) -> Identity {
        Self::identity(self)
    }
}

/// The open sessions of a service.
#[derive(Debug)]
pub struct OpenSessions {
    /// The sessions.
    pub sessions: Arc<Sessions>,
    /// True if the session that reads the list may only read.
    pub confined: Arc<AtomicBool>,
    /// The rights of the session that reads the list.
    pub seen: Arc<SessionCatalogView>,
}

/// The text in place of a statement of another role, as in PostgreSQL.
const HIDDEN: &str = "<insufficient privilege>";

impl OpenSessions {
    /// The session that a call cancels or terminates, by process id; `None` without such a session.
    ///
    /// # Errors
    /// `ReadOnlyTransaction` for a confined session.
    fn to_act_on(&self, process_id: i32) -> Result<Option<Arc<Session>>> {
        if self.confined.load(Ordering::Acquire) {
            return Err(Error::new(
                ErrorKind::ReadOnlyTransaction,
                "a request that may only read cannot cancel or end other sessions",
            )
            .with_hint("send the statement with POST"));
        }
        let mut open = self.sessions.open().into_iter();
        let Some(found) = open.find(|session| session.process_id() == process_id) else {
            return Ok(None);
        };
        self.check_signal(&found)?;
        Ok(Some(found))
    }

    /// Checks that the reading session may cancel or end another session: a session of its role, of
    /// a role of which it is a member, or of any role but a superuser with `pg_signal_backend`.
    fn check_signal(&self, other: &Session) -> Result<()> {
        let state = self.seen.whole();
        let access = state.access();
        let rights = access.rights(&self.seen.identity(), self.seen.catalog.now_ns())?;
        let role = other.identity().session();
        let server = Object::Server;
        let is_superuser =
            access.is_superuser(role) || access.is_superuser(other.login_identity().session());
        let message = match is_superuser {
            _ if rights.is_unlimited() => return Ok(()),
            true if rights.is_superuser()
                && rights.has(Privilege::Signal, server, Columns::All) =>
            {
                return Ok(());
            }
            true => "must be a superuser to cancel or terminate a superuser's session",
            false if rights.includes(role) && rights.scope_allows_all() => return Ok(()),
            false if rights.has(Privilege::Signal, server, Columns::All) => return Ok(()),
            false => {
                "must be a member of the role whose session is cancelled or terminated, or a member of pg_signal_backend"
            }
        };
        Err(Error::new(ErrorKind::InsufficientPrivilege, message))
    }
}

impl SessionsView for OpenSessions {
    fn sessions(&self) -> Vec<SessionRow> {
        let state = self.seen.whole();
        let rights = state.access().rights(&self.seen.identity(), self.seen.catalog.now_ns());
        let Ok(rights) = rights else { return Vec::new() };
        let sees_all = rights.has(Privilege::Monitor, Object::Server, Columns::All);
        self.sessions
            .open()
            .iter()
            .map(|session| {
                let is_shown = sees_all || rights.includes(session.identity().session());
                if !is_shown {
                    return SessionRow {
                        process_id: session.process_id(),
                        user: session.login().user.clone(),
                        database: session.connected_to().to_string(),
                        query: HIDDEN.to_string(),
                        ..SessionRow::default()
                    };
                }
                let activity = session.activity();
                let login = session.login();
                let state = match session.transaction() {
                    _ if session.is_running() => "active",
                    TransactionState::Idle => "idle",
                    TransactionState::Block => "idle in transaction",
                    TransactionState::Failed => "idle in transaction (aborted)",
                };
                SessionRow {
                    process_id: session.process_id(),
                    user: login.user.clone(),
                    database: session.connected_to().to_string(),
                    application_name: session.setting("application_name").unwrap_or_default(),
                    client_address: login.client_address.clone(),
                    state: state.to_string(),
                    query: activity.query,
                    connected_us: session.opened_ns().div_euclid(1_000),
                    query_us: activity.query_started_ns.map(|ns| ns.div_euclid(1_000)),
                    transaction_us: session.block_began_ns().map(|ns| ns.div_euclid(1_000)),
                    round_trip_us: session.acceptance().round_trip_ns / 1_000,
                    copy: session.copying().map(|copy| {
                        let (bytes, rows, excluded) = copy.counts();
                        let (command, table) = (copy.command(), copy.table());
                        CopyRow { command, table, bytes, rows, excluded }
                    }),
                }
            })
            .collect()
    }

    fn cancel(&self, process_id: i32) -> Result<bool> {
        let session = self.to_act_on(process_id)?;
        Ok(session.inspect(|session| session.stop(Stop::User)).is_some())
    }

    fn terminate(&self, process_id: i32) -> Result<bool> {
        let session = self.to_act_on(process_id)?;
        Ok(session.inspect(|session| session.terminate()).is_some())
    }
}

/// The settings of a session.
#[derive(Debug)]
pub struct SessionSettings(pub Arc<Variables>);

impl SettingsView for SessionSettings {
    fn get(&self, name: &str) -> Option<String> {
        self.0.get(name)
    }

    fn set(&self, name: &str, value: &str, local: bool) -> Result<String> {
        self.0.set(name, value, local)?;
        Ok(self.0.get(name).unwrap_or_default())
    }

    fn list(&self) -> Vec<SettingRow> {
        self.0
            .all()
            .into_iter()
            .map(|listed| {
                let does = listed.does().to_string();
                let ListedSetting { name, value, initial, page } = listed;
                let row = page
                    .map_or_else(SettingRow::default, |page| setting_row(page.rule, page.default));
                let number = |value: String| match row.unit {
                    Some("ms") => duration_ms(&value).map_or(value, |ms| ms.to_string()),
                    _ => value,
                };
                SettingRow {
                    name,
                    value: number(value),
                    reset_value: number(initial),
                    description: does,
                    changeable: page.is_none_or(|page| page.rule != Rule::Fixed),
                    ..row
                }
            })
            .collect()
    }
}

/// The description of a setting's values, for `pg_settings`.
fn setting_row(rule: Rule, default: &str) -> SettingRow {
    let of = |kind| SettingRow { kind, ..SettingRow::default() };
    match rule {
        Rule::Switch | Rule::SwitchOnly(_) => of("bool"),
        Rule::Fixed if matches!(default, "on" | "off") => of("bool"),
        Rule::Fixed if default.parse::<i64>().is_ok() => of("integer"),
        Rule::OneOf(words) | Rule::Only(words) if words.len() > 1 => {
            let words = Some(words.iter().map(|word| (*word).to_string()).collect());
            SettingRow { words, ..of("enum") }
        }
        Rule::Integer(least, most) => SettingRow { range: Some((least, most)), ..of("integer") },
        Rule::Duration => {
            let range = Some((0, i64::from(i32::MAX)));
            SettingRow { unit: Some("ms"), range, ..of("integer") }
        }
        _ => of("string"),
    }
}
