//! One connection's state.

pub(crate) mod acquired;
pub(crate) mod alone;
pub(crate) mod aside;
pub(crate) mod catalog;
mod committing;
pub(crate) mod cursor;
mod cursors;
mod definition;
mod implicit;
mod lookup;
pub(crate) mod planner;
mod planning;
mod progress;
mod run;
mod shapes;
pub use run::CACHED_PLAN_CHANGED;
pub(crate) use run::text_schema;
mod statements;
pub(crate) mod transaction;
pub mod variables;
mod views;
pub(crate) mod waits;
mod watched;
pub(crate) mod work;
pub(crate) use cursors::{Kind, Reads};
pub(crate) use definition::Definition;
pub use progress::CopyProgress;
pub use statements::PreparedBy;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arrow::datatypes::SchemaRef;
use datafusion::execution::memory_pool::MemoryPool;
use parking_lot::Mutex;
use stratalog_model::{Acceptance, ChronicleId, Error, EventStore, Result};
use stratalog_text::TextStyle;
use stratalog_visor_core::acquisition::HolderId;
use tokio::sync::Notify;

use self::{
    cursors::Cursors,
    planner::Planner,
    statements::Statements,
    transaction::Transaction,
    variables::Variables,
    views::SeenCatalog,
    waits::Waits,
    work::{Stop, Work},
};
use crate::{
    CancelKey, Login, Prepared, QueryService, QuerySettings, Share, service::Parts,
    statement_bytes, table::Pin,
};

/// The name under which the planner looks up unqualified names.
pub(crate) const SEARCH_PATH_SCHEMA: &str = "$search_path";

/// Where a session stands, for ReadyForQuery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransactionState {
    /// Outside of a block.
    #[default]
    Idle,
    /// In a block.
    Block,
    /// In a block in which a statement failed.
    Failed,
}

/// A message beside the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// `NOTICE` or `WARNING`.
    pub severity: &'static str,
    /// SQLSTATE; `00000` for a plain notice.
    pub sqlstate: &'static str,
    /// What is said.
    pub message: String,
    /// The values concerned.
    pub detail: Option<String>,
    /// What the user can do.
    pub hint: Option<String>,
}

impl Notice {
    /// A NOTICE that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            severity: "NOTICE",
            sqlstate: "00000",
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    /// A WARNING with its SQLSTATE.
    pub fn warning(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self { severity: "WARNING", sqlstate, ..Self::new(message) }
    }
}

/// One connection: settings, prepared statements, transaction.
pub struct Session {
    itself: Weak<Session>,
    service: Arc<QueryService>,
    key: CancelKey,
    login: Login,
    /// The name under which the client connected to the database.
    connected_to: String,
    /// Who acquires chronicles: the session, or the one whose twin it is.
    holder: HolderId,
    opened_ns: i64,
    /// Events of before are not accepted: when the session was opened, or the one whose twin it is.
    since_ns: i64,
    variables: Arc<Variables>,
    pub(crate) transaction: Arc<Transaction>,
    seen: Arc<SeenCatalog>,
    cursors: Arc<Cursors>,
    /// Made when a statement needs it.
    planner: tokio::sync::Mutex<Option<Planner>>,
    /// Outlives the planner: the tables of prepared statements read it.
    pin: Arc<Pin>,
    statements: Arc<Statements>,
    copying: Mutex<Weak<CopyProgress>>,
    cache: Mutex<run::PlanCache>,
    share: Arc<Share>,
    notices: Mutex<Vec<Notice>>,
    running: Mutex<Vec<Weak<Work>>>,
    activity: Mutex<Activity>,
    waits: Arc<Waits>,
    closed: AtomicBool,
    terminated: AtomicBool,
    on_termination: Notify,
}

/// Whose session one is, if that is not what opening it tells.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Whose {
    /// Who acquires when it does.
    pub(crate) holder: Option<HolderId>,
    /// From when on its events are accepted: nanoseconds since 1970.
    pub(crate) since_ns: Option<i64>,
}

