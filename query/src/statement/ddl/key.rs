//! ALTER TABLE … ADD PRIMARY KEY.
//!
//! ```text
//!   exclusive access ─► new id reserved ─► rows copied in order of commits ─► stored under the id
//!       one record of the catalog: drops the old chronicle, gives the new one its name ◄───┘
//! ```
//! The storage layout of a chronicle depends on the key, so the statement creates a new chronicle
//! with the key and copies all rows. One record of the catalog then replaces the old chronicle.
//! Before the record is durable, the old chronicle is unchanged and complete; afterwards, only the
//! new chronicle exists.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, DeferrableInitial, PrimaryKeyConstraint, Statement,
    TableConstraint,
};
use futures::StreamExt;
use stratalog_model::{
    Append, ChronicleDefinition, ChronicleId, Durability, Error, ErrorKind, LatePolicy, Result,
    Subject, TickSource,
    store::{AppendOptions, OnConflict},
};
use stratalog_postgres::{names::quoted, parse};
use stratalog_visor_core::{
    access::Privilege,
    catalog::{Command, NewChronicle, NewColumn, option_list},
};

use super::{commit, create_table};
use crate::{
    Notice, Rows, RowsTag, Session, TransactionState,
    session::{Definition, work::Work},
    statement::{
        insert::{Writer, columns::Targets, compute::ComputeContext, refuse_number},
        query,
    },
};

/// Bytes of copied rows per commit: the server keeps uncommitted rows in memory.
const COMMITTED_BYTES: usize = 64 << 20;

/// The new primary key of an ALTER TABLE, with its options.
#[derive(Debug)]
pub struct NewKey {
    columns: Vec<String>,
    /// Options of the key (WITH), as in CREATE TABLE.
    options: Vec<(String, String)>,
    /// Other changes of table options in the same statement (SET).
    changes: Vec<(String, String)>,
}

/// The new key of an ALTER TABLE, if any.
///
/// # Errors
/// `FeatureNotSupported` for other actions in the same statement, and for unsupported forms of a
/// key.
pub fn of_statement(tree: &AlterTable) -> Result<Option<NewKey>> {
    let key = tree.operations.iter().find_map(|operation| match operation {
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::PrimaryKey(key),
            not_valid,
        } => Some((key, *not_valid)),
        _ => None,
    });
    let Some((key, not_valid)) = key else { return Ok(None) };
    check_form(key, not_valid)?;
    let columns = key.columns.iter().map(create_table::key_column).collect::<Result<_>>()?;
    let mut new = NewKey { columns, options: Vec::new(), changes: Vec::new() };
    let mut keys = 0;
    for operation in &tree.operations {
        match operation {
            AlterTableOperation::AddConstraint {
                constraint: TableConstraint::PrimaryKey(_),
                ..
            } => keys += 1,
            AlterTableOperation::SetOptionsParens { options } => {
                let options = create_table::options(options)?.into_iter();
                let (of_key, others): (Vec<_>, Vec<_>) =
                    options.partition(|(option, _)| option == "collision");
                new.options.extend(of_key);
                new.changes.extend(others);
            }
            other => {
                let action = other.to_string();
                let words: Vec<&str> = action.split_whitespace().take(2).collect();
                return Err(Error::not_yet(format!(
                    "ALTER TABLE … ADD PRIMARY KEY together with {}",
                    words.join(" ")
                ))
                .with_hint("send two statements"));
            }
        }
    }
    if keys > 1 {
        return Err(second_key(&tree.name.to_string()));
    }
    Ok(Some(new))
}

/// Checks that the key has no form of PostgreSQL that Stratalog does not support.
fn check_form(key: &PrimaryKeyConstraint, not_valid: bool) -> Result<()> {
    if not_valid {
        let message = "PRIMARY KEY constraints cannot be marked NOT VALID";
        return Err(Error::new(ErrorKind::FeatureNotSupported, message));
    }
    let later = key.characteristics.as_ref().is_some_and(|given| {
        given.deferrable == Some(true) || given.initially == Some(DeferrableInitial::Deferred)
    });
    if later {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "a DEFERRABLE PRIMARY KEY is not supported: keys are checked when rows are written",
        ));
    }
    match key.index_name.is_some() || key.index_type.is_some() || !key.index_options.is_empty() {
        true => Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "PRIMARY KEY with a separate index is not supported",
        )),
        false => Ok(()),
    }
}

