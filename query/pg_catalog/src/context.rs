//! The inputs of one session's system tables and functions.

use std::{collections::HashMap, fmt, sync::Arc};

use stratalog_model::{
    ChronicleId, Clock, EventStore, Result, files::DataFiles, store::ChronicleStatus,
};
use stratalog_visor_core::{Acquisitions, Catalog, CatalogState};

/// A session in `pg_stat_activity` and `stratalog.sessions`.
#[derive(Debug, Clone, Default)]
pub struct SessionRow {
    /// The session number for cancel requests.
    pub process_id: i32,
    /// User.
    pub user: String,
    /// Database.
    pub database: String,
    /// The client's name for itself.
    pub application_name: String,
    /// Address of the client; `None` for an in-process client.
    pub client_address: Option<String>,
    /// `active`, `idle`, `idle in transaction` or `idle in transaction (aborted)`.
    pub state: String,
    /// The running statement, or the last statement.
    pub query: String,
    /// The start of the session, in microseconds since 1970.
    pub connected_us: i64,
    /// The start of `query`, in microseconds since 1970.
    pub query_us: Option<i64>,
    /// The start of the transaction block, in microseconds since 1970.
    pub transaction_us: Option<i64>,
    /// Twice the latency that the client measured; 0 without a measurement.
    pub round_trip_us: u64,
    /// The session's running COPY.
    pub copy: Option<CopyRow>,
}

/// A running COPY in `pg_stat_progress_copy`.
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
    /// The number of excluded rows.
    pub excluded: u64,
}

/// The sessions of the server.
pub trait SessionsView: Send + Sync + std::fmt::Debug {
    /// All sessions.
    fn sessions(&self) -> Vec<SessionRow>;
    /// Cancels the running statement of a session; true if the session exists
    /// (`pg_cancel_backend`).
    ///
    /// # Errors
    /// `ReadOnlyTransaction` for a session that may only read.
    fn cancel(&self, process_id: i32) -> Result<bool>;
    /// Ends a session; false if no session has the number.
    ///
    /// # Errors
    /// Like [`Self::cancel`].
    fn terminate(&self, process_id: i32) -> Result<bool>;
}

/// A setting in `pg_settings`.
#[derive(Debug, Clone, Default)]
pub struct SettingRow {
    /// Name.
    pub name: String,
    /// The current value in SHOW's format.
    pub value: String,
    /// Value of a new session.
    pub reset_value: String,
    /// The effect of the setting.
    pub description: String,
    /// True if SET may change the setting.
    pub changeable: bool,
    /// `bool`, `enum`, `integer` or `string`.
    pub kind: &'static str,
    /// The unit of a number; `None` for plain numbers and other kinds.
    pub unit: Option<&'static str>,
    /// The least and the greatest valid number.
    pub range: Option<(i64, i64)>,
    /// The valid words.
    pub words: Option<Vec<String>>,
}

/// The settings of one session.
pub trait SettingsView: Send + Sync + std::fmt::Debug {
    /// The value in SHOW's format; `None` for an unknown name.
    fn get(&self, name: &str) -> Option<String>;
    /// Sets a value, for the transaction only if `local`; returns the effective value.
    ///
    /// # Errors
    /// `UndefinedObject`, `InvalidParameterValue`, `CannotChangeNow`.
    fn set(&self, name: &str, value: &str, local: bool) -> Result<String>;
    /// All settings, by name.
    fn list(&self) -> Vec<SettingRow>;
}

/// A cursor in `pg_cursors`.
#[derive(Debug, Clone, Default)]
pub struct CursorRow {
    /// The cursor's name.
    pub name: String,
    /// The text of the DECLARE.
    pub statement: String,
    /// True for a cursor WITH HOLD.
    pub holds: bool,
    /// True for a SCROLL cursor.
    pub scrolls: bool,
    /// True for a BINARY cursor.
    pub is_binary: bool,
    /// The time of the DECLARE, in microseconds since 1970.
    pub declared_us: i64,
}

/// The cursors of one session.
pub trait CursorsView: fmt::Debug + Send + Sync {
    /// The open cursors, by name.
    fn cursors(&self) -> Vec<CursorRow>;
}

/// A prepared statement in `pg_prepared_statements`.
#[derive(Debug, Clone, Default)]
pub struct PreparedRow {
    /// The statement's name.
    pub name: String,
    /// The statement's text.
    pub statement: String,
    /// The time of the preparation, in microseconds since 1970.
    pub prepared_us: i64,
    /// The oids of the parameter types.
    pub parameter_types: Vec<i64>,
    /// True for PREPARE, false for a protocol message.
    pub from_sql: bool,
}

/// The prepared statements of one session.
pub trait PreparedView: fmt::Debug + Send + Sync {
    /// The named prepared statements, by name.
    fn prepared(&self) -> Vec<PreparedRow>;
}

/// The catalog in one session's view.
pub trait CatalogView: fmt::Debug + Send + Sync {
    /// The current state; a state never changes after its return.
    fn state(&self) -> Arc<CatalogState>;
}

impl CatalogView for Catalog {
    fn state(&self) -> Arc<CatalogState> {
        Catalog::state(self)
    }
}

/// The inputs of one session's system tables and functions.
#[derive(Debug, Clone)]
pub struct CatalogContext {
    /// The catalog of databases, schemas and chronicles.
    pub catalog: Arc<dyn CatalogView>,
    /// The store, for numbers of events.
    pub store: Arc<dyn EventStore>,
    /// The files of the data directory; `None` without a directory.
    pub files: Option<Arc<dyn DataFiles>>,
    /// The acquisitions of chronicles.
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
    /// The database name in the client's connection; may be an alias.
    pub connected_to: String,
    /// User.
    pub user: String,
    /// Number of this session (`pg_backend_pid()`).
    pub process_id: i32,
    /// The start of the server, in microseconds since 1970.
    pub server_started_us: i64,
}

impl CatalogContext {
    /// The oid of a database's name or alias.
    pub(crate) fn database_oid(&self, name: &str) -> Option<u32> {
        let state = self.state();
        state.database_names().find(|(_, known)| *known == name).map(|(oid, _)| oid)
    }

    /// The current catalog state.
    pub(crate) fn state(&self) -> Arc<CatalogState> {
        self.catalog.state()
    }

    /// Events and bytes of each table, in memory and in files.
    pub(crate) fn table_numbers(&self) -> Vec<ChronicleStatus> {
        let mut in_files: HashMap<ChronicleId, u64> = HashMap::new();
        for piece in self.store.pieces() {
            if piece.tier.has_pieces() {
                *in_files.entry(piece.chronicle).or_default() += piece.bytes;
            }
        }
        let mut numbers = self.store.status().chronicles;
        for number in &mut numbers {
            number.bytes += in_files.get(&number.id).copied().unwrap_or(0);
        }
        numbers
    }

    /// The existing schemas for the lookup of unqualified names. No user has a schema, so `$user`
    /// is no schema.
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
