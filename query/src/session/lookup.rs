//! Resolution of names in a session.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use stratalog_model::{ChronicleDefinition, Error, ErrorKind, Result};

use stratalog_pg_catalog::CatalogView as _;
use stratalog_postgres::names;
use stratalog_visor_core::CatalogState;

use super::Session;
use crate::QueryService;

/// Schemas whose tables only the system writes.
const SYSTEM_SCHEMAS: &[&str] = &["pg_catalog", "information_schema", "stratalog"];

impl Session {
    /// The catalog as the session sees it, including the definitions of its open block.
    pub(crate) fn catalog(&self) -> Arc<CatalogState> {
        self.seen.state()
    }

    /// Finds the chronicle with a name, for a statement that writes to or changes the chronicle.
    ///
    /// # Errors
    /// `UndefinedTable`, `InsufficientPrivilege` for a system table.
    pub(crate) fn chronicle(&self, name: &ObjectName) -> Result<Arc<ChronicleDefinition>> {
        let (schema, table) = names::table(name, self.connected_to())?;
        self.chronicle_named(schema.as_deref(), &table)
    }

    /// Like [`Self::chronicle`], for names as stored in the catalog.
    ///
    /// # Errors
    /// The errors of [`Self::chronicle`].
    pub(crate) fn chronicle_named(
        &self,
        schema: Option<&str>,
        table: &str,
    ) -> Result<Arc<ChronicleDefinition>> {
        let state = self.catalog();
        let missing = |shown: &str| {
            Error::new(ErrorKind::UndefinedTable, format!("relation \"{shown}\" does not exist"))
        };
        match schema {
            Some(schema) => {
                if SYSTEM_SCHEMAS.contains(&schema) {
                    return Err(Error::new(
                        ErrorKind::InsufficientPrivilege,
                        format!("permission denied: \"{schema}.{table}\" is a system table"),
                    ));
                }
                state
                    .chronicle(self.database(), schema, table)
                    .cloned()
                    .ok_or_else(|| missing(&format!("{schema}.{table}")))
            }
            None => self
                .variables()
                .parsed()
                .search_path
                .iter()
                .find_map(|schema| state.chronicle(self.database(), schema, table).cloned())
                .ok_or_else(|| missing(table)),
        }
    }

    /// The schema for a new table with an unqualified name: the first existing schema of the search
    /// path.
    ///
    /// # Errors
    /// `UndefinedSchema` if no schema of the search path exists.
    pub(crate) fn creation_schema(&self) -> Result<String> {
        let state = self.catalog();
        self.variables()
            .parsed()
            .search_path
            .into_iter()
            .find(|schema| state.schema(self.database(), schema).is_some())
            .ok_or_else(|| {
                Error::new(ErrorKind::UndefinedSchema, "no schema has been selected to create in")
            })
    }

    /// The service of the session.
    pub(crate) fn service(&self) -> &Arc<QueryService> {
        &self.service
    }

    /// The threads that run plans.
    pub(crate) fn execution(&self) -> &crate::service::Execution {
        self.service.execution()
    }

    /// Whether an open session is connected to a database.
    pub(crate) fn database_is_open(&self, name: &str) -> bool {
        self.service.sessions().open().iter().any(|session| session.database() == name)
    }

    /// A shared reference to this session, for an owner that outlives the call.
    ///
    /// # Errors
    /// `ConnectionFailure` if the session is closing.
    pub(crate) fn shared(&self) -> Result<Arc<Session>> {
        self.itself
            .upgrade()
            .ok_or_else(|| Error::new(ErrorKind::ConnectionFailure, "the session is closed"))
    }
}
