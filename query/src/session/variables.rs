//! The settings of a session, changed by SET and shown by SHOW.
//!
//! SET refuses a change that would have no effect, except for hints to PostgreSQL's planner.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_text::{ByteaOutput, DateOrder, IntervalStyle, TextStyle, TimeZone};

mod check;
mod custom;
mod hint;
mod registry;
mod roles;

pub use check::duration_ms;
pub use hint::Hint;
use registry::find;
pub use registry::{Rule, SETTINGS, SettingPage};
pub use roles::{ChosenRoles, RoleChoice};

use super::{
    TransactionState,
    transaction::{Isolation, Modes, Transaction},
};
use crate::{Notice, Share, ShareReservation};

/// Values by name: a name of [`SETTINGS`], or the lower-case name of a custom setting.
type SettingValues = BTreeMap<Cow<'static, str>, String>;

/// The settings of a session. SQL functions share the settings with the session.
#[derive(Debug)]
pub struct Variables {
    inner: Mutex<VariablesState>,
}

#[derive(Debug, Default)]
struct VariablesState {
    /// The transaction, which stores the modes of an open block. The settings
    /// `transaction_read_only` and `transaction_isolation` show the modes.
    transaction: Arc<Transaction>,
    /// The values at the start of the session, restored by RESET.
    initial: SettingValues,
    /// The names of the client's custom settings.
    custom: custom::CustomNames,
    /// The memory account that pays for values of custom settings; `None` before the session has an
    /// account.
    share: Option<Arc<Share>>,
    room: Option<ShareReservation>,
    /// Notices about settings that have no effect; not yet sent to the client.
    pending_notices: Vec<Notice>,
    /// Values of SET.
    session: Arc<SettingValues>,
    /// Values of SET LOCAL, until the end of the block.
    local: Arc<SettingValues>,
    /// The value of `session` at the start of the block.
    before_block: Option<Arc<SettingValues>>,
    /// The settings that the protocol reports to the client, with the last reported values.
    reported: BTreeMap<&'static str, String>,
    /// The value of `version` when `reported` was last compared with the settings.
    reported_version: u64,
    version: u64,
    /// The current values in a parsed form: cached, because each statement reads the settings.
    parsed: ParsedSettings,
}

/// The settings at a savepoint.
#[derive(Debug, Clone)]
pub struct SettingsMark {
    session: Arc<SettingValues>,
    local: Arc<SettingValues>,
}

/// The settings in a parsed form, ready for use.
#[derive(Debug, Clone)]
pub struct ParsedSettings {
    /// Format of values as text.
    pub style: TextStyle,
    /// The value of `statement_timeout` in milliseconds; 0 means no timeout.
    pub statement_timeout_ms: u64,
    /// The value of `lock_timeout` in milliseconds; 0 means no timeout.
    pub lock_timeout_ms: u64,
    /// The value of `idle_in_transaction_session_timeout` in milliseconds; 0 means no timeout.
    pub idle_in_transaction_ms: u64,
    /// The value of `idle_session_timeout` in milliseconds; 0 means no timeout.
    pub idle_session_ms: u64,
    /// The maximum time in milliseconds that a FETCH from a SUBSCRIBE waits for the first row.
    pub subscribe_wait_ms: u64,
    /// Schemas for unqualified names, in order.
    pub search_path: Vec<String>,
    /// Lowest severity of messages for the client: 0 = notice, 1 = warning, 2 = none.
    pub messages_from: u8,
    /// The network round trip that the client measured, in microseconds; 0 means not measured.
    pub round_trip_us: u64,
    /// Number of fraction digits of seconds in results as text.
    pub fraction_digits: u32,
    /// The roles of SET ROLE and SET SESSION AUTHORIZATION.
    pub roles: ChosenRoles,
}

impl Default for ParsedSettings {
    fn default() -> Self {
        Self {
            style: TextStyle::default(),
            statement_timeout_ms: 0,
            lock_timeout_ms: 0,
            idle_in_transaction_ms: 0,
            idle_session_ms: 0,
            subscribe_wait_ms: 1_000,
            search_path: vec!["public".to_string()],
            messages_from: 0,
            fraction_digits: 6,
            round_trip_us: 0,
            roles: ChosenRoles::default(),
        }
    }
}

impl Variables {
    /// Charges the memory of custom settings to `share` from now on.
    pub(crate) fn charge_to(&self, share: Arc<Share>) {
        self.inner.lock().share = Some(share);
    }

