//! The state of the catalog at one instant.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use stratalog_model::{
    ChronicleDefinition, ChronicleId, Decision, Error, ErrorKind, IndexDefinition, Result,
    SchemaVersion, chronicle::SYSTEM_COLUMNS,
};

use crate::access::{AccessState, Object, Rights};

use super::{
    name::{DATABASE_ALIASES, DEFAULT_DATABASE, DEFAULT_SCHEMA, SYSTEM_SCHEMAS},
    record::Change,
};

/// The first oid for user objects; lower oids belong to PostgreSQL.
const OID_FIRST: u32 = 16_384;

/// The first oid of databases and schemas. Table oids would reach this value only after a billion
/// tables.
const OID_NAMESPACE_FIRST: u32 = 1_000_000_000;

/// Oid of the database that every data directory has. The oid is outside of PostgreSQL's own range,
/// because PostgreSQL's tools hide objects in that range.
const OID_DEFAULT_DATABASE: u32 = OID_NAMESPACE_FIRST - 1;

/// Oid of schema `public`, in each database.
const OID_PUBLIC: u32 = 2_200;

/// The oid of a table for clients that read `pg_class`; it never changes.
pub fn oid_of(id: ChronicleId) -> u32 {
    OID_FIRST.saturating_add(id.0)
}

/// A database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseDefinition {
    /// Oid; never changes.
    pub oid: u32,
    /// Name.
    pub name: String,
}

/// A schema of one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaDefinition {
    /// Oid, unique within its database; never changes.
    pub oid: u32,
    /// Name.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Database {
    definition: DatabaseDefinition,
    schemas: BTreeMap<String, Arc<Schema>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Schema {
    definition: SchemaDefinition,
    chronicles: BTreeMap<String, Arc<ChronicleDefinition>>,
}

/// An immutable snapshot of the catalog. A change copies only the path to the changed object; the
/// snapshots share all other objects.
#[derive(Debug, Clone, PartialEq)]
pub struct CatalogState {
    version: u64,
    databases: BTreeMap<String, Arc<Database>>,
    by_id: Arc<BTreeMap<ChronicleId, Arc<ChronicleDefinition>>>,
    next_chronicle: ChronicleId,
    /// Reserved ids that have no chronicle: their transaction is open, or was rolled back.
    reserved: Arc<BTreeSet<ChronicleId>>,
    next_namespace: u32,
    /// The decision about the last transaction with events and definitions.
    decision: Option<Arc<Decision>>,
    access: Arc<AccessState>,
}

impl CatalogState {
    /// The catalog of a new data directory: one database with the schema `public`.
    pub(crate) fn genesis() -> Self {
        let mut state = Self {
            version: 0,
            databases: BTreeMap::new(),
            by_id: Arc::default(),
            next_chronicle: ChronicleId(1),
            reserved: Arc::default(),
            next_namespace: OID_NAMESPACE_FIRST,
            decision: None,
            access: Arc::new(AccessState::genesis()),
        };
        state.add_database(OID_DEFAULT_DATABASE, DEFAULT_DATABASE.to_string());
        state
    }

    /// The version of the state, which increases with every visible change. Caches use it as a key.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All databases, sorted by name.
    pub fn databases(&self) -> impl Iterator<Item = &DatabaseDefinition> {
        self.databases.values().map(|database| &database.definition)
    }

    /// Finds a database by name.
    pub fn database(&self, name: &str) -> Option<&DatabaseDefinition> {
        self.databases.get(name).map(|database| &database.definition)
    }

    /// Finds a database by the name that a client gives: the database's name or an alias.
    pub fn database_meant(&self, name: &str) -> Option<&DatabaseDefinition> {
        let is_alias = DATABASE_ALIASES.iter().any(|(alias, _)| *alias == name);
        self.database(name).or_else(|| self.database(DEFAULT_DATABASE).filter(|_| is_alias))
    }