fn second_key(table: &str) -> Error {
    Error::new(
        ErrorKind::InvalidTableDefinition,
        format!("multiple primary keys for table \"{table}\" are not allowed"),
    )
}

/// Adds a primary key to a table. In a block, only the block sees the change until COMMIT.
///
/// # Errors
/// `InvalidTableDefinition`, `UndefinedColumn` for a wrong key; `NotNullViolation`,
/// `UniqueViolation` for rows that violate the key; `LockNotAvailable` when other sessions write to
/// the table for longer than `lock_timeout`; an error of the session's block, or of the logs. Then
/// nothing changed.
pub async fn add(
    session: &Session,
    table: &Arc<ChronicleDefinition>,
    key: &NewKey,
    work: &Arc<Work>,
) -> Result<()> {
    refuse_number(session, "ALTER TABLE … ADD PRIMARY KEY")?;
    session.authorize_on(Privilege::Ownership, table.id)?;
    // The copy must contain all rows.
    session.refuse_under_policies(table, "ALTER TABLE … ADD PRIMARY KEY")?;
    check(session, table, key)?;
    session.transaction.check_new_key(table.id)?;
    let of_block = session.transaction.definition().filter(|block| block.created(table.id));
    let alone = match of_block {
        Some(_) => None,
        None => Some(session.hold_exclusively(table).await?),
    };
    // Other sessions may have changed the table before this session got exclusive access.
    let seen = session.whole_catalog();
    let old = seen.chronicle_by_id(table.id).ok_or_else(|| dropped_table_error(table))?;
    let new = check(session, old, key)?;

    let nulls = first_null(session, old, &new, work).await?;
    if let Some(column) = nulls {
        return Err(contains_nulls(old, &column));
    }
    let (parts, store) = (session.parts(), session.store());
    let id = parts.catalog.reserve().await?;
    let mut commands = vec![
        Command::DropUnchanged { was: Box::new(old.as_ref().clone()) },
        Command::CreateReserved { id, created_ns: old.created_ns, new },
    ];
    commands.extend(after_it(session, old, key, id));
    if !key.changes.is_empty() {
        commands.push(Command::SetOptions { id, options: key.changes.clone() });
    }
    let rows = rows_of(session, old, alone.is_some(), work).await?;
    let before = session.transaction.definition();
    let now_ns = parts.clock.now_ns();
    let definition = Definition::after(
        before,
        session.identity(),
        &seen,
        commands,
        &parts.catalog,
        store,
        now_ns,
    )
    .await?;
    let definition = definition.with_created(id, &parts.catalog, store).with_hold(alone);
    let made = definition.state().chronicle_by_id(id).cloned();
    let made = made.ok_or_else(|| Error::internal("a table was not made anew"))?;
    let copied = RowCopy::into(session, &made).await?;
    match session.transaction() {
        TransactionState::Idle => {
            copied.outside_block(session, rows, work).await?;
            work.commit()?;
            commit(session, definition, None, Vec::new()).await?;
        }
        TransactionState::Block | TransactionState::Failed => {
            session.transaction.define(definition);
            copied.in_block(session, rows, work).await?;
        }
    }
    Ok(())
}

/// Checks the key, and returns the definition of the table with the key.
fn check(session: &Session, old: &ChronicleDefinition, key: &NewKey) -> Result<NewChronicle> {
    if old.primary_key {
        return Err(second_key(&old.name));
    }
    if let Some(name) = key.columns.iter().find(|name| old.column_named(name).is_none()) {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", old.name);
        return Err(Error::new(ErrorKind::UndefinedColumn, message));
    }
    let new = table_with_key(old, key);
    let drop = Command::DropUnchanged { was: Box::new(old.clone()) };
    let create = Command::CreateChronicle(new.clone());
    let (seen, actor) = (session.whole_catalog(), session.identity());
    let (state, _) = session.parts().catalog.preview(&seen, &actor, &[drop, create])?;
    let made =
        state.as_ref().and_then(|state| state.chronicle(&old.database, &old.schema, &old.name));
    let time = made.and_then(|made| made.tick()).map(|tick| tick.name.as_str());
    let was = old.tick().map(|tick| tick.name.as_str());
    if old.time_source.is_clocked() && time != was {
        let name = was.unwrap_or_default();
        return Err(Error::new(
            ErrorKind::InvalidTableDefinition,
            format!(
                "the primary key of table \"{}\" must have the time column \"{name}\": time_source = '{}' sets the times of the column",
                old.name, old.time_source
            ),
        )
        .with_subject(old.subject()));
    }
    Ok(new)
}

