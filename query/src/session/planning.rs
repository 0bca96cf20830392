//! What a session plans with: made for its first statement, and again after a rest. It is most of
//! what a session holds, and one that is idle does without.

use std::sync::Arc;

use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use parking_lot::Mutex;
use stratalog_model::{Error, Result};
use stratalog_pg_catalog::CatalogContext;
use tokio::sync::{MappedMutexGuard, MutexGuard};

use super::{
    catalog::{Scope, SessionCatalog, SessionCatalogs, SystemSchemas},
    planner::Planner,
};
use crate::{errors::from_datafusion, table::Pin};

/// The planner of a session, when it has one.
#[derive(Debug)]
pub struct Planning {
    planner: tokio::sync::Mutex<Option<Planner>>,
    context: Arc<CatalogContext>,
    /// Plans that are kept go on using these, whichever planner made them.
    scope: Arc<Mutex<Scope>>,
    pin: Arc<Pin>,
}

/// The planner, for one statement.
pub type InUse<'a> = MappedMutexGuard<'a, Planner>;

impl Planning {
    /// Makes planners whose tables and functions look at `context`, and names at `scope`.
    pub fn new(context: Arc<CatalogContext>, scope: Scope) -> Self {
        let scope = Arc::new(Mutex::new(scope));
        Self { planner: tokio::sync::Mutex::default(), context, scope, pin: Arc::default() }
    }

    /// The planner, made from what all sessions have in common if there is none.
    ///
    /// # Errors
    /// A function that cannot be registered: a defect.
    pub async fn enter(&self, base: &SessionState) -> Result<InUse<'_>> {
        let mut planner = self.planner.lock().await;
        if planner.is_none() {
            *planner = Some(self.make(base)?);
        }
        MutexGuard::try_map(planner, Option::as_mut)
            .map_err(|_| Error::internal("a session has no planner"))
    }

    /// Gives the planner up until it is wanted again.
    pub fn rest(&self) {
        if let Ok(mut planner) = self.planner.try_lock() {
            *planner = None;
        }
    }

    fn make(&self, base: &SessionState) -> Result<Planner> {
        let context = &self.context;
        let system = stratalog_pg_catalog::schemas(Arc::clone(context));
        let system = Arc::new(SystemSchemas {
            schemas: vec![
                ("pg_catalog".to_string(), system.pg_catalog),
                ("information_schema".to_string(), system.information_schema),
                ("stratalog".to_string(), system.stratalog),
            ],
        });
        let catalogs = SessionCatalogs(Arc::new(SessionCatalog::new(
            context.database.clone(),
            Arc::clone(&self.scope),
            Arc::clone(&self.pin),
            system,
        )));
        let mut config = base.config().clone();
        config.options_mut().catalog.default_catalog.clone_from(&context.database);
        let mut state = SessionStateBuilder::new_from_existing(base.clone())
            .with_config(config)
            .with_catalog_list(Arc::new(catalogs))
            .with_session_id(context.process_id.to_string())
            .build();
        stratalog_pg_catalog::register_functions(&mut state, context).map_err(from_datafusion)?;
        Ok(Planner::new(state, Arc::clone(&self.scope), Arc::clone(&self.pin)))
    }
}
