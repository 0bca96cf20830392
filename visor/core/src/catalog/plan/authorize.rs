//! The rights that each command needs. The match is exhaustive: a new command does not compile
//! until its right is decided here.

use stratalog_model::{ChronicleId, Error, ErrorKind, Result};

use crate::{
    access::{Object, Privilege, Scene},
    catalog::{Command, state::CatalogState},
};

/// Checks that the actor may run a command. A command about a missing object passes: its plan
/// returns the error.
///
/// # Errors
/// `InsufficientPrivilege`; the error for a missing object if the actor may not know of the object.
pub(super) fn check(scene: &Scene<'_>, command: &Command) -> Result<()> {
    let state = scene.state;
    match command {
        Command::CreateDatabase { .. } => scene.need(Privilege::CreateDatabase, Object::Server),
        Command::DropDatabase { name, .. } => owns(scene, state.database_object(name)),
        Command::CreateSchema { database, .. } => {
            needs(scene, Privilege::Create, state.database_object(database))
        }
        Command::DropSchema { database, name, .. } => {
            owns(scene, state.schema_object(database, name))
        }
        Command::CreateChronicle(new) | Command::CreateReserved { new, .. } => {
            needs(scene, Privilege::Create, state.schema_object(&new.database, &new.schema))
        }
        Command::DropChronicle { database, schema, name, .. } => {
            match state.chronicle(database, schema, name) {
                Some(found) if !state.is_visible(&scene.rights, found) => Err(Error::new(
                    ErrorKind::UndefinedTable,
                    format!("table \"{name}\" does not exist"),
                )),
                Some(found) => {
                    let schema = state.schema_object(database, schema);
                    // The owner of the schema may drop every table of the schema.
                    match owns(scene, schema) {
                        Ok(()) if schema.is_some() => Ok(()),
                        _ => owns_chronicle(scene, found.id),
                    }
                }
                None => Ok(()),
            }
        }
        Command::DropUnchanged { was } => owns_chronicle(scene, was.id),
        Command::DropKnown { id }
        | Command::RenameColumn { id, .. }
        | Command::SetOptions { id, .. }
        | Command::CreateIndex { id, .. }
        | Command::CommentOnChronicle { id, .. }
        | Command::CommentOnColumn { id, .. } => owns_chronicle(scene, *id),
        Command::AddColumn { id, .. } => match scene.rights.may_add_columns(*id) {
            true => Ok(()),
            false => owns_chronicle(scene, *id),
        },
        Command::RenameChronicle { id, .. } => {
            owns_chronicle(scene, *id)?;
            needs(scene, Privilege::Create, schema_of(state, *id))
        }
        Command::DropIndex { database, schema, name, .. } => {
            match state.index(database, schema, name) {
                Some((chronicle, _)) => owns_chronicle(scene, chronicle.id),
                None => Ok(()),
            }
        }
        // Each access command checks its own rights, because most of them act on roles.
        Command::Access(_) => Ok(()),
        Command::PrepareAudit { .. } => scene.need(Privilege::Superuse, Object::Server),
    }
}

fn needs(scene: &Scene<'_>, privilege: Privilege, object: Option<Object>) -> Result<()> {
    object.map_or(Ok(()), |object| scene.need(privilege, object))
}

fn owns(scene: &Scene<'_>, object: Option<Object>) -> Result<()> {
    needs(scene, Privilege::Ownership, object)
}

fn owns_chronicle(scene: &Scene<'_>, id: ChronicleId) -> Result<()> {
    let known = scene.state.chronicle_by_id(id).is_some();
    owns(scene, known.then_some(Object::Chronicle(id)))
}

fn schema_of(state: &CatalogState, id: ChronicleId) -> Option<Object> {
    let chronicle = state.chronicle_by_id(id)?;
    state.schema_object(&chronicle.database, &chronicle.schema)
}
