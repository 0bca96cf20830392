//! One error type at every boundary: what went wrong, where, and how to mend it.

use std::fmt;

/// Result of everything that can fail at a crate boundary.
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! kinds {
    ($( $(#[$doc:meta])* $name:ident = $sqlstate:literal, $retryable:literal, $status:ident; )*) => {
        /// The class of an error: decides the SQLSTATE that a client sees and whether
        /// sending the same request again can succeed. One table for all protocols.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorKind { $( $(#[$doc])* $name, )* }

        impl ErrorKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [ErrorKind] = &[ $( ErrorKind::$name, )* ];

            /// The five characters that a PostgreSQL client receives.
            pub const fn sqlstate(self) -> &'static str {
                match self { $( ErrorKind::$name => $sqlstate, )* }
            }

            /// Whether the same request may succeed when it is sent again, at most with a new time.
            pub const fn is_retryable(self) -> bool {
                match self { $( ErrorKind::$name => $retryable, )* }
            }

            /// What gRPC and HTTP clients receive.
            pub const fn status(self) -> Status {
                match self { $( ErrorKind::$name => Status::$status, )* }
            }
        }
    };
}

/// What became of a request, in the words that gRPC and HTTP have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Stopped on request, or for want of time.
    Cancelled,
    /// The request is wrong, whatever the state of the server.
    InvalidArgument,
    /// What it names is not there.
    NotFound,
    /// What it makes is there.
    AlreadyExists,
    /// Not for this user.
    PermissionDenied,
    /// Room, memory, connections or what others have acquired is not to be had, for now.
    ResourceExhausted,
    /// Beyond a limit, whenever it is sent.
    TooLarge,
    /// Not in this state of the session or the object.
    FailedPrecondition,
    /// Given up for the sake of others.
    Aborted,
    /// Behind what is still accepted.
    OutOfRange,
    /// Not offered.
    Unimplemented,
    /// A failure of the server.
    Internal,
    /// The server is starting, stopping or gone.
    Unavailable,
    /// Data is damaged.
    DataLoss,
    /// The login is refused.
    Unauthenticated,
}

impl Status {
    /// The number that gRPC has for it.
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

