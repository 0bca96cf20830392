//! Execution of definitions (DDL): CREATE, ALTER, DROP, COMMENT.

mod create_table;
mod deferred_drop;
mod index;
mod key;

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use datafusion::sql::sqlparser::ast::{
    AlterSchema, AlterSchemaOperation, AlterTable, AlterTableOperation, CommentObject, ObjectName,
    ObjectType, RenameTableNameKind, SchemaName, Statement,
};
use stratalog_model::{
    Append, ChronicleDefinition, ChronicleId, Error, ErrorKind, EventStore, Result,
    store::CommittedAppend,
};
use stratalog_postgres::{names, parse::DropMode};
use stratalog_visor_core::{
    Acquisitions,
    access::{AccessCommand, Identity, Object, RoleId},
    acquisition::{DropGuard, Use, UseGuard},
    catalog::{CatalogState, Command},
};

use super::access;
use crate::{
    Notice, Outcome, Session, TransactionState,
    session::{Definition, work::Work},
};

/// True if the statement is a definition (DDL), which this module executes.
pub fn is_definition(statement: &Statement) -> bool {
    match statement {
        Statement::CreateTable(_)
        | Statement::AlterTable(_)
        | Statement::CreateSchema { .. }
        | Statement::AlterSchema(_)
        | Statement::CreateDatabase { .. }
        | Statement::CreateIndex(_)
        | Statement::Comment { .. } => true,
        Statement::Drop { object_type, .. } => {
            use ObjectType::{Database, Index, Schema, Table};
            matches!(object_type, Table | Schema | Database | Index)
        }
        _ => false,
    }
}

/// Runs a definition (DDL). In a block, only the block sees the change until COMMIT.
///
/// # Errors
/// `ActiveTransaction` for databases in a block; `FeatureNotSupported` from
/// [`Transaction::check_definition`]; an error in the statement, or of the log.
///
/// [`Transaction::check_definition`]: crate::session::transaction::Transaction::check_definition
pub async fn run(
    session: &Session,
    statement: &Statement,
    dropping: DropMode,
    work: &Arc<Work>,
) -> Result<Outcome> {
    if let Statement::AlterTable(tree) = statement
        && let Some(new) = key::of_statement(tree)?
    {
        super::transaction::check_write(session)?;
        if let Some(table) = altered(session, tree)? {
            key::add(session, &table, &new, work).await?;
        }
        return Ok(Outcome::Done("ALTER TABLE".to_string()));
    }
    let (tag, commands) = commands(session, statement).await?;
    if matches!(tag, "CREATE DATABASE" | "DROP DATABASE") {
        session.transaction.check_outside(tag)?;
    }
    super::transaction::check_write(session)?;
    let notices = match dropping {
        DropMode::Async => deferred_drop::drop_tables(session, commands, work).await?,
        DropMode::IfReleased | DropMode::Force => {
            carry_out(session, commands, dropping, work).await?
        }
    };
    for notice in notices {
        // The SQLSTATE of the error that the statement would get without IF NOT EXISTS.
        let sqlstate = match notice.ends_with("already exists, skipping") {
            true if tag == "CREATE TABLE" => ErrorKind::DuplicateTable.sqlstate(),
            true if tag == "CREATE SCHEMA" => ErrorKind::DuplicateSchema.sqlstate(),
            _ => "00000",
        };
        session.say(Notice { sqlstate, ..Notice::new(notice) });
    }
    Ok(Outcome::Done(tag.to_string()))
}

