//! The state of a connection.

mod access;
pub(crate) mod acquisitions;
pub(crate) mod blocking_work;
pub(crate) mod catalog;
mod commit_task;
pub(crate) mod cursor;
mod cursors;
mod definition;
pub(crate) mod exclusive_hold;
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
mod watched_rows;
pub(crate) mod work;
pub(crate) use cursors::{CursorKind, Reads};
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
use parking_lot::{Mutex, RwLock};
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
    views::SessionCatalogView,
    waits::Waits,
    work::{Stop, Work},
};
use crate::{
    CancelKey, Login, Prepared, QueryService, QuerySettings, Share, service::Parts,
    table::SnapshotPin,
};

/// The transaction state of a session, for ReadyForQuery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TransactionState {
    /// Outside of a block.
    #[default]
    Idle,
    /// In a block.
    Block,
    /// In a block with a failed statement.
    Failed,
}

/// A message to the client that accompanies the result of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// `NOTICE` or `WARNING`.
    pub severity: &'static str,
    /// SQLSTATE; `00000` for a plain notice.
    pub sqlstate: &'static str,
    /// The text of the message.
    pub message: String,
    /// Details, such as the values that caused the message.
    pub detail: Option<String>,
    /// Advice to the user.
    pub hint: Option<String>,
}

impl Notice {
    /// A NOTICE with the text `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            severity: "NOTICE",
            sqlstate: "00000",
            message: message.into(),
            detail: None,
            hint: None,
        }
    }

    /// A WARNING with an SQLSTATE.
    pub fn warning(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self { severity: "WARNING", sqlstate, ..Self::new(message) }
    }
}

/// A connection: settings, prepared statements, transaction.
pub struct Session {
    itself: Weak<Session>,
    service: Arc<QueryService>,
    key: CancelKey,
    login: Login,
    /// The name under which the client connected to the database.
    connected_to: String,
    /// The holder of acquired chronicles: the session, or the original session of a twin.
    holder: HolderId,
    opened_ns: i64,
    /// The session accepts no events before this time, in nanoseconds since 1970: the opening time
    /// of the session, or of the original session of a twin.
    since_ns: i64,
    variables: Arc<Variables>,
    pub(crate) transaction: Arc<Transaction>,
    seen: Arc<SessionCatalogView>,
    cursors: Arc<Cursors>,
    /// Created on demand.
    planner: tokio::sync::Mutex<Option<Planner>>,
    /// The snapshot of the statement that the planner plans. Separate from the planner: tables of
    /// prepared statements also read the snapshot.
    pin: Arc<SnapshotPin>,
    statements: Arc<Statements>,
    copying: Mutex<Weak<CopyProgress>>,
    cache: Mutex<run::PlanCache>,
    share: Arc<Share>,
    notices: Mutex<Vec<Notice>>,
    running: Mutex<Vec<Weak<Work>>>,
    activity: Mutex<Activity>,
    waits: Arc<Waits>,
    closed: AtomicBool,
    /// True after [`Self::confine`]: the session may only read.
    confined: Arc<AtomicBool>,
    terminated: AtomicBool,
    on_termination: Notify,
}

/// Values that a new session takes over from another session; all `None` for an ordinary session.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SessionOwner {
    /// The holder of the chronicles acquired by the session.
    pub(crate) holder: Option<HolderId>,
    /// The earliest time of accepted events: nanoseconds since 1970.
    pub(crate) since_ns: Option<i64>,
}