/// The definition of a new table like `old`, with the key.
fn table_with_key(old: &ChronicleDefinition, key: &NewKey) -> NewChronicle {
    let columns = old.columns.iter().map(|column| NewColumn {
        name: column.name.clone(),
        column_type: column.column_type.clone(),
        nullable: column.nullable,
        default_sql: column.default_sql.clone(),
        // Every copied row has an explicit value, so no value is missing.
        missing_value: None,
    });
    // Copied rows keep their ticks: the new table must have the same base.
    let mut options = vec![("base".to_string(), format!("{}ns", old.scale.base_ns()))];
    let others = option_list::of_table(old).into_iter();
    let others = others.filter(|(option, _)| !matches!(*option, "base" | "time_column"));
    options.extend(others.map(|(option, value)| (option.to_string(), value)));
    options.extend(key.options.iter().cloned());
    NewChronicle {
        database: old.database.clone(),
        schema: old.schema.clone(),
        name: old.name.clone(),
        columns: columns.collect(),
        primary_key: Some(key.columns.clone()),
        options,
        if_not_exists: false,
    }
}

/// Commands that copy the comments and indexes of the old table to the new table.
fn after_it(
    session: &Session,
    old: &ChronicleDefinition,
    key: &NewKey,
    id: ChronicleId,
) -> Vec<Command> {
    let mut commands = Vec::new();
    if let Some(comment) = &old.comment {
        commands.push(Command::CommentOnChronicle { id, comment: Some(comment.clone()) });
    }
    for column in &old.columns {
        if let Some(comment) = &column.comment {
            let (column, comment) = (column.name.clone(), Some(comment.clone()));
            commands.push(Command::CommentOnColumn { id, column, comment });
        }
    }
    for index in &old.indexes {
        // The key already serves lookups by the columns of the key.
        let columns = index.columns.iter().filter_map(|column| old.column(*column));
        let columns = columns.map(|column| &column.name).filter(|name| !key.columns.contains(name));
        let columns: Vec<String> = columns.cloned().collect();
        let name = index.name.clone();
        if columns.is_empty() {
            session.say(Notice::new(format!(
                "index \"{name}\" is dropped: the primary key contains the columns of the index"
            )));
            continue;
        }
        let (kind, name) = (index.kind, Some(name));
        commands.push(Command::CreateIndex { id, name, kind, columns, if_not_exists: false });
    }
    commands
}

/// The first column of the key that contains NULL in some row; `None` if no column contains NULL.
async fn first_null(
    session: &Session,
    old: &ChronicleDefinition,
    new: &NewChronicle,
    work: &Arc<Work>,
) -> Result<Option<String>> {
    let key = new.primary_key.iter().flatten();
    let nullable = key.filter(|name| old.column_named(name).is_some_and(|column| column.nullable));
    for name in nullable {
        let sql = format!(
            "SELECT 1 FROM {}.{} WHERE {} IS NULL LIMIT 1",
            quoted(&old.schema),
            quoted(&old.name),
            quoted(name)
        );
        let mut rows = run(session, &sql, false, work).await?;
        while let Some(batch) = rows.next().await {
            if batch?.num_rows() > 0 {
                return Ok(Some(name.clone()));
            }
        }
    }
    Ok(None)
}

fn contains_nulls(old: &ChronicleDefinition, column: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{}\" contains null values", old.name);
    Error::new(ErrorKind::NotNullViolation, message)
        .with_subject(Subject { column: Some(column.to_string()), ..old.subject() })
}

/// All rows of a table, in the order of commits. `is_shared` is true if other sessions can see the
/// table.
async fn rows_of(
    session: &Session,
    old: &ChronicleDefinition,
    is_shared: bool,
    work: &Arc<Work>,
) -> Result<Rows> {
    let columns: Vec<String> = old.columns.iter().map(|column| quoted(&column.name)).collect();
    // Rows of a table that only this block can see have no gsn yet.
    let order = if is_shared { "_gsn" } else { "_seq" };
    let sql = format!(
        "SELECT {} FROM {}.{} ORDER BY {order}",
        columns.join(", "),
        quoted(&old.schema),
        quoted(&old.name)
    );
    run(session, &sql, is_shared, work).await
}