/// Executes commands. In a block, only the block sees the change until COMMIT. Returns the notices.
///
/// # Errors
/// See [`run`].
pub async fn carry_out(
    session: &Session,
    commands: Vec<Command>,
    dropping: DropMode,
    work: &Work,
) -> Result<Vec<String>> {
    match session.transaction() {
        TransactionState::Idle => {
            let (actor, whole) = (session.identity(), session.whole_catalog());
            // The check comes first: a refused DROP … FORCE must not end another acquisition.
            session.parts().catalog.check(&whole, &actor, &commands)?;
            let ChangedChronicles { uses, doors } = enter(session, &commands, dropping, &whole)?;
            work.commit()?;
            let uses = committed(session, uses)?;
            let cleanup = DroppedStateCleanup::of(session);
            let catalog = Arc::clone(&session.parts().catalog);
            let protects = sets_password(&commands);
            let done = to_its_end(async move {
                let applied = catalog.apply_all(actor, commands).await?;
                cleanup.forget(&applied.dropped);
                drop((uses, doors));
                Ok(applied.notices)
            });
            let notices = done.await?;
            keep_identity(session, actor, protects);
            Ok(notices)
        }
        TransactionState::Block | TransactionState::Failed => {
            define(session, commands, dropping).await
        }
    }
}

/// Guards of the chronicles that commands change or drop. No other session changes these chronicles
/// at the same time.
struct ChangedChronicles {
    uses: Vec<UseGuard>,
    doors: Vec<DropGuard>,
}

/// Takes guards for the chronicles that commands change or drop. A chronicle to change is marked as
/// in use for writing. A chronicle to drop can no longer be acquired by other sessions.
fn enter(
    session: &Session,
    commands: &[Command],
    dropping: DropMode,
    state: &CatalogState,
) -> Result<ChangedChronicles> {
    let of = |command: &Command| (command.changes(state), command.drops(state));
    let (changed, dropped): (Vec<_>, Vec<_>) = commands.iter().map(of).unzip();
    let dropped: BTreeSet<ChronicleId> = dropped.into_iter().flatten().collect();
    let changed: BTreeSet<ChronicleId> = changed.into_iter().flatten().collect();
    let mut entered = ChangedChronicles { uses: Vec::new(), doors: Vec::new() };
    for chronicle in changed.difference(&dropped) {
        entered.uses.extend(session.enter(*chronicle, Use::Write)?.using);
    }
    for chronicle in dropped {
        entered.doors.push(session.close_to_drop(chronicle, dropping)?);
    }
    Ok(entered)
}

/// The components that must release their state of dropped chronicles.
struct DroppedStateCleanup {
    store: Arc<dyn EventStore>,
    acquisitions: Arc<Acquisitions>,
}

impl DroppedStateCleanup {
    fn of(session: &Session) -> Self {
        let (store, acquisitions) = (session.store(), session.acquisitions());
        Self { store: Arc::clone(store), acquisitions: Arc::clone(acquisitions) }
    }

    fn forget(&self, dropped: &[ChronicleId]) {
        for chronicle in dropped {
            self.store.forget(*chronicle);
            self.acquisitions.forget(*chronicle);
        }
    }
}

/// Commits the uses of changed chronicles: afterwards, the end of a lease does not stop the change.
fn committed(session: &Session, mut uses: Vec<UseGuard>) -> Result<Vec<UseGuard>> {
    for using in &mut uses {
        let chronicle = using.chronicle();
        using.commit().map_err(|refusal| session.refusal_error(chronicle, refusal))?;
    }
    Ok(uses)
}

/// True if one of the commands gives a password to a role.
fn sets_password(commands: &[Command]) -> bool {
    commands.iter().any(|command| match command {
        Command::Access(
            AccessCommand::CreateRole { options, .. } | AccessCommand::AlterRole { options, .. },
        ) => matches!(options.password, Some(Some(_))),
        _ => false,
    })
}

/// After the first password, every client must log in. The session that has set the password goes
/// on, as the founder. Afterwards, the catalog refuses commands of trusted sessions, so a trusted
/// session can set only the first password.
fn keep_identity(session: &Session, actor: Identity, protects: bool) {
    if protects && actor == Identity::Trusted && session.login_identity() == Identity::Trusted {
        session.become_identity(Identity::of_role(RoleId::FOUNDER));
    }
}

