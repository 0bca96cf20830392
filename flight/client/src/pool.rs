//! The connections of a client: bounded, opened on demand, replaced after failures.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use crate::{
    acquisition::SessionAcquisition,
    cleanup::{Cleanup, CleanupTask},
    connection::{Connection, within},
    error::{Error, ErrorKind, Result},
    server_clock::ServerClock,
    session::{OptionValue, Options},
    settings::Settings,
};

/// Maximal number of sessions that one call tries. A session ends when the server restarts, and the
/// server may restart again while the client logs in.
const SESSIONS_MAX: usize = 3;

/// All connections of a client.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) settings: Settings,
    slots: Vec<Arc<Slot>>,
    requested: Mutex<RequestedOptions>,
    closed: AtomicBool,
    pub(crate) cleanup: Cleanup,
    pub(crate) clock: ServerClock,
    /// The acquisition of the session; set only in a pool of one connection.
    pub(crate) acquisition: OnceLock<SessionAcquisition>,
}

/// The options that every session must have.
#[derive(Debug, Default)]
struct RequestedOptions {
    version: u64,
    options: Options,
}

#[derive(Debug, Default)]
struct Slot {
    calls: AtomicUsize,
    connection: tokio::sync::Mutex<Option<Connection>>,
}

/// A connection borrowed from the pool for one call. The pool counts the call, and lives at least
/// as long as the lease. This lease is unrelated to the lease of an acquisition.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) connection: Connection,
    call: CountedCall,
    pool: Arc<Pool>,
}

impl Lease {
    /// Borrows the same connection for another call.
    pub(crate) fn another(&self) -> Self {
        Self {
            connection: self.connection.clone(),
            call: CountedCall::new(&self.call.0),
            pool: Arc::clone(&self.pool),
        }
    }
}

#[derive(Debug)]
struct CountedCall(Arc<Slot>);

impl CountedCall {
    fn new(slot: &Arc<Slot>) -> Self {
        slot.calls.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(slot))
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pool {
    /// A pool without open connections.
    pub(crate) fn new(settings: Settings) -> Self {
        let slots = (0..settings.connections).map(|_| Arc::default()).collect();
        let mut options = Options::new();
        if let Some(name) = &settings.application_name {
            options.insert("application_name".to_string(), Some(name.as_str().into()));
        }
        let requested = Mutex::new(RequestedOptions { version: 1, options });
        Self {
            settings,
            slots,
            requested,
            closed: AtomicBool::new(false),
            cleanup: Cleanup::start(),
            clock: ServerClock::default(),
            acquisition: OnceLock::new(),
        }
    }

    /// Borrows the connection with the fewest calls; opens or replaces the connection if necessary.
    ///
    /// # Errors
    /// Errors of connecting and logging in; no statement was run.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Lease> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::closed("client"));
        }
        let quietest = self.slots.iter().min_by_key(|slot| slot.calls.load(Ordering::Acquire));
        let Some(slot) = quietest else {
            return Err(Error::closed("client"));
        };
        let call = CountedCall::new(slot);
        let mut kept = slot.connection.lock().await;
        let mut last = String::new();
        for _ in 0..SESSIONS_MAX {
            let usable = kept.as_ref().filter(|connection| !connection.is_suspect());
            let connection = match usable {
                Some(connection) => connection.clone(),
                None => {
                    // The session survives a broken connection, so the pool keeps the session for
                    // the next attempt.
                    let session = kept.as_ref().map(|before| Arc::clone(&before.session));
                    let connection = Connection::open(&self.settings, session).await?;
                    tracing::debug!(server = %self.settings.address.display_url(), "connected");
                    *kept = Some(connection.clone());
                    connection
                }
            };
            match self.make_ready(&connection).await {
                Ok(()) => return Ok(Lease { connection, call, pool: Arc::clone(self) }),
                // The server has restarted: it still accepts the login, but no longer knows the old
                // token.
                Err(error) if error.is_session_lost() => {
                    tracing::debug!(%error, "logging in again");
                    last = error.message().to_string();
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(
            ErrorKind::Connection,
            format!("the server ended {SESSIONS_MAX} sessions at their first use: {last}"),
        )
        .not_carried_out())
    }

    /// Brings a session up to date before its use: sends changed options, then renews the
    /// acquisition if there is one.
    async fn make_ready(&self, connection: &Connection) -> Result<()> {
        self.send_changed_options(connection).await?;
        if let Some(acquisition) = self.acquisition.get() {
            let kept = within(Some(self.settings.connect_timeout), acquisition.keep(connection));
            kept.await.inspect_err(|error| connection.learn(error))?;
        }
        Ok(())
    }

    /// Sends a session the options that changed since its last update.
    async fn send_changed_options(&self, connection: &Connection) -> Result<()> {
        let (version, options) = {
            let requested = self.requested.lock();
            if connection.session.options_version.load(Ordering::Acquire) == requested.version {
                return Ok(());
            }
            (requested.version, requested.options.clone())
        };
        within(Some(self.settings.connect_timeout), connection.set(&options))
            .await
            .inspect_err(|error| connection.learn(error))
            .map_err(Error::not_carried_out)?;
        connection.session.options_version.store(version, Ordering::Release);
        Ok(())
    }

    /// True if `error` reports that the lease of the acquisition ran out and the client may acquire
    /// again. The refused statement did not run, and the next use of the connection acquires again.
    pub(crate) fn regains(&self, error: &Error) -> bool {
        self.acquisition.get().is_some_and(|acquisition| acquisition.ran_out(error))
    }

    /// Sets an option for all present and future sessions.
    pub(crate) fn request_option(&self, name: String, value: Option<OptionValue>) {
        let mut requested = self.requested.lock();
        requested.version += 1;
        requested.options.insert(name, value);
    }

    /// Ends all sessions.
    pub(crate) async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for slot in &self.slots {
            if let Some(connection) = slot.connection.lock().await.take() {
                self.cleanup.enqueue(CleanupTask::CloseSession(connection));
            }
        }
        self.cleanup.done().await;
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for slot in &self.slots {
            if let Ok(mut connection) = slot.connection.try_lock()
                && let Some(connection) = connection.take()
            {
                self.cleanup.enqueue(CleanupTask::CloseSession(connection));
            }
        }
    }
}
