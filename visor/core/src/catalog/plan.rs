//! Computes the change that a command makes to a given state: pure functions without side effects.

mod audit;
mod authorize;
mod index;

use std::sync::Arc;

use stratalog_model::{
    ChronicleDefinition, ChronicleId, Clock, ColumnId, ColumnType, Error, ErrorKind, Result,
    chronicle::{COLUMNS_MAX, SYSTEM_COLUMNS},
};

use super::{
    command::{Command, NewChronicle, NewColumn, Outcome},
    create,
    name::{self, DEFAULT_DATABASE, DEFAULT_SCHEMA},
    option,
    record::{AcceptanceWindow, Change},
    state::CatalogState,
};
use crate::access::{self, AccessState, Identity, Object, Scene};

/// Maximum number of chronicles in all databases of a data directory. The maximum limits the
/// catalog's memory.
pub const CHRONICLES_MAX: usize = 100_000;

/// What one command, or several commands together, will change.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The change of all commands, to be written as one record; `None` if nothing changes.
    pub change: Option<Change>,
    /// The answer to the caller. Its field `chronicle` is filled in after the change.
    pub outcome: Outcome,
    /// The chronicle for the field `chronicle` of the outcome.
    pub shows: Option<ChronicleId>,
}

impl Plan {
    fn of(change: Change) -> Self {
        let outcome = Outcome { changed: true, ..Outcome::default() };
        Self { change: Some(change), outcome, shows: None }
    }

    fn showing(mut self, id: ChronicleId) -> Self {
        self.shows = Some(id);
        self
    }

    fn nothing(notice: String) -> Self {
        let outcome = Outcome { notices: vec![notice], ..Outcome::default() };
        Self { change: None, outcome, shows: None }
    }
}

/// Plans several commands. Each command sees the state that the commands before it leave.
///
/// # Errors
/// The errors of the commands; `InsufficientPrivilege` and `InvalidAuthorization` if the actor may
/// not run a command.
pub(crate) fn plan_all(
    state: &CatalogState,
    actor: &Identity,
    commands: &[Command],
    clock: &dyn Clock,
) -> Result<Plan> {
    let mut whole = Plan::default();
    let mut changes = Vec::new();
    let mut between: Option<CatalogState> = None;
    // Chronicles that a later command replaces, with the rights before the replacement.
    let mut replaced: Vec<(&ChronicleDefinition, AccessState)> = Vec::new();
    for command in commands {
        let now = between.as_ref().unwrap_or(state);
        let now_ns = clock.now_ns();
        let scene = Scene::of(now, actor, now_ns)?;
        authorize::check(&scene, command)?;
        let mut one = plan(&scene, command, now_ns)?;
        if let Command::DropUnchanged { was } = command {
            replaced.push((was, now.access().clone()));
        }
        if let (Some(Change::CreateChronicle(new)), Some((was, access))) =
            (one.change.as_ref().map(first), replaced.last())
            && (&was.database, &was.schema, &was.name) == (&new.database, &new.schema, &new.name)
        {
            let inherited = access::inherit(access, was, new).into_iter().map(Change::Access);
            one.change = combined(
                [Change::CreateChronicle(new.clone())].into_iter().chain(inherited).collect(),
            );
            replaced.pop();
        }
        whole.outcome.changed |= one.outcome.changed;
        whole.outcome.notices.extend(one.outcome.notices);
        whole.outcome.dropped.extend(one.outcome.dropped);
        whole.shows = one.shows.or(whole.shows);
        if let Some(change) = one.change {
            if commands.len() > 1 {
                between.get_or_insert_with(|| state.clone()).apply(&change)?;
            }
            changes.push(change);
        }
    }
    whole.change = combined(changes);
    Ok(whole)
}

/// The first change of a record.
fn first(change: &Change) -> &Change {
    match change {
        Change::Several(changes) => changes.first().unwrap_or(change),
        _ => change,
    }
}

fn combined(mut changes: Vec<Change>) -> Option<Change> {
    match changes.len() {
        0 | 1 => changes.pop(),
        _ => Some(Change::Several(changes)),
    }
}

