//! The error type of the client: what failed, where, and a hint to fix it.

use std::{fmt, sync::Arc};

use stratalog_model as model;
use tonic::{Code, ConnectError, Status};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A SQLSTATE: the five-character error code of PostgreSQL and Stratalog.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState([u8; 5]);

impl SqlState {
    /// Parses a text of five ASCII characters.
    pub fn new(text: &str) -> Option<Self> {
        let bytes: [u8; 5] = text.as_bytes().try_into().ok()?;
        bytes.is_ascii().then_some(Self(bytes))
    }

    /// The five characters as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }

    /// True if the same request may succeed later, according to the server's table of errors.
    fn is_retryable(&self) -> bool {
        let of_this = |kind: &&model::ErrorKind| kind.sqlstate() == self.as_str();
        model::ErrorKind::ALL.iter().filter(of_this).any(|kind| kind.is_retryable())
    }
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The class of an error. A caller decides by the class how to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server cannot be reached, or the connection broke.
    Connection,
    /// A timeout expired.
    Timeout,
    /// The login was refused.
    Login,
    /// The server refused a statement.
    Sql {
        /// The SQLSTATE, which names the reason.
        sqlstate: SqlState,
    },
    /// The rows of a batch were refused. No row of the batch is stored.
    InvalidBatch,
    /// A message exceeds the size limit of the client or of the server.
    TooLarge,
    /// An option, a URL or an argument is invalid.
    InvalidOption,
    /// The writer, transaction or statement has ended.
    Closed,
    /// The server sent an answer that violates the protocol.
    Protocol,
}

/// A failure, the place of the failure, and a hint to fix the failure.
#[derive(Clone)]
pub struct Error(Box<ErrorParts>);

