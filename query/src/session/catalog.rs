//! The session's database in the form of DataFusion's catalog.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider},
    error::Result,
};
use parking_lot::Mutex;
use stratalog_model::{ChronicleId, Result as ModelResult, chronicle::SYSTEM_COLUMNS};
use stratalog_postgres::errors::to_datafusion;
use stratalog_visor_core::{
    CatalogState,
    access::{Identity, PolicyCommand, RowPolicies},
    catalog::{DEFAULT_DATABASE, OWN_SCHEMA},
};

use crate::{
    statement::replays,
    table::{ChronicleTable, PolicyTable, SnapshotPin},
};
use stratalog_postgres::SEARCH_PATH_SCHEMA;

/// The context that resolves names for the statement that is being planned.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The catalog state, which is the same for the whole statement.
    pub state: Arc<CatalogState>,
    /// The database.
    pub database: String,
    /// Schemas for unqualified names, after `pg_catalog`.
    pub search_path: Vec<String>,
    /// System columns that the statement mentions, as positions in `SYSTEM_COLUMNS`.
    pub system_columns: Vec<usize>,
    /// Whether the planner may use primary keys, so that columns determined by a key need no GROUP
    /// BY.
    pub keyed: bool,
    /// On whose behalf the statement runs, for row policies.
    pub identity: Identity,
    /// The time at the start of planning, in nanoseconds since 1970.
    pub now_ns: i64,
    /// Tables that replace unqualified names, for this statement only.
    pub replaced: Vec<(String, Arc<dyn TableProvider>)>,
}

impl Scope {
    /// The row policies of a chronicle that apply to reads of the statement; `None` if no policy
    /// applies.
    ///
    /// # Errors
    /// `InvalidAuthorization`.
    pub fn row_policies(&self, chronicle: ChronicleId) -> ModelResult<Option<RowPolicies>> {
        let access = self.state.access();
        if self.identity == Identity::System || !access.row_security(chronicle).enabled {
            return Ok(None);
        }
        let rights = access.rights(&self.identity, self.now_ns)?;
        Ok(rights.row_policies(chronicle, PolicyCommand::Select))
    }
}

/// Schemas that describe the system itself.
#[derive(Debug)]
pub struct SystemSchemas {
    /// The name and the tables of each schema.
    pub schemas: Vec<(String, Arc<dyn SchemaProvider>)>,
}

impl SystemSchemas {
    fn named(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.schemas.iter().find(|(schema, _)| schema == name).map(|(_, found)| Arc::clone(found))
    }
}

/// The DataFusion catalog of a session's database.
#[derive(Debug)]
pub struct SessionCatalog {
    /// The name under which queries refer to the database.
    name: String,
    database: String,
    scope: Arc<Mutex<Scope>>,
    pin: Arc<SnapshotPin>,
    system: Arc<SystemSchemas>,
}

impl SessionCatalog {
    /// Creates the catalog of `database`, with `name` as its name in queries. Each statement sets
    /// `scope` and `pin`.
    pub fn new(
        name: String,
        database: String,
        scope: Arc<Mutex<Scope>>,
        pin: Arc<SnapshotPin>,
        system: Arc<SystemSchemas>,
    ) -> Self {
        Self { name, database, scope, pin, system }
    }

    fn chronicles(&self, schema: &str) -> ChronicleSchema {
        ChronicleSchema {
            database: self.database.clone(),
            schema: schema.to_string(),
            scope: Arc::clone(&self.scope),
            pin: Arc::clone(&self.pin),
        }
    }
}

impl CatalogProvider for SessionCatalog {
    fn schema_names(&self) -> Vec<String> {
        let state = Arc::clone(&self.scope.lock().state);
        let system = self.system.schemas.iter().map(|(name, _)| name.clone());
        system.chain(state.schemas(&self.database).map(|schema| schema.name.clone())).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == SEARCH_PATH_SCHEMA {
            let search_path = self.scope.lock().search_path.clone();
            let mut schemas: Vec<Arc<dyn SchemaProvider>> = Vec::new();
            if !search_path.iter().any(|schema| schema == "pg_catalog") {
                schemas.extend(self.system.named("pg_catalog"));
            }
            schemas.extend(search_path.iter().filter_map(|schema| self.schema(schema)));
            let replaced = self.scope.lock().replaced.clone();
            return Some(Arc::new(SearchPath { replaced, schemas }));
        }
        if let Some(system) = self.system.named(name) {
            // The audit log is the only stored table of a system schema.
            let is_own = name == OWN_SCHEMA && self.database == DEFAULT_DATABASE;
            let audit = is_own.then(|| Arc::new(self.chronicles(name)) as Arc<dyn SchemaProvider>);
            let schemas = [system].into_iter().chain(audit).collect();
            return Some(Arc::new(SearchPath { replaced: Vec::new(), schemas }));
        }
        let known = self.scope.lock().state.schema(&self.database, name).is_some();
        known.then(|| Arc::new(self.chronicles(name)) as Arc<dyn SchemaProvider>)
    }
}

/// DataFusion's list of catalogs, with a single catalog.
#[derive(Debug)]
pub struct SessionCatalogs(pub Arc<SessionCatalog>);

impl CatalogProviderList for SessionCatalogs {
    fn register_catalog(
        &self,
        _: String,
        _: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![self.0.name.clone()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == self.0.name).then(|| Arc::clone(&self.0) as Arc<dyn CatalogProvider>)
    }
}

/// DataFusion's view of a schema: its chronicles.
#[derive(Debug)]
struct ChronicleSchema {
    database: String,
    schema: String,
    scope: Arc<Mutex<Scope>>,
    pin: Arc<SnapshotPin>,
}

#[async_trait]
impl SchemaProvider for ChronicleSchema {
    fn table_names(&self) -> Vec<String> {
        let state = Arc::clone(&self.scope.lock().state);
        state
            .chronicles(&self.database)
            .filter(|chronicle| chronicle.schema == self.schema)
            .map(|chronicle| chronicle.name.clone())
            .collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let scope = self.scope.lock();
        let all: Vec<usize> = (0..SYSTEM_COLUMNS.len()).collect();
        let (name, shown) = match replays::whole(name) {
            Some(name) => (name, &all),
            None => (name, &scope.system_columns),
        };
        let chronicle = scope.state.chronicle(&self.database, &self.schema, name);
        let Some(chronicle) = chronicle else { return Ok(None) };
        let pin = Arc::clone(&self.pin);
        let table = ChronicleTable::new(Arc::clone(chronicle), shown, scope.keyed, pin);
        Ok(Some(match scope.row_policies(chronicle.id).map_err(to_datafusion)? {
            Some(policies) => Arc::new(PolicyTable::new(table, policies, scope.identity)),
            None => Arc::new(table),
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.scope.lock().state.chronicle(&self.database, &self.schema, name).is_some()
    }
}

/// The schemas in which unqualified names are looked up, in order.
#[derive(Debug)]
struct SearchPath {
    replaced: Vec<(String, Arc<dyn TableProvider>)>,
    schemas: Vec<Arc<dyn SchemaProvider>>,
}

#[async_trait]
impl SchemaProvider for SearchPath {
    fn table_names(&self) -> Vec<String> {
        self.schemas.iter().flat_map(|schema| schema.table_names()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some((_, table)) = self.replaced.iter().find(|(replaced, _)| replaced == name) {
            return Ok(Some(Arc::clone(table)));
        }
        for schema in &self.schemas {
            if let Some(table) = schema.table(name).await? {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.schemas.iter().any(|schema| schema.table_exist(name))
    }
}
