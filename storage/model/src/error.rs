//! The error type of all crate boundaries: the problem, the place and the remedy.

use std::fmt;

/// Result of all fallible operations at a crate boundary.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($( $(#[$doc:meta])* $name:ident = $sqlstate:literal, $retryable:literal, $status:ident; )*) => {
        /// The class of an error. The class decides the SQLSTATE that clients receive, and whether
        /// a retry of the same request can succeed. All protocols use the same table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorKind { $( $(#[$doc])* $name, )* }

        impl ErrorKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [ErrorKind] = &[ $( ErrorKind::$name, )* ];

            /// The SQLSTATE for PostgreSQL clients: five characters.
            pub const fn sqlstate(self) -> &'static str {
                match self { $( ErrorKind::$name => $sqlstate, )* }
            }

            /// Whether a retry of the same request may succeed. For some kinds, the retried event
            /// needs a new time.
            pub const fn is_retryable(self) -> bool {
                match self { $( ErrorKind::$name => $retryable, )* }
            }

            /// The corresponding status for gRPC and HTTP clients.
            pub const fn status(self) -> Status {
                match self { $( ErrorKind::$name => Status::$status, )* }
            }
        }
    };
}

/// The outcome of a request in the terms of gRPC and HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The request was stopped by the user, or by a timeout.
    Cancelled,
    /// The request is invalid in every state of the server.
    InvalidArgument,
    /// The named object does not exist.
    NotFound,
    /// The object to create exists already.
    AlreadyExists,
    /// The user lacks the required privilege.
    PermissionDenied,
    /// A resource is unavailable for now: disk space, memory, a connection slot, or an object that
    /// other sessions have acquired.
    ResourceExhausted,
    /// The request exceeds a fixed limit; a retry fails too.
    TooLarge,
    /// The current state of the session or of the object does not permit the request.
    FailedPrecondition,
    /// The request was aborted in favor of another request.
    Aborted,
    /// A value is outside of the accepted range.
    OutOfRange,
    /// The server does not support the request.
    Unimplemented,
    /// The server has a defect or failed internally.
    Internal,
    /// The server is starting, stopping or gone.
    Unavailable,
    /// Stored data is damaged.
    DataLoss,
    /// The server refused the login.
    Unauthenticated,
}

impl Status {
    /// The gRPC status code.
    pub const fn grpc(self) -> i32 {
        match self {
            Status::Cancelled => 1,
            Status::InvalidArgument => 3,
            Status::NotFound => 5,
            Status::AlreadyExists => 6,
            Status::PermissionDenied => 7,
            Status::ResourceExhausted | Status::TooLarge => 8,
            Status::FailedPrecondition => 9,
            Status::Aborted => 10,
            Status::OutOfRange => 11,
            Status::Unimplemented => 12,
            Status::Internal => 13,
            Status::Unavailable => 14,
            Status::DataLoss => 15,
            Status::Unauthenticated => 16,
        }
    }

    /// The HTTP status code.
    pub const fn http(self) -> u16 {
        match self {
            Status::InvalidArgument | Status::FailedPrecondition | Status::OutOfRange => 400,
            Status::Unauthenticated => 401,
            Status::PermissionDenied => 403,
            Status::NotFound => 404,
            Status::Cancelled => 408,
            Status::AlreadyExists | Status::Aborted => 409,
            Status::TooLarge => 413,
            Status::ResourceExhausted => 429,
            Status::Internal | Status::DataLoss => 500,
            Status::Unimplemented => 501,
            Status::Unavailable => 503,
        }
    }
}

