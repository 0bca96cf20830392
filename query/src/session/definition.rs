//! What an open block defines.

use std::sync::Arc;

use stratalog_model::{ChronicleId, EventStore, Result};
use stratalog_visor_core::{
    CatalogState,
    catalog::{Catalog, Command},
};

/// Commands that COMMIT carries out, and what they leave, for the block alone. Dropped instead,
/// they leave nothing.
#[derive(Debug, Clone)]
pub struct Definition {
    commands: Vec<Command>,
    state: Arc<CatalogState>,
    made: Vec<Arc<Made>>,
}

/// A chronicle that is there for its block alone. When the block ends without having made it, its
/// events are forgotten.
#[derive(Debug)]
struct Made {
    id: ChronicleId,
    catalog: Arc<Catalog>,
    store: Arc<dyn EventStore>,
}

impl Definition {
    /// `before`, if any, and after it `commands`, in the state `seen`. Returns what they have to
    /// tell, too.
    ///
    /// # Errors
    /// What is wrong with a command, or the catalog's log: an id is set aside for each new
    /// chronicle.
    pub async fn after(
        before: Option<Definition>,
        seen: &CatalogState,
        mut commands: Vec<Command>,
        catalog: &Arc<Catalog>,
        store: &Arc<dyn EventStore>,
        now_ns: i64,
    ) -> Result<(Definition, Vec<String>)> {
        // What is wrong is found before anything is set aside.
        catalog.preview(seen, &commands)?;
        let mut made = Vec::new();
        for command in &mut commands {
            let Command::CreateChronicle(new) = command else { continue };
            if seen.chronicle(&new.database, &new.schema, &new.name).is_some() {
                continue;
            }
            let id = catalog.reserve().await?;
            *command = Command::CreateReserved { id, created_ns: now_ns, new: new.clone() };
            let (catalog, store) = (Arc::clone(catalog), Arc::clone(store));
            made.push(Arc::new(Made { id, catalog, store }));
        }
        let (state, notices) = catalog.preview(seen, &commands)?;
        let mut definition = match before {
            Some(before) => Definition { state, ..before },
            None => Definition { commands: Vec::new(), state, made: Vec::new() },
        };
        definition.commands.extend(commands);
        definition.made.extend(made);
        for made in &definition.made {
            if let Some(chronicle) = definition.state.chronicle_by_id(made.id) {
                catalog.open_for(Arc::clone(chronicle));
            }
        }
        Ok((definition, notices))
    }

    /// The catalog as the block sees it.
    pub fn state(&self) -> Arc<CatalogState> {
        Arc::clone(&self.state)
    }

    /// The commands.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Whether the block made a chronicle.
    pub fn made(&self, chronicle: ChronicleId) -> bool {
        self.made.iter().any(|made| made.id == chronicle)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.catalog.close(self.id) {
            self.store.forget(self.id);
        }
    }
}