/// A plan that also gives the created object to the actor, with the actor's default privileges.
///
/// # Errors
/// See [`access::adopt`].
fn adopted(scene: &Scene<'_>, mut plan: Plan, owner: Option<&str>) -> Result<Plan> {
    let state = scene.state;
    let (object, schema) = match &plan.change {
        Some(Change::CreateChronicle(new)) => {
            (Object::Chronicle(new.id), state.schema_object(&new.database, &new.schema))
        }
        Some(Change::CreateSchema { oid, database, .. }) => {
            let Some(database) = state.database(database) else { return Ok(plan) };
            (Object::Schema { database: database.oid, schema: *oid }, None)
        }
        Some(Change::CreateDatabase { oid, .. }) => (Object::Database(*oid), None),
        _ => return Ok(plan),
    };
    let given = access::adopt(scene, object, schema, owner)?;
    let changes = plan.change.into_iter().chain(given.into_iter().map(Change::Access));
    plan.change = combined(changes.collect());
    Ok(plan)
}

/// Plans one command of an actor.
fn plan(scene: &Scene<'_>, command: &Command, now_ns: i64) -> Result<Plan> {
    let state = scene.state;
    match command {
        Command::Access(command) => {
            let planned = access::plan(scene, command)?;
            let changes: Vec<Change> = planned.changes.into_iter().map(Change::Access).collect();
            let outcome = Outcome {
                changed: !changes.is_empty(),
                notices: planned.notices,
                ..Outcome::default()
            };
            Ok(Plan { change: combined(changes), outcome, shows: None })
        }
        Command::PrepareAudit { retention_ms } => audit::prepare(state, *retention_ms, now_ns),
        Command::CreateDatabase { name, if_not_exists } => {
            adopted(scene, create_database(state, name, *if_not_exists)?, None)
        }
        Command::DropDatabase { name, if_exists } => drop_database(state, name, *if_exists),
        Command::CreateSchema { database, name, if_not_exists, owner } => {
            let plan = create_schema(state, database, name, *if_not_exists)?;
            adopted(scene, plan, owner.as_deref())
        }
        Command::DropSchema { database, name, if_exists, cascade } => {
            drop_schema(state, database, name, *if_exists, *cascade)
        }
        Command::CreateChronicle(new) => {
            let plan = create_chronicle(state, new, state.next_chronicle(), now_ns)?;
            adopted(scene, plan, None)
        }
        Command::CreateReserved { id, created_ns, new } => {
            adopted(scene, create_chronicle(state, new, *id, *created_ns)?, None)
        }
        Command::DropChronicle { database, schema, name, if_exists } => {
            drop_chronicle(state, database, schema, name, *if_exists)
        }
        Command::DropKnown { id } => {
            let mut plan = Plan::of(Change::DropChronicle { id: find(state, *id)?.id });
            plan.outcome.dropped = vec![*id];
            Ok(plan)
        }
        Command::DropUnchanged { was } => drop_unchanged(state, was),
        Command::RenameChronicle { id, to } => rename_chronicle(state, *id, to),
        Command::RenameColumn { id, from, to } => rename_column(state, *id, from, to),
        Command::AddColumn { id, column, key, if_not_exists } => {
            add_column(state, *id, column, *key, *if_not_exists)
        }
        Command::SetOptions { id, options } => set_options(state, *id, options),
        Command::CreateIndex { id, name, kind, columns, if_not_exists } => {
            index::create(state, find(state, *id)?, name.as_deref(), *kind, columns, *if_not_exists)
        }
        Command::DropIndex { database, schema, name, if_exists } => {
            index::drop(state, database, schema, name, *if_exists)
        }
        Command::CommentOnChronicle { id, comment } => {
            let id = find(state, *id)?.id;
            let comment = comment.clone().filter(|text| !text.is_empty());
            Ok(Plan::of(Change::CommentOnChronicle { id, comment }).showing(id))
        }
        Command::CommentOnColumn { id, column, comment } => {
            let definition = find(state, *id)?;
            let column = definition.column_named(column).ok_or_else(|| {
                Error::new(
                    ErrorKind::UndefinedColumn,
                    format!(
                        "column \"{column}\" of relation \"{}\" does not exist",
                        definition.name
                    ),
                )
            })?;
            let (id, column) = (definition.id, column.id);
            let comment = comment.clone().filter(|text| !text.is_empty());
            Ok(Plan::of(Change::CommentOnColumn { id, column, comment }).showing(id))
        }
    }
}