    /// The oid and the name of every database, followed by every alias.
    pub fn database_names(&self) -> impl Iterator<Item = (u32, &str)> {
        let aliases =
            DATABASE_ALIASES.into_iter().filter(|(name, _)| self.database(name).is_none());
        let named = self.databases().map(|database| (database.oid, database.name.as_str()));
        named.chain(aliases.map(|(name, oid)| (oid, name)))
    }

    /// The user's schemas of a database, sorted by name, including `public`; empty for an unknown
    /// database.
    pub fn schemas(&self, database: &str) -> impl Iterator<Item = &SchemaDefinition> {
        let all = self.schemas_of(database).map(|schema| &schema.definition);
        // A system schema is stored only to contain the audit log.
        all.filter(|schema| !SYSTEM_SCHEMAS.contains(&schema.name.as_str()))
    }

    /// Finds a user's schema by name.
    pub fn schema(&self, database: &str, name: &str) -> Option<&SchemaDefinition> {
        self.databases.get(database)?.schemas.get(name).map(|schema| &schema.definition)
    }

    /// All chronicles of a database, sorted by schema and name.
    pub fn chronicles(&self, database: &str) -> impl Iterator<Item = &Arc<ChronicleDefinition>> {
        self.schemas_of(database).flat_map(|schema| schema.chronicles.values())
    }

    /// All chronicles of one schema, sorted by name.
    pub fn chronicles_in(
        &self,
        database: &str,
        schema: &str,
    ) -> impl Iterator<Item = &Arc<ChronicleDefinition>> {
        self.databases
            .get(database)
            .and_then(|database| database.schemas.get(schema))
            .into_iter()
            .flat_map(|schema| schema.chronicles.values())
    }

    /// Finds a chronicle by name.
    pub fn chronicle(
        &self,
        database: &str,
        schema: &str,
        name: &str,
    ) -> Option<&Arc<ChronicleDefinition>> {
        self.databases.get(database)?.schemas.get(schema)?.chronicles.get(name)
    }

    /// Finds a chronicle by the name of its PRIMARY KEY.
    pub fn keyed_by(
        &self,
        database: &str,
        schema: &str,
        name: &str,
    ) -> Option<&Arc<ChronicleDefinition>> {
        let mut chronicles = self.chronicles_in(database, schema);
        chronicles.find(|chronicle| chronicle.primary_key && chronicle.key_name() == name)
    }

    /// Finds a secondary index by name; returns it with its chronicle.
    pub fn index(
        &self,
        database: &str,
        schema: &str,
        name: &str,
    ) -> Option<(&Arc<ChronicleDefinition>, &IndexDefinition)> {
        self.chronicles_in(database, schema).find_map(|chronicle| {
            let index = chronicle.indexes.iter().find(|index| index.name == name)?;
            Some((chronicle, index))
        })
    }

    /// Finds a chronicle by id.
    pub fn chronicle_by_id(&self, id: ChronicleId) -> Option<&Arc<ChronicleDefinition>> {
        self.by_id.get(&id)
    }

    /// The number of chronicles in all databases.
    pub fn chronicle_count(&self) -> usize {
        self.by_id.len()
    }

    /// True if the id was ever assigned. Its chronicle may have been dropped, or may never have
    /// been created.
    pub fn has_given(&self, id: ChronicleId) -> bool {
        id < self.next_chronicle
    }