kinds! {
    /// A message that violates the protocol.
    ProtocolViolation = "08P01", false, InvalidArgument;
    /// The peer went away.
    ConnectionFailure = "08006", true, Unavailable;
    /// Deliberately unsupported, or not yet supported.
    FeatureNotSupported = "0A000", false, Unimplemented;
    /// Too many rows in this place.
    CardinalityViolation = "21000", false, InvalidArgument;
    /// A number does not fit its type.
    NumericOutOfRange = "22003", false, InvalidArgument;
    /// A timestamp or interval in a wrong format.
    InvalidDatetimeFormat = "22007", false, InvalidArgument;
    /// A timestamp or tick does not fit its range.
    DatetimeOverflow = "22008", false, InvalidArgument;
    /// An offset from UTC that no place on Earth has.
    InvalidTimeZoneOffset = "22009", false, InvalidArgument;
    /// An interval does not fit its range.
    IntervalOverflow = "22015", false, InvalidArgument;
    /// A character that text cannot hold.
    UntranslatableCharacter = "22P05", false, InvalidArgument;
    /// A negative offset in a window frame.
    InvalidFrameOffset = "22013", false, InvalidArgument;
    /// A number of buckets below 1.
    InvalidNtile = "22014", false, InvalidArgument;
    /// A position of a row in a window below 1.
    InvalidNthValue = "22016", false, InvalidArgument;
    /// Division by zero.
    DivisionByZero = "22012", false, InvalidArgument;
    /// A logarithm of zero or of a negative number.
    InvalidLogarithm = "2201E", false, InvalidArgument;
    /// A root of a negative number.
    InvalidPower = "2201F", false, InvalidArgument;
    /// A subscript beyond the ends of an array or of bytes.
    ArraySubscript = "2202E", false, InvalidArgument;
    /// A substring of text or bytes with a negative length.
    Substring = "22011", false, InvalidArgument;
    /// A LIMIT below 0.
    InvalidLimit = "2201W", false, InvalidArgument;
    /// An OFFSET below 0.
    InvalidOffset = "2201X", false, InvalidArgument;
    /// A bucket count or bucket bounds that define no buckets.
    InvalidWidthBucket = "2201G", false, InvalidArgument;
    /// An invalid regular expression.
    InvalidRegularExpression = "2201B", false, InvalidArgument;
    /// An escape string of more than one character.
    InvalidEscape = "22025", false, InvalidArgument;
    /// NULL where a value is needed.
    NullNotAllowed = "22004", false, InvalidArgument;
    /// Bytes that are invalid in the client's encoding.
    InvalidEncoding = "22021", false, InvalidArgument;
    /// A parameter or option with a value outside of the accepted range.
    InvalidParameterValue = "22023", false, InvalidArgument;
    /// A string longer than the type allows.
    StringTooLong = "22001", false, InvalidArgument;
    /// Text that is no value of the wanted type.
    InvalidTextRepresentation = "22P02", false, InvalidArgument;
    /// Binary bytes that are no value of the wanted type.
    InvalidBinaryRepresentation = "22P03", false, InvalidArgument;
    /// An invalid COPY line.
    BadCopyFormat = "22P04", false, InvalidArgument;
    /// NULL in a NOT NULL column.
    NotNullViolation = "23502", false, InvalidArgument;
    /// A second event with the same collision key.
    UniqueViolation = "23505", false, AlreadyExists;
    /// An event at or below the sealed tick of a table with late = 'reject'.
    LateEvent = "23514", false, OutOfRange;
    /// An event whose tick is outside of the session's acceptance window; a retry needs a new tick.
    OutsideWindow = "SL001", true, Aborted;
    /// A tick from the client that another event has already; a retry needs a new tick.
    TickTaken = "SL002", true, Aborted;
    /// An event outside of the acquired range of the chronicle.
    OutsideProjection = "44000", false, OutOfRange;
    /// The session's lease on an acquired chronicle has expired: the session must acquire again, or
    /// release.
    LeaseLost = "SL003", false, FailedPrecondition;
    /// A transaction command in the wrong state.
    InvalidTransactionState = "25000", false, FailedPrecondition;
    /// A command that cannot run inside a transaction block.
    ActiveTransaction = "25001", false, FailedPrecondition;
    /// A command outside of a transaction block that needs a transaction block.
    NoActiveTransaction = "25P01", false, FailedPrecondition;
    /// The transaction block has failed; only ROLLBACK is accepted.
    FailedTransaction = "25P02", false, FailedPrecondition;
    /// The server ended the session because a transaction block stayed open for too long.
    IdleInTransaction = "25P03", true, Aborted;
    /// The session was idle for too long.
    IdleSession = "57P05", true, Aborted;
    /// A write in a read-only transaction.
    ReadOnlyTransaction = "25006", false, FailedPrecondition;
    /// A nonexistent prepared statement.
    UndefinedPreparedStatement = "26000", false, NotFound;
    /// A nonexistent savepoint.
    InvalidSavepoint = "3B001", false, FailedPrecondition;
    /// A refused login.
    InvalidAuthorization = "28000", false, Unauthenticated;
    /// A wrong password, or an unknown role.
    InvalidPassword = "28P01", false, Unauthenticated;
    /// A grant that is not possible, such as a circle of memberships.
    InvalidGrant = "0LP01", false, InvalidArgument;
    /// Other objects depend on this object.
    DependentObjects = "2BP01", false, FailedPrecondition;
    /// Another session changed the definition of the table while the statement ran.
    SerializationFailure = "40001", true, Aborted;
    /// Two statements wait for each other; this statement gave way.
    DeadlockDetected = "40P01", true, Aborted;
    /// A nonexistent cursor or portal.
    InvalidCursorName = "34000", false, NotFound;
    /// A nonexistent database.
    UndefinedDatabase = "3D000", false, NotFound;
    /// A nonexistent schema.
    UndefinedSchema = "3F000", false, NotFound;
    /// The user lacks the privilege.
    InsufficientPrivilege = "42501", false, PermissionDenied;
    /// The text is not valid SQL.
    SyntaxError = "42601", false, InvalidArgument;
    /// A column named twice.
    DuplicateColumn = "42701", false, InvalidArgument;
    /// A column name of more than one relation.
    AmbiguousColumn = "42702", false, InvalidArgument;
    /// Several functions or operators for these argument types.
    AmbiguousFunction = "42725", false, InvalidArgument;
    /// A table named twice in FROM, or a name given twice in WITH.
    DuplicateAlias = "42712", false, InvalidArgument;
    /// A nonexistent column.
    UndefinedColumn = "42703", false, InvalidArgument;
    /// A nonexistent setting, type, role or option.
    UndefinedObject = "42704", false, InvalidArgument;
    /// An object with the name exists.
    DuplicateObject = "42710", false, AlreadyExists;
    /// A value for a column that the server fills.
    GeneratedAlways = "428C9", false, InvalidArgument;
    /// A nonexistent cast.
    CannotCoerce = "42846", false, InvalidArgument;
    /// A name of more than 63 bytes.
    NameTooLong = "42622", false, InvalidArgument;
    /// A malformed name.
    InvalidName = "42602", false, InvalidArgument;
    /// A column outside of GROUP BY and of any aggregate.
    GroupingError = "42803", false, InvalidArgument;
    /// An expression of the wrong type.
    DatatypeMismatch = "42804", false, InvalidArgument;
    /// The object is of the wrong kind for this statement.
    WrongObjectType = "42809", false, InvalidArgument;
    /// No function or operator exists for these argument types.
    UndefinedFunction = "42883", false, InvalidArgument;
    /// A name that the system reserves.
    ReservedName = "42939", false, InvalidArgument;
    /// A nonexistent table.
    UndefinedTable = "42P01", false, NotFound;
    /// A `$n` without a value.
    UndefinedParameter = "42P02", false, InvalidArgument;
    /// A database with the name exists.
    DuplicateDatabase = "42P04", false, AlreadyExists;
    /// A portal with the name exists.
    DuplicateCursor = "42P03", false, AlreadyExists;
    /// A prepared statement with the name exists.
    DuplicatePreparedStatement = "42P05", false, AlreadyExists;
    /// A schema with the name exists.
    DuplicateSchema = "42P06", false, AlreadyExists;
    /// A table with the name exists.
    DuplicateTable = "42P07", false, AlreadyExists;
    /// A WITH RECURSIVE query with a forbidden reference to itself.
    InvalidRecursion = "42P19", false, InvalidArgument;
    /// A window function in a wrong place.
    WindowingError = "42P20", false, InvalidArgument;
    /// A wrong column in this place (ON CONFLICT, ORDER BY position …).
    InvalidColumnReference = "42P10", false, InvalidArgument;
    /// A table definition that contradicts itself or the rules of Stratalog.
    InvalidTableDefinition = "42P16", false, InvalidArgument;
    /// A parameter of unknown type.
    IndeterminateDatatype = "42P18", false, InvalidArgument;
    /// The disk is full; nothing of the request was kept.
    DiskFull = "53100", true, ResourceExhausted;
    /// A memory budget is used up; nothing of the request was kept.
    OutOfMemory = "53200", true, ResourceExhausted;
    /// No connection slot is free.
    TooManyConnections = "53300", true, ResourceExhausted;
    /// A configured limit is reached (message size, queue, statements).
    LimitExceeded = "54000", false, TooLarge;
    /// A statement nested or chained too deeply.
    StatementTooComplex = "54001", false, InvalidArgument;
    /// Too many columns for a table or a result.
    TooManyColumns = "54011", false, InvalidArgument;
    /// A request names deleted events by position.
    EventsDeleted = "72000", false, OutOfRange;
    /// The object is in use.
    ObjectInUse = "55006", true, FailedPrecondition;
    /// The object is not in the required state.
    ObjectNotInPrerequisiteState = "55000", false, FailedPrecondition;
    /// Other sessions have acquired the object, or wait for the object.
    LockNotAvailable = "55P03", true, ResourceExhausted;
    /// A setting that cannot be changed now.
    CannotChangeNow = "55P02", false, FailedPrecondition;
    /// Cancelled by the user, or by a timeout.
    QueryCanceled = "57014", false, Cancelled;
    /// The server is shutting down.
    Shutdown = "57P01", true, Unavailable;
    /// The server is starting.
    CannotConnectNow = "57P03", true, Unavailable;
    /// The operating system reported a failure; for a journal: the journal is poisoned (CL-7).
    Io = "58030", false, Internal;
    /// A file with settings, a certificate or a key that is missing, unreadable or invalid.
    ConfigFileError = "F0000", false, FailedPrecondition;
    /// Bytes on disk that do not match their checksum (CL-6).
    DataCorrupted = "XX001", false, DataLoss;
    /// A defect in Stratalog.
    Internal = "XX000", false, Internal;
}