fn create_database(state: &CatalogState, name: &str, if_not_exists: bool) -> Result<Plan> {
    name::check("database", name)?;
    if state.database_meant(name).is_some() {
        let exists = format!("database \"{name}\" already exists");
        return match if_not_exists {
            true => Ok(Plan::nothing(format!("{exists}, skipping"))),
            false => Err(Error::new(ErrorKind::DuplicateDatabase, exists)),
        };
    }
    Ok(Plan::of(Change::CreateDatabase { oid: state.next_namespace(), name: name.to_string() }))
}

fn drop_database(state: &CatalogState, name: &str, if_exists: bool) -> Result<Plan> {
    if state.database(name).is_none() && state.database_meant(name).is_some() {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!(
                "cannot drop database \"{name}\": the name is another name of \"{DEFAULT_DATABASE}\""
            ),
        ));
    }
    if state.database(name).is_none() {
        return match if_exists {
            true => Ok(Plan::nothing(format!("database \"{name}\" does not exist, skipping"))),
            false => Err(undefined_database(name)),
        };
    }
    if name == DEFAULT_DATABASE {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("cannot drop database \"{name}\": every data directory has this database"),
        ));
    }
    let count = state.chronicles(name).count();
    if count > 0 {
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!("cannot drop database \"{name}\" because it is not empty"),
        )
        .with_detail(format!("The database contains {count} tables."))
        .with_hint("drop the tables first; DROP SCHEMA … CASCADE drops all tables of a schema"));
    }
    Ok(Plan::of(Change::DropDatabase { name: name.to_string() }))
}

fn create_schema(
    state: &CatalogState,
    database: &str,
    name: &str,
    if_not_exists: bool,
) -> Result<Plan> {
    known_database(state, database)?;
    name::check_schema(name)?;
    if state.schema(database, name).is_some() {
        let exists = format!("schema \"{name}\" already exists");
        return match if_not_exists {
            true => Ok(Plan::nothing(format!("{exists}, skipping"))),
            false => Err(Error::new(ErrorKind::DuplicateSchema, exists)),
        };
    }
    let oid = state.next_namespace();
    Ok(Plan::of(Change::CreateSchema {
        oid,
        database: database.to_string(),
        name: name.to_string(),
    }))
}

fn drop_schema(
    state: &CatalogState,
    database: &str,
    name: &str,
    if_exists: bool,
    cascade: bool,
) -> Result<Plan> {
    known_database(state, database)?;
    if name::SYSTEM_SCHEMAS.contains(&name) {
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!("cannot drop schema {name} because it is required by the database system"),
        ));
    }
    if state.schema(database, name).is_none() {
        return match if_exists {
            true => Ok(Plan::nothing(format!("schema \"{name}\" does not exist, skipping"))),
            false => Err(undefined_schema(name)),
        };
    }
    if name == DEFAULT_SCHEMA {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("cannot drop schema \"{name}\": every database has this schema"),
        ));
    }
    let held: Vec<_> = state.chronicles_in(database, name).collect();
    if !held.is_empty() && !cascade {
        let lines: Vec<String> = held
            .iter()
            .take(100)
            .map(|held| format!("table {} depends on schema {name}", held.qualified_name()))
            .collect();
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!("cannot drop schema {name} because other objects depend on it"),
        )
        .with_detail(lines.join("\n"))
        .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    let dropped: Vec<ChronicleId> = held.iter().map(|held| held.id).collect();
    let mut plan =
        Plan::of(Change::DropSchema { database: database.to_string(), name: name.to_string() });
    plan.outcome.dropped = dropped;
    Ok(plan)
}

fn create_chronicle(
    state: &CatalogState,
    new: &NewChronicle,
    id: ChronicleId,
    now_ns: i64,
) -> Result<Plan> {
    known_database(state, &new.database)?;
    name::check("table", &new.name)?;
    name::check_not_system(&new.schema, &new.name)?;
    if state.schema(&new.database, &new.schema).is_none() {
        return Err(undefined_schema(&new.schema));
    }
    if let Some(existing) = state.chronicle(&new.database, &new.schema, &new.name) {
        return match new.if_not_exists {
            true => {
                let notice = format!("relation \"{}\" already exists, skipping", new.name);
                Ok(Plan::nothing(notice).showing(existing.id))
            }
            false => Err(duplicate_relation(&new.name)),
        };
    }
    if state.index(&new.database, &new.schema, &new.name).is_some() {
        return Err(duplicate_relation(&new.name));
    }
    if state.chronicle_count() >= CHRONICLES_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("the maximum number of tables, {CHRONICLES_MAX}, is reached"),
        )
        .with_hint("drop unneeded tables, or put several series into one table"));
    }
    let definition = create::define(new, id, now_ns)?;
    Ok(Plan::of(Change::CreateChronicle(Box::new(definition))).showing(id))
}