    /// The settings of a new session; `initial` overrides the defaults, by name. `user` is the name
    /// of the session's role, and `superuser` tells whether the role is a superuser.
    ///
    /// # Errors
    /// The errors of [`Variables::set`].
    pub fn new(
        (user, superuser): (&str, bool),
        initial: &[(String, String)],
        transaction: Arc<Transaction>,
    ) -> Result<Self> {
        let mut inner = VariablesState { transaction, ..VariablesState::default() };
        inner.initial.insert("session_authorization".into(), user.to_string());
        inner.initial.insert("role".into(), "none".to_string());
        let superuser = if superuser { "on" } else { "off" };
        inner.initial.insert("is_superuser".into(), superuser.to_string());
        for (name, value) in initial {
            let (name, value) = inner.checked(name, value)?;
            inner.initial.insert(name, value);
        }
        inner.parse()?;
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// The value of a setting; `None` for an unknown name.
    pub fn get(&self, name: &str) -> Option<String> {
        let inner = self.inner.lock();
        let name = match find(name) {
            Some(setting) => setting.name,
            None => inner.custom.find(name)?,
        };
        Some(inner.value(name).to_string())
    }

    /// All settings, sorted by name; the custom settings of the client come last.
    pub fn all(&self) -> Vec<ListedSetting> {
        let inner = self.inner.lock();
        let listed = |name: &str, page: Option<&'static SettingPage>| ListedSetting {
            name: name.to_string(),
            value: inner.value(name).to_string(),
            initial: inner.initial_value(name).to_string(),
            page,
        };
        let own = inner.custom.names().map(|name| listed(name, None));
        SETTINGS.iter().map(|page| listed(page.name, Some(page))).chain(own).collect()
    }

    /// Checks that a setting exists, and, if `value` is given, that the setting accepts the value.
    ///
    /// # Errors
    /// The errors of [`Variables::set`].
    pub fn check(&self, name: &str, value: Option<&str>) -> Result<()> {
        let mut inner = self.inner.lock();
        match value {
            Some(value) => inner.checked(name, value).map(drop),
            None => inner.known(name).map(drop),
        }
    }

    /// Runs SET, or SET LOCAL if `local` is true.
    ///
    /// # Errors
    /// `UndefinedObject` for an unknown name; `InvalidName`; `CannotChangeNow` for a fixed setting;
    /// `InvalidParameterValue` or `FeatureNotSupported` for the value; `ActiveTransaction` for a
    /// mode of the open block; `LimitExceeded` for too many or too large custom settings.
    pub fn set(&self, name: &str, value: &str, local: bool) -> Result<()> {
        let mut inner = self.inner.lock();
        let (name, value) = inner.checked(name, value)?;
        if let Some(mode) = BlockMode::of_setting(&name) {
            return inner.set_mode(mode, &value);
        }
        let map = if local { &mut inner.local } else { &mut inner.session };
        Arc::make_mut(map).insert(name.clone(), value);
        if !local {
            Arc::make_mut(&mut inner.local).remove(&name);
        }
        inner.parse()
    }

    /// Runs RESET name, or SET name TO DEFAULT.
    ///
    /// # Errors
    /// `UndefinedObject` for an unknown name, `InvalidName`.
    pub fn reset(&self, name: &str, local: bool) -> Result<()> {
        let mut inner = self.inner.lock();
        let name = inner.known(name)?;
        if let Some(mode) = BlockMode::of_setting(&name) {
            let initial = inner.initial_value(&name).to_string();
            return inner.set_mode(mode, &initial);
        }
        if local {
            let initial = inner.initial_value(&name).to_string();
            Arc::make_mut(&mut inner.local).insert(name, initial);
        } else {
            Arc::make_mut(&mut inner.session).remove(&name);
            Arc::make_mut(&mut inner.local).remove(&name);
        }
        inner.parse()
    }

    /// Undoes a SET LOCAL that ran outside of a block: there, the value lasts only until the end of
    /// its statement.
    pub fn end_statement(&self) {
        let mut inner = self.inner.lock();
        if inner.local.is_empty() {
            return;
        }
        inner.local = Arc::default();
        inner.parse_again("a statement");
    }

