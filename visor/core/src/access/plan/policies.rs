//! Row policies.

use stratalog_model::{ChronicleId, Error, ErrorKind, Result};

use super::{AccessPlan, Scene};
use crate::{
    access::{AccessCommand, Object, Policy, Privilege, RoleId, change::AccessChange},
    catalog::name,
};

/// Maximum number of policies of one chronicle.
const POLICIES_MAX: usize = 100;

fn check(scene: &Scene<'_>, chronicle: ChronicleId) -> Result<String> {
    scene.need(Privilege::Ownership, Object::Chronicle(chronicle))?;
    Ok(scene.state.object_name(Object::Chronicle(chronicle)).1)
}

fn resolve(scene: &Scene<'_>, roles: &[String]) -> Result<Vec<RoleId>> {
    roles.iter().map(|name| Ok(scene.role(name)?.id)).collect()
}

fn missing(policy: &str, table: &str) -> Error {
    Error::new(
        ErrorKind::UndefinedObject,
        format!("policy \"{policy}\" for table \"{table}\" does not exist"),
    )
}

fn exists(policy: &str, table: &str) -> Error {
    Error::new(
        ErrorKind::DuplicateObject,
        format!("policy \"{policy}\" for table \"{table}\" already exists"),
    )
}

pub(super) fn create(scene: &Scene<'_>, policy: &Policy, roles: &[String]) -> Result<AccessPlan> {
    let table = check(scene, policy.chronicle)?;
    name::check("policy", &policy.name)?;
    let known = scene.access().policies(policy.chronicle);
    if known.iter().any(|one| one.name == policy.name) {
        return Err(exists(&policy.name, &table));
    }
    if known.len() >= POLICIES_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("a table can have at most {POLICIES_MAX} policies"),
        ));
    }
    let policy = Policy { roles: resolve(scene, roles)?, ..policy.clone() };
    Ok(AccessPlan::of(AccessChange::PutPolicy(Box::new(policy))))
}

pub(super) fn alter(scene: &Scene<'_>, command: &AccessCommand) -> Result<AccessPlan> {
    let AccessCommand::AlterPolicy { chronicle, name: policy, rename, roles, using_sql, check_sql } =
        command
    else {
        return Err(Error::internal("the command alters no policy"));
    };
    let table = check(scene, *chronicle)?;
    let known = scene.access().policies(*chronicle);
    let found = known.iter().find(|one| one.name == *policy);
    let mut changed = found.ok_or_else(|| missing(policy, &table))?.clone();
    let mut changes = Vec::new();
    if let Some(to) = rename {
        name::check("policy", to)?;
        if known.iter().any(|one| one.name == *to) {
            return Err(exists(to, &table));
        }
        changes.push(AccessChange::DropPolicy { chronicle: *chronicle, name: policy.clone() });
        changed.name.clone_from(to);
    }
    if let Some(roles) = roles {
        changed.roles = resolve(scene, roles)?;
    }
    changed.using_sql = using_sql.clone().or(changed.using_sql);
    changed.check_sql = check_sql.clone().or(changed.check_sql);
    changes.push(AccessChange::PutPolicy(Box::new(changed)));
    Ok(AccessPlan { changes, notices: Vec::new() })
}

pub(super) fn drop(
    scene: &Scene<'_>,
    chronicle: ChronicleId,
    policy: &str,
    if_exists: bool,
) -> Result<AccessPlan> {
    let table = check(scene, chronicle)?;
    let is_known = scene.access().policies(chronicle).iter().any(|one| one.name == policy);
    match (is_known, if_exists) {
        (true, _) => {
            Ok(AccessPlan::of(AccessChange::DropPolicy { chronicle, name: policy.to_string() }))
        }
        (false, true) => Ok(AccessPlan::nothing(format!(
            "policy \"{policy}\" for relation \"{table}\" does not exist, skipping"
        ))),
        (false, false) => Err(missing(policy, &table)),
    }
}

pub(super) fn set_row_security(
    scene: &Scene<'_>,
    chronicle: ChronicleId,
    enabled: Option<bool>,
    forced: Option<bool>,
) -> Result<AccessPlan> {
    check(scene, chronicle)?;
    let mut security = scene.access().row_security(chronicle);
    security.enabled = enabled.unwrap_or(security.enabled);
    security.forced = forced.unwrap_or(security.forced);
    Ok(AccessPlan::of(AccessChange::SetRowSecurity { chronicle, security }))
}