fn drop_chronicle(
    state: &CatalogState,
    database: &str,
    schema: &str,
    name: &str,
    if_exists: bool,
) -> Result<Plan> {
    known_database(state, database)?;
    name::check_not_system(schema, name).map_err(|_| {
        Error::new(
            ErrorKind::InsufficientPrivilege,
            format!("permission denied: \"{name}\" is a system catalog"),
        )
    })?;
    let Some(definition) = state.chronicle(database, schema, name) else {
        return match (state.schema(database, schema).is_some(), if_exists) {
            (true, true) => Ok(Plan::nothing(format!("table \"{name}\" does not exist, skipping"))),
            (false, true) => {
                Ok(Plan::nothing(format!("schema \"{schema}\" does not exist, skipping")))
            }
            (true, false) => Err(Error::new(
                ErrorKind::UndefinedTable,
                format!("table \"{name}\" does not exist"),
            )),
            (false, false) => Err(undefined_schema(schema)),
        };
    };
    let mut plan = Plan::of(Change::DropChronicle { id: definition.id });
    plan.outcome.dropped = vec![definition.id];
    Ok(plan)
}

fn drop_unchanged(state: &CatalogState, was: &ChronicleDefinition) -> Result<Plan> {
    let found = find(state, was.id)?;
    if found.as_ref() != was {
        return Err(Error::new(
            ErrorKind::LockNotAvailable,
            format!(
                "table \"{}\" was changed by another session while the statement stored the table again",
                found.name
            ),
        )
        .with_hint("send the statement again"));
    }
    let mut plan = Plan::of(Change::DropChronicle { id: found.id });
    plan.outcome.dropped = vec![found.id];
    Ok(plan)
}

fn rename_chronicle(state: &CatalogState, id: ChronicleId, to: &str) -> Result<Plan> {
    let definition = find(state, id)?;
    name::check("table", to)?;
    if state.chronicle(&definition.database, &definition.schema, to).is_some()
        || state.index(&definition.database, &definition.schema, to).is_some()
    {
        return Err(duplicate_relation(to));
    }
    Ok(Plan::of(Change::RenameChronicle { id, to: to.to_string() }).showing(id))
}

fn rename_column(state: &CatalogState, id: ChronicleId, from: &str, to: &str) -> Result<Plan> {
    let definition = find(state, id)?;
    if SYSTEM_COLUMNS.contains(&from) {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("cannot rename system column \"{from}\""),
        ));
    }
    let column = definition.column_named(from).ok_or_else(|| {
        Error::new(ErrorKind::UndefinedColumn, format!("column \"{from}\" does not exist"))
    })?;
    check_column_name(definition, to)?;
    Ok(Plan::of(Change::RenameColumn { id, column: column.id, to: to.to_string() }).showing(id))
}

fn add_column(
    state: &CatalogState,
    id: ChronicleId,
    new: &NewColumn,
    key: bool,
    if_not_exists: bool,
) -> Result<Plan> {
    let definition = find(state, id)?;
    if if_not_exists && definition.column_named(&new.name).is_some() {
        return Ok(Plan::nothing(format!(
            "column \"{}\" of relation \"{}\" already exists, skipping",
            new.name, definition.name
        ))
        .showing(id));
    }
    check_column_name(definition, &new.name)?;
    new.column_type.validate()?;
    if definition.columns.len() >= COLUMNS_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("tables can have at most {COLUMNS_MAX} columns"),
        ));
    }
    if key {
        check_joins_key(definition, new)?;
    } else if !new.nullable && new.missing_value.is_none() {
        return Err(Error::new(
            ErrorKind::NotNullViolation,
            format!(
                "column \"{}\" of relation \"{}\" contains null values",
                new.name, definition.name
            ),
        )
        .with_detail("Events stored before would have no value in the new column.")
        .with_hint("add a constant DEFAULT as the value of these events, or omit NOT NULL"));
    }
    let last = definition.columns.iter().map(|column| column.id.0).max().unwrap_or(0);
    let column = create::column_of(ColumnId(last.saturating_add(1)), new);
    Ok(Plan::of(Change::AddColumn { id, column: Box::new(column), key }).showing(id))
}

