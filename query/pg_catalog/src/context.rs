//! The sources of data for the system tables and functions of a session.

use std::{collections::HashMap, fmt, sync::Arc};

use stratalog_model::{
    ChronicleId, Clock, EventStore, Result, files::DataFiles, store::ChronicleStatus,
};
use stratalog_visor_core::{
    Acquisitions, Catalog, CatalogState,
    access::{Columns, Identity, Object, Privilege, Rights},
};

/// A session in `pg_stat_activity` and `stratalog.sessions`.
#[derive(Debug, Clone, Default)]
pub struct SessionRow {
    /// The number of the session, which cancel requests contain.
    pub process_id: i32,
    /// The user of the session.
    pub user: String,
    /// The database of the session.
    pub database: String,
    /// The name of the client program, from the setting `application_name`.
    pub application_name: String,
    /// The address of the client; `None` for a client in this process.
    pub client_address: Option<String>,
    /// `active`, `idle`, `idle in transaction` or `idle in transaction (aborted)`.
    pub state: String,
    /// The text of the running statement; in an idle session, the text of the last statement.
    pub query: String,
    /// When the session began, in microseconds since 1970.
    pub connected_us: i64,
    /// When the statement in `query` began, in microseconds since 1970; `None` before the first
    /// statement.
    pub query_us: Option<i64>,
    /// When the transaction block began, in microseconds since 1970; `None` outside of a
    /// transaction block.
    pub transaction_us: Option<i64>,
    /// The round-trip time (twice the latency) in microseconds, measured by the client; 0 without a
    /// measurement.
    pub round_trip_us: u64,
    /// The COPY that the session is running, if any.
    pub copy: Option<CopyRow>,
}

/// A running COPY in `pg_stat_progress_copy`.
#[derive(Debug, Clone)]
pub struct CopyRow {
    /// The value of the column `command`: `COPY FROM` or `COPY TO`.
    pub command: &'static str,
    /// The table of the COPY; `None` for COPY (query) TO.
    pub table: Option<ChronicleId>,
    /// The number of bytes of COPY data processed up to now.
    pub bytes: u64,
    /// The number of rows processed up to now.
    pub rows: u64,
    /// The number of rows that a WHERE clause has excluded.
    pub excluded: u64,
}

/// Access to all sessions of the server.
pub trait SessionsView: Send + Sync + std::fmt::Debug {
    /// All sessions.
    fn sessions(&self) -> Vec<SessionRow>;
    /// Cancels the running statement of a session (`pg_cancel_backend`); false if no session has
    /// the number.
    ///
    /// # Errors
    /// `ReadOnlyTransaction` if the calling session may only read.
    fn cancel(&self, process_id: i32) -> Result<bool>;
    /// Ends a session (`pg_terminate_backend`); false if no session has the number.
    ///
    /// # Errors
    /// The errors of [`Self::cancel`].
    fn terminate(&self, process_id: i32) -> Result<bool>;
}

/// A setting in `pg_settings`.
#[derive(Debug, Clone, Default)]
pub struct SettingRow {
    /// The name of the setting.
    pub name: String,
    /// The current value, in the output format of SHOW.
    pub value: String,
    /// The value that a new session has.
    pub reset_value: String,
    /// What the setting does.
    pub description: String,
    /// True if SET may change the setting.
    pub changeable: bool,
    /// The type of the values: `bool`, `enum`, `integer` or `string`.
    pub kind: &'static str,
    /// The unit of the number; `None` for a number without a unit, and for other types.
    pub unit: Option<&'static str>,
    /// The smallest and the largest valid number; `None` for types other than `integer`.
    pub range: Option<(i64, i64)>,
    /// The valid words; `None` for types other than `enum`.
    pub words: Option<Vec<String>>,
}

/// Access to the settings of one session.
pub trait SettingsView: Send + Sync + std::fmt::Debug {
    /// The value of a setting, in the output format of SHOW; `None` if no setting has this name.
    fn get(&self, name: &str) -> Option<String>;
    /// Sets the value of a setting, and returns the value that is then in effect. If `local`, the
    /// value holds until the end of the transaction.
    ///
    /// # Errors
    /// `UndefinedObject`, `InvalidParameterValue`, `CannotChangeNow`.
    fn set(&self, name: &str, value: &str, local: bool) -> Result<String>;
    /// All settings in the order of their names.
    fn list(&self) -> Vec<SettingRow>;
}

/// A cursor in `pg_cursors`.
#[derive(Debug, Clone, Default)]
pub struct CursorRow {
    /// The name of the cursor.
    pub name: String,
    /// The text of the statement DECLARE.
    pub statement: String,
    /// True for a cursor that was declared WITH HOLD.
    pub holds: bool,
    /// True for a cursor that was declared with SCROLL.
    pub scrolls: bool,
    /// True for a cursor that was declared with BINARY.
    pub is_binary: bool,
    /// When the cursor was declared, in microseconds since 1970.
    pub declared_us: i64,
}

