//! Callers: a caller is a login of a client, with its session, transactions, prepared statements
//! and tickets.
//!
//! ```text
//!   Bearer token of a Handshake ─► the login of the Handshake call that issued the token
//!   Basic, any other token, client certificate, or no login, on a server without users
//!                                ─► a login of the connection, by user, identity and database
//! ```

mod registry;
mod watch;

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use stratalog_access::{Authenticator, LoginStamp};
use stratalog_model::{Clock, Error, ErrorKind, Result};
use stratalog_query::{Login, QueryService, Session};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use self::registry::Callers;
use self::watch::Watch;
use crate::{
    FlightSettings, encode::EncodedCommits, options::CallerOptions, prepared::Statement,
    statement::SharedRows,
};

/// Maximum number of unredeemed tickets for parts of results, per caller.
const TICKETS_MAX: usize = 10_000;

/// A login of a client.
pub(crate) struct Caller {
    id: Uuid,
    session: Arc<Session>,
    service: Arc<QueryService>,
    pub(crate) settings: Arc<FlightSettings>,
    encoded: Arc<EncodedCommits>,
    pub(crate) options: Mutex<CallerOptions>,
    transactions: Mutex<HashMap<Vec<u8>, OpenTransaction>>,
    statements: Mutex<HashMap<Vec<u8>, Arc<Statement>>>,
    /// The tokens that cancel the running work of redeemed tickets, by ticket number.
    running: Mutex<HashMap<u64, CancellationToken>>,
    parts: Mutex<HashMap<u64, Arc<SharedRows>>>,
    authenticator: Arc<Authenticator>,
    stamp: LoginStamp,
    next_number: AtomicU64,
    used_ns: AtomicI64,
    _watch: Watch,
}

/// An open transaction: its session, and the watch that closes the session if another session
/// terminates it.
#[derive(Debug)]
struct OpenTransaction {
    session: Arc<Session>,
    _watch: Watch,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Caller {
    /// Opens a session for a new login.
    ///
    /// # Errors
    /// The errors of [`QueryService::connect`].
    pub(crate) fn new(
        service: &Arc<QueryService>,
        authenticator: &Arc<Authenticator>,
        settings: &Arc<FlightSettings>,
        encoded: &Arc<EncodedCommits>,
        login: Login,
    ) -> Result<Arc<Self>> {
        let stamp = authenticator.stamp(&login.identity);
        let session = service.connect(login)?;
        Ok(Arc::new_cyclic(|caller: &Weak<Self>| {
            let caller = Weak::clone(caller);
            let end = move || {
                if let Some(caller) = caller.upgrade() {
                    caller.end();
                }
            };
            Self {
                id: Uuid::new_v4(),
                session: Arc::clone(&session),
                service: Arc::clone(service),
                settings: Arc::clone(settings),
                encoded: Arc::clone(encoded),
                options: Mutex::default(),
                transactions: Mutex::default(),
                statements: Mutex::default(),
                running: Mutex::default(),
                parts: Mutex::default(),
                authenticator: Arc::clone(authenticator),
                stamp,
                next_number: AtomicU64::new(1),
                used_ns: AtomicI64::new(service.parts().clock.now_ns()),
                _watch: Watch::new(session, end),
            }
        }))
    }

    /// Checks that the login is still valid: the role exists and may log in, its password is the
    /// password of the login, and its token was not revoked and has not expired.
    ///
    /// # Errors
    /// `InvalidAuthorization`.
    pub(crate) fn check_login(&self) -> Result<()> {
        self.authenticator.check_valid(&self.session.identity(), &self.stamp)
    }

    /// The encoded messages of recent commits, which all subscribers share.
    pub(crate) fn encoded(&self) -> &Arc<EncodedCommits> {
        &self.encoded
    }

    /// The id of the login. Tickets contain the id, so that only the same login can redeem them.
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    /// The time of the master clock, in nanoseconds since 1970.
    pub(crate) fn now_ns(&self) -> i64 {
        self.service.parts().clock.now_ns()
    }

    /// The master clock.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.service.parts().clock
    }

    /// Records the present time as the time of the caller's last call.
    pub(crate) fn touch(&self) {
        self.used_ns.store(self.now_ns(), Ordering::Relaxed);
    }

    /// The time of the caller's last call, in nanoseconds since 1970; the present time while a
    /// statement runs.
    pub(crate) fn idle_since_ns(&self) -> i64 {
        let runs = |session: &Arc<Session>| session.is_running();
        if runs(&self.session) || self.transactions.lock().values().any(|open| runs(&open.session))
        {
            self.touch();
        }
        self.used_ns.load(Ordering::Relaxed)
    }

    /// The session for statements outside of transactions.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// The session in which a statement runs: the session of `transaction`, or the login's session
    /// if there is no transaction.
    ///
    /// # Errors
    /// `InvalidTransactionState` for an unknown transaction; `Shutdown` if another session has
    /// terminated the session.
    pub(crate) fn session_of(&self, transaction: Option<&[u8]>) -> Result<Arc<Session>> {
        let Some(id) = transaction.filter(|id| !id.is_empty()) else {
            return Ok(Arc::clone(&self.session));
        };
        let session = {
            let transactions = self.transactions.lock();
            Arc::clone(&transactions.get(id).ok_or_else(no_transaction)?.session)
        };
        match session.check_terminated() {
            Ok(()) => Ok(session),
            Err(_) => self.take_transaction(id),
        }
    }