/// Adds commands to the uncommitted definitions of the open block.
async fn define(
    session: &Session,
    commands: Vec<Command>,
    dropping: DropMode,
) -> Result<Vec<String>> {
    let (seen, actor) = (session.whole_catalog(), session.identity());
    let (changed, notices) = session.parts().catalog.preview(&seen, &actor, &commands)?;
    if changed.is_none() {
        return Ok(notices);
    }
    session.transaction.check_definition(&commands, &seen)?;
    // The block keeps the uses of the changed chronicles.
    let ChangedChronicles { doors, .. } = enter(session, &commands, dropping, &seen)?;
    let before = session.transaction.definition();
    let (parts, store) = (session.parts(), session.store());
    let now_ns = parts.clock.now_ns();
    let definition =
        Definition::after(before, actor, &seen, commands, &parts.catalog, store, now_ns).await?;
    session.transaction.define(definition.with_doors(doors));
    Ok(notices)
}

/// Commits the definitions and the rows of a block. One record of the catalog commits both (RFC
/// 0023).
///
/// # Errors
/// An invalid command, or an error of a log. After an error nothing has changed, unless
/// [`Catalog::is_behind`] is true. In that case, the next start of the server completes the
/// transaction if the catalog's record is durable.
///
/// [`Catalog::is_behind`]: stratalog_visor_core::catalog::Catalog::is_behind
pub async fn commit(
    session: &Session,
    definition: Definition,
    append: Option<Box<dyn Append>>,
    uses: Vec<UseGuard>,
) -> Result<Option<CommittedAppend>> {
    let uses = committed(session, uses)?;
    let (catalog, cleanup) =
        (Arc::clone(&session.parts().catalog), DroppedStateCleanup::of(session));
    let (actor, protects) = (definition.actor(), sets_password(definition.commands()));
    let done = to_its_end(async move {
        let events = match append {
            Some(append) => Some(append.prepare().await?),
            None => None,
        };
        let commands = definition.commands().to_vec();
        let applying = catalog.apply_with(definition.actor(), commands, events);
        let (applied, appended) = match applying.await {
            Ok(done) => done,
            Err(error) => {
                if catalog.is_behind() {
                    // The next start may complete the block. Until then, no session may write to
                    // tables that the block drops, so the guards are never released.
                    Box::leak(Box::new((definition, uses)));
                }
                return Err(error);
            }
        };
        cleanup.forget(&applied.dropped);
        definition.seal_created(cleanup.store.as_ref());
        drop((definition, uses));
        Ok(appended)
    });
    let appended = done.await?;
    keep_identity(session, actor, protects);
    Ok(appended)
}

/// Runs work as a separate task, which continues after the client disconnects: the store must
/// release the chronicles that the catalog has dropped.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work).await.unwrap_or_else(|error| {
        Err(Error::internal("the statement failed: a defect of the server").with_source(error))
    })
}

async fn commands(
    session: &Session,
    statement: &Statement,
) -> Result<(&'static str, Vec<Command>)> {
    let database = session.database().to_string();
    Ok(match statement {
        Statement::CreateTable(tree) => {
            let created = create_table::command(session, tree).await?;
            ("CREATE TABLE", vec![Command::CreateChronicle(created)])
        }
        Statement::CreateIndex(tree) => ("CREATE INDEX", index::create(session, tree)?),
        Statement::Drop { object_type: ObjectType::Index, if_exists, names, .. } => {
            ("DROP INDEX", index::drop(session, *if_exists, names)?)
        }
        Statement::AlterTable(tree) => ("ALTER TABLE", alter(session, tree).await?),
        Statement::AlterSchema(tree) => ("ALTER SCHEMA", alter_schema(session, tree)?),
        Statement::CreateSchema { schema_name, if_not_exists, .. } => {
            let owner = |owner| access::schema_owner(session, owner);
            let (name, owner) = match schema_name {
                SchemaName::Simple(name) => (names::single(name)?, None),
                SchemaName::UnnamedAuthorization(role) => {
                    let owner = owner(role)?;
                    (owner.clone(), Some(owner))
                }
                SchemaName::NamedAuthorization(name, role) => {
                    (names::single(name)?, Some(owner(role)?))
                }
            };
            let if_not_exists = *if_not_exists;
            let command = Command::CreateSchema { database, name, if_not_exists, owner };
            ("CREATE SCHEMA", vec![command])
        }
        Statement::CreateDatabase { db_name, if_not_exists, .. } => {
            let command = Command::CreateDatabase {
                name: names::single(db_name)?,
                if_not_exists: *if_not_exists,
            };
            ("CREATE DATABASE", vec![command])
        }
        Statement::Comment { object_type, object_name, comment, if_exists } => {
            ("COMMENT", comment_on(session, *object_type, object_name, comment, *if_exists)?)
        }
        Statement::Drop { object_type, if_exists, names, cascade, .. } => {
            drop_commands(session, *object_type, *if_exists, names, *cascade)?
        }
        _ => return Err(Error::internal("not a definition")),
    })
}