    /// The status line's number of HTTP.
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
    /// A message that the protocol does not allow.
    ProtocolViolation = "08P01", false, InvalidArgument;
    /// The peer went away.
    ConnectionFailure = "08006", true, Unavailable;
    /// Understood, and deliberately not offered (or not yet).
    FeatureNotSupported = "0A000", false, Unimplemented;
    /// More rows than this place takes.
    CardinalityViolation = "21000", false, InvalidArgument;
    /// A number does not fit its type.
    NumericOutOfRange = "22003", false, InvalidArgument;
    /// A timestamp or interval is not written as one.
    InvalidDatetimeFormat = "22007", false, InvalidArgument;
    /// A timestamp or tick does not fit its range.
    DatetimeOverflow = "22008", false, InvalidArgument;
    /// An offset from UTC that no place on Earth has.
    InvalidTimeZoneOffset = "22009", false, InvalidArgument;
    /// An interval does not fit its range.
    IntervalOverflow = "22015", false, InvalidArgument;
    /// A character that text cannot hold.
    UntranslatableCharacter = "22P05", false, InvalidArgument;
    /// An offset in the frame of a window that is negative.
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
    /// A part of a text or of bytes that has a negative length.
    Substring = "22011", false, InvalidArgument;
    /// A LIMIT below 0.
    InvalidLimit = "2201W", false, InvalidArgument;
    /// An OFFSET below 0.
    InvalidOffset = "2201X", false, InvalidArgument;
    /// A bucket count, or bounds of buckets, that make no buckets.
    InvalidWidthBucket = "2201G", false, InvalidArgument;
    /// A regular expression that cannot be read.
    InvalidRegularExpression = "2201B", false, InvalidArgument;
    /// An escape string of more than one character.
    InvalidEscape = "22025", false, InvalidArgument;
    /// NULL where a value is needed.
    NullNotAllowed = "22004", false, InvalidArgument;
    /// Bytes that are not valid in the client's encoding.
    InvalidEncoding = "22021", false, InvalidArgument;
    /// A parameter or option with a value outside of what it accepts.
    InvalidParameterValue = "22023", false, InvalidArgument;
    /// A string that is too long for its type.
    StringTooLong = "22001", false, InvalidArgument;
    /// Text that is no value of the type wanted.
    InvalidTextRepresentation = "22P02", false, InvalidArgument;
    /// Binary bytes that are no value of the type wanted.
    InvalidBinaryRepresentation = "22P03", false, InvalidArgument;
    /// A COPY line that cannot be read.
    BadCopyFormat = "22P04", false, InvalidArgument;
    /// NULL in a NOT NULL column.
    NotNullViolation = "23502", false, InvalidArgument;
    /// A second event with the same collision key.
    UniqueViolation = "23505", false, AlreadyExists;
    /// An event at or below the sealed tick of a table with late = 'reject'.
    LateEvent = "23514", false, OutOfRange;
    /// An event whose tick is outside of its session's acceptance window: it wants a new tick.
    OutsideWindow = "SL001", true, Aborted;
    /// A tick that the client chose, and that is another event's: it wants a new one.
    TickTaken = "SL002", true, Aborted;
    /// An event outside of the part of a chronicle that the session has acquired.
    OutsideProjection = "44000", false, OutOfRange;
    /// The lease ran out on what the session had acquired: it is to acquire again, or release.
    LeaseLost = "SL003", false, FailedPrecondition;
    /// A transaction command in the wrong state.
    InvalidTransactionState = "25000", false, FailedPrecondition;
    /// A command that cannot run inside a transaction block.
    ActiveTransaction = "25001", false, FailedPrecondition;
    /// A command that needs a transaction block, outside of one.
    NoActiveTransaction = "25P01", false, FailedPrecondition;
    /// The transaction block has failed; only ROLLBACK is accepted.
    FailedTransaction = "25P02", false, FailedPrecondition;
    /// The session was ended because it left a transaction block open for too long.
    IdleInTransaction = "25P03", true, Aborted;
    /// The session was idle for longer than it may be.
    IdleSession = "57P05", true, Aborted;
    /// A write in a read-only transaction.
    ReadOnlyTransaction = "25006", false, FailedPrecondition;
    /// A prepared statement that does not exist.
    UndefinedPreparedStatement = "26000", false, NotFound;
    /// A savepoint that does not exist.
    InvalidSavepoint = "3B001", false, FailedPrecondition;
    /// A login that is refused.
    InvalidAuthorization = "28000", false, Unauthenticated;
    /// Other objects depend on this one.
    DependentObjects = "2BP01", false, FailedPrecondition;
    /// Two statements wait for each other; this one gave way.
    DeadlockDetected = "40P01", true, Aborted;
    /// A cursor or portal that does not exist.
    InvalidCursorName = "34000", false, NotFound;
    /// A database that does not exist.
    UndefinedDatabase = "3D000", false, NotFound;
    /// A schema that does not exist.
    UndefinedSchema = "3F000", false, NotFound;
    /// The user may not do this.
    InsufficientPrivilege = "42501", false, PermissionDenied;
    /// The text is not SQL that we read.
    SyntaxError = "42601", false, InvalidArgument;
    /// A column named twice.
    DuplicateColumn = "42701", false, InvalidArgument;
    /// A column name that more than one relation has.
    AmbiguousColumn = "42702", false, InvalidArgument;
    /// A table that is named twice in FROM, or a name given twice in WITH.
    DuplicateAlias = "42712", false, InvalidArgument;
    /// A column that does not exist.
    UndefinedColumn = "42703", false, InvalidArgument;
    /// A setting, type, role or option that does not exist.
    UndefinedObject = "42704", false, InvalidArgument;
    /// An object of that name exists.
    DuplicateObject = "42710", false, AlreadyExists;
    /// A value for a column that the server fills.
    GeneratedAlways = "428C9", false, InvalidArgument;
    /// A cast that does not exist.
    CannotCoerce = "42846", false, InvalidArgument;
    /// A name of more than 63 bytes.
    NameTooLong = "42622", false, InvalidArgument;
    /// A name that is not made as such names are.
    InvalidName = "42602", false, InvalidArgument;
    /// A column outside of GROUP BY and of any aggregate.
    GroupingError = "42803", false, InvalidArgument;
    /// An expression of another type than is needed here.
    DatatypeMismatch = "42804", false, InvalidArgument;
    /// The object is of a kind that this statement does not work on.
    WrongObjectType = "42809", false, InvalidArgument;
    /// A function or operator that does not exist for these arguments.
    UndefinedFunction = "42883", false, InvalidArgument;
    /// A name that the system keeps for itself.
    ReservedName = "42939", false, InvalidArgument;
    /// A table that does not exist.
    UndefinedTable = "42P01", false, NotFound;
    /// A `$n` that no value was given for.
    UndefinedParameter = "42P02", false, InvalidArgument;
    /// A database of that name exists.
    DuplicateDatabase = "42P04", false, AlreadyExists;
    /// A portal of that name exists.
    DuplicateCursor = "42P03", false, AlreadyExists;
    /// A prepared statement of that name exists.
    DuplicatePreparedStatement = "42P05", false, AlreadyExists;
    /// A schema of that name exists.
    DuplicateSchema = "42P06", false, AlreadyExists;
    /// A table of that name exists.
    DuplicateTable = "42P07", false, AlreadyExists;
    /// A query that reads itself in a way that WITH RECURSIVE does not allow.
    InvalidRecursion = "42P19", false, InvalidArgument;
    /// A window function in a wrong place.
    WindowingError = "42P20", false, InvalidArgument;
    /// A wrong column in this place (ON CONFLICT, ORDER BY position …).
    InvalidColumnReference = "42P10", false, InvalidArgument;
    /// A table definition that contradicts itself or our rules.
    InvalidTableDefinition = "42P16", false, InvalidArgument;
    /// A parameter whose type cannot be told.
    IndeterminateDatatype = "42P18", false, InvalidArgument;
    /// The disk has no room; nothing of the request was kept.
    DiskFull = "53100", true, ResourceExhausted;
    /// A memory budget is used up; nothing of the request was kept.
    OutOfMemory = "53200", true, ResourceExhausted;
    /// No connection slot is free.
    TooManyConnections = "53300", true, ResourceExhausted;
    /// A configured limit is reached (message size, queue, statements).
    LimitExceeded = "54000", false, TooLarge;
    /// A statement nested or chained too deeply.
    StatementTooComplex = "54001", false, InvalidArgument;
    /// More columns than a table or a result may have.
    TooManyColumns = "54011", false, InvalidArgument;
    /// Events that are asked for by their position, and were deleted.
    EventsDeleted = "72000", false, OutOfRange;
    /// The object is in use.
    ObjectInUse = "55006", true, FailedPrecondition;
    /// An object is not in the state that this needs.
    ObjectNotInPrerequisiteState = "55000", false, FailedPrecondition;
    /// What others have acquired, or wait for.
    LockNotAvailable = "55P03", true, ResourceExhausted;
    /// A setting that cannot be changed now.
    CannotChangeNow = "55P02", false, FailedPrecondition;
    /// Cancelled by the user, or by a timeout.
    QueryCanceled = "57014", false, Cancelled;
    /// The server is shutting down.
    Shutdown = "57P01", true, Unavailable;
    /// The server is starting.
    CannotConnectNow = "57P03", true, Unavailable;
    /// The operating system failed us; for a journal, it is poisoned (CL-7).
    Io = "58030", false, Internal;
    /// Bytes on disk that do not match their checksum (CL-6).
    DataCorrupted = "XX001", false, DataLoss;
    /// A defect in Stratalog.
    Internal = "XX000", false, Internal;
}

