//! The settings of a session: what SET changes and SHOW shows.
//!
//! A setting whose change would have no effect is refused, not accepted.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_text::{ByteaOutput, DateOrder, IntervalStyle, TextStyle, TimeZone};

mod check;
mod registry;

pub use check::duration_ms;
use registry::find;
pub use registry::{Rule, SETTINGS, SettingPage};

type Values = BTreeMap<&'static str, String>;

/// Settings of one session, shared with the functions that read them.
#[derive(Debug)]
pub struct Variables {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What the session started with; RESET goes back to it.
    initial: BTreeMap<&'static str, String>,
    /// SET.
    session: Arc<Values>,
    /// SET LOCAL, until the block ends.
    local: Arc<Values>,
    /// `session` as it was when the block began.
    before_block: Option<Arc<Values>>,
    /// Reported settings as the client knows them.
    reported: BTreeMap<&'static str, String>,
    /// `version` when that was found out.
    reported_version: u64,
    version: u64,
    /// Read once per statement, so kept ready.
    parsed: Parsed,
}

/// What was set at a savepoint.
#[derive(Debug, Clone)]
pub struct Marked {
    session: Arc<Values>,
    local: Arc<Values>,
}

/// Settings in the form in which they are used.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// Text form of values.
    pub style: TextStyle,
    /// 0: none.
    pub statement_timeout_ms: u64,
    /// 0: none.
    pub idle_in_transaction_ms: u64,
    /// Schemas for unqualified names, in order.
    pub search_path: Vec<String>,
    /// Least severe messages that the client gets: 0 = notice, 1 = warning, 2 = none.
    pub messages_from: u8,
}

impl Default for Parsed {
    fn default() -> Self {
        Self {
            style: TextStyle::default(),
            statement_timeout_ms: 0,
            idle_in_transaction_ms: 0,
            search_path: vec!["public".to_string()],
            messages_from: 0,
        }
    }
}

impl Variables {
    /// Settings of a new session; `initial` overrides the defaults, by name.
    ///
    /// # Errors
    /// As [`Variables::set`].
    pub fn new(user: &str, initial: &[(String, String)]) -> Result<Self> {
        let mut inner = Inner::default();
        inner.initial.insert("session_authorization", user.to_string());
        inner.initial.insert("role", "none".to_string());
        for (name, value) in initial {
            let setting = find(name).ok_or_else(|| unknown(name))?;
            if matches!(setting.rule, Rule::Fixed) {
                return Err(fixed(setting.name));
            }
            let value = check::value(setting, value)?;
            inner.initial.insert(setting.name, value);
        }
        inner.parse()?;
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// The value of a setting; `None` for an unknown name.
    pub fn get(&self, name: &str) -> Option<String> {
        let setting = find(name)?;
        Some(self.inner.lock().value(setting.name).to_string())
    }

    /// What a setting goes back to on RESET.
    pub fn initial(&self, name: &str) -> String {
        let inner = self.inner.lock();
        match (inner.initial.get(name), find(name)) {
            (Some(value), _) => value.clone(),
            (None, Some(setting)) => setting.default.to_string(),
            (None, None) => String::new(),
        }
    }

    /// Every setting with its value, by name.
    pub fn all(&self) -> Vec<(&'static SettingPage, String)> {
        let inner = self.inner.lock();
        SETTINGS.iter().map(|setting| (setting, inner.value(setting.name).to_string())).collect()
    }

    /// SET, or SET LOCAL.
    ///
    /// # Errors
    /// `UndefinedObject` for an unknown name, `CannotChangeNow` for a fixed setting,
    /// `InvalidParameterValue` or `FeatureNotSupported` for the value.
    pub fn set(&self, name: &str, value: &str, local: bool) -> Result<()> {
        let setting = find(name).ok_or_else(|| unknown(name))?;
        if matches!(setting.rule, Rule::Fixed) {
            return Err(fixed(setting.name));
        }
        let value = check::value(setting, value)?;
        let mut inner = self.inner.lock();
        let map = if local { &mut inner.local } else { &mut inner.session };
        Arc::make_mut(map).insert(setting.name, value);
        if !local {
            Arc::make_mut(&mut inner.local).remove(setting.name);
        }
        inner.parse()
    }

    /// RESET name, or SET name TO DEFAULT.
    ///
    /// # Errors
    /// `UndefinedObject` for an unknown name.
    pub fn reset(&self, name: &str, local: bool) -> Result<()> {
        let setting = find(name).ok_or_else(|| unknown(name))?;
        if local {
            let initial = {
                let inner = self.inner.lock();
                inner
                    .initial
                    .get(setting.name)
                    .cloned()
                    .unwrap_or_else(|| setting.default.to_string())
            };
            return self.set(name, &initial, true);
        }
        let mut inner = self.inner.lock();
        Arc::make_mut(&mut inner.session).remove(setting.name);
        Arc::make_mut(&mut inner.local).remove(setting.name);
        inner.parse()
    }

    /// RESET ALL.
    pub fn reset_all(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        (inner.session, inner.local) = Default::default();
        inner.parse()
    }

    /// A block begins: its changes are undone if it rolls back.
    pub fn begin(&self) {
        let mut inner = self.inner.lock();
        inner.before_block = Some(Arc::clone(&inner.session));
    }

    /// What is set now, for a savepoint.
    pub fn mark(&self) -> Marked {
        let inner = self.inner.lock();
        Marked { session: Arc::clone(&inner.session), local: Arc::clone(&inner.local) }
    }

    /// Goes back to what was set at a savepoint.
    pub fn go_back(&self, marked: Marked) {
        let mut inner = self.inner.lock();
        (inner.session, inner.local) = (marked.session, marked.local);
        // What was valid then still is.
        if let Err(error) = inner.parse() {
            tracing::error!(%error, "settings of before a savepoint");
        }
    }

    /// The block ends.
    pub fn end(&self, committed: bool) {
        let mut inner = self.inner.lock();
        let before = inner.before_block.take();
        if let (false, Some(before)) = (committed, before) {
            inner.session = before;
        }
        inner.local = Arc::default();
        // What was valid before the block still is.
        if let Err(error) = inner.parse() {
            tracing::error!(%error, "settings of before a block");
        }
    }

    /// Grows with each change: what depends on settings is cached under it.
    pub fn version(&self) -> u64 {
        self.inner.lock().version
    }

    /// The settings in the form in which they are used.
    pub fn parsed(&self) -> Parsed {
        self.inner.lock().parsed.clone()
    }

    /// Reported settings that changed since the last call.
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

impl Inner {
    fn value(&self, name: &str) -> &str {
        self.local
            .get(name)
            .or_else(|| self.session.get(name))
            .or_else(|| self.initial.get(name))
            .map(String::as_str)
            .or_else(|| find(name).map(|setting| setting.default))
            .unwrap_or("")
    }

    fn parse(&mut self) -> Result<()> {
        self.version = self.version.saturating_add(1);
        let zone = TimeZone::parse_setting(self.value("TimeZone"))?;
        let duration = |name: &str| check::duration_ms(self.value(name)).unwrap_or(0);
        self.parsed = Parsed {
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
                now_ns: None,
            },
            statement_timeout_ms: duration("statement_timeout"),
            idle_in_transaction_ms: duration("idle_in_transaction_session_timeout"),
            search_path: check::names(self.value("search_path")),
            messages_from: match self.value("client_min_messages") {
                "warning" => 1,
                "error" => 2,
                _ => 0,
            },
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
