//! The planner of a session: created on demand, and dropped while the session is idle.

use std::sync::Arc;

use datafusion::execution::session_state::SessionStateBuilder;
use parking_lot::Mutex;
use stratalog_model::{Error, Result};
use stratalog_pg_catalog::{CatalogContext, CatalogView, CursorsView, PreparedView};
use stratalog_postgres::{dialect::positions::RECORD_FUNCTION, errors::from_datafusion};
use tokio::sync::{MappedMutexGuard, MutexGuard};

use super::{
    Session,
    catalog::{Scope, SessionCatalog, SessionCatalogs, SystemSchemas},
    planner::Planner,
    views::{OpenSessions, SessionSettings},
};
use crate::table::record::{LogScope, Records};

impl Session {
    /// The session's planner, prepared with the current resolution of names and the current time.
    ///
    /// # Errors
    /// Fails if the functions of the session cannot be registered.
    pub(crate) async fn enter_planner(
        &self,
        system_columns: &[usize],
    ) -> Result<MappedMutexGuard<'_, Planner>> {
        let mut place = self.planner.lock().await;
        if place.is_none() {
            *place = Some(self.make_planner()?);
        }
        let mut planner = MutexGuard::try_map(place, Option::as_mut)
            .map_err(|_| Error::internal("a session has no planner"))?;
        let parsed = self.variables.parsed();
        let scope = Scope { system_columns: system_columns.to_vec(), ..self.scope() };
        planner.enter(scope, parsed.style, self.parts().clock.now_ns());
        Ok(planner)
    }

    /// Frees the memory that an idle session does not need: the planner, and the cached plans of
    /// repeated texts. Both are created again on demand.
    pub fn rest(&self) {
        if let Ok(mut planner) = self.planner.try_lock() {
            *planner = None;
        }
        self.cache.lock().clear();
    }

    fn scope(&self) -> Scope {
        Scope {
            state: self.catalog(),
            identity: self.identity(),
            now_ns: self.parts().catalog.now_ns(),
            database: self.login.database.clone(),
            search_path: self.variables.parsed().search_path,
            system_columns: Vec::new(),
            keyed: false,
            replaced: Vec::new(),
        }
    }

    fn make_planner(&self) -> Result<Planner> {
        let (parts, base, login) = (self.parts(), self.service.base(), &self.login);
        let scope = Arc::new(Mutex::new(self.scope()));
        let pin = Arc::clone(&self.pin);
        let context = Arc::new(CatalogContext {
            catalog: Arc::clone(&self.seen) as Arc<dyn CatalogView>,
            store: Arc::clone(&parts.store),
            files: parts.files.clone(),
            acquisitions: Arc::clone(&parts.acquisitions),
            clock: Arc::clone(&parts.clock),
            sessions: Arc::new(OpenSessions {
                sessions: Arc::clone(self.service.sessions()),
                confined: Arc::clone(&self.confined),
                seen: Arc::clone(&self.seen),
            }),
            settings: Arc::new(SessionSettings(Arc::clone(&self.variables))),
            cursors: Arc::clone(&self.cursors) as Arc<dyn CursorsView>,
            prepared: Arc::clone(&self.statements) as Arc<dyn PreparedView>,
            database: login.database.clone(),
            connected_to: self.connected_to.clone(),
            process_id: self.key.process_id,
            server_started_us: self.service.started_ns().div_euclid(1_000),
        });
        let system = stratalog_pg_catalog::schemas(Arc::clone(&context));
        let system = Arc::new(SystemSchemas {
            schemas: vec![
                ("pg_catalog".to_string(), system.pg_catalog),
                ("information_schema".to_string(), system.information_schema),
                ("stratalog".to_string(), system.stratalog),
            ],
        });
        let catalogs = SessionCatalogs(Arc::new(SessionCatalog::new(
            self.connected_to.clone(),
            login.database.clone(),
            Arc::clone(&scope),
            Arc::clone(&pin),
            system,
        )));
        let mut config = base.config().clone();
        config.options_mut().catalog.default_catalog = self.connected_to.clone();
        let mut state = SessionStateBuilder::new_from_existing(base.clone())
            .with_config(config)
            .with_catalog_list(Arc::new(catalogs))
            .with_session_id(self.key.process_id.to_string())
            .build();
        stratalog_pg_catalog::register_functions(&mut state, &context).map_err(from_datafusion)?;
        let log = Arc::new(LogScope {
            scope: Arc::clone(&scope),
            store: Arc::clone(&parts.store),
            pin: Arc::clone(&pin),
            waits: Arc::clone(self.waits()),
        });
        state.register_udtf(RECORD_FUNCTION, Arc::new(Records(log)));
        Ok(Planner::new(state, scope, pin))
    }
}