/// Access to the cursors of one session.
pub trait CursorsView: fmt::Debug + Send + Sync {
    /// The open cursors in the order of their names.
    fn cursors(&self) -> Vec<CursorRow>;
}

/// A prepared statement in `pg_prepared_statements`.
#[derive(Debug, Clone, Default)]
pub struct PreparedRow {
    /// The name of the statement.
    pub name: String,
    /// The text of the statement.
    pub statement: String,
    /// When the statement was prepared, in microseconds since 1970.
    pub prepared_us: i64,
    /// The oids of the parameter types.
    pub parameter_types: Vec<i64>,
    /// True if the SQL statement PREPARE prepared the statement; false if a message of the client
    /// protocol did.
    pub from_sql: bool,
}

/// Access to the prepared statements of one session.
pub trait PreparedView: fmt::Debug + Send + Sync {
    /// The named prepared statements in the order of their names.
    fn prepared(&self) -> Vec<PreparedRow>;
}

/// Access to the catalog in the view of a session.
pub trait CatalogView: fmt::Debug + Send + Sync {
    /// The current state of the catalog, as an immutable snapshot.
    fn state(&self) -> Arc<CatalogState>;
    /// On whose behalf the statements of the session run now.
    fn identity(&self) -> Identity;
}

impl CatalogView for Catalog {
    fn state(&self) -> Arc<CatalogState> {
        Catalog::state(self)
    }

    fn identity(&self) -> Identity {
        Identity::System
    }
}

/// The data sources and identity of a session, for its system tables and functions.
#[derive(Debug, Clone)]
pub struct CatalogContext {
    /// The catalog of databases, schemas and chronicles (tables).
    pub catalog: Arc<dyn CatalogView>,
    /// The store of events, for the number of events and bytes per table.
    pub store: Arc<dyn EventStore>,
    /// The files of the data directory; `None` if the server has no data directory.
    pub files: Option<Arc<dyn DataFiles>>,
    /// The acquisitions of all chronicles (tables) by clients.
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
    /// The database that the session uses.
    pub database: String,
    /// The database name from the client's connection request, which may be an alias.
    pub connected_to: String,
    /// The number of the session (`pg_backend_pid()`).
    pub process_id: i32,
    /// When the server was started, in microseconds since 1970.
    pub server_started_us: i64,
}

/// The tables whose rows a session may count. The number, the times and the size of rows are an
/// answer about all rows, so row policies and missing privileges hide these values.
#[derive(Debug)]
pub(crate) struct Countable<'a>(Option<Rights<'a>>);

impl Countable<'_> {
    /// True if the session may know the number, times and sizes of the rows of a table.
    pub(crate) fn includes(&self, chronicle: ChronicleId) -> bool {
        self.0.as_ref().is_some_and(|rights| rights.may_count(chronicle))
    }
}

impl CatalogContext {
    /// Checks that the session may read system tables about the server as a whole.
    ///
    /// # Errors
    /// `InsufficientPrivilege` without membership in `pg_monitor`; `InvalidAuthorization`.
    pub(crate) fn check_monitor(&self) -> Result<()> {
        let (identity, now_ns) = (self.catalog.identity(), self.clock.now_ns());
        let (privilege, object) = (Privilege::Monitor, Object::Server);
        self.state().authorize(&identity, privilege, object, Columns::All, now_ns)
    }

    /// The tables whose rows the session may count, from a state of [`Self::state`].
    pub(crate) fn countable<'a>(&self, state: &'a CatalogState) -> Countable<'a> {
        Countable(state.access().rights(&self.identity(), self.clock.now_ns()).ok())
    }

    /// The oid of the database with this name or alias.
    pub(crate) fn database_oid(&self, name: &str) -> Option<u32> {
        let state = self.state();
        state.database_names().find(|(_, known)| *known == name).map(|(oid, _)| oid)
    }

    /// The current catalog state.
    pub(crate) fn state(&self) -> Arc<CatalogState> {
        self.catalog.state()
    }

    /// On whose behalf the statements of the session run now.
    pub(crate) fn identity(&self) -> Identity {
        self.catalog.identity()
    }

    /// The name of the current role, which SET ROLE changes.
    pub(crate) fn current_user(&self) -> String {
        self.state().access().role_name(self.identity().current())
    }

    /// The name of the session's role.
    pub(crate) fn session_user(&self) -> String {
        self.state().access().role_name(self.identity().session())
    }

    /// The number of events and bytes of each table, in memory and in files together.
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

    /// The schemas in which an unqualified name is looked up, in the order of `search_path`.
    /// Schemas that do not exist are omitted. `$user` adds no schema, because no user has a schema.
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
