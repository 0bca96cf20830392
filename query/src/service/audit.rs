//! The audit log: records of logins, definitions, grants, deletes and denied statements in the
//! chronicle `stratalog.audit`.
//!
//! ```text
//!   statement or login ─► effect ─► record durable ─► acknowledged
//! ```
//! A server without passwords has no identities, so it keeps no audit log.

use std::sync::{Arc, atomic::Ordering};

use arrow::{
    array::{
        ArrayRef, Int32Array, RecordBatch, StringArray, TimestampNanosecondArray, new_null_array,
    },
    compute::cast,
};
use stratalog_model::{
    ChronicleDefinition, Durability, Error, Result,
    store::{AppendOptions, OnConflict},
};
use stratalog_postgres::errors::from_arrow;
use stratalog_visor_core::{access::Identity, catalog::Command};

use crate::{QueryService, Session};

/// Longest statement text in a record, in bytes; the rest is cut off.
const STATEMENT_BYTES_MAX: usize = 8 << 10;

/// The SQLSTATE of success.
pub(crate) const SUCCESS: &str = "00000";

/// A record of the audit log.
#[derive(Debug, Clone, Default)]
pub struct AuditRecord {
    /// The kind of the event: `login`, `statement`, `denied` …
    pub event: &'static str,
    /// The role whose rights counted, or the name of a refused login.
    pub role: String,
    /// The role of the login, if SET ROLE changed the role.
    pub session_role: Option<String>,
    /// The name of the database.
    pub database: Option<String>,
    /// The number of the session; `None` before a session exists.
    pub process_id: Option<i32>,
    /// The client's address; `None` for a client in the server's process.
    pub client_address: Option<String>,
    /// The name of the client program.
    pub application_name: Option<String>,
    /// The text of the statement, without secrets.
    pub statement: Option<String>,
    /// The SQLSTATE of the result; [`SUCCESS`] for success.
    pub sqlstate: &'static str,
    /// The error message, or other details.
    pub detail: Option<String>,
    /// The name of the login's token.
    pub token: Option<String>,
}

impl QueryService {
    /// Stores a record durably. Does nothing on a server without passwords.
    ///
    /// # Errors
    /// The errors of an append to the store, such as `DiskFull`.
    pub async fn audit(&self, record: AuditRecord) -> Result<()> {
        let parts = self.parts();
        if !parts.catalog.state().access().is_protected() {
            return Ok(());
        }
        let chronicle = self.audit_log().await?;
        let row = row_of(&chronicle, record, parts.clock.now_ns())?;
        let options =
            AppendOptions { durability: Some(Durability::Disk), ..AppendOptions::default() };
        let mut append = parts.store.begin(options)?;
        append.push(&chronicle, row, OnConflict::Error).await?;
        append.commit().await.map(drop)
    }

    /// The chronicle of the audit log; creates the log before the first record.
    async fn audit_log(&self) -> Result<Arc<ChronicleDefinition>> {
        let catalog = &self.parts().catalog;
        let known = || {
            let state = catalog.state();
            let id = state.access().audit()?;
            state.chronicle_by_id(id).cloned()
        };
        // The first record after a start also sets the retention time of the settings.
        if self.audit_is_ready.load(Ordering::Acquire)
            && let Some(known) = known()
        {
            return Ok(known);
        }
        let retention_ms = self.parts().settings.audit_retention_ms;
        catalog.apply(Identity::System, Command::PrepareAudit { retention_ms }).await?;
        self.audit_is_ready.store(true, Ordering::Release);
        known().ok_or_else(|| Error::internal("the audit log was not created"))
    }
}

impl Session {
    /// A record about this session.
    pub(crate) fn audit_record(&self, event: &'static str) -> AuditRecord {
        let (identity, login) = (self.identity(), self.login());
        let state = self.parts().catalog.state();
        let access = state.access();
        let token = match identity {
            Identity::Role(roles) => roles.token.and_then(|(id, _)| access.token(id)),
            Identity::System | Identity::Trusted => None,
        };
        let changed = identity.session() != identity.current();
        AuditRecord {
            event,
            role: access.role_name(identity.current()),
            session_role: changed.then(|| access.role_name(identity.session())),
            database: Some(self.database().to_string()),
            process_id: Some(self.process_id()),
            client_address: login.client_address.clone(),
            application_name: self.setting("application_name").filter(|name| !name.is_empty()),
            sqlstate: SUCCESS,
            token: token.map(|token| token.name.clone()),
            ..AuditRecord::default()
        }
    }
}

/// The record as a row of the audit log.
fn row_of(
    chronicle: &ChronicleDefinition,
    record: AuditRecord,
    now_ns: i64,
) -> Result<RecordBatch> {
    let text = |value: Option<String>| Arc::new(StringArray::from(vec![value])) as ArrayRef;
    let statement = record.statement.map(|mut text| {
        text.truncate(text.floor_char_boundary(STATEMENT_BYTES_MAX));
        text
    });
    let values: [(&str, ArrayRef); 12] = [
        ("time", Arc::new(TimestampNanosecondArray::from(vec![now_ns]))),
        ("event", text(Some(record.event.to_string()))),
        ("role", text(Some(record.role))),
        ("session_role", text(record.session_role)),
        ("database", text(record.database)),
        ("process_id", Arc::new(Int32Array::from(vec![record.process_id]))),
        ("client_address", text(record.client_address)),
        ("application_name", text(record.application_name)),
        ("statement", text(statement)),
        ("sqlstate", text(Some(record.sqlstate.to_string()))),
        ("detail", text(record.detail)),
        ("token", text(record.token)),
    ];
    let schema = chronicle.arrow_schema();
    let columns = schema.fields().iter().map(|field| {
        let value = values.iter().find(|(name, _)| name == field.name());
        match value {
            Some((_, array)) => cast(array, field.data_type()).map_err(from_arrow),
            None => Ok(new_null_array(field.data_type(), 1)),
        }
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    RecordBatch::try_new(schema, columns).map_err(from_arrow)
}