/// What a session does, for pg_stat_activity.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// Text of the last statement.
    pub query: String,
    /// Nanoseconds since 1970 of its start.
    pub query_started_ns: Option<i64>,
    /// Nanoseconds since 1970 of the last change between running and idle.
    pub changed_ns: i64,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("process_id", &self.key.process_id)
            .field("login", &self.login)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn open(
        service: &Arc<QueryService>,
        login: Login,
        connected_to: String,
        key: CancelKey,
        whose: Whose,
    ) -> Result<Arc<Self>> {
        let parts = service.parts();
        let mut initial = login.settings.clone();
        if !login.application_name.is_empty() {
            initial.push(("application_name".to_string(), login.application_name.clone()));
        }
        if parts.settings.statement_timeout_ms > 0
            && !initial.iter().any(|(name, _)| name.eq_ignore_ascii_case("statement_timeout"))
        {
            let timeout = parts.settings.statement_timeout_ms.to_string();
            initial.push(("statement_timeout".to_string(), timeout));
        }
        let transaction: Arc<Transaction> = Arc::default();
        let variables = Arc::new(Variables::new(&login.user, &initial, Arc::clone(&transaction))?);
        let seen = Arc::new(SeenCatalog {
            catalog: Arc::clone(&parts.catalog),
            transaction: Arc::clone(&transaction),
        });
        let now = parts.clock.now_ns();
        let holder = whose.holder.unwrap_or(HolderId(key.process_id));
        let since_ns = whose.since_ns.unwrap_or(now);
        Ok(Arc::new_cyclic(|itself| Self {
            itself: Weak::clone(itself),
            service: Arc::clone(service),
            key,
            login,
            connected_to,
            holder,
            opened_ns: now,
            since_ns,
            variables,
            transaction,
            seen,
            cursors: Arc::default(),
            planner: tokio::sync::Mutex::default(),
            pin: Arc::default(),
            statements: Arc::default(),
            copying: Mutex::default(),
            cache: Mutex::default(),
            share: service.client_share(),
            notices: Mutex::default(),
            running: Mutex::default(),
            activity: Mutex::new(Activity { changed_ns: now, ..Activity::default() }),
            waits: Arc::new(Waits::new(service.ending())),
            closed: AtomicBool::new(false),
            terminated: AtomicBool::new(false),
            on_termination: Notify::new(),
        }))
    }

    /// What keeps it only as long as others do.
    pub(crate) fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.itself)
    }

    /// With which another connection cancels what this one runs.
    pub fn key(&self) -> &CancelKey {
        &self.key
    }

    /// Number of the session.
    pub fn process_id(&self) -> i32 {
        self.key.process_id
    }

    /// Who is connected.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// When the session was opened: nanoseconds since 1970.
    pub fn opened_ns(&self) -> i64 {
        self.opened_ns
    }

    /// Whose a twin is.
    pub(crate) fn whose(&self) -> Whose {
        Whose { holder: Some(self.holder), since_ns: Some(self.since_ns) }
    }

    /// Which ticks are accepted of the session, where they go by the clock (F24); of a chronicle that it
    /// has acquired, none from before that.
    pub fn acceptance(&self) -> Acceptance {
        let round_trip_us = self.variables.parsed().round_trip_us;
        Acceptance {
            since_ns: self.since_ns,
            round_trip_ns: round_trip_us.saturating_mul(1_000),
            restores: false,
        }
    }

    /// What the session does.
    pub fn activity(&self) -> Activity {
        self.activity.lock().clone()
    }

    /// When the statement that runs began: nanoseconds since 1970.
    pub(crate) fn started_ns(&self) -> i64 {
        let started = self.activity.lock().query_started_ns;
        started.unwrap_or_else(|| self.parts().clock.now_ns())
    }

    /// When the open block began: nanoseconds since 1970.
    pub fn block_began_ns(&self) -> Option<i64> {
        self.transaction.began_ns()
    }

    /// Whether a statement runs now.
    pub fn is_running(&self) -> bool {
        self.running.lock().iter().any(|work| work.strong_count() > 0)
    }

    /// Where the session stands.
    pub fn transaction(&self) -> TransactionState {
        self.transaction.state()
    }

    /// Makes an open block fail, after an error that the protocol found.
    pub fn fail_transaction(&self) {
        self.transaction.fail();
    }

    /// A setting as SHOW shows it.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.variables.get(name)
    }

    /// All settings.
    pub fn variables(&self) -> &Arc<Variables> {
        &self.variables
    }

    /// How values are written as text.
    pub fn text_style(&self) -> TextStyle {
        self.variables.parsed().style
    }

    /// The text form of values in results: as [`Self::text_style`], with the digits of
    /// `stratalog.fraction_digits`.
    pub fn result_style(&self) -> TextStyle {
        let parsed = self.variables.parsed();
        TextStyle { fraction_digits: parsed.fraction_digits, ..parsed.style }
    }

    /// How long the session may be idle as it is now; `None` for as long as it likes.
    pub fn idle_limit(&self) -> Option<Duration> {
        let limits = self.variables.parsed();
        let limit_ms = match self.transaction() {
            TransactionState::Idle => limits.idle_session_ms,
            TransactionState::Block | TransactionState::Failed => limits.idle_in_transaction_ms,
        };
        (limit_ms > 0).then(|| Duration::from_millis(limit_ms))
    }

    /// How long whoever asks for some rows of a SUBSCRIBE waits for the first of them.
    pub fn subscribe_wait(&self) -> Duration {
        Duration::from_millis(self.variables.parsed().subscribe_wait_ms)
    }

    /// Settings that the client must be told of, since the last call.
    pub fn take_parameter_changes(&self) -> Vec<(String, String)> {
        self.variables.take_changes()
    }

    /// Messages since the last call that the client wants to get.
    pub fn take_notices(&self) -> Vec<Notice> {
        let from = self.variables.parsed().messages_from;
        let mut notices = std::mem::take(&mut *self.notices.lock());
        notices.extend(self.variables.take_notices());
        notices.retain(|notice| match notice.severity {
            "WARNING" => from <= 1,
            _ => from == 0,
        });
        notices
    }

    /// Keeps a prepared statement under a name: one namespace for PREPARE and for protocols.
    ///
    /// # Errors
    /// `DuplicatePreparedStatement`, `LimitExceeded`.
    pub fn keep(&self, name: &str, prepared: Arc<Prepared>, by: PreparedBy) -> Result<()> {
        let most = self.settings().prepared_statements_max;
        let held = self.share.hold(statement_bytes(prepared.parsed().text()))?;
        let now_ns = self.parts().clock.now_ns();
        self.statements.keep(name, (prepared, held), by, most, now_ns)
    }

    /// The statement kept under a name.
    pub fn kept(&self, name: &str) -> Option<Arc<Prepared>> {
        self.statements.find(name)
    }

    /// Drops the statement kept under a name; whether there was one.
    pub fn forget(&self, name: &str) -> bool {
        self.statements.forget(name)
    }

    pub(crate) fn forget_all(&self) {
        self.statements.forget_all();
    }

    /// A COPY begins; it is listed as long as what this returns lives.
    pub(crate) fn begin_copy(
        &self,
        command: &'static str,
        table: Option<ChronicleId>,
    ) -> Arc<CopyProgress> {
        let progress = Arc::new(CopyProgress::new(command, table));
        *self.copying.lock() = Arc::downgrade(&progress);
        progress
    }

    /// The COPY that goes on.
    pub(crate) fn copying(&self) -> Option<Arc<CopyProgress>> {
        self.copying.lock().upgrade()
    }

    /// Ends the session: cancels what runs, drops what is prepared, rolls back, gives back what it
    /// has acquired.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.stop(Stop::Closed);
        self.forget_all();
        self.cursors.close_all();
        self.transaction.end();
        self.leave();
    }

    fn leave(&self) {
        // A twin leaves it to the session whose twin it is.
        if self.holder == HolderId(self.key.process_id) {
            self.release_all();
        }
        self.service.sessions().remove(self.key.process_id);
    }

    /// Ends what runs, and has whoever serves the session end it (`pg_terminate_backend`).
    pub(crate) fn terminate(&self) {
        self.terminated.store(true, Ordering::Release);
        self.stop(Stop::Terminated);
        self.on_termination.notify_waiters();
    }

    /// Whether the session is to end, by another one's command; and the error that says so.
    ///
    /// # Errors
    /// `Shutdown`.
    pub fn check_terminated(&self) -> Result<()> {
        match self.terminated.load(Ordering::Acquire) {
            true => Err(work::terminated()),
            false => Ok(()),
        }
    }

    /// Ends when the session is to end, by another one's command.
    pub async fn terminated(&self) -> Error {
        loop {
            let notified = self.on_termination.notified();
            if let Err(error) = self.check_terminated() {
                return error;
            }
            notified.await;
        }
    }

    pub(crate) fn stop(&self, reason: Stop) {
        for work in self.running.lock().iter().filter_map(Weak::upgrade) {
            work.stop(reason);
        }
    }

    pub(crate) fn say(&self, notice: Notice) {
        self.notices.lock().push(notice);
    }

    pub(crate) fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    /// Shape of the rows of an open cursor of SQL, which is a portal to protocols.
    pub fn cursor_schema(&self, name: &str) -> Option<SchemaRef> {
        self.cursors.find(name).ok().map(|cursor| cursor.schema)
    }

    /// Closes a cursor of SQL; whether there was one.
    pub fn close_cursor(&self, name: &str) -> bool {
        self.cursors.close(name)
    }

    /// What lasts as long as a block ends with it.
    pub(crate) fn end_block(&self, committed: bool) {
        self.variables.end(committed);
        self.cursors.end(committed);
    }

    pub(crate) fn parts(&self) -> &Parts {
        self.service.parts()
    }

    /// What messages and statements of this client hold of the memory budget.
    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// The memory budget of running statements.
    pub(crate) fn memory_pool(&self) -> &Arc<dyn MemoryPool> {
        &self.service.base().runtime_env().memory_pool
    }

    pub(crate) fn settings(&self) -> &QuerySettings {
        &self.service.parts().settings
    }

    pub(crate) fn store(&self) -> &Arc<dyn EventStore> {
        &self.service.parts().store
    }

    /// The name under which the client connected to the database: its own, or an alias.
    pub(crate) fn connected_to(&self) -> &str {
        &self.connected_to
    }

    pub(crate) fn database(&self) -> &str {
        &self.login.database
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.leave();
    }
}
