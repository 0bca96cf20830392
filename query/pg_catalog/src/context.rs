//! What the system tables and functions of one session look at.

use std::{collections::HashMap, fmt, sync::Arc};

use stratalog_model::{ChronicleId, Clock, EventStore, Result, TierName, store::ChronicleStatus};
use stratalog_visor_core::{Acquisitions, Catalog, CatalogState};

/// A session, as `pg_stat_activity` and `stratalog.sessions` show it.
#[derive(Debug, Clone, Default)]
pub struct SessionRow {
    /// Number that cancel requests name.
    pub process_id: i32,
    /// User.
    pub user: String,
    /// Database.
    pub database: String,
    /// What the client calls itself.
    pub application_name: String,
    /// Address of the client; `None` in process.
    pub client_address: Option<String>,
    /// `active`, `idle`, `idle in transaction` or `idle in transaction (aborted)`.
    pub state: String,
    /// The statement that runs, or the last one that ran.
    pub query: String,
    /// Microseconds since 1970 at which the session began.
    pub connected_us: i64,
    /// Microseconds since 1970 at which `query` began.
    pub query_us: Option<i64>,
    /// Microseconds since 1970 at which the transaction block began.
    pub transaction_us: Option<i64>,
    /// Twice the latency that its client measured; 0 where it did not.
    pub round_trip_us: u64,
    /// The COPY that it carries out.
    pub copy: Option<CopyRow>,
}

/// A COPY that goes on, as `pg_stat_progress_copy` shows it.
#[derive(Debug, Clone)]
pub struct CopyRow {
    /// `COPY FROM` or `COPY TO`.
    pub command: &'static str,
    /// The table; `None` for a query.
    pub table: Option<ChronicleId>,
    /// Bytes of data so far.
    pub bytes: u64,
    /// Rows so far.
    pub rows: u64,
    /// Rows that were left out.
    pub excluded: u64,
}

/// The sessions of the server.
pub trait SessionsView: Send + Sync + std::fmt::Debug {
    /// All of them.
    fn sessions(&self) -> Vec<SessionRow>;
    /// Cancels what a session runs; whether there is such a session (`pg_cancel_backend`).
    fn cancel(&self, process_id: i32) -> bool;
    /// Ends a session; false when there is none of that number.
    fn terminate(&self, process_id: i32) -> bool;
}

/// A setting, as `pg_settings` shows it.
#[derive(Debug, Clone, Default)]
pub struct SettingRow {
    /// Name.
    pub name: String,
    /// Value now, as SHOW prints it.
    pub value: String,
    /// Value of a new session.
    pub reset_value: String,
    /// What it decides.
    pub description: String,
    /// Whether SET may change it.
    pub changeable: bool,
    /// `bool`, `enum`, `integer` or `string`.
    pub kind: &'static str,
    /// What its number counts; `None` for plain numbers and others.
    pub unit: Option<&'static str>,
    /// The least and the greatest number that it takes.
    pub range: Option<(i64, i64)>,
    /// The words that it takes.
    pub words: Option<Vec<String>>,
}

/// The settings of one session.
pub trait SettingsView: Send + Sync + std::fmt::Debug {
    /// The value as SHOW prints it; `None` for an unknown name.
    fn get(&self, name: &str) -> Option<String>;
    /// Sets a value, for the transaction only if `local`; returns what is in effect.
    ///
    /// # Errors
    /// `UndefinedObject`, `InvalidParameterValue`, `CannotChangeNow`.
    fn set(&self, name: &str, value: &str, local: bool) -> Result<String>;
    /// All of them, by name.
    fn list(&self) -> Vec<SettingRow>;
}

/// A cursor, as `pg_cursors` shows it.
#[derive(Debug, Clone, Default)]
pub struct CursorRow {
    /// Its name.
    pub name: String,
    /// The DECLARE.
    pub statement: String,
    /// WITH HOLD.
    pub holds: bool,
    /// SCROLL.
    pub scrolls: bool,
    /// BINARY.
    pub is_binary: bool,
    /// Microseconds since 1970 at which it was declared.
    pub declared_us: i64,
}

