//! Errors for statements that the parser accepts and the database refuses.

use datafusion::sql::sqlparser::ast::Statement;
use stratalog_model::{Error, ErrorKind};

fn not_supported(message: &str) -> Error {
    Error::new(ErrorKind::FeatureNotSupported, message)
}

/// The error for UPDATE.
pub fn update() -> Error {
    not_supported("UPDATE is not supported: events never change")
        .with_hint("insert a new event; the new event replaces the event with the same key and time in a table with collision = 'last', and only the given columns with 'merge'")
}

/// The error for MERGE.
pub fn merge() -> Error {
    not_supported("MERGE is not supported: events never change").with_hint(
        "use INSERT … ON CONFLICT DO NOTHING, or a table with collision = 'last' or 'merge'",
    )
}

/// The error for DO.
pub fn block() -> Error {
    not_supported("DO is not supported: the database has no procedural language")
}

/// The error for CREATE, ALTER or DROP of a kind of object that only PostgreSQL has. `statement`
/// names the statement.
pub fn object(statement: &str) -> Error {
    not_supported(&format!("{} is not supported", statement.to_uppercase()))
}

/// The error for CREATE UNLOGGED TABLE.
pub fn unlogged() -> Error {
    not_supported("an unlogged table is not supported: events are stored in the journal")
        .with_hint("WITH (durability = 'relaxed') acknowledges events before the sync to disk")
}

/// The error for PREPARE TRANSACTION, COMMIT PREPARED and ROLLBACK PREPARED.
pub fn two_phases() -> Error {
    not_supported(
        "a transaction in two phases is not supported: prepared transactions are disabled",
    )
    .with_hint(
        "COMMIT the block; with stratalog.producer_sequence, a repeated block is stored once",
    )
}

/// The error for a statement that the database does not support.
pub fn error(statement: &Statement) -> Error {
    match statement {
        Statement::Update(_) => update(),
        Statement::Merge(_) => merge(),
        Statement::Savepoint { .. } | Statement::ReleaseSavepoint { .. } => {
            Error::not_yet("SAVEPOINT")
        }
        Statement::LISTEN { .. } | Statement::NOTIFY { .. } => Error::not_yet("LISTEN / NOTIFY"),
        Statement::CreateView(_) | Statement::AlterView { .. } => Error::not_yet("a view"),
        Statement::AlterIndex { .. } => Error::not_yet("an index")
            .with_hint("the PRIMARY KEY of the table indexes time and key columns"),
        Statement::CreateRole(_)
        | Statement::AlterRole { .. }
        | Statement::CreateUser(_)
        | Statement::AlterUser(_)
        | Statement::Grant(_)
        | Statement::Revoke(_) => Error::not_yet("access control by users and grants"),
        Statement::CreateFunction(_)
        | Statement::CreateProcedure { .. }
        | Statement::CreateTrigger(_)
        | Statement::CreateMacro { .. } => Error::not_yet("a function, procedure or trigger"),
        Statement::CreateSequence { .. } => {
            Error::not_yet("a sequence").with_hint("the system column _gsn numbers events")
        }
        Statement::CreateType { .. } | Statement::CreateDomain(_) => Error::not_yet("CREATE TYPE"),
        Statement::CreateExtension(_) | Statement::DropExtension(_) => {
            not_supported("extensions are not supported")
        }
        Statement::Analyze(_) | Statement::Vacuum(_) => {
            not_supported("VACUUM and ANALYZE are not needed: statistics are always exact")
                .with_hint("CALL stratalog.compact('table') merges the files of a table")
        }
        Statement::LockTables { .. } => {
            not_supported("LOCK is not supported: readers and writers never block each other")
        }
        Statement::ExplainTable { .. } => not_supported("DESCRIBE is not supported")
            .with_hint("use \\d table in psql, or information_schema.columns"),
        Statement::ShowTables { .. }
        | Statement::ShowColumns { .. }
        | Statement::ShowDatabases { .. }
        | Statement::ShowSchemas { .. }
        | Statement::ShowFunctions { .. } => not_supported("this form of SHOW is not supported")
            .with_hint("use \\d in psql, or the tables of information_schema"),
        Statement::Use(_) => {
            not_supported("USE is not supported").with_hint("connect to the other database")
        }
        Statement::Drop { object_type, .. } => Error::not_yet(format!("DROP {object_type}")),
        other => {
            let words: Vec<String> =
                other.to_string().split_whitespace().take(2).map(str::to_uppercase).collect();
            not_supported(&format!("{} is not supported", words.join(" ")))
        }
    }
}
