//! The prepared statements of a session, by name: those of PREPARE and of protocols.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_pg_catalog::{PreparedRow, PreparedView, type_oid};

use crate::{Held, Prepared};

/// The statements that are kept under a name.
#[derive(Debug, Default)]
pub struct Statements(Mutex<BTreeMap<String, Kept>>);

#[derive(Debug)]
struct Kept {
    prepared: Arc<Prepared>,
    by: PreparedBy,
    prepared_ns: i64,
    _held: Held,
}

/// How a statement was prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreparedBy {
    /// By PREPARE, of this text.
    Sql(String),
    /// By a message of a protocol, with these oids as types of the parameters.
    Protocol(Vec<u32>),
}

impl PreparedBy {
    fn is_sql(&self) -> bool {
        matches!(self, Self::Sql(_))
    }
}

impl Statements {
    /// Keeps a statement; of those of PREPARE, `most` at most.
    ///
    /// # Errors
    /// `DuplicatePreparedStatement`, `LimitExceeded`.
    pub fn keep(
        &self,
        name: &str,
        (prepared, held): (Arc<Prepared>, Held),
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
            .with_hint("DEALLOCATE some; DEALLOCATE ALL forgets all of them"));
        }
        kept.insert(name.to_string(), Kept { prepared, by, prepared_ns, _held: held });
        Ok(())
    }

    /// The statement kept under a name.
    pub fn find(&self, name: &str) -> Option<Arc<Prepared>> {
        self.0.lock().get(name).map(|kept| Arc::clone(&kept.prepared))
    }

    /// Drops the statement kept under a name; whether there was one.
    pub fn forget(&self, name: &str) -> bool {
        self.0.lock().remove(name).is_some()
    }

    /// Drops all of them.
    pub fn forget_all(&self) {
        self.0.lock().clear();
    }
}

impl PreparedView for Statements {
    fn prepared(&self) -> Vec<PreparedRow> {
        let row = |(name, kept): (&String, &Kept)| PreparedRow {
            name: name.clone(),
            statement: match &kept.by {
                PreparedBy::Sql(text) => text.clone(),
                PreparedBy::Protocol(_) => kept.prepared.parsed().text().to_string(),
            },
            prepared_us: kept.prepared_ns.div_euclid(1_000),
            parameter_types: match &kept.by {
                PreparedBy::Protocol(told) => told.iter().map(|oid| i64::from(*oid)).collect(),
                PreparedBy::Sql(_) => {
                    kept.prepared.parameter_types().iter().map(|of| type_oid(of).into()).collect()
                }
            },
            from_sql: kept.by.is_sql(),
        };
        self.0.lock().iter().map(row).collect()
    }
}
