//! The service through which all protocols run SQL.

mod audit;
pub(crate) mod base;
mod execution;
pub(crate) mod memory;
pub(crate) mod resident_memory;
mod running_plan;
pub(crate) mod share;
mod short_plans;

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
};

use arrow::array::RecordBatch;
use datafusion::execution::session_state::SessionState;
use parking_lot::Mutex;
use stratalog_metrics::{Metrics, ServerStatus};
use stratalog_model::{
    Clock, Error, ErrorKind, EventStore, Result, batch_results::BatchResults, files::DataFiles,
};
use stratalog_visor_core::{Acquisitions, Catalog, access::Identity};
use tokio::sync::watch;

pub use self::{
    audit::AuditRecord,
    execution::STACK_BYTES,
    resident_memory::{Allowance, MemoryPromise, Process, Watch},
    share::{Share, ShareReservation},
};
pub(crate) use self::{
    audit::SUCCESS,
    execution::{Execution, StoppablePlan},
    share::statement_bytes,
};
use crate::{
    Backups, Certificates, Inspector, QuerySettings, Session,
    session::{SessionOwner, work::Stop},
};

/// Length of a short secret of a [`CancelKey`], in bytes.
const SHORT_SECRET_BYTES: usize = 4;

/// The components that the service uses.
#[derive(Debug)]
pub struct Parts {
    /// The catalog of databases, schemas and chronicles.
    pub catalog: Arc<Catalog>,
    /// The store of the events.
    pub store: Arc<dyn EventStore>,
    /// The acquisitions of chronicles by sessions.
    pub acquisitions: Arc<Acquisitions>,
    /// The clock for `now()` and for events without a time.
    pub clock: Arc<dyn Clock>,
    /// The limits of statements and sessions.
    pub settings: QuerySettings,
    /// Checks the stored files; `None` without files.
    pub inspector: Option<Arc<dyn Inspector>>,
    /// Makes backups; `None` if nothing can be backed up.
    pub backups: Option<Arc<dyn Backups>>,
    /// The files of the data directory; `None` without a directory.
    pub files: Option<Arc<dyn DataFiles>>,
    /// The metrics of all components, including the protocols.
    pub metrics: Arc<Metrics>,
}

/// The identity of a connecting client.
#[derive(Debug, Clone, Default)]
pub struct Login {
    /// User name, already authenticated.
    pub user: String,
    /// On whose behalf the session's statements run: the result of the authentication.
    pub identity: Identity,
    /// Database.
    pub database: String,
    /// The application name that the client sent.
    pub application_name: String,
    /// The client's address; `None` for an in-process client.
    pub client_address: Option<String>,
    /// Initial settings from the start-up message: names and values.
    pub settings: Vec<(String, String)>,
    /// True if the secret of the [`CancelKey`] has 32 bytes, not 4.
    pub long_secret: bool,
}

/// The key with which another connection cancels the running statement of a session.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey {
    /// Number of the session.
    pub process_id: i32,
    /// A secret that only the session's client knows.
    pub secret: Vec<u8>,
}

impl CancelKey {
    fn new(process_id: i32, long_secret: bool) -> Self {
        let random = || uuid::Uuid::new_v4().into_bytes();
        let mut secret = [random(), random()].concat();
        if !long_secret {
            secret.truncate(SHORT_SECRET_BYTES);
        }
        Self { process_id, secret }
    }
}

impl std::fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CancelKey").field("process_id", &self.process_id).finish_non_exhaustive()
    }
}

/// Runs SQL for all protocols; a server has one service.
pub struct QueryService {
    parts: Parts,
    base: SessionState,
    execution: Execution,
    sessions: Arc<Sessions>,
    closing: AtomicBool,
    /// True when endless statements (SUBSCRIBE) must end.
    ending: watch::Sender<bool>,
    /// Batches of the last commits, shared by all subscribers.
    pub(crate) subscription_batches: BatchResults<Option<RecordBatch>>,
    next_id: AtomicI32,
    started_ns: i64,
    /// The server's TLS certificate; empty without listeners.
    certificates: OnceLock<Arc<dyn Certificates>>,
    /// True after the audit log was created or found in this run of the server.
    audit_is_ready: AtomicBool,
}

/// The open sessions, by process id.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<HashMap<i32, Weak<Session>>>);

impl Sessions {
    /// The sessions that are open now, by process id.
    pub fn open(&self) -> Vec<Arc<Session>> {
        let mut open: Vec<Arc<Session>> =
            self.0.lock().values().filter_map(Weak::upgrade).collect();
        open.sort_by_key(|session| session.process_id());
        open
    }

    /// The open session with a process id.
    pub(crate) fn get(&self, process_id: i32) -> Option<Arc<Session>> {
        self.0.lock().get(&process_id).and_then(Weak::upgrade)
    }

    pub(crate) fn remove(&self, process_id: i32) {
        self.0.lock().remove(&process_id);
    }
}

impl std::fmt::Debug for QueryService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryService").field("parts", &self.parts).finish_non_exhaustive()
    }
}

impl QueryService {
    /// Creates the service from its components.
    ///
    /// # Errors
    /// `Io` if the spill directory is not usable.
    pub fn new(parts: Parts) -> Result<Arc<Self>> {
        let base = base::build(&parts.settings)?;
        let execution = Execution::new(parts.settings.parallel_streams_max)?;
        let started_ns = parts.clock.now_ns();
        Ok(Arc::new(Self {
            parts,
            base,
            execution,
            sessions: Arc::default(),
            closing: AtomicBool::new(false),
            ending: watch::Sender::new(false),
            subscription_batches: BatchResults::default(),
            next_id: AtomicI32::new(1),
            started_ns,
            certificates: OnceLock::new(),
            audit_is_ready: AtomicBool::new(false),
        }))
    }