/// Checks that a new column can be added to the primary key. All existing events have the same
/// value in this column, so the keys of existing events stay distinct.
fn check_joins_key(definition: &ChronicleDefinition, new: &NewColumn) -> Result<()> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidTableDefinition, message);
    if !definition.primary_key {
        return Err(invalid(format!(
            "table \"{}\" has no primary key for the new column \"{}\"",
            definition.name, new.name
        ))
        .with_hint("declare a primary key in CREATE TABLE"));
    }
    if new.column_type != ColumnType::Text {
        return Err(invalid(format!(
            "column \"{}\" is of type {}, and only a text column can join the primary key of a table",
            new.name, new.column_type
        ))
        .with_hint("declare the column as text, or omit PRIMARY KEY"));
    }
    if new.nullable || new.missing_value.as_deref() != Some("") {
        return Err(invalid(format!(
            "column \"{}\" joins the primary key, and must be '' in existing events",
            new.name
        ))
        .with_hint("omit DEFAULT and NULL"));
    }
    Ok(())
}

fn set_options(
    state: &CatalogState,
    id: ChronicleId,
    options: &[(String, String)],
) -> Result<Plan> {
    let definition = find(state, id)?;
    let given = option::read_change(options)?;
    let (durability, late) = (given.durability, given.late);
    let tiering = given.tiering.onto(definition.tiering);
    let window = given.acceptance_window_ms.filter(|ms| *ms != definition.acceptance_window_ms);
    let now = definition.index_granularity();
    let granularity = given.granularity.filter(|wanted| *wanted != now);
    if let Some(wanted) = granularity {
        option::check_coarser(now, wanted)?;
    }
    let same = window.is_none()
        && granularity.is_none()
        && durability.is_none_or(|value| value == definition.durability)
        && late.is_none_or(|value| value == definition.late)
        && tiering == definition.tiering;
    if same {
        let outcome = Outcome::default();
        return Ok(Plan { change: None, outcome, shows: Some(id) });
    }
    let mut changed = ChronicleDefinition::clone(definition);
    changed.late = late.unwrap_or(definition.late);
    changed.acceptance_window_ms = window.unwrap_or(definition.acceptance_window_ms);
    changed.validate()?;
    let acceptance_window = window.map(|window_ms| AcceptanceWindow { window_ms });
    let tiering = Some(tiering);
    let change =
        Change::SetOptions { id, durability, late, tiering, acceptance_window, granularity };
    Ok(Plan::of(change).showing(id))
}

fn check_column_name(definition: &ChronicleDefinition, name: &str) -> Result<()> {
    name::check("column", name)?;
    if SYSTEM_COLUMNS.contains(&name) {
        return Err(Error::new(
            ErrorKind::DuplicateColumn,
            format!("column name \"{name}\" conflicts with a system column name"),
        ));
    }
    if definition.column_named(name).is_some() {
        return Err(Error::new(
            ErrorKind::DuplicateColumn,
            format!("column \"{name}\" of relation \"{}\" already exists", definition.name),
        ));
    }
    Ok(())
}

fn find(state: &CatalogState, id: ChronicleId) -> Result<&Arc<ChronicleDefinition>> {
    state.chronicle_by_id(id).ok_or_else(|| {
        Error::new(
            ErrorKind::UndefinedTable,
            format!("relation with OID {} does not exist", super::oid_of(id)),
        )
        .with_detail("Another session has dropped the relation.")
    })
}

fn known_database(state: &CatalogState, name: &str) -> Result<()> {
    state.database(name).map(drop).ok_or_else(|| undefined_database(name))
}

fn undefined_database(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedDatabase, format!("database \"{name}\" does not exist"))
}

fn undefined_schema(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedSchema, format!("schema \"{name}\" does not exist"))
}

fn duplicate_relation(name: &str) -> Error {
    Error::new(ErrorKind::DuplicateTable, format!("relation \"{name}\" already exists"))
}
