//! Runs statements about roles, rights and row policies: as commands of the catalog, which checks
//! the rights of the session's identity.

mod grants;
pub(crate) mod identity;
mod policies;
mod roles;

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, Owner};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_postgres::{
    names,
    parse::{
        DropMode,
        access::{AccessSyntax, OwnedObject, RoleSpec},
    },
};
use stratalog_visor_core::{
    access::{AccessCommand, Object},
    catalog::Command,
};

use super::{Parsed, ddl};
use crate::{Notice, Outcome, Session, session::work::Work};

pub(crate) use policies::{check_rename, row_security};

/// Runs a statement. In a block, only the block sees the change until COMMIT.
///
/// # Errors
/// `InsufficientPrivilege`; PostgreSQL's errors for missing and existing objects.
pub(crate) async fn run(
    session: &Session,
    parsed: &Parsed,
    syntax: &AccessSyntax,
    work: &Arc<Work>,
) -> Result<Outcome> {
    super::transaction::check_write(session)?;
    let commands = commands(session, parsed, syntax).await?;
    let commands = commands.into_iter().map(Command::Access).collect();
    for notice in ddl::carry_out(session, commands, DropMode::IfReleased, work).await? {
        session.say(notice_of(notice));
    }
    Ok(Outcome::Done(syntax.tag().to_string()))
}

async fn commands(
    session: &Session,
    parsed: &Parsed,
    syntax: &AccessSyntax,
) -> Result<Vec<AccessCommand>> {
    use AccessSyntax as A;
    match syntax {
        A::CreateRole { name, kind, options } => roles::create(session, name, *kind, options).await,
        A::AlterRole { name, options } => roles::alter(session, name, options).await,
        A::AlterGroup { group, members, adds } => {
            let group = [role_name(session, group)?];
            grants::memberships(session, &group, members, (*adds, false))
        }
        A::RenameRole { from, to } => Ok(vec![AccessCommand::RenameRole {
            from: role_name(session, from)?,
            to: roles::new_name(to)?,
        }]),
        A::SetRoleSetting { name, setting, value } => {
            roles::set(session, name, setting.as_deref(), value)
        }
        A::DropRoles { names, if_exists } => roles::drop(names, *if_exists),
        A::CommentOnRole { name, comment } => Ok(vec![AccessCommand::CommentOnRole {
            name: role_name(session, name)?,
            comment: comment.clone(),
        }]),
        A::Memberships { grants, roles, members, admin, granted_by } => {
            check_grantor(session, granted_by.as_ref())?;
            grants::memberships(session, roles, members, (*grants, *admin))
        }
        A::Grant(grant) => {
            check_grantor(session, grant.granted_by.as_ref())?;
            grants::privileges(session, grant)
        }
        A::Defaults { .. } => grants::defaults(session, syntax),
        A::SetOwner { object: OwnedObject::Database(name), owner } => {
            let object = database(session, name)?;
            Ok(vec![AccessCommand::SetOwner { object, owner: role_name(session, owner)? }])
        }
        A::Reassign { from, to } => {
            let to = role_name(session, to)?;
            each_role(session, from, |from| AccessCommand::ReassignOwned { from, to: to.clone() })
        }
        A::DropOwned { roles } => {
            each_role(session, roles, |name| AccessCommand::DropOwned { name })
        }
        A::CreatePolicy(policy) => policies::create(session, parsed, policy).await,
        A::AlterPolicy(policy) => policies::alter(session, parsed, policy).await,
        A::RenamePolicy { name, table, to } => policies::rename(session, name, table, to),
        A::DropPolicy { name, table, if_exists } => {
            policies::drop(session, name, table, *if_exists)
        }
    }
}

fn each_role(
    session: &Session,
    roles: &[RoleSpec],
    command: impl Fn(String) -> AccessCommand,
) -> Result<Vec<AccessCommand>> {
    roles.iter().map(|role| Ok(command(role_name(session, role)?))).collect()
}

