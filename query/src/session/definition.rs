//! The uncommitted definitions (DDL) of an open block.

use std::{collections::BTreeSet, sync::Arc};

use stratalog_model::{ChronicleId, Error, ErrorKind, EventStore, Result};
use stratalog_visor_core::{
    CatalogState,
    access::Identity,
    acquisition::DropGuard,
    catalog::{Catalog, Command, NewChronicle},
};

use super::exclusive_hold::ExclusiveHold;

/// The DDL commands that COMMIT executes, and the catalog as the block sees it. A drop without
/// COMMIT discards all changes.
#[derive(Debug, Clone)]
pub struct Definition {
    /// On whose behalf the block's definitions are made.
    actor: Identity,
    commands: Vec<Command>,
    state: Arc<CatalogState>,
    created: Vec<Arc<BlockChronicle>>,
    /// The chronicles with new columns.
    extended: BTreeSet<ChronicleId>,
    /// The version of the common catalog on which `state` is based.
    common_version: u64,
    /// Guards of the dropped chronicles: until the block ends, no session can acquire these
    /// chronicles.
    doors: Vec<Arc<DropGuard>>,
    /// Guards of chronicles that the block replaces with a new copy: other sessions cannot write to
    /// them.
    holds: Vec<Arc<ExclusiveHold>>,
}

/// A chronicle that the block created and that other sessions cannot see yet. If the block ends
/// without a COMMIT, the store deletes the events of the chronicle.
#[derive(Debug)]
struct BlockChronicle {
    id: ChronicleId,
    catalog: Arc<Catalog>,
    store: Arc<dyn EventStore>,
}