/// An error at a crate boundary and, in the end, at a client.
#[derive(Debug, thiserror::Error)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// Boxed, so that a `Result` stays small in the success case.
    notes: Box<Notes>,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The optional parts of an error.
#[derive(Debug, Clone, Default)]
struct Notes {
    detail: Option<String>,
    hint: Option<String>,
    context: Option<String>,
    position: Option<u32>,
    subject: Subject,
}

/// The names of the objects that an error concerns, for programs that handle errors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The schema of the table.
    pub schema: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The column.
    pub column: Option<String>,
    /// The violated constraint.
    pub constraint: Option<String>,
}

impl Error {
    /// Makes an error of `kind`. `message` is the primary message; it names the problem and the
    /// place.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), notes: Box::default(), source: None }
    }

    /// The error for a NULL in a NOT NULL column.
    pub fn not_null(column: &str, table: &str) -> Self {
        let message = format!(
            "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
        );
        let (table, column) = (Some(table.to_string()), Some(column.to_string()));
        let subject = Subject { table, column, ..Subject::default() };
        Self::new(ErrorKind::NotNullViolation, message).with_subject(subject)
    }

    /// The error for a feature that is planned, but not supported yet.
    pub fn not_yet(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::FeatureNotSupported, format!("{what} is not yet supported"))
    }

    /// The error for a defect of Stratalog. The message must not blame the user's input.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// An I/O error, classified by cause: a full disk, or a failing device.
    pub fn io(action: impl fmt::Display, error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::DiskFull
            }
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{action}: {error}")).with_source(error)
    }

    /// Adds the values that caused the error (DETAIL in PostgreSQL).
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.notes.detail = Some(detail.into());
        self
    }

    /// Adds the remedy for the user (HINT in PostgreSQL).
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.notes.hint = Some(hint.into());
        self
    }

    /// Adds the place in the input, for example `COPY cpu, line 3, column usage_user: "abc"`.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.notes.context = Some(context.into());
        self
    }

    /// Adds the position of the error in the statement's text, in characters, counted from 1.
    #[must_use]
    pub fn with_position(mut self, position: u32) -> Self {
        self.notes.position = Some(position);
        self
    }

    /// Adds the names of the objects that the error concerns.
    #[must_use]
    pub fn with_subject(mut self, subject: Subject) -> Self {
        self.notes.subject = subject;
        self
    }

    /// Adds the underlying error as the source of this error.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The primary message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The values that caused the error, if known.
    pub fn detail(&self) -> Option<&str> {
        self.notes.detail.as_deref()
    }

    /// The remedy for the user, if known.
    pub fn hint(&self) -> Option<&str> {
        self.notes.hint.as_deref()
    }

    /// The place in the input, if known.
    pub fn context(&self) -> Option<&str> {
        self.notes.context.as_deref()
    }

    /// The names of the objects concerned, if known.
    pub fn subject(&self) -> &Subject {
        &self.notes.subject
    }

    /// The position of the error in the statement's text, in characters, counted from 1; `None` if
    /// unknown.
    pub fn position(&self) -> Option<u32> {
        self.notes.position
    }

    /// A copy without the source, for each request of a group that failed together.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self {
            kind: self.kind,
            message: self.message.clone(),
            notes: self.notes.clone(),
            source: None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(detail) = &self.notes.detail {
            write!(f, "\n  detail: {detail}")?;
        }
        if let Some(hint) = &self.notes.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        if let Some(context) = &self.notes.context {
            write!(f, "\n  context: {context}")?;
        }
        Ok(())
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        use arrow::error::ArrowError as A;
        let kind = match &error {
            A::DivideByZero => ErrorKind::DivisionByZero,
            A::ArithmeticOverflow(_) => ErrorKind::NumericOutOfRange,
            A::CastError(_) | A::ParseError(_) => ErrorKind::InvalidTextRepresentation,
            A::MemoryError(_) => ErrorKind::OutOfMemory,
            A::IoError(_, _) => ErrorKind::Io,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}