    /// The decision about the last transaction with events. The commit frames of all earlier
    /// decisions are durable (RFC 0023).
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_deref()
    }

    /// Roles, rights, row policies and tokens.
    pub fn access(&self) -> &AccessState {
        &self.access
    }

    /// The state without any chronicle. The version stays.
    pub fn without_chronicles(&self) -> Self {
        let mut empty = self.clone();
        let all: Vec<ChronicleId> = self.by_id.keys().copied().collect();
        for id in all {
            let taken = empty.take(id);
            debug_assert!(taken.is_ok(), "a chronicle has no name");
        }
        empty
    }

    /// The state without the chronicles that an identity may not know of. The version stays.
    pub(crate) fn visible_to(&self, rights: &Rights<'_>) -> Self {
        let hidden: Vec<ChronicleId> = self
            .by_id
            .values()
            .filter(|chronicle| !self.is_visible(rights, chronicle))
            .map(|chronicle| chronicle.id)
            .collect();
        let mut visible = self.clone();
        for id in hidden {
            let taken = visible.take(id);
            debug_assert!(taken.is_ok(), "a hidden chronicle does not exist");
        }
        visible
    }

    /// True if the id is reserved for a chronicle that a transaction creates.
    pub(crate) fn is_reserved(&self, id: ChronicleId) -> bool {
        self.reserved.contains(&id)
    }

    /// The id that the next new chronicle gets; ids are never reused.
    pub(crate) fn next_chronicle(&self) -> ChronicleId {
        self.next_chronicle
    }

    /// The oid that the next new database or schema gets.
    pub(crate) fn next_namespace(&self) -> u32 {
        self.next_namespace
    }

    /// The state after `change`.
    ///
    /// # Errors
    /// `DataCorrupted` if the change does not fit the state: the change was decided on another
    /// state, so the log does not contain the correct history.
    pub(crate) fn after(&self, change: &Change) -> Result<Self> {
        let mut next = self.clone();
        next.apply(change)?;
        debug_assert!(
            self.next_chronicle <= next.next_chronicle
                && self.next_namespace <= next.next_namespace,
            "a number can be given again"
        );
        debug_assert_eq!(
            next.by_id.len(),
            next.databases.keys().map(|name| next.chronicles(name).count()).sum::<usize>()
        );
        // A reservation is not visible: the version stays, so that cached plans remain valid.
        if !matches!(change, Change::ReserveChronicle { .. }) {
            next.version += 1;
        }
        Ok(next)
    }

    /// The same state with another version, for a preview of an open transaction.
    pub(crate) fn under(mut self, version: u64) -> Self {
        debug_assert!(self.version < version, "two states have one version");
        self.version = version;
        self
    }

    /// Applies `change` to this state.
    ///
    /// # Errors
    /// The same as [`Self::after`]; after an error, the change may be partly applied.
    pub(crate) fn apply(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::CreateDatabase { oid, name } => {
                if self.databases.contains_key(name) {
                    return Err(misfit(format!("database \"{name}\" exists")));
                }
                self.add_database(*oid, name.clone());
                self.next_namespace = self.next_namespace.max(oid.saturating_add(1));
            }
            Change::DropDatabase { name } => {
                let dropped =
                    self.databases.remove(name).ok_or_else(|| missing("database", name))?;
                let ids = dropped.schemas.values().flat_map(|schema| schema.ids());
                self.forget(ids.collect());
                let database = dropped.definition.oid;
                let access = Arc::make_mut(&mut self.access);
                access.forget(Object::Database(database));
                for schema in dropped.schemas.values() {
                    access.forget(Object::Schema { database, schema: schema.definition.oid });
                }
            }
            Change::CreateSchema { oid, database, name } => {
                let schemas = &mut self.database_mut(database)?.schemas;
                if schemas.contains_key(name) {
                    return Err(misfit(format!("schema \"{name}\" exists")));
                }
                schemas.insert(name.clone(), Schema::new(*oid, name.clone()));
                self.next_namespace = self.next_namespace.max(oid.saturating_add(1));
            }
            Change::DropSchema { database, name } => {
                let parent = self.database_mut(database)?;
                let parent_oid = parent.definition.oid;
                let dropped = parent.schemas.remove(name);
                let dropped = dropped.ok_or_else(|| missing("schema", name))?;
                self.forget(dropped.ids().collect());
                let schema = dropped.definition.oid;
                Arc::make_mut(&mut self.access)
                    .forget(Object::Schema { database: parent_oid, schema });
            }
            Change::ReserveChronicle { id } => {
                self.give(*id)?;
                Arc::make_mut(&mut self.reserved).insert(*id);
            }
            Change::CreateChronicle(definition) => {
                if self.reserved.contains(&definition.id) {
                    Arc::make_mut(&mut self.reserved).remove(&definition.id);
                } else {
                    self.give(definition.id)?;
                }
                let mut definition = definition.as_ref().clone();
                for at in 0..definition.columns.len() {
                    let column = definition.columns.get(at).map(|column| column.name.clone());
                    let free = column.and_then(|name| free_name(&definition, &name));
                    if let Some((free, column)) = free.zip(definition.columns.get_mut(at)) {
                        column.name = free;
                    }
                }
                self.put(Arc::new(definition))?;
            }
            Change::DropChronicle { id } => {
                self.take(*id)?;
                Arc::make_mut(&mut self.access).forget(Object::Chronicle(*id));
            }
            Change::RenameChronicle { id, to } => {
                let mut renamed = self.take(*id)?.as_ref().clone();
                renamed.name.clone_from(to);
                self.put(Arc::new(renamed))?;
            }
            Change::RenameColumn { id, column, to } => self.alter(*id, |definition| {
                let free = free_name(definition, to).unwrap_or_else(|| to.clone());
                column_mut(definition, *column)?.name = free;
                Ok(())
            })?,
            Change::AddColumn { id, column, key } => self.alter(*id, |definition| {
                let mut column = column.as_ref().clone();
                column.name = free_name(definition, &column.name).unwrap_or(column.name);
                let id = column.id;
                definition.columns.push(column);
                if *key {
                    definition.key_columns.push(id);
                    definition.keys_added += 1;
                }
                let version = SchemaVersion(definition.schema_version.0.saturating_add(1));
                let columns = definition.columns.iter().map(|column| column.id).collect();
                definition.schema_version = version;
                definition.schema_versions.insert(version, columns);
                Ok(())
            })?,
            Change::SetOptions {
                id,
                durability,
                late,
                tiering,
                acceptance_window,
                granularity,
            } => self.alter(*id, |definition| {
                definition.acceptance_window_ms = match acceptance_window {
                    Some(changed) => changed.window_ms,
                    None => definition.acceptance_window_ms,
                };
                definition.durability = durability.unwrap_or(definition.durability);
                definition.late = late.unwrap_or(definition.late);
                definition.tiering = tiering.unwrap_or(definition.tiering);
                definition.coarsened = granularity.or(definition.coarsened);
                Ok(())
            })?,
            Change::CreateIndex { id, index } => self.alter(*id, |definition| {
                definition.indexes.push(index.clone());
                definition.indexes_made = definition.indexes_made.max(index.number);
                Ok(())
            })?,
            Change::DropIndex { id, number } => self.alter(*id, |definition| {
                definition.indexes.retain(|index| index.number != *number);
                Ok(())
            })?,
            Change::CommentOnChronicle { id, comment } => self.alter(*id, |definition| {
                definition.comment.clone_from(comment);
                Ok(())
            })?,
            Change::CommentOnColumn { id, column, comment } => self.alter(*id, |definition| {
                column_mut(definition, *column)?.comment.clone_from(comment);
                Ok(())
            })?,
            Change::Access(change) => Arc::make_mut(&mut self.access).apply(change)?,
            Change::Several(changes) => {
                for change in changes {
                    self.apply(change)?;
                }
            }
            Change::Decide(decision) => self.decision = Some(Arc::new(decision.clone())),
        }
        Ok(())
    }

    /// Marks a chronicle id as assigned.
    fn give(&mut self, id: ChronicleId) -> Result<()> {
        if id < self.next_chronicle {
            return Err(misfit(format!("chronicle id {id} was given before")));
        }
        self.next_chronicle = ChronicleId(id.0.saturating_add(1));
        Ok(())
    }

    fn add_database(&mut self, oid: u32, name: String) {
        let public = Schema::new(OID_PUBLIC, DEFAULT_SCHEMA.to_string());
        let database = Database {
            definition: DatabaseDefinition { oid, name: name.clone() },
            schemas: BTreeMap::from([(DEFAULT_SCHEMA.to_string(), public)]),
        };
        let replaced = self.databases.insert(name, Arc::new(database));
        debug_assert!(replaced.is_none(), "a database is replaced");
    }

    fn schemas_of(&self, database: &str) -> impl Iterator<Item = &Arc<Schema>> {
        self.databases.get(database).into_iter().flat_map(|database| database.schemas.values())
    }

    fn database_mut(&mut self, name: &str) -> Result<&mut Database> {
        let database = self.databases.get_mut(name).ok_or_else(|| missing("database", name))?;
        Ok(Arc::make_mut(database))
    }

    fn chronicles_mut(
        &mut self,
        database: &str,
        schema: &str,
    ) -> Result<&mut BTreeMap<String, Arc<ChronicleDefinition>>> {
        let schemas = &mut self.database_mut(database)?.schemas;
        let schema = schemas.get_mut(schema).ok_or_else(|| missing("schema", schema))?;
        Ok(&mut Arc::make_mut(schema).chronicles)
    }

    fn take(&mut self, id: ChronicleId) -> Result<Arc<ChronicleDefinition>> {
        let definition = Arc::make_mut(&mut self.by_id)
            .remove(&id)
            .ok_or_else(|| missing("chronicle", &id.to_string()))?;
        let chronicles = self.chronicles_mut(&definition.database, &definition.schema)?;
        let removed = chronicles.remove(&definition.name);
        debug_assert!(removed.is_some(), "a chronicle has an id and no name");
        Ok(definition)
    }

    fn put(&mut self, definition: Arc<ChronicleDefinition>) -> Result<()> {
        let chronicles = self.chronicles_mut(&definition.database, &definition.schema)?;
        if chronicles.contains_key(&definition.name) {
            return Err(misfit(format!("relation \"{}\" exists", definition.qualified_name())));
        }
        chronicles.insert(definition.name.clone(), Arc::clone(&definition));
        let replaced = Arc::make_mut(&mut self.by_id).insert(definition.id, definition);
        debug_assert!(replaced.is_none(), "two chronicles have one id");
        Ok(())
    }

    fn alter(
        &mut self,
        id: ChronicleId,
        change: impl FnOnce(&mut ChronicleDefinition) -> Result<()>,
    ) -> Result<()> {
        let mut altered = self.take(id)?.as_ref().clone();
        change(&mut altered)?;
        self.put(Arc::new(altered))
    }

    fn forget(&mut self, ids: Vec<ChronicleId>) {
        let by_id = Arc::make_mut(&mut self.by_id);
        for id in ids {
            Arc::make_mut(&mut self.access).forget(Object::Chronicle(id));
            let removed = by_id.remove(&id);
            debug_assert!(removed.is_some(), "a chronicle has a name and no id");
        }
    }
}