impl Definition {
    /// The definitions `before`, if any, followed by `commands`. `seen` is the catalog that
    /// `commands` change: the catalog of `before`, or else the common catalog.
    ///
    /// # Errors
    /// Errors of the commands, or of the catalog's log: the log reserves an id for each new
    /// chronicle. `ActiveTransaction` if another role made the definitions `before`.
    pub async fn after(
        before: Option<Definition>,
        actor: Identity,
        seen: &CatalogState,
        commands: Vec<Command>,
        catalog: &Arc<Catalog>,
        store: &Arc<dyn EventStore>,
        now_ns: i64,
    ) -> Result<Definition> {
        if before.as_ref().is_some_and(|before| before.actor != actor) {
            return Err(Error::new(
                ErrorKind::ActiveTransaction,
                "a transaction block cannot define objects for two roles",
            )
            .with_hint("COMMIT before SET ROLE"));
        }
        let mut created = Vec::new();
        let mut fixed = Vec::with_capacity(commands.len());
        // Replace names by ids, so that COMMIT changes the same objects.
        for command in commands {
            match command {
                Command::CreateChronicle(new) => {
                    if seen.chronicle(&new.database, &new.schema, &new.name).is_some() {
                        continue;
                    }
                    let id = catalog.reserve().await?;
                    // If another session creates a chronicle with the same name before COMMIT, the
                    // commit must fail: that chronicle does not contain the written rows.
                    let new = NewChronicle { if_not_exists: false, ..new };
                    fixed.push(Command::CreateReserved { id, created_ns: now_ns, new });
                    let (catalog, store) = (Arc::clone(catalog), Arc::clone(store));
                    created.push(Arc::new(BlockChronicle { id, catalog, store }));
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
        let state = preview(catalog, seen, &actor, &fixed)?;
        let version = |state: &CatalogState, id: &ChronicleId| {
            state.chronicle_by_id(*id).map(|chronicle| chronicle.schema_version)
        };
        let changed = fixed.iter().flat_map(|command| command.changes(seen));
        let extended: BTreeSet<ChronicleId> =
            changed.filter(|id| version(&state, id) > version(seen, id)).collect();
        let mut definition = match before {
            Some(before) => Definition { state, ..before },
            None => {
                let (common_version, doors, holds) = (seen.version(), Vec::new(), Vec::new());
                let (commands, created, extended) = (Vec::new(), Vec::new(), BTreeSet::new());
                Definition {
                    actor,
                    commands,
                    state,
                    created,
                    extended,
                    common_version,
                    doors,
                    holds,
                }
            }
        };
        definition.commands.extend(fixed);
        definition.created.extend(created);
        definition.extended.extend(extended);
        definition.open_created(catalog);
        Ok(definition)
    }

    /// Adds guards of dropped chronicles, until the definition ends.
    pub fn with_doors(mut self, doors: Vec<DropGuard>) -> Definition {
        self.doors.extend(doors.into_iter().map(Arc::new));
        self
    }

    /// Adds a chronicle that the block created under a reserved id.
    pub fn with_created(
        mut self,
        id: ChronicleId,
        catalog: &Arc<Catalog>,
        store: &Arc<dyn EventStore>,
    ) -> Definition {
        let (catalog, store) = (Arc::clone(catalog), Arc::clone(store));
        self.open_chronicle(id, &catalog);
        self.created.push(Arc::new(BlockChronicle { id, catalog, store }));
        self
    }

    /// Adds a guard that keeps other sessions from writing to a chronicle, until the definition
    /// ends.
    pub fn with_hold(mut self, hold: Option<ExclusiveHold>) -> Definition {
        self.holds.extend(hold.map(Arc::new));
        self
    }

    /// Whether the definition is based on another version of the common catalog than
    /// `common_version`, the current version.
    pub fn is_behind(&self, common_version: u64) -> bool {
        self.common_version != common_version
    }

    /// Applies the commands of the definition to the current common catalog.
    ///
    /// # Errors
    /// Errors of commands that no longer apply.
    pub fn rebased(self, catalog: &Arc<Catalog>) -> Result<Definition> {
        let now = catalog.state();
        let state = preview(catalog, &now, &self.actor, &self.commands)?;
        let rebased = Definition { state, common_version: now.version(), ..self };
        rebased.open_created(catalog);
        Ok(rebased)
    }

    /// Registers the new chronicles of the block with the catalog, until the block ends.
    fn open_created(&self, catalog: &Catalog) {
        self.created.iter().for_each(|created| self.open_chronicle(created.id, catalog));
    }

    fn open_chronicle(&self, id: ChronicleId, catalog: &Catalog) {
        if let Some(chronicle) = self.state.chronicle_by_id(id) {
            catalog.open_for(Arc::clone(chronicle));
        }
    }

    /// Seals the new chronicles whose ticks go by the clock, so that no more old events arrive. A
    /// new chronicle may replace a chronicle whose sealed tick was already reported to readers.
    pub fn seal_created(&self, store: &dyn EventStore) {
        let created =
            self.created.iter().filter_map(|created| self.state.chronicle_by_id(created.id));
        for chronicle in created.filter(|chronicle| chronicle.time_source.is_clocked()) {
            // A chronicle that was dropped again needs no seal.
            let _ = store.seal(chronicle);
        }
    }

    /// On whose behalf the definitions are made.
    pub fn actor(&self) -> Identity {
        self.actor
    }

    /// The catalog as the block sees it.
    pub fn state(&self) -> Arc<CatalogState> {
        Arc::clone(&self.state)
    }

    /// The commands for COMMIT.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Whether the block adds columns to an existing chronicle.
    pub fn extends(&self, chronicle: ChronicleId) -> bool {
        self.extended.contains(&chronicle) && !self.created(chronicle)
    }

    /// Whether the block created a chronicle.
    pub fn created(&self, chronicle: ChronicleId) -> bool {
        self.created.iter().any(|created| created.id == chronicle)
    }
}

fn preview(
    catalog: &Catalog,
    state: &CatalogState,
    actor: &Identity,
    commands: &[Command],
) -> Result<Arc<CatalogState>> {
    let (seen, _) = catalog.preview(state, actor, commands)?;
    seen.ok_or_else(|| Error::internal("a definition that defines nothing"))
}

impl Drop for BlockChronicle {
    fn drop(&mut self) {
        if !self.catalog.close(self.id) {
            self.store.forget(self.id);
        }
    }
}