/// The activity of a session, for pg_stat_activity.
#[derive(Debug, Clone, Default)]
pub struct Activity {
    /// Text of the last statement.
    pub query: String,
    /// Start of the last statement: nanoseconds since 1970.
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
        owner: SessionOwner,
    ) -> Result<Arc<Self>> {
        let parts = service.parts();
        let state = parts.catalog.state();
        let role = state.access().role(login.identity.session());
        let (user, superuser) = role.map_or((login.user.as_str(), false), |role| {
            (role.name.as_str(), role.attributes.superuser)
        });
        let mut initial = role.map_or_else(Vec::new, access::settings_of);
        initial.extend(login.settings.iter().cloned());
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
        let variables =
            Arc::new(Variables::new((user, superuser), &initial, Arc::clone(&transaction))?);
        let seen = Arc::new(SessionCatalogView {
            catalog: Arc::clone(&parts.catalog),
            transaction: Arc::clone(&transaction),
            login: RwLock::new(login.identity),
            variables: Arc::clone(&variables),
        });
        let share = service.client_share();
        variables.charge_to(Arc::clone(&share));
        let now = parts.clock.now_ns();
        let holder = owner.holder.unwrap_or(HolderId(key.process_id));
        let since_ns = owner.since_ns.unwrap_or(now);
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
            share,
            notices: Mutex::default(),
            running: Mutex::default(),
            activity: Mutex::new(Activity { changed_ns: now, ..Activity::default() }),
            waits: Arc::new(Waits::new(service.ending())),
            closed: AtomicBool::new(false),
            confined: Arc::default(),
            terminated: AtomicBool::new(false),
            on_termination: Notify::new(),
        }))
    }

    /// A weak reference, which does not keep the session alive.
    pub(crate) fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.itself)
    }

    /// The key with which a client cancels the running statement through another connection.
    pub fn key(&self) -> &CancelKey {
        &self.key
    }

    /// The number of the session, the process id of the PostgreSQL protocol.
    pub fn process_id(&self) -> i32 {
        self.key.process_id
    }

    /// The identity of the client, from the start of the connection.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// The opening time: nanoseconds since 1970.
    pub fn opened_ns(&self) -> i64 {
        self.opened_ns
    }

    /// The values that a twin takes over from this session.
    pub(crate) fn twin_owner(&self) -> SessionOwner {
        SessionOwner { holder: Some(self.holder), since_ns: Some(self.since_ns) }
    }

    /// The times that chronicles with ticks by the clock accept from the session (F24). An acquired
    /// chronicle also refuses times before the acquisition.
    pub fn acceptance(&self) -> Acceptance {
        let round_trip_us = self.variables.parsed().round_trip_us;
        Acceptance {
            since_ns: self.since_ns,
            round_trip_ns: round_trip_us.saturating_mul(1_000),
            restores: false,
        }
    }

    /// The activity of the session.
    pub fn activity(&self) -> Activity {
        self.activity.lock().clone()
    }

    /// Start of the running statement: nanoseconds since 1970.
    pub(crate) fn started_ns(&self) -> i64 {
        let started = self.activity.lock().query_started_ns;
        started.unwrap_or_else(|| self.parts().clock.now_ns())
    }

    /// Start of the open block: nanoseconds since 1970.
    pub fn block_began_ns(&self) -> Option<i64> {
        self.transaction.began_ns()
    }

    /// Whether a statement runs now.
    pub fn is_running(&self) -> bool {
        self.running.lock().iter().any(|work| work.strong_count() > 0)
    }

    /// The transaction state of the session.
    pub fn transaction(&self) -> TransactionState {
        self.transaction.state()
    }

    /// Marks an open block as failed after an error in the protocol layer.
    pub fn fail_transaction(&self) {
        self.transaction.fail();
    }

    /// The value of a setting in the form of SHOW.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.variables.get(name)
    }

    /// All settings.
    pub fn variables(&self) -> &Arc<Variables> {
        &self.variables
    }

    /// The format of values as text, for example of dates and numbers.
    pub fn text_style(&self) -> TextStyle {
        self.variables.parsed().style
    }

    /// The format of values as text in results: like [`Self::text_style`], with the number of
    /// fraction digits from `stratalog.fraction_digits`.
    pub fn result_style(&self) -> TextStyle {
        let parsed = self.variables.parsed();
        TextStyle { fraction_digits: parsed.fraction_digits, ..parsed.style }
    }

    /// The idle timeout in the current state of the session; `None` for no limit.
    pub fn idle_limit(&self) -> Option<Duration> {
        let limits = self.variables.parsed();
        let limit_ms = match self.transaction() {
            TransactionState::Idle => limits.idle_session_ms,
            TransactionState::Block | TransactionState::Failed => limits.idle_in_transaction_ms,
        };
        (limit_ms > 0).then(|| Duration::from_millis(limit_ms))
    }

    /// The maximum time that a FETCH of rows of a SUBSCRIBE waits for the first row.
    pub fn subscribe_wait(&self) -> Duration {
        Duration::from_millis(self.variables.parsed().subscribe_wait_ms)
    }

    /// The settings that changed since the last call, of the settings that the protocol reports to
    /// the client.
    pub fn take_parameter_changes(&self) -> Vec<(String, String)> {
        self.variables.take_changes()
    }

    /// The notices since the last call, filtered by the client's `client_min_messages`.
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

    /// Stores a prepared statement under a name: PREPARE and protocols share one namespace.
    ///
    /// # Errors
    /// `DuplicatePreparedStatement`, `LimitExceeded`.
    pub fn keep(&self, name: &str, prepared: Arc<Prepared>, by: PreparedBy) -> Result<()> {
        let most = self.settings().prepared_statements_max;
        let held = self.share.hold(prepared.memory_bytes())?;
        let now_ns = self.parts().clock.now_ns();
        self.statements.keep(name, (prepared, held), by, most, now_ns)
    }

    /// The prepared statement stored under a name.
    pub fn prepared_statement(&self, name: &str) -> Option<Arc<Prepared>> {
        self.statements.find(name)
    }

    /// Drops the statement stored under a name. Returns whether the statement existed.
    pub fn forget(&self, name: &str) -> bool {
        self.statements.forget(name)
    }

    pub(crate) fn forget_all(&self) {
        self.statements.forget_all();
    }

    /// Begins a COPY. [`Self::copying`] returns the progress until the returned value drops.
    pub(crate) fn begin_copy(
        &self,
        command: &'static str,
        table: Option<ChronicleId>,
    ) -> Arc<CopyProgress> {
        let progress = Arc::new(CopyProgress::new(command, table));
        *self.copying.lock() = Arc::downgrade(&progress);
        progress
    }

    /// The progress of the running COPY; `None` if no COPY runs.
    pub(crate) fn copying(&self) -> Option<Arc<CopyProgress>> {
        self.copying.lock().upgrade()
    }

    /// Ends the session: cancels running statements, drops prepared statements, rolls back, and
    /// releases acquired chronicles.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.stop(Stop::Closed);
        self.forget_all();
        self.cursors.close_all();
        self.transaction.end();
        self.leave();
    }

    fn leave(&self) {
        // For a twin, the original session releases the chronicles.
        if self.holder == HolderId(self.key.process_id) {
            self.release_all();
        }
        self.service.sessions().remove(self.key.process_id);
    }

    /// Makes the session read-only: blocks are read-only by default, and statements cannot cancel
    /// or terminate other sessions.
    ///
    /// # Errors
    /// The errors of [`Variables::set`].
    pub fn confine(&self) -> Result<()> {
        self.confined.store(true, Ordering::Release);
        self.variables.set("default_transaction_read_only", "on", false)
    }

    /// Stops the running statements, and tells the task serving the session to end the session
    /// (`pg_terminate_backend`).
    pub(crate) fn terminate(&self) {
        self.terminated.store(true, Ordering::Release);
        self.stop(Stop::Terminated);
        self.on_termination.notify_waiters();
    }

    /// Checks that no other session has terminated this session.
    ///
    /// # Errors
    /// `Shutdown`.
    pub fn check_terminated(&self) -> Result<()> {
        match self.terminated.load(Ordering::Acquire) {
            true => Err(work::terminated()),
            false => Ok(()),
        }
    }

    /// Waits until another session terminates this session; returns the error for the client.
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

    /// The schema of the rows of an open SQL cursor. Protocols treat a cursor as a portal.
    pub fn cursor_schema(&self, name: &str) -> Option<SchemaRef> {
        self.cursors.find(name).ok().map(|cursor| cursor.schema)
    }

    /// Closes an SQL cursor. Returns whether the cursor existed.
    pub fn close_cursor(&self, name: &str) -> bool {
        self.cursors.close(name)
    }

    /// Ends the settings (SET LOCAL) and the cursors of the block.
    pub(crate) fn end_block(&self, committed: bool) {
        self.variables.end(committed);
        self.cursors.end(committed);
    }

    pub(crate) fn parts(&self) -> &Parts {
        self.service.parts()
    }

    /// This client's account in the memory budget, for messages and statements.
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

    /// The name under which the client connected: the name of the database, or an alias.
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
