//! SQL over chronicles: sessions, planning, execution.
//!
//! *What it is*: a [`QueryService`] that runs SQL for all protocols. DataFusion plans and runs
//! statements, chronicles are the tables, the catalog executes DDL, and an
//! [`EventStore`](stratalog_model::EventStore) accepts appends and returns snapshots.
//!
//! *What it deliberately is not*: the crate implements no protocol, stores no data and does not
//! know the storage engine behind the `EventStore` trait.
//!
//! *Data path*: `QueryService::connect` → [`Session`]; `parse` → [`Parsed`]; `prepare` →
//! [`Prepared`]; `execute` → [`Outcome`]: a stream of rows, a command tag, or one side of a COPY. A
//! read uses one snapshot, a write fills one append.

mod as_of;
mod assign;
mod backups;
mod certificates;
mod first_rows;
pub mod ingest;
pub mod inspect;
mod measurement;
pub mod outcome;
mod rules;
pub mod service;
pub mod session;
pub mod settings;
pub mod statement;
mod table;

pub use backups::{Backups, FinishedBackup};
pub use certificates::Certificates;
pub use ingest::{Ingest, IngestStatement, ProtocolAppend};
pub use inspect::{InspectionResult, Inspector};
pub use outcome::{CopyIn, CopyOut, CopySink, Outcome, Rows, RowsTag};
pub use service::{
    Allowance, AuditRecord, CancelKey, Login, MemoryPromise, Parts, Process, QueryService,
    STACK_BYTES, Share, ShareReservation, Watch,
};
pub use session::{
    CACHED_PLAN_CHANGED, CopyProgress, Notice, PreparedBy, Session, TransactionState,
};
pub use settings::QuerySettings;
pub use statement::{Parsed, Prepared, StatementKind};
pub use stratalog_functions::governor::{batch_bytes, count_allocated};
pub use stratalog_postgres::names::quoted;
pub use stratalog_visor_core::{
    access::{Columns, Identity, Object, Privilege},
    catalog::{Command, NewChronicle, NewColumn},
};