    /// Registers the session of a new transaction; returns the transaction's id.
    ///
    /// # Errors
    /// `LimitExceeded` for too many open transactions.
    pub(crate) fn open_transaction(&self, session: Arc<Session>) -> Result<Vec<u8>> {
        let mut transactions = self.transactions.lock();
        check_room("open transactions", transactions.len(), self.settings.transactions_max)?;
        let id = Uuid::new_v4().into_bytes().to_vec();
        let ended = Arc::clone(&session);
        let watch = Watch::new(Arc::clone(&session), move || ended.close());
        transactions.insert(id.clone(), OpenTransaction { session, _watch: watch });
        Ok(id)
    }

    /// Removes a transaction from the open transactions, because it is about to end. Returns its
    /// session.
    ///
    /// # Errors
    /// The errors of [`Self::session_of`].
    pub(crate) fn take_transaction(&self, id: &[u8]) -> Result<Arc<Session>> {
        let open = self.transactions.lock().remove(id).ok_or_else(no_transaction)?;
        // The watch ends with the removed transaction, perhaps before it has closed a terminated
        // session. So the session is closed here.
        open.session.check_terminated().inspect_err(|_| open.session.close())?;
        Ok(open.session)
    }

    /// Registers a prepared statement; returns its handle.
    ///
    /// # Errors
    /// `LimitExceeded` for too many prepared statements.
    pub(crate) fn keep(&self, statement: Arc<Statement>) -> Result<Vec<u8>> {
        let mut statements = self.statements.lock();
        check_room("prepared statements", statements.len(), self.settings.statements_max)?;
        let handle = Uuid::new_v4().into_bytes().to_vec();
        statements.insert(handle.clone(), statement);
        Ok(handle)
    }

    /// Finds the prepared statement with the handle `handle`.
    ///
    /// # Errors
    /// `UndefinedPreparedStatement`.
    pub(crate) fn prepared_statement(&self, handle: &[u8]) -> Result<Arc<Statement>> {
        self.statements.lock().get(handle).cloned().ok_or_else(|| {
            Error::new(
                ErrorKind::UndefinedPreparedStatement,
                "no prepared statement has this handle: the statement was closed, or belongs to another session",
            )
        })
    }

    /// Removes a prepared statement. Closing an unknown handle is not an error.
    pub(crate) fn close(&self, handle: &[u8]) {
        self.statements.lock().remove(handle);
    }

    /// Returns a new ticket number.
    pub(crate) fn number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Begins the work of a ticket. The work counts as running until the returned value is dropped.
    pub(crate) fn redeem(self: &Arc<Self>, number: u64) -> RunningWork {
        let token = CancellationToken::new();
        self.running.lock().insert(number, token.clone());
        RunningWork { caller: Arc::clone(self), number, token }
    }

    /// Cancels the work of a ticket, and makes an unredeemed ticket for a part of a result invalid.
    /// Returns true if there was anything to cancel.
    pub(crate) fn cancel_ticket(&self, number: u64) -> bool {
        let shared = self.parts.lock().remove(&number);
        let running = self.running.lock().get(&number).cloned();
        if let Some(running) = &running {
            running.cancel();
        }
        shared.is_some() || running.is_some()
    }

    /// Registers a result for `count` tickets, one per part; returns the numbers of the tickets.
    pub(crate) fn share(&self, rows: &Arc<SharedRows>, count: usize) -> Vec<u64> {
        let mut parts = self.parts.lock();
        let numbers: Vec<u64> = (0..count).map(|_| self.number()).collect();
        parts.extend(numbers.iter().map(|number| (*number, Arc::clone(rows))));
        while parts.len() > TICKETS_MAX {
            let Some(oldest) = parts.keys().min().copied() else { break };
            parts.remove(&oldest);
        }
        numbers
    }

    /// Redeems a ticket for a part of a result: returns the shared result. Each ticket works once.
    ///
    /// # Errors
    /// `ObjectNotInPrerequisiteState` for a ticket that was already redeemed.
    pub(crate) fn part(&self, number: u64) -> Result<Arc<SharedRows>> {
        self.parts.lock().remove(&number).ok_or_else(|| {
            Error::new(
                ErrorKind::ObjectNotInPrerequisiteState,
                "this part of the result was read before",
            )
            .with_hint("call GetFlightInfo again")
        })
    }

    /// Ends the caller's running work, transactions and session.
    pub(crate) fn end(&self) {
        for (_, open) in self.transactions.lock().drain() {
            open.session.close();
        }
        self.statements.lock().clear();
        self.parts.lock().clear();
        self.session.close();
    }
}

/// The running work of a redeemed ticket. The work counts as running until this value is dropped.
#[derive(Debug)]
pub(crate) struct RunningWork {
    caller: Arc<Caller>,
    number: u64,
    token: CancellationToken,
}

impl RunningWork {
    /// The caller that redeemed the ticket.
    pub(crate) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Waits until the work is cancelled; returns the error for the client.
    pub(crate) async fn cancelled(&self) -> Error {
        self.token.cancelled().await;
        Error::new(ErrorKind::QueryCanceled, "canceling statement due to user request")
    }
}

impl Drop for RunningWork {
    fn drop(&mut self) {
        self.caller.running.lock().remove(&self.number);
        self.caller.touch();
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.end();
    }
}

fn no_transaction() -> Error {
    Error::new(
        ErrorKind::InvalidTransactionState,
        "no open transaction has this id: the transaction has ended, or belongs to another session",
    )
}

fn check_room(what: &str, count: usize, most: usize) -> Result<()> {
    if count < most {
        return Ok(());
    }
    Err(Error::new(ErrorKind::LimitExceeded, format!("a session has at most {most} {what}"))
        .with_hint(format!("close unneeded {what}")))
}
