//! Data about sessions and settings for the system tables.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::RwLock;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_pg_catalog::{
    CatalogView, CopyRow, SessionRow, SessionsView, SettingRow, SettingsView,
};
use stratalog_visor_core::{
    Catalog, CatalogState,
    access::{Identity, RoleIdentity},
};

use super::{
    Session, TransactionState,
    transaction::Transaction,
    variables::{ChosenRoles, ListedSetting, Rule, Variables, duration_ms},
    work::Stop,
};
use crate::service::Sessions;

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
}

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
        Ok(open.find(|session| session.process_id() == process_id))
    }
}

impl SessionsView for OpenSessions {
    fn sessions(&self) -> Vec<SessionRow> {
        self.sessions
            .open()
            .iter()
            .map(|session| {
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