/// An error as it crosses a crate boundary and, in the end, reaches a client.
#[derive(Debug, thiserror::Error)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    /// Boxed, so that a `Result` stays small where nothing fails.
    notes: Box<Notes>,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What may be told besides the message.
#[derive(Debug, Clone, Default)]
struct Notes {
    detail: Option<String>,
    hint: Option<String>,
    context: Option<String>,
    position: Option<u32>,
    subject: Subject,
}

/// What an error is about, by name, for programs that look for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// The schema of the table.
    pub schema: Option<String>,
    /// The table.
    pub table: Option<String>,
    /// The column.
    pub column: Option<String>,
    /// The constraint that does not hold.
    pub constraint: Option<String>,
}

impl Error {
    /// An error of `kind` whose primary message says what is wrong and where.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), notes: Box::default(), source: None }
    }

    /// A NULL in a column that takes none.
    pub fn not_null(column: &str, table: &str) -> Self {
        let message = format!(
            "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
        );
        let (table, column) = (Some(table.to_string()), Some(column.to_string()));
        let subject = Subject { table, column, ..Subject::default() };
        Self::new(ErrorKind::NotNullViolation, message).with_subject(subject)
    }

    /// Something that a later part of the product will offer.
    pub fn not_yet(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::FeatureNotSupported, format!("{what} is not yet supported"))
    }

    /// A defect of ours: says so, and never blames the input.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// An I/O error, told apart by cause: no room, or a failing device.
    pub fn io(action: impl fmt::Display, error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::DiskFull
            }
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{action}: {error}")).with_source(error)
    }

    /// Adds the values concerned.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.notes.detail = Some(detail.into());
        self
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.notes.hint = Some(hint.into());
        self
    }

    /// Adds where in the input it happened: `COPY cpu, line 3, column usage_user: "abc"`.
    #[must_use]
    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.notes.context = Some(context.into());
        self
    }

    /// Adds the place in the statement's text: characters, from 1.
    #[must_use]
    pub fn with_position(mut self, position: u32) -> Self {
        self.notes.position = Some(position);
        self
    }

    /// Adds the names of what it is about.
    #[must_use]
    pub fn with_subject(mut self, subject: Subject) -> Self {
        self.notes.subject = subject;
        self
    }

    /// Keeps the error that caused this one.
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

    /// The values concerned, if told.
    pub fn detail(&self) -> Option<&str> {
        self.notes.detail.as_deref()
    }

    /// What the user can do, if told.
    pub fn hint(&self) -> Option<&str> {
        self.notes.hint.as_deref()
    }

    /// Where in the input it happened, if told.
    pub fn context(&self) -> Option<&str> {
        self.notes.context.as_deref()
    }

    /// The names of what it is about, where told.
    pub fn subject(&self) -> &Subject {
        &self.notes.subject
    }

    /// Place in the statement's text: characters, from 1, if told.
    pub fn position(&self) -> Option<u32> {
        self.notes.position
    }

    /// A second error that says the same, for every member of a failed group.
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