impl Schema {
    fn new(oid: u32, name: String) -> Arc<Self> {
        let definition = SchemaDefinition { oid, name };
        Arc::new(Self { definition, chronicles: BTreeMap::new() })
    }

    fn ids(&self) -> impl Iterator<Item = ChronicleId> {
        self.chronicles.values().map(|definition| definition.id)
    }
}

/// A new name for a user column that has the name of a system column. An earlier version allowed
/// this name, before it was reserved. From now on, the column has the new name.
fn free_name(definition: &ChronicleDefinition, name: &str) -> Option<String> {
    if !SYSTEM_COLUMNS.contains(&name) {
        return None;
    }
    let mut free = format!("{name}_");
    while definition.column_named(&free).is_some() {
        free.push('_');
    }
    let table = definition.qualified_name();
    tracing::warn!(%table, "column \"{name}\" is now named \"{free}\": the old name is the name of a system column");
    Some(free)
}

fn column_mut(
    definition: &mut ChronicleDefinition,
    id: stratalog_model::ColumnId,
) -> Result<&mut stratalog_model::ColumnDefinition> {
    let column = definition.columns.iter_mut().find(|column| column.id == id);
    column.ok_or_else(|| missing("column", &id.to_string()))
}

fn missing(what: &str, name: &str) -> Error {
    misfit(format!("{what} \"{name}\" does not exist"))
}

pub(crate) fn misfit(message: String) -> Error {
    Error::new(ErrorKind::DataCorrupted, format!("catalog record contradicts its log: {message}"))
}