#[derive(Clone)]
struct ErrorParts {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    sqlstate: Option<SqlState>,
    batch: Option<u64>,
    not_carried_out: bool,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorParts {
            kind,
            message: message.into(),
            hint: None,
            sqlstate: None,
            batch: None,
            not_carried_out: false,
            source: None,
        }))
    }

    pub(crate) fn closed(what: &str) -> Self {
        Self::new(ErrorKind::Closed, format!("the {what} has ended"))
    }

    pub(crate) fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
            .with_hint("compare the versions of the server and of this crate")
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Prefixes the message with `what`, the failed operation.
    pub(crate) fn during(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    pub(crate) fn not_carried_out(mut self) -> Self {
        self.0.not_carried_out = true;
        self
    }

    /// Marks the operation as possibly executed: an earlier step may have changed something on the
    /// server.
    pub(crate) fn maybe_carried_out(mut self) -> Self {
        self.0.not_carried_out = false;
        self
    }

    /// True if the server refused a call without any effect, because the session of the call had
    /// ended.
    pub(crate) fn is_session_lost(&self) -> bool {
        self.0.kind == ErrorKind::Login
    }

    /// Turns the error into `InvalidBatch` for the batch with number `batch`. The message begins
    /// with `what`, a name for the batch or for its rows.
    pub(crate) fn of_batch(mut self, batch: u64, what: impl fmt::Display) -> Self {
        self.0.kind = ErrorKind::InvalidBatch;
        self.0.batch = Some(batch);
        self.during(format!("{what} was refused"))
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// A description of the failure and the place of the failure.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// A hint to fix the failure.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The server's SQLSTATE, if the server refused the request.
    pub fn sqlstate(&self) -> Option<&str> {
        self.0.sqlstate.as_ref().map(SqlState::as_str)
    }

    /// The number of the refused batch, as in [`Delivery::number`](crate::Delivery::number).
    pub fn batch(&self) -> Option<u64> {
        self.0.batch
    }

    /// True if the same request may succeed later. A repetition is not always safe: a statement may
    /// have run before the connection broke; see [`Self::is_not_carried_out`].
    pub fn is_retryable(&self) -> bool {
        match self.0.kind {
            ErrorKind::Connection | ErrorKind::Timeout => true,
            ErrorKind::InvalidBatch | ErrorKind::TooLarge => false,
            _ => self.0.sqlstate.is_some_and(|state| state.is_retryable()),
        }
    }

    /// True if the same event may succeed with a new time: the time was outside of the acceptance
    /// window (the range of times around now that the server accepts), or another event already has
    /// the time.
    pub fn needs_new_time(&self) -> bool {
        let kinds = [model::ErrorKind::OutsideWindow, model::ErrorKind::TickTaken];
        kinds.iter().any(|kind| Some(kind.sqlstate()) == self.sqlstate())
    }

    /// True if the time of an event was outside of the acceptance window: SQLSTATE SL001.
    pub(crate) fn is_outside_window(&self) -> bool {
        self.sqlstate() == Some(model::ErrorKind::OutsideWindow.sqlstate())
    }

    /// True if the lease of the session's acquisition has run out: SQLSTATE SL003.
    pub(crate) fn is_lease_lost(&self) -> bool {
        self.sqlstate() == Some(model::ErrorKind::LeaseLost.sqlstate())
    }

    /// True if an object is in the wrong state, for example a chronicle that is being dropped:
    /// SQLSTATE 55000.
    pub(crate) fn is_wrong_state(&self) -> bool {
        self.sqlstate() == Some(model::ErrorKind::ObjectNotInPrerequisiteState.sqlstate())
    }

    /// True if the request certainly had no effect: the client never sent the request, or the
    /// server refused the whole request before running it.
    pub fn is_not_carried_out(&self) -> bool {
        self.0.not_carried_out
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(sqlstate) = &self.0.sqlstate {
            write!(f, " (SQLSTATE {sqlstate})")?;
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        let mut converted = Self::new(ErrorKind::InvalidBatch, error.to_string());
        converted.0.source = Some(Arc::new(error));
        converted
    }
}

/// The error for the gRPC status of a call. A status with a SQLSTATE comes from the server; any
/// other status comes from the connection or from gRPC.
impl From<Status> for Error {
    fn from(status: Status) -> Self {
        let sqlstate = status.metadata().get("sqlstate").and_then(|value| value.to_str().ok());
        let sqlstate = sqlstate.and_then(SqlState::new);
        let kind = match (sqlstate, status.code()) {
            (_, Code::Unauthenticated) => ErrorKind::Login,
            // gRPC itself reports this message; a server may report the same case as a broken
            // connection.
            _ if status.message().contains("message length too large") => ErrorKind::TooLarge,
            (Some(sqlstate), _) => ErrorKind::Sql { sqlstate },
            (None, Code::DeadlineExceeded) => ErrorKind::Timeout,
            (None, Code::OutOfRange | Code::ResourceExhausted) => ErrorKind::TooLarge,
            (None, Code::Unimplemented | Code::InvalidArgument | Code::NotFound) => {
                ErrorKind::Protocol
            }
            (None, _) => ErrorKind::Connection,
        };
        let (message, hint) = split(status.message());
        let mut error = Self::new(kind, message);
        error.0.hint = hint;
        error.0.sqlstate = sqlstate;
        if kind == ErrorKind::TooLarge {
            error =
                error.with_hint("message_bytes_max says how large messages may be, on both sides");
        }
        // The server reports an ended session before running any part of the request.
        error.0.not_carried_out = kind == ErrorKind::Login || never_sent(&status);
        if kind == ErrorKind::Connection {
            error = error.during("the connection failed");
        }
        error.0.source = Some(Arc::new(status));
        error
    }
}

/// True if the request was certainly not sent: the client had no connection, or the connection had
/// broken before the call.
fn never_sent(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let canceled = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled);
        if canceled || error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Splits the server's text into message and hint. In the text, detail, hint and context each have
/// a line. Omits the position of a batch within its call, because this position means nothing to
/// the caller.
fn split(text: &str) -> (String, Option<String>) {
    let mut hint: Option<String> = None;
    let mut message = String::new();
    let mut in_hint = false;
    for line in text.split('\n') {
        if let Some(text) = line.strip_prefix("  hint: ") {
            hint = Some(text.to_string());
            in_hint = true;
        } else if let Some(context) = line.strip_prefix("  context: ") {
            in_hint = false;
            if !context.starts_with("batch ") {
                message.push_str(&format!("; {context}"));
            }
        } else if let Some(detail) = line.strip_prefix("  detail: ") {
            in_hint = false;
            message.push_str(&format!("; {detail}"));
        } else {
            let target = match (&mut hint, in_hint) {
                (Some(hint), true) => hint,
                _ => &mut message,
            };
            if !target.is_empty() {
                target.push('\n');
            }
            target.push_str(line);
        }
    }
    (message, hint)
}

/// Adds the hint that `what` may or may not have happened, if `error` leaves the outcome unknown.
pub(crate) fn unknown_outcome(error: Error, what: &str) -> Error {
    if error.is_retryable() && error.sqlstate().is_none() && !error.is_not_carried_out() {
        return error
            .with_hint(format!("the outcome is unknown: check whether {what} before a retry"));
    }
    error
}

#[cfg(test)]
mod tests;
