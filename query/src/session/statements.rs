//! The prepared statements of a session, by name: statements of PREPARE and of protocol messages.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_pg_catalog::{PreparedRow, PreparedView, type_oid};
use stratalog_postgres::redact::without_secrets;

use crate::{Prepared, ShareReservation};

/// The prepared statements by name.
#[derive(Debug, Default)]
pub struct Statements(Mutex<BTreeMap<String, PreparedEntry>>);

#[derive(Debug)]
struct PreparedEntry {
    prepared: Arc<Prepared>,
    by: PreparedBy,
    prepared_ns: i64,
    _held: ShareReservation,
}

/// The origin of a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreparedBy {
    /// PREPARE, with this text.
    Sql(String),
    /// A protocol message, with these oids of the parameter types.
    Protocol(Vec<u32>),
}

impl PreparedBy {
    fn is_sql(&self) -> bool {
        matches!(self, Self::Sql(_))
    }
}

impl Statements {
    /// Stores a statement under `name`. A session stores at most `most` statements of PREPARE.
    ///
    /// # Errors
    /// `DuplicatePreparedStatement`, `LimitExceeded`.
    pub fn keep(
        &self,
        name: &str,
        (prepared, held): (Arc<Prepared>, ShareReservation),
        by: PreparedBy,
        most: usize,
        prepared_ns: i64,
    ) -> Result<()> {
        let mut kept = self.0.lock();
        if kept.contains_key(name) {
            return Err(Error::new(
                ErrorKind::DuplicatePreparedStatement,
                format!("prepared statement \"{name}\" already exists"),
            ));
        }
        let of_sql = || kept.values().filter(|kept| kept.by.is_sql()).count();
        if by.is_sql() && kept.len() >= most && of_sql() >= most {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("the session already keeps {most} prepared statements"),
            )
            .with_hint("DEALLOCATE some statements, or DEALLOCATE ALL"));
        }
        kept.insert(name.to_string(), PreparedEntry { prepared, by, prepared_ns, _held: held });
        Ok(())
    }

    /// The statement stored under a name.
    pub fn find(&self, name: &str) -> Option<Arc<Prepared>> {
        self.0.lock().get(name).map(|kept| Arc::clone(&kept.prepared))
    }

    /// Drops the statement stored under a name. Returns whether the statement existed.
    pub fn forget(&self, name: &str) -> bool {
        self.0.lock().remove(name).is_some()
    }

    /// Drops all statements.
    pub fn forget_all(&self) {
        self.0.lock().clear();
    }
}

impl PreparedView for Statements {
    fn prepared(&self) -> Vec<PreparedRow> {
        let row = |(name, kept): (&String, &PreparedEntry)| PreparedRow {
            name: name.clone(),
            statement: match &kept.by {
                PreparedBy::Sql(text) => without_secrets(text).into_owned(),
                PreparedBy::Protocol(_) => {
                    without_secrets(kept.prepared.parsed().text()).into_owned()
                }
            },
            prepared_us: kept.prepared_ns.div_euclid(1_000),
            parameter_types: match &kept.by {
                PreparedBy::Protocol(oids) => oids.iter().map(|oid| i64::from(*oid)).collect(),
                PreparedBy::Sql(_) => {
                    kept.prepared.parameter_types().iter().map(|of| type_oid(of).into()).collect()
                }
            },
            from_sql: kept.by.is_sql(),
        };
        self.0.lock().iter().map(row).collect()
    }
}