    /// The notices since the last call.
    pub fn take_notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.inner.lock().pending_notices)
    }

    /// Runs RESET ALL.
    pub fn reset_all(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        inner.session = Arc::new(roles::kept_by_reset_all(&inner.session));
        inner.local = Arc::new(roles::kept_by_reset_all(&inner.local));
        inner.parse()
    }

    /// Begins a block. A rollback of the block undoes later changes of settings.
    pub fn begin(&self) {
        let mut inner = self.inner.lock();
        inner.before_block = Some(Arc::clone(&inner.session));
    }

    /// The current settings, for a savepoint.
    pub fn mark(&self) -> SettingsMark {
        let inner = self.inner.lock();
        SettingsMark { session: Arc::clone(&inner.session), local: Arc::clone(&inner.local) }
    }

    /// Returns to the settings of a savepoint.
    pub fn go_back(&self, marked: SettingsMark) {
        let mut inner = self.inner.lock();
        (inner.session, inner.local) = (marked.session, marked.local);
        inner.parse_again("a savepoint");
    }

    /// Ends the block: drops the values of SET LOCAL, and, unless `committed`, undoes all changes
    /// since the start of the block.
    pub fn end(&self, committed: bool) {
        let mut inner = self.inner.lock();
        let before = inner.before_block.take();
        let undone = before.filter(|before| !committed && !Arc::ptr_eq(before, &inner.session));
        if undone.is_none() && inner.local.is_empty() {
            return;
        }
        if let Some(before) = undone {
            inner.session = before;
        }
        inner.local = Arc::default();
        inner.parse_again("a block");
    }

    /// A number that differs after each change of a setting, for caches that depend on settings.
    pub fn version(&self) -> u64 {
        let inner = self.inner.lock();
        inner.version.wrapping_mul(8).wrapping_add(inner.modes().code())
    }

    /// Sets `is_superuser` and `stratalog.authentication`, which clients cannot set.
    pub(crate) fn show_identity(&self, superuser: bool, protected: bool) {
        let mut inner = self.inner.lock();
        let superuser = if superuser { "on" } else { "off" };
        let authentication = if protected { "password" } else { "trust" };
        inner.initial.insert("is_superuser".into(), superuser.to_string());
        inner.initial.insert("stratalog.authentication".into(), authentication.to_string());
        inner.version = inner.version.saturating_add(1);
    }

    /// Changes the version without a change of a setting: cached plans become stale.
    pub fn outdate(&self) {
        let mut inner = self.inner.lock();
        inner.version = inner.version.saturating_add(1);
    }

    /// The modes of a block whose BEGIN gives no modes.
    pub fn default_modes(&self) -> Modes {
        self.inner.lock().default_modes()
    }

    /// The settings in a parsed form, ready for use.
    pub fn parsed(&self) -> ParsedSettings {
        self.inner.lock().parsed.clone()
    }

    /// The settings that changed since the last call, of the settings that the protocol reports to
    /// the client.
    pub fn take_changes(&self) -> Vec<(String, String)> {
        let mut inner = self.inner.lock();
        let mut changes = Vec::new();
        if inner.reported_version == inner.version {
            return changes;
        }
        inner.reported_version = inner.version;
        for setting in SETTINGS.iter().filter(|setting| setting.reported) {
            let value = inner.value(setting.name).to_string();
            if inner.reported.get(setting.name) != Some(&value) {
                inner.reported.insert(setting.name, value.clone());
                changes.push((setting.name.to_string(), value));
            }
        }
        changes
    }
}

/// A transaction mode that SET can change and SHOW can show.
#[derive(Debug, Clone, Copy)]
enum BlockMode {
    ReadOnly,
    Isolation,
}

impl BlockMode {
    /// The mode shown by the setting `name`.
    fn of_setting(name: &str) -> Option<Self> {
        match name {
            "transaction_read_only" => Some(Self::ReadOnly),
            "transaction_isolation" => Some(Self::Isolation),
            _ => None,
        }
    }
}

/// A setting for SHOW ALL and `pg_settings`.
#[derive(Debug, Clone)]
pub struct ListedSetting {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
    /// The value after RESET.
    pub initial: String,
    /// The documentation; `None` for a custom setting.
    pub page: Option<&'static SettingPage>,
}

impl ListedSetting {
    /// A description of the setting.
    pub fn does(&self) -> &'static str {
        self.page.map_or("a setting of the client's own", |page| page.does)
    }
}

impl VariablesState {
    fn default_modes(&self) -> Modes {
        Modes {
            read_only: self.value("default_transaction_read_only") == "on",
            isolation: Isolation::of_setting(self.value("default_transaction_isolation")),
        }
    }

    /// The modes of the open block; without an open block, the modes of the next block.
    fn modes(&self) -> Modes {
        match self.transaction.state() {
            TransactionState::Idle => self.default_modes(),
            TransactionState::Block | TransactionState::Failed => self.transaction.modes(),
        }
    }

    /// Changes a mode of the open block. Outside of a block, does nothing: the change would end
    /// with the statement.
    fn set_mode(&self, mode: BlockMode, value: &str) -> Result<()> {
        if self.transaction.state() == TransactionState::Idle {
            return Ok(());
        }
        let modes = self.transaction.modes();
        self.transaction.set_modes(match mode {
            BlockMode::ReadOnly => Modes { read_only: value == "on", ..modes },
            BlockMode::Isolation => Modes { isolation: Isolation::of_setting(value), ..modes },
        })
    }

    fn value(&self, name: &str) -> &str {
        match BlockMode::of_setting(name) {
            Some(BlockMode::ReadOnly) if self.modes().read_only => return "on",
            Some(BlockMode::ReadOnly) => return "off",
            Some(BlockMode::Isolation) => return self.modes().isolation.name(),
            None => {}
        }
        let set = self.local.get(name).or_else(|| self.session.get(name));
        set.map_or_else(|| self.initial_value(name), String::as_str)
    }

