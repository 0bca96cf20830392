//! GRANT, REVOKE and ALTER DEFAULT PRIVILEGES.

use stratalog_model::{Error, ErrorKind, Result};
use stratalog_postgres::{
    names,
    parse::access::{AccessSyntax, GrantSyntax, ObjectSyntax, PrivilegeSyntax, RoleSpec},
};
use stratalog_visor_core::access::{
    AccessCommand, GrantObjects, GrantedPrivileges, Grantee, Object, Privilege,
};

use super::{database, role_name, schema};
use crate::Session;

/// The commands of GRANT or REVOKE role; `grants` and `admin` describe the statement.
pub(super) fn memberships(
    session: &Session,
    roles: &[String],
    members: &[RoleSpec],
    (grants, admin): (bool, bool),
) -> Result<Vec<AccessCommand>> {
    let mut commands = Vec::new();
    for role in roles {
        for member in members {
            let (role, member) = (role.clone(), role_name(session, member)?);
            commands.push(match grants {
                true => AccessCommand::GrantRole { role, member, admin },
                false => AccessCommand::RevokeRole { role, member, admin_only: admin },
            });
        }
    }
    Ok(commands)
}

pub(super) fn privileges(session: &Session, grant: &GrantSyntax) -> Result<Vec<AccessCommand>> {
    let objects = objects(session, &grant.objects)?;
    let grantees = grantees(session, &grant.grantees)?;
    let privileges = match &grant.privileges {
        None => GrantedPrivileges::All,
        Some(listed) => {
            GrantedPrivileges::Some(listed.iter().map(privilege).collect::<Result<_>>()?)
        }
    };
    Ok(vec![match grant.grants {
        true => {
            AccessCommand::Grant { privileges, objects, grantees, grantable: grant.grant_option }
        }
        false => AccessCommand::Revoke {
            privileges,
            objects,
            grantees,
            grant_option_only: grant.grant_option,
            cascade: grant.cascade,
        },
    }])
}

fn objects(session: &Session, objects: &ObjectSyntax) -> Result<GrantObjects> {
    Ok(match objects {
        ObjectSyntax::Tables(tables) => {
            let table = |name| Ok(Object::Chronicle(session.chronicle(name)?.id));
            GrantObjects::Objects(tables.iter().map(table).collect::<Result<_>>()?)
        }
        ObjectSyntax::TablesIn(schemas) => GrantObjects::TablesIn(
            schemas.iter().map(|name| schema(session, name)).collect::<Result<_>>()?,
        ),
        ObjectSyntax::Schemas(schemas) => GrantObjects::Objects(
            schemas.iter().map(|name| schema(session, name)).collect::<Result<_>>()?,
        ),
        ObjectSyntax::Databases(databases) => GrantObjects::Objects(
            databases.iter().map(|name| database(session, name)).collect::<Result<_>>()?,
        ),
    })
}

fn grantees(session: &Session, roles: &[RoleSpec]) -> Result<Vec<Grantee>> {
    let grantee = |role: &RoleSpec| match role {
        RoleSpec::Public => Ok(None),
        other => role_name(session, other).map(Some),
    };
    roles.iter().map(grantee).collect()
}

/// A privilege, and its columns.
fn privilege(syntax: &PrivilegeSyntax) -> Result<(Privilege, Option<Vec<String>>)> {
    let columns: Option<Vec<String>> =
        syntax.columns.as_ref().map(|columns| columns.iter().map(names::fold).collect());
    let privilege = privilege_of_word(&syntax.word)?;
    if columns.is_some() && privilege != Privilege::Select {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("{} of columns is not supported", syntax.word),
        )
        .with_hint("only SELECT can be limited to columns"));
    }
    Ok((privilege, columns))
}

/// The privilege of a word in GRANT.
///
/// # Errors
/// `FeatureNotSupported` for privileges that only PostgreSQL has; `SyntaxError` for other words.
fn privilege_of_word(word: &str) -> Result<Privilege> {
    const GRANTED: [Privilege; 10] = [
        Privilege::Select,
        Privilege::Insert,
        Privilege::Delete,
        Privilege::Trim,
        Privilege::Subscribe,
        Privilege::Acquire,
        Privilege::Ownership,
        Privilege::Usage,
        Privilege::Create,
        Privilege::Connect,
    ];
    if let Some(found) = GRANTED.into_iter().find(|one| one.keyword() == word) {
        return Ok(found);
    }
    let hint = match word {
        "TRUNCATE" => return Ok(Privilege::Trim),
        "ALL" => "name the privileges; only SELECT can be limited to columns",
        "UPDATE" => "events never change; INSERT also replaces events of the same key and time",
        "REFERENCES" => "foreign keys do not exist",
        "TRIGGER" => "triggers do not exist",
        "TEMP" | "TEMPORARY" => "temporary tables do not exist",
        "EXECUTE" => "every role may call every function",
        "SET" | "ALTER SYSTEM" => "settings have no privileges",
        _ => {
            let message = format!("unrecognized privilege type \"{}\"", word.to_ascii_lowercase());
            return Err(Error::new(ErrorKind::SyntaxError, message));
        }
    };
    let message = match word {
        "ALL" => "ALL PRIVILEGES of columns is not supported".to_string(),
        _ => format!("the privilege {word} is not supported"),
    };
    Err(Error::new(ErrorKind::FeatureNotSupported, message).with_hint(hint))
}

pub(super) fn defaults(session: &Session, syntax: &AccessSyntax) -> Result<Vec<AccessCommand>> {
    let AccessSyntax::Defaults {
        creators,
        schemas,
        of_schemas,
        grants,
        privileges,
        grantees: to,
        grant_option,
    } = syntax
    else {
        return Err(Error::internal("the statement sets no default privileges"));
    };
    if *of_schemas && !schemas.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidGrant,
            "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS",
        ));
    }
    if *grant_option && !*grants {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            "GRANT OPTION FOR is not supported in ALTER DEFAULT PRIVILEGES",
        )
        .with_hint("revoke the default privilege, and grant it without the grant option"));
    }
    let privileges = match privileges {
        None => None,
        Some(listed) => {
            let mut found = Vec::new();
            for one in listed {
                let (privilege, columns) = privilege(one)?;
                if columns.is_some() {
                    return Err(Error::new(
                        ErrorKind::InvalidGrant,
                        "default privileges cannot be set for columns",
                    ));
                }
                found.push(privilege);
            }
            Some(found)
        }
    };
    let grantees = grantees(session, to)?;
    let creators = match creators.is_empty() {
        true => vec![None],
        false => {
            let name = |role| role_name(session, role).map(Some);
            creators.iter().map(name).collect::<Result<_>>()?
        }
    };
    let schemas = match schemas.is_empty() {
        true => vec![None],
        false => {
            let object = |name| schema(session, name).map(Some);
            schemas.iter().map(object).collect::<Result<Vec<_>>>()?
        }
    };
    let mut commands = Vec::new();
    for creator in &creators {
        for schema in &schemas {
            commands.push(AccessCommand::SetDefaults {
                creator: creator.clone(),
                schema: *schema,
                of_schemas: *of_schemas,
                privileges: privileges.clone(),
                grantees: grantees.clone(),
                granted: *grants,
                grantable: *grant_option,
            });
        }
    }
    Ok(commands)
}