fn drop_commands(
    session: &Session,
    object_type: ObjectType,
    if_exists: bool,
    objects: &[ObjectName],
    cascade: bool,
) -> Result<(&'static str, Vec<Command>)> {
    let database = session.database().to_string();
    let mut commands = Vec::with_capacity(objects.len());
    // A name may occur twice; drop the object once.
    let mut seen = HashSet::new();
    match object_type {
        ObjectType::Table => {
            for object in objects {
                let (schema, name) = match session.chronicle(object) {
                    Ok(chronicle) => (chronicle.schema.clone(), chronicle.name.clone()),
                    Err(error) if if_exists && error.kind() == ErrorKind::UndefinedTable => {
                        let (schema, name) = names::table(object, &database)?;
                        let schema = match schema {
                            Some(schema) => schema,
                            None => {
                                session.creation_schema().unwrap_or_else(|_| "public".to_string())
                            }
                        };
                        (schema, name)
                    }
                    Err(error) => return Err(error),
                };
                if seen.insert((schema.clone(), name.clone())) {
                    commands.push(Command::DropChronicle {
                        database: database.clone(),
                        schema,
                        name,
                        if_exists,
                    });
                }
            }
            Ok(("DROP TABLE", commands))
        }
        ObjectType::Schema => {
            for object in objects {
                let name = names::single(object)?;
                if seen.insert((String::new(), name.clone())) {
                    commands.push(Command::DropSchema {
                        database: database.clone(),
                        name,
                        if_exists,
                        cascade,
                    });
                }
            }
            Ok(("DROP SCHEMA", commands))
        }
        _ => {
            for object in objects {
                let name = names::single(object)?;
                if name == database {
                    return Err(Error::new(
                        ErrorKind::ObjectInUse,
                        "cannot drop the currently open database",
                    ));
                }
                if session.database_is_open(&name) {
                    return Err(Error::new(
                        ErrorKind::ObjectInUse,
                        format!("database \"{name}\" is being accessed by other users"),
                    ));
                }
                commands.push(Command::DropDatabase { name, if_exists });
            }
            Ok(("DROP DATABASE", commands))
        }
    }
}

fn comment_on(
    session: &Session,
    object_type: CommentObject,
    object: &ObjectName,
    comment: &Option<String>,
    if_exists: bool,
) -> Result<Vec<Command>> {
    if if_exists {
        return Err(Error::new(ErrorKind::SyntaxError, "COMMENT does not accept IF EXISTS"));
    }
    // COMMENT with an empty text removes the comment.
    let comment = comment.clone().filter(|comment| !comment.is_empty());
    match object_type {
        CommentObject::Table => {
            let chronicle = session.chronicle(object)?;
            Ok(vec![Command::CommentOnChronicle { id: chronicle.id, comment }])
        }
        CommentObject::Column => {
            let mut parts = object.0.clone();
            let column = parts.pop().and_then(|part| part.as_ident().map(names::fold));
            let (Some(column), false) = (column, parts.is_empty()) else {
                return Err(Error::new(ErrorKind::SyntaxError, "column name must be qualified"));
            };
            let chronicle = session.chronicle(&ObjectName(parts))?;
            Ok(vec![Command::CommentOnColumn { id: chronicle.id, column, comment }])
        }
        other => Err(Error::not_yet(format!("COMMENT ON {other}"))),
    }
}