    fn initial_value(&self, name: &str) -> &str {
        let initial = self.initial.get(name).map(String::as_str);
        initial.or_else(|| find(name).map(|setting| setting.default)).unwrap_or("")
    }

    /// The canonical name of a setting; adds a new custom setting.
    fn known(&mut self, name: &str) -> Result<Cow<'static, str>> {
        match find(name) {
            Some(setting) => Ok(setting.name.into()),
            None => self.custom.admit(name).map(Cow::Owned),
        }
    }

    /// The canonical name of a setting, and the canonical form of a value.
    fn checked(&mut self, name: &str, value: &str) -> Result<(Cow<'static, str>, String)> {
        let Some(setting) = find(name) else {
            let name = self.custom.admit(name)?;
            self.check_room(&name, value)?;
            return Ok((Cow::Owned(name), value.to_string()));
        };
        if matches!(setting.rule, Rule::Fixed) {
            return Err(fixed(setting.name));
        }
        let value = check::value(setting, value)?;
        if matches!(setting.rule, Rule::Hint(_)) && value != setting.default {
            let message =
                format!("\"{}\" has no effect on how queries are planned here", setting.name);
            self.pending_notices.push(Notice::new(message));
        }
        Ok((setting.name.into(), value))
    }

    /// Checks that the custom settings stay within their limits after a new value, and charges the
    /// memory of all custom settings to the client.
    fn check_room(&mut self, name: &str, value: &str) -> Result<()> {
        let maps = [&self.initial, &*self.session, &*self.local];
        let all = maps.into_iter().flat_map(BTreeMap::iter);
        let held = all.filter(|(name, _)| matches!(name, Cow::Owned(_)));
        let held: usize = held.map(|(name, value)| name.len() + value.len()).sum();
        custom::check_room(name, value, held)?;
        let bytes = held.saturating_add(name.len() + value.len()).saturating_mul(custom::COPIES);
        match (&mut self.room, &self.share) {
            (Some(room), _) => room.resize(bytes),
            (room @ None, Some(share)) => {
                *room = Some(share.hold(bytes)?);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Parses the settings again after their values returned to an earlier state, which is valid.
    /// `what` names the undone change in the error log.
    fn parse_again(&mut self, what: &str) {
        if let Err(error) = self.parse() {
            tracing::error!(%error, "cannot parse the settings before {what}");
        }
    }

    fn parse(&mut self) -> Result<()> {
        self.version = self.version.saturating_add(1);
        let zone = TimeZone::parse_setting(self.value("TimeZone"))?;
        let duration = |name: &str| check::duration_ms(self.value(name)).unwrap_or(0);
        self.parsed = ParsedSettings {
            style: TextStyle {
                time_zone: zone,
                date_order: match self.value("DateStyle").rsplit(", ").next() {
                    Some("DMY") => DateOrder::Dmy,
                    Some("YMD") => DateOrder::Ymd,
                    _ => DateOrder::Mdy,
                },
                interval_style: match self.value("IntervalStyle") {
                    "postgres_verbose" => IntervalStyle::PostgresVerbose,
                    "sql_standard" => IntervalStyle::SqlStandard,
                    "iso_8601" => IntervalStyle::Iso8601,
                    _ => IntervalStyle::Postgres,
                },
                bytea_output: match self.value("bytea_output") {
                    "escape" => ByteaOutput::Escape,
                    _ => ByteaOutput::Hex,
                },
                extra_float_digits: self.value("extra_float_digits").parse().unwrap_or(1),
                ..TextStyle::default()
            },
            statement_timeout_ms: duration("statement_timeout"),
            lock_timeout_ms: duration("lock_timeout"),
            idle_in_transaction_ms: duration("idle_in_transaction_session_timeout"),
            idle_session_ms: duration("idle_session_timeout"),
            subscribe_wait_ms: duration("subscribe_wait"),
            search_path: check::names(self.value("search_path")),
            messages_from: match self.value("client_min_messages") {
                "warning" => 1,
                "error" => 2,
                _ => 0,
            },
            fraction_digits: self.value("stratalog.fraction_digits").parse().unwrap_or(6),
            round_trip_us: self.value("stratalog.round_trip_us").parse().unwrap_or(0),
            roles: self.roles(),
        };
        Ok(())
    }
}

fn unknown(name: &str) -> Error {
    let error = Error::new(
        ErrorKind::UndefinedObject,
        format!("unrecognized configuration parameter \"{name}\""),
    );
    error.with_hint("SHOW ALL lists the settings")
}

fn fixed(name: &str) -> Error {
    Error::new(ErrorKind::CannotChangeNow, format!("parameter \"{name}\" cannot be changed"))
}

#[cfg(test)]
mod tests;