/// Runs a query: if `is_latest`, on the latest committed data, otherwise on the snapshot of the
/// open block.
async fn run(session: &Session, sql: &str, is_latest: bool, work: &Arc<Work>) -> Result<Rows> {
    let tree = parse::statements(sql, usize::MAX)?.into_iter().next();
    let mentioned = tree.as_ref().map(|tree| tree.system_columns.clone()).unwrap_or_default();
    let Some(Statement::Query(tree)) = tree.map(|tree| tree.statement) else {
        return Err(Error::internal("the rows of a table are no query"));
    };
    let (query, _) = {
        let planner = session.enter_planner(&mentioned).await?;
        query::plan(&planner, &tree, &[], &mentioned).await?
    };
    let now = query::QueryRun::now(work, RowsTag::Select);
    if !is_latest {
        return query::run(session, &query, &[], &[], now).await;
    }
    let pinned = session.pin_over(session.store().snapshot(), &query.reads)?;
    let schema = Arc::clone(&query.schema);
    query::run_plan(session, &query.plan, schema, &pinned, now).await
}

/// Copies rows into the new table.
struct RowCopy {
    targets: Targets,
}

impl RowCopy {
    async fn into(session: &Session, made: &Arc<ChronicleDefinition>) -> Result<Self> {
        // The copy accepts all times, even times that the table would refuse for new rows. The
        // copies are durable before the catalog record that drops the old chronicle.
        let accepting = ChronicleDefinition {
            late: LatePolicy::Accept,
            time_source: TickSource::Column,
            acceptance_window_ms: None,
            durability: Durability::Disk,
            ..made.as_ref().clone()
        };
        let width = Some(accepting.columns.len());
        let targets = Targets::new(session, Arc::new(accepting), &[], width).await?;
        Ok(Self { targets })
    }

    async fn batch(
        &self,
        session: &Session,
        rows: &RecordBatch,
        work: &Arc<Work>,
    ) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = self.targets.assign(session, rows)?;
        let computing = ComputeContext::new(session, work, &[], &[]);
        self.targets.fill(&computing, columns, rows.num_rows()).await
    }

    /// Copies rows outside of a block: writes the rows under the reserved id, in several commits.
    async fn outside_block(
        self,
        session: &Session,
        mut rows: Rows,
        work: &Arc<Work>,
    ) -> Result<()> {
        let store = session.store();
        let begin = || -> Result<Box<dyn Append>> { store.begin(AppendOptions::default()) };
        let (mut append, mut bytes) = (begin()?, 0_usize);
        while let Some(batch) = rows.next().await {
            let batch = self.batch(session, &batch?, work).await?;
            if batch.num_rows() == 0 {
                continue;
            }
            bytes = bytes.saturating_add(batch.get_array_memory_size());
            let pushed = append.push(&self.targets.chronicle, batch, OnConflict::Error).await;
            pushed.map_err(|error| self.duplicate_key_error(error))?;
            if bytes >= COMMITTED_BYTES {
                append.commit().await?;
                (append, bytes) = (begin()?, 0);
            }
        }
        append.commit().await.map(drop)
    }

    /// Copies rows in a block: the rows become part of the open block.
    async fn in_block(self, session: &Session, mut rows: Rows, work: &Arc<Work>) -> Result<()> {
        let mut writer = Writer::begin(session, &self.targets, OnConflict::Error)?;
        while let Some(batch) = rows.next().await {
            let batch = self.batch(session, &batch?, work).await?;
            writer.push(batch).await.map_err(|error| self.duplicate_key_error(error))?;
        }
        writer.finish(session, work).await.map(drop)
    }

    /// Converts a unique violation to PostgreSQL's error for a key that the existing rows violate.
    fn duplicate_key_error(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::UniqueViolation {
            return error;
        }
        let made = &self.targets.chronicle;
        let (constraint, mut subject) = (made.key_name(), made.subject());
        let message = format!("could not create unique index \"{constraint}\"");
        subject.constraint = Some(constraint);
        let violation = Error::new(ErrorKind::UniqueViolation, message).with_subject(subject);
        let violation = match error.detail() {
            Some(detail) => {
                violation.with_detail(detail.replace("already exists.", "is duplicated."))
            }
            None => violation,
        };
        if !made.collision.refuses() {
            return violation;
        }
        violation.with_hint(
            "delete one of the events, or add the key WITH (collision = 'last'), 'next' or 'all'",
        )
    }
}

fn dropped_table_error(table: &ChronicleDefinition) -> Error {
    let message = format!("relation \"{}\" does not exist", table.name);
    Error::new(ErrorKind::UndefinedTable, message)
        .with_detail("The relation was dropped in the meantime.")
}