    /// Opens a session.
    ///
    /// # Errors
    /// `UndefinedDatabase`, `TooManyConnections`, `Shutdown`, and the errors of invalid settings.
    pub fn connect(self: &Arc<Self>, login: Login) -> Result<Arc<Session>> {
        self.connect_as(login, SessionOwner::default())
    }

    /// Like [`Self::connect`], for one request of a client without a lasting session. The request
    /// may write events older than the session, within the acceptance windows.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn connect_for_request(self: &Arc<Self>, login: Login) -> Result<Arc<Session>> {
        self.connect_as(login, SessionOwner { since_ns: Some(i64::MIN), ..SessionOwner::default() })
    }

    /// Like [`Self::connect`]; `owner` gives the holder of the acquisitions and the earliest
    /// accepted time of events.
    pub(crate) fn connect_as(
        self: &Arc<Self>,
        login: Login,
        owner: SessionOwner,
    ) -> Result<Arc<Session>> {
        self.check_open()?;
        let mut login = login;
        let connected_to = login.database.clone();
        if let Some(database) = self.parts.catalog.state().database_meant(&connected_to) {
            login.database.clone_from(&database.name);
        } else {
            return Err(Error::new(
                ErrorKind::UndefinedDatabase,
                format!("database \"{}\" does not exist", login.database),
            )
            .with_hint("the database of a new server is stratalog"));
        }
        let process_id = self.next_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
        let key = CancelKey::new(process_id, login.long_secret);
        let session = Session::open(self, login, connected_to, key, owner)?;
        session.show_identity()?;
        session.check_connect()?;
        // Declared before the lock: a drop of a session's last reference locks the list again.
        let open: Vec<Arc<Session>>;
        let mut sessions = self.sessions.0.lock();
        sessions.retain(|_, session| session.strong_count() > 0);
        open = sessions.values().filter_map(Weak::upgrade).collect();
        session.check_connection_limit(&open)?;
        if sessions.len() >= self.parts.settings.sessions_max {
            return Err(Error::new(
                ErrorKind::TooManyConnections,
                format!("sorry, too many clients already ({})", sessions.len()),
            )
            .with_hint("close connections, use a pool, or raise connections_max"));
        }
        sessions.insert(process_id, Arc::downgrade(&session));
        Ok(session)
    }

    /// Cancels the running statement of the key's session; returns true if the session exists.
    pub fn cancel(&self, key: &CancelKey) -> bool {
        match self.sessions.get(key.process_id) {
            Some(session) if session.key() == key => {
                session.stop(Stop::User);
                true
            }
            _ => false,
        }
    }

    /// Ends all present and future subscriptions, and all waits of statements for other sessions.
    /// Call before a shutdown that lets statements finish: these statements might never finish.
    pub fn end_subscriptions(&self) {
        self.ending.send_replace(true);
    }

    /// Waits until the service ends its subscriptions; returns the error for the client.
    pub(crate) fn subscriptions_end(&self) -> impl Future<Output = Error> + Send + use<> {
        let mut ending = self.ending();
        async move {
            // An error means that the service no longer exists: the subscription ends too.
            let _ = ending.wait_for(|ending| *ending).await;
            Error::new(ErrorKind::Shutdown, "terminating subscription: the server is shutting down")
        }
    }

    /// A channel whose value becomes true when endless statements must end.
    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// Refuses new sessions and statements, and cancels all running statements.
    pub fn shutdown(&self) {
        self.end_subscriptions();
        self.closing.store(true, Ordering::Release);
        for session in self.sessions.open() {
            session.stop(Stop::Shutdown);
        }
    }

    /// True after [`QueryService::shutdown`]: protocols then end their connections.
    pub fn is_shut_down(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Sets the server's TLS certificate, for CALL and for the metrics. Only the first call has an
    /// effect.
    pub fn set_certificates(&self, certificates: Arc<dyn Certificates>) {
        let _ = self.certificates.set(certificates);
    }

    /// The server's TLS certificate; `None` without listeners.
    pub(crate) fn certificates(&self) -> Option<&Arc<dyn Certificates>> {
        self.certificates.get()
    }

    /// The components that the service uses.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The open sessions.
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// The start time of the service, in nanoseconds since 1970.
    pub fn started_ns(&self) -> i64 {
        self.started_ns
    }

    /// All metrics of the server, in Prometheus' text format.
    pub fn metrics_page(&self) -> String {
        let parts = &self.parts;
        let (store, moves, clock) =
            (parts.store.status(), parts.store.moves(), parts.clock.status());
        let sessions = self.sessions.open();
        parts.metrics.page(&ServerStatus {
            store: &store,
            clock: &clock,
            sessions: sessions.len() as u64,
            sessions_running: sessions.iter().filter(|session| session.is_running()).count() as u64,
            moves_running: moves.iter().filter(|one| one.ended_ns.is_none()).count() as u64,
            moves_failed: moves.iter().filter(|one| one.error.is_some()).count() as u64,
            certificate_expires_ns: self.certificates().and_then(|one| one.expires_ns()),
            up_ns: clock.reading.now_ns.saturating_sub(self.started_ns),
        })
    }

    /// Creates the memory account of a new client, within the memory budget of the server.
    pub fn client_share(&self) -> Arc<Share> {
        Share::new("messages and statements of a client", &self.base.runtime_env().memory_pool)
    }

    pub(crate) fn execution(&self) -> &Execution {
        &self.execution
    }

    pub(crate) fn base(&self) -> &SessionState {
        &self.base
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.is_shut_down() {
            return Err(Error::new(ErrorKind::Shutdown, "the server is shutting down"));
        }
        Ok(())
    }
}
