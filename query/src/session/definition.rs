//! The definitions of an open block.

use std::{collections::BTreeSet, sync::Arc};

use stratalog_model::{ChronicleId, Error, EventStore, Result};
use stratalog_visor_core::{
    CatalogState,
    acquisition::DropGuard,
    catalog::{Catalog, Command, NewChronicle},
};

use super::alone::Alone;

/// Commands for COMMIT, and their result in the view of the block. A drop instead of COMMIT leaves
/// nothing behind.
#[derive(Debug, Clone)]
pub struct Definition {
    commands: Vec<Command>,
    state: Arc<CatalogState>,
    made: Vec<Arc<Made>>,
    /// The chronicles with new columns.
    extended: BTreeSet<ChronicleId>,
    /// The version of the common catalog below `state`.
    everybodys: u64,
    /// The doors of the dropped chronicles: no session acquires these chronicles meanwhile.
    doors: Vec<Arc<DropGuard>>,
    /// Exclusive holds of the chronicles made anew, against writes of other sessions.
    alone: Vec<Arc<Alone>>,
}

/// A chronicle that exists only for its block. If the block ends without making the chronicle, the
/// store forgets its events.
#[derive(Debug)]
struct Made {
    id: ChronicleId,
    catalog: Arc<Catalog>,
    store: Arc<dyn EventStore>,
}

impl Definition {
    /// `before`, if any, followed by `commands`, which change the state `seen`: the state of
    /// `before`, or the common state.
    ///
    /// # Errors
    /// Errors of the commands, or of the catalog's log: the log reserves an id for each new
    /// chronicle.
    pub async fn after(
        before: Option<Definition>,
        seen: &CatalogState,
        commands: Vec<Command>,
        catalog: &Arc<Catalog>,
        store: &Arc<dyn EventStore>,
        now_ns: i64,
    ) -> Result<Definition> {
        let mut made = Vec::new();
        let mut fixed = Vec::with_capacity(commands.len());
        // Fix the current meaning of names for COMMIT.
        for command in commands {
            match command {
                Command::CreateChronicle(new) => {
                    if seen.chronicle(&new.database, &new.schema, &new.name).is_some() {
                        continue;
                    }
                    let id = catalog.reserve().await?;
                    // At COMMIT, a chronicle with the same name is another table, without the
                    // written rows.
                    let new = NewChronicle { if_not_exists: false, ..new };
                    fixed.push(Command::CreateReserved { id, created_ns: now_ns, new });
                    let (catalog, store) = (Arc::clone(catalog), Arc::clone(store));
                    made.push(Arc::new(Made { id, catalog, store }));
                }
                Command::DropChronicle { database, schema, name, .. } => {
                    let found = seen.chronicle(&database, &schema, &name);
                    fixed.extend(found.map(|found| Command::DropKnown { id: found.id }));
                }
                Command::DropSchema { database, name, if_exists, .. } => {
                    let held = seen.chronicles_in(&database, &name);
                    fixed.extend(held.map(|held| Command::DropKnown { id: held.id }));
                    let cascade = false;
                    fixed.push(Command::DropSchema { database, name, if_exists, cascade });
                }
                other => fixed.push(other),
            }
        }
        let state = preview(catalog, seen, &fixed)?;
        let version = |state: &CatalogState, id: &ChronicleId| {
            state.chronicle_by_id(*id).map(|chronicle| chronicle.schema_version)
        };
        let changed = fixed.iter().flat_map(|command| command.changes(seen));
        let extended: BTreeSet<ChronicleId> =
            changed.filter(|id| version(&state, id) > version(seen, id)).collect();
        let mut definition = match before {
            Some(before) => Definition { state, ..before },
            None => {
                let (everybodys, doors, alone) = (seen.version(), Vec::new(), Vec::new());
                let (commands, made, extended) = (Vec::new(), Vec::new(), BTreeSet::new());
                Definition { commands, state, made, extended, everybodys, doors, alone }
            }
        };
        definition.commands.extend(fixed);
        definition.made.extend(made);
        definition.extended.extend(extended);
        definition.tell(catalog);
        Ok(definition)
    }

    /// Adds doors that stay shut until the definition ends.
    pub fn behind(mut self, doors: Vec<DropGuard>) -> Definition {
        self.doors.extend(doors.into_iter().map(Arc::new));
        self
    }

    /// Adds a chronicle made under a reserved id.
    pub fn and_made(
        mut self,
        id: ChronicleId,
        catalog: &Arc<Catalog>,
        store: &Arc<dyn EventStore>,
    ) -> Definition {
        let (catalog, store) = (Arc::clone(catalog), Arc::clone(store));
        self.tell_of(id, &catalog);
        self.made.push(Arc::new(Made { id, catalog, store }));
        self
    }

    /// Adds an exclusive hold of a chronicle, until the definition ends.
    pub fn holding(mut self, alone: Option<Alone>) -> Definition {
        self.alone.extend(alone.map(Arc::new));
        self
    }

    /// Whether other sessions have changed the common catalog, which now has the version
    /// `everybodys`.
    pub fn is_behind(&self, everybodys: u64) -> bool {
        self.everybodys != everybodys
    }

    /// The definition, based on the current common catalog.
    ///
    /// # Errors
    /// Errors of commands that no longer apply.
    pub fn caught_up(self, catalog: &Arc<Catalog>) -> Result<Definition> {
        let now = catalog.state();
        let state = preview(catalog, &now, &self.commands)?;
        let caught_up = Definition { state, everybodys: now.version(), ..self };
        caught_up.tell(catalog);
        Ok(caught_up)
    }

    /// Tells the catalog about the new chronicles.
    fn tell(&self, catalog: &Catalog) {
        self.made.iter().for_each(|made| self.tell_of(made.id, catalog));
    }

    fn tell_of(&self, id: ChronicleId, catalog: &Catalog) {
        if let Some(chronicle) = self.state.chronicle_by_id(id) {
            catalog.open_for(Arc::clone(chronicle));
        }
    }

    /// Seals the new chronicles with ticks by the clock: a new chronicle may replace a chronicle
    /// whose sealed tick was reported to readers.
    pub fn seal_made(&self, store: &dyn EventStore) {
        let made = self.made.iter().filter_map(|made| self.state.chronicle_by_id(made.id));
        for chronicle in made.filter(|chronicle| chronicle.time_source.is_clocked()) {
            // A chronicle that was dropped again needs no seal.
            let _ = store.seal(chronicle);
        }
    }

    /// The catalog in the block's view.
    pub fn state(&self) -> Arc<CatalogState> {
        Arc::clone(&self.state)
    }

    /// The commands for COMMIT.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Whether the block adds columns to an existing chronicle.
    pub fn extends(&self, chronicle: ChronicleId) -> bool {
        self.extended.contains(&chronicle) && !self.made(chronicle)
    }

    /// Whether the block made a chronicle.
    pub fn made(&self, chronicle: ChronicleId) -> bool {
        self.made.iter().any(|made| made.id == chronicle)
    }
}

fn preview(
    catalog: &Catalog,
    state: &CatalogState,
    commands: &[Command],
) -> Result<Arc<CatalogState>> {
    let (seen, _) = catalog.preview(state, commands)?;
    seen.ok_or_else(|| Error::internal("a definition that defines nothing"))
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.catalog.close(self.id) {
            self.store.forget(self.id);
        }
    }
}
