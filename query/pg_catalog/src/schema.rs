//! The three system schemas of a session.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use datafusion::{
    catalog::{SchemaProvider, TableProvider},
    common::Result,
};

use crate::{CatalogContext, spec::SYSTEM_TABLES, table::SystemTable};

/// The system schemas of one session.
#[derive(Debug, Clone)]
pub struct Schemas {
    /// The schema `pg_catalog`.
    pub pg_catalog: Arc<dyn SchemaProvider>,
    /// The schema `information_schema`.
    pub information_schema: Arc<dyn SchemaProvider>,
    /// The schema `stratalog`.
    pub stratalog: Arc<dyn SchemaProvider>,
}

/// Creates the system schemas for the session that `context` describes.
pub fn schemas(context: Arc<CatalogContext>) -> Schemas {
    let of = |schema: &str| -> Arc<dyn SchemaProvider> {
        let tables = SYSTEM_TABLES
            .iter()
            .filter(|table| table.schema == schema)
            .map(|table| {
                let provider = SystemTable::new(table, Arc::clone(&context));
                (table.name, Arc::new(provider) as Arc<dyn TableProvider>)
            })
            .collect();
        Arc::new(SystemSchema { tables })
    };
    Schemas {
        pg_catalog: of("pg_catalog"),
        information_schema: of("information_schema"),
        stratalog: of("stratalog"),
    }
}

#[derive(Debug)]
struct SystemSchema {
    tables: BTreeMap<&'static str, Arc<dyn TableProvider>>,
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        self.tables.keys().map(|name| (*name).to_string()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.tables.get(name).map(Arc::clone))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }
}