/// The cursors of one session.
pub trait CursorsView: fmt::Debug + Send + Sync {
    /// Those that are open, by name.
    fn cursors(&self) -> Vec<CursorRow>;
}

/// A prepared statement, as `pg_prepared_statements` shows it.
#[derive(Debug, Clone, Default)]
pub struct PreparedRow {
    /// Its name.
    pub name: String,
    /// Its text.
    pub statement: String,
    /// Microseconds since 1970 at which it was prepared.
    pub prepared_us: i64,
    /// Oids of the types of its parameters.
    pub parameter_types: Vec<i64>,
    /// By PREPARE, not by a message of the protocol.
    pub from_sql: bool,
}

/// The prepared statements of one session.
pub trait PreparedView: fmt::Debug + Send + Sync {
    /// Those that have a name, by it.
    fn prepared(&self) -> Vec<PreparedRow>;
}

/// The catalog, as one session sees it.
pub trait CatalogView: fmt::Debug + Send + Sync {
    /// Now; never changes once taken.
    fn state(&self) -> Arc<CatalogState>;
}

impl CatalogView for Catalog {
    fn state(&self) -> Arc<CatalogState> {
        Catalog::state(self)
    }
}

/// What one session's system tables and functions look at.
#[derive(Debug, Clone)]
pub struct CatalogContext {
    /// Databases, schemas, chronicles.
    pub catalog: Arc<dyn CatalogView>,
    /// Numbers of events.
    pub store: Arc<dyn EventStore>,
    /// Who has acquired which chronicles.
    pub acquisitions: Arc<Acquisitions>,
    /// The master clock.
    pub clock: Arc<dyn Clock>,
    /// The sessions of the server.
    pub sessions: Arc<dyn SessionsView>,
    /// The settings of this session.
    pub settings: Arc<dyn SettingsView>,
    /// The cursors of this session.
    pub cursors: Arc<dyn CursorsView>,
    /// The prepared statements of this session.
    pub prepared: Arc<dyn PreparedView>,
    /// Database that the session is connected to.
    pub database: String,
    /// The name under which it is connected to it: an alias perhaps.
    pub connected_to: String,
    /// User.
    pub user: String,
    /// Number of this session (`pg_backend_pid()`).
    pub process_id: i32,
    /// Microseconds since 1970 at which the server started.
    pub server_started_us: i64,
}

impl CatalogContext {
    /// The oid of a database's name, or of its alias.
    pub(crate) fn database_oid(&self, name: &str) -> Option<u32> {
        let state = self.state();
        state.database_names().find(|(_, known)| *known == name).map(|(oid, _)| oid)
    }

    /// The catalog now.
    pub(crate) fn state(&self) -> Arc<CatalogState> {
        self.catalog.state()
    }

    /// Events and bytes of each table, bytes in memory and in files.
    pub(crate) fn table_numbers(&self) -> Vec<ChronicleStatus> {
        let mut in_files: HashMap<ChronicleId, u64> = HashMap::new();
        for piece in self.store.pieces() {
            if piece.tier != TierName::Journal {
                *in_files.entry(piece.chronicle).or_default() += piece.bytes;
            }
        }
        let mut numbers = self.store.status().chronicles;
        for number in &mut numbers {
            number.bytes += in_files.get(&number.id).copied().unwrap_or(0);
        }
        numbers
    }

    /// The schemas that unqualified names are looked up in, without those that do not exist. No
    /// schema is made for a user, so `$user` is none.
    pub(crate) fn search_path(&self, state: &CatalogState) -> Vec<String> {
        let setting =
            self.settings.get("search_path").unwrap_or_else(|| "\"$user\", public".into());
        setting
            .split(',')
            .map(|name| name.trim().trim_matches('"'))
            .filter(|name| {
                state.schema(&self.database, name).is_some()
                    || crate::oid::SYSTEM_SCHEMAS.iter().any(|(system, _)| system == name)
            })
            .map(str::to_string)
            .collect()
    }
}