/// The table of an ALTER TABLE; `None` when IF EXISTS finds no table.
fn altered(session: &Session, tree: &AlterTable) -> Result<Option<Arc<ChronicleDefinition>>> {
    match session.chronicle(&tree.name) {
        Ok(chronicle) => Ok(Some(chronicle)),
        Err(error) if tree.if_exists && error.kind() == ErrorKind::UndefinedTable => {
            session.say(Notice::new(format!("{}, skipping", error.message())));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

async fn alter(session: &Session, tree: &AlterTable) -> Result<Vec<Command>> {
    let Some(chronicle) = altered(session, tree)? else { return Ok(Vec::new()) };
    let mut commands = Vec::new();
    for operation in &tree.operations {
        match operation {
            AlterTableOperation::OwnerTo { new_owner } => {
                let table = Object::Chronicle(chronicle.id);
                commands.push(access::set_owner(session, table, new_owner)?);
            }
            other => commands.push(alter_one(session, &chronicle, other).await?),
        }
    }
    Ok(commands)
}

/// ALTER SCHEMA … OWNER TO.
fn alter_schema(session: &Session, tree: &AlterSchema) -> Result<Vec<Command>> {
    let name = names::single(&tree.name)?;
    let Some(schema) = session.whole_catalog().schema_object(session.database(), &name) else {
        let message = format!("schema \"{name}\" does not exist");
        return Err(Error::new(ErrorKind::UndefinedSchema, message));
    };
    let mut commands = Vec::new();
    for operation in &tree.operations {
        match operation {
            AlterSchemaOperation::OwnerTo { owner } => {
                commands.push(access::set_owner(session, schema, owner)?);
            }
            AlterSchemaOperation::Rename { .. } => {
                return Err(Error::not_yet("ALTER SCHEMA … RENAME TO"));
            }
            _ => {
                let message = "this form of ALTER SCHEMA does not exist in PostgreSQL";
                return Err(Error::new(ErrorKind::SyntaxError, message));
            }
        }
    }
    Ok(commands)
}

async fn alter_one(
    session: &Session,
    chronicle: &Arc<ChronicleDefinition>,
    operation: &AlterTableOperation,
) -> Result<Command> {
    let id = chronicle.id;
    if let Some(command) = access::row_security(chronicle, operation) {
        return Ok(command);
    }
    match operation {
        AlterTableOperation::AddColumn {
            if_not_exists, column_def, column_position: None, ..
        } => {
            let (column, key) = create_table::added_column(session, column_def).await?;
            Ok(Command::AddColumn { id, column, key, if_not_exists: *if_not_exists })
        }
        AlterTableOperation::RenameTable { table_name } => {
            let (RenameTableNameKind::To(name) | RenameTableNameKind::As(name)) = table_name;
            Ok(Command::RenameChronicle { id, to: names::single(name)? })
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            let from = names::fold(old_column_name);
            access::check_rename(session, chronicle, &from)?;
            Ok(Command::RenameColumn { id, from, to: names::fold(new_column_name) })
        }
        AlterTableOperation::SetOptionsParens { options } => {
            Ok(Command::SetOptions { id, options: create_table::options(options)? })
        }
        AlterTableOperation::DropColumn { .. } => Err(Error::not_yet("ALTER TABLE … DROP COLUMN")),
        AlterTableOperation::AlterColumn { .. } => {
            Err(Error::not_yet("ALTER TABLE … ALTER COLUMN"))
        }
        AlterTableOperation::AddConstraint { constraint, .. } => {
            Err(create_table::constraint_error(constraint))
        }
        other => {
            let action = other.to_string();
            let words: Vec<&str> = action.split_whitespace().take(2).collect();
            Err(Error::new(
                ErrorKind::FeatureNotSupported,
                format!("ALTER TABLE … {} is not supported", words.join(" ")),
            ))
        }
    }
}