/// The name of a role in a statement.
///
/// # Errors
/// `UndefinedObject` for PUBLIC, which is no role.
fn role_name(session: &Session, role: &RoleSpec) -> Result<String> {
    let named = |id| session.whole_catalog().access().role_name(id);
    match role {
        RoleSpec::Named(name) => Ok(name.clone()),
        RoleSpec::CurrentUser => Ok(named(session.identity().current())),
        RoleSpec::SessionUser => Ok(named(session.identity().session())),
        RoleSpec::Public => {
            Err(Error::new(ErrorKind::UndefinedObject, "role \"public\" does not exist"))
        }
    }
}

/// The commands of ALTER … OWNER TO for an object; the parser has read the owner.
///
/// # Errors
/// `UndefinedObject` for PUBLIC.
pub(crate) fn set_owner(session: &Session, object: Object, owner: &Owner) -> Result<Command> {
    let owner = role_name(session, &owner_spec(owner))?;
    Ok(Command::Access(AccessCommand::SetOwner { object, owner }))
}

fn owner_spec(owner: &Owner) -> RoleSpec {
    match owner {
        Owner::Ident(name) => role_spec(name),
        Owner::CurrentRole | Owner::CurrentUser => RoleSpec::CurrentUser,
        Owner::SessionUser => RoleSpec::SessionUser,
    }
}

fn role_spec(name: &Ident) -> RoleSpec {
    let folded = names::fold(name);
    match (name.quote_style, folded.as_str()) {
        (None, "current_user" | "current_role") => RoleSpec::CurrentUser,
        (None, "session_user") => RoleSpec::SessionUser,
        (_, "public") => RoleSpec::Public,
        _ => RoleSpec::Named(folded),
    }
}

/// The owner in CREATE SCHEMA … AUTHORIZATION.
///
/// # Errors
/// `UndefinedObject` for PUBLIC.
pub(crate) fn schema_owner(session: &Session, owner: &Ident) -> Result<String> {
    role_name(session, &role_spec(owner))
}

fn database(session: &Session, name: &Ident) -> Result<Object> {
    let name = names::fold(name);
    let state = session.whole_catalog();
    let oid = state.database_names().find(|(_, known)| *known == name).map(|(oid, _)| oid);
    oid.map(Object::Database).ok_or_else(|| {
        Error::new(ErrorKind::UndefinedDatabase, format!("database \"{name}\" does not exist"))
    })
}

fn schema(session: &Session, name: &Ident) -> Result<Object> {
    let name = names::fold(name);
    session.whole_catalog().schema_object(session.database(), &name).ok_or_else(|| {
        match stratalog_visor_core::catalog::SYSTEM_SCHEMAS.contains(&name.as_str()) {
            true => Error::new(
                ErrorKind::FeatureNotSupported,
                format!("the privileges of the system schema \"{name}\" cannot be changed"),
            ),
            false => {
                Error::new(ErrorKind::UndefinedSchema, format!("schema \"{name}\" does not exist"))
            }
        }
    })
}

/// Checks GRANTED BY: only the current role can be the grantor.
fn check_grantor(session: &Session, grantor: Option<&RoleSpec>) -> Result<()> {
    let Some(grantor) = grantor else { return Ok(()) };
    let name = role_name(session, grantor)?;
    let access = session.whole_catalog();
    let role = access.access().role_named(&name).map(|role| role.id);
    match role {
        Some(role) if role == session.identity().current() => Ok(()),
        Some(_) => Err(Error::new(ErrorKind::FeatureNotSupported, "grantor must be current user")),
        None => {
            Err(Error::new(ErrorKind::UndefinedObject, format!("role \"{name}\" does not exist")))
        }
    }
}

/// The notice for the client: a warning where PostgreSQL warns.
fn notice_of(message: String) -> Notice {
    let sqlstate = match () {
        () if message.contains("privileges were granted for") => "01007",
        () if message.contains("privileges could be revoked for") => "01006",
        () if message.contains("is not a member of role") => "01000",
        () => return Notice::new(message),
    };
    Notice::warning(sqlstate, message)
}
