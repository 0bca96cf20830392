//! Roles and memberships.

use stratalog_model::{Error, ErrorKind, Result};

use super::{AccessPlan, Scene};
use crate::{
    access::{
        Membership, Object, Privilege, Role, RoleAttributes, RoleId, RoleOptions,
        change::AccessChange,
    },
    catalog::name,
};

/// Maximum number of roles, which limits the catalog's memory.
const ROLES_MAX: usize = 100_000;

/// Names that GRANT and SET ROLE interpret otherwise.
const RESERVED: [&str; 5] = ["public", "none", "current_user", "session_user", "current_role"];

fn check_name(name: &str) -> Result<()> {
    name::check("role", name)?;
    if RESERVED.contains(&name) {
        return Err(Error::new(
            ErrorKind::ReservedName,
            format!("role name \"{name}\" is reserved"),
        ));
    }
    if name.starts_with("pg_") || name.starts_with("stratalog_") {
        return Err(Error::new(
            ErrorKind::ReservedName,
            format!("role name \"{name}\" is reserved"),
        )
        .with_detail("Role names starting with \"pg_\" or \"stratalog_\" are reserved."));
    }
    Ok(())
}

pub(super) fn create(
    scene: &Scene<'_>,
    name: &str,
    options: &RoleOptions,
    (member_of, members, admins): (&[String], &[String], &[String]),
    if_not_exists: bool,
) -> Result<AccessPlan> {
    check_options(scene, options, true)?;
    need_create_role(scene, "permission denied to create role")?;
    check_name(name)?;
    if scene.access().role_named(name).is_some() {
        let exists = format!("role \"{name}\" already exists");
        return match if_not_exists {
            true => Ok(AccessPlan::nothing(format!("{exists}, skipping"))),
            false => Err(Error::new(ErrorKind::DuplicateObject, exists)),
        };
    }
    if scene.access().roles().count() >= ROLES_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("the maximum number of roles, {ROLES_MAX}, is reached"),
        ));
    }
    let id = scene.access().next_role();
    let role = Role {
        id,
        name: name.to_string(),
        attributes: RoleAttributes::default(),
        password: None,
        settings: Vec::new(),
        comment: None,
    };
    let mut changes = with_options(scene, role, options);
    let grantor = scene.rights.current();
    for group in member_of {
        let group = scene.role(group)?;
        check_admin(scene, group)?;
        let admin = false;
        changes.push(AccessChange::PutMembership(Membership {
            role: group.id,
            member: id,
            admin,
            grantor,
        }));
    }
    let plain = members.iter().map(|member| (member, false));
    for (member, admin) in plain.chain(admins.iter().map(|member| (member, true))) {
        let member = scene.role(member)?.id;
        changes.push(AccessChange::PutMembership(Membership { role: id, member, admin, grantor }));
    }
    let twice = members.iter().filter(|member| admins.contains(member));
    let notices = twice
        .map(|member| format!("role \"{member}\" is already a member of role \"{name}\""))
        .collect();
    // A creator that is no superuser can grant the new role to others, as in PostgreSQL.
    if !scene.rights.is_superuser() {
        changes.push(AccessChange::PutMembership(Membership {
            role: id,
            member: grantor,
            admin: true,
            grantor: RoleId::FOUNDER,
        }));
    }
    Ok(AccessPlan { changes, notices })
}

/// Checks that the actor has the attribute CREATEROLE.
fn need_create_role(scene: &Scene<'_>, message: &str) -> Result<()> {
    scene.need(Privilege::CreateRole, Object::Server).map_err(|error| {
        match scene.rights.scope_allows_all() {
            true => scene.deny(message).with_detail("The attribute CREATEROLE is needed."),
            // The error names the scope of the token.
            false => error,
        }
    })
}

/// Checks that the actor may set the attributes of a new role, or of an existing role.
fn check_options(scene: &Scene<'_>, options: &RoleOptions, is_new: bool) -> Result<()> {
    if scene.rights.is_superuser() {
        return Ok(());
    }
    let message = match (options.superuser, options.bypass_row_security, is_new) {
        (Some(true), _, true) => "must be superuser to create superusers",
        (Some(_), _, false) => {
            "must be superuser to alter superuser roles or change superuser attribute"
        }
        (_, Some(true), true) => "must be superuser to create bypassrls users",
        (_, Some(_), false) => "must be superuser to change bypassrls attribute",
        _ => return Ok(()),
    };
    Err(scene.deny(message))
}

/// The changes that store a role with options. The first password protects the server.
fn with_options(scene: &Scene<'_>, mut role: Role, options: &RoleOptions) -> Vec<AccessChange> {
    let attributes = &mut role.attributes;
    let set = |target: &mut bool, value: Option<bool>| *target = value.unwrap_or(*target);
    set(&mut attributes.superuser, options.superuser);
    set(&mut attributes.inherit, options.inherit);
    set(&mut attributes.create_role, options.create_role);
    set(&mut attributes.create_database, options.create_database);
    set(&mut attributes.login, options.login);
    set(&mut attributes.bypass_row_security, options.bypass_row_security);
    if let Some(most) = options.connections_max {
        attributes.connections_max = most;
    }
    if let Some(end) = options.valid_until_ns {
        attributes.valid_until_ns = end;
    }
    if let Some(password) = &options.password {
        role.password.clone_from(password);
    }
    let protects = role.password.is_some() && !scene.access().is_protected();
    let mut changes = vec![AccessChange::PutRole(Box::new(role))];
    if protects {
        changes.push(AccessChange::Protect);
    }
    changes
}

pub(super) fn alter(scene: &Scene<'_>, name: &str, options: &RoleOptions) -> Result<AccessPlan> {
    let role = scene.role(name)?;
    // Every role may change its own password.
    let own_password = RoleOptions { password: options.password.clone(), ..RoleOptions::default() };
    let is_own = scene.rights.current() == role.id && *options == own_password;
    if !is_own {
        check_manages(scene, role)?;
        check_options(scene, options, false)?;
    }
    if role.id.is_predefined() && role.id != RoleId::FOUNDER {
        return Err(scene.deny(format!("role \"{name}\" is predefined and cannot be changed")));
    }
    if role.id == RoleId::FOUNDER && options.superuser == Some(false) {
        return Err(scene.deny(format!("role \"{name}\" must remain a superuser")));
    }
    let changes = with_options(scene, role.clone(), options);
    Ok(AccessPlan { changes, notices: Vec::new() })
}

/// Checks that the actor may change or drop a role: CREATEROLE and the admin option on the role, or
/// a superuser for a superuser.
fn check_manages(scene: &Scene<'_>, role: &Role) -> Result<()> {
    if scene.rights.is_superuser() && scene.rights.scope_allows_all() {
        return Ok(());
    }
    need_create_role(scene, "permission denied")?;
    if role.attributes.superuser {
        let message = "must be superuser to alter superuser roles or change superuser attribute";
        return Err(scene.deny(message));
    }
    check_admin(scene, role)
}

/// Checks that the actor may grant membership in a role.
fn check_admin(scene: &Scene<'_>, role: &Role) -> Result<()> {
    if scene.rights.is_superuser() && scene.rights.scope_allows_all() {
        return Ok(());
    }
    if role.attributes.superuser {
        return Err(scene.deny("must be superuser to alter superusers"));
    }
    let has_admin = scene
        .access()
        .memberships()
        .iter()
        .any(|one| one.role == role.id && one.admin && scene.rights.includes(one.member));
    match has_admin && scene.rights.scope_allows_all() {
        true => Ok(()),
        false => Err(scene
            .deny(format!("must have admin option on role \"{}\"", role.name))
            .with_detail(
                "Only roles with the ADMIN option on a role may grant or change the role.",
            )),
    }
}

pub(super) fn rename(scene: &Scene<'_>, from: &str, to: &str) -> Result<AccessPlan> {
    let role = scene.role(from)?;
    check_manages(scene, role)?;
    check_name(to)?;
    let used = match role.id {
        id if id == scene.rights.session() => Some("session user cannot be renamed"),
        id if id == scene.rights.current() => Some("current user cannot be renamed"),
        _ => None,
    };
    if let Some(message) = used {
        return Err(Error::new(ErrorKind::FeatureNotSupported, message));
    }
    if role.id.is_predefined() {
        return Err(scene.deny(format!("role \"{from}\" is predefined and cannot be renamed")));
    }
    if scene.access().role_named(to).is_some() {
        return Err(Error::new(
            ErrorKind::DuplicateObject,
            format!("role \"{to}\" already exists"),
        ));
    }
    let renamed = Role { name: to.to_string(), ..role.clone() };
    Ok(AccessPlan::of(AccessChange::PutRole(Box::new(renamed))))
}

pub(super) fn set(
    scene: &Scene<'_>,
    name: &str,
    setting: Option<&str>,
    value: Option<&str>,
) -> Result<AccessPlan> {
    let mut role = scene.role(name)?.clone();
    if scene.rights.current() != role.id {
        check_manages(scene, &role)?;
    }
    role.settings.retain(|(one, _)| setting.is_some_and(|setting| one != setting));
    if let (Some(setting), Some(value)) = (setting, value) {
        role.settings.push((setting.to_string(), value.to_string()));
        role.settings.sort();
    }
    Ok(AccessPlan::of(AccessChange::PutRole(Box::new(role))))
}

pub(super) fn comment(scene: &Scene<'_>, name: &str, comment: Option<&str>) -> Result<AccessPlan> {
    let mut role = scene.role(name)?.clone();
    check_manages(scene, &role)?;
    role.comment = comment.filter(|text| !text.is_empty()).map(str::to_string);
    Ok(AccessPlan::of(AccessChange::PutRole(Box::new(role))))
}

pub(super) fn drop(scene: &Scene<'_>, name: &str, if_exists: bool) -> Result<AccessPlan> {
    need_create_role(scene, "permission denied to drop role")?;
    let Some(role) = scene.access().role_named(name) else {
        return match if_exists {
            true => Ok(AccessPlan::nothing(format!("role \"{name}\" does not exist, skipping"))),
            false => Err(super::unknown_role(name)),
        };
    };
    check_manages(scene, role)?;
    if role.id.is_predefined() {
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!("cannot drop role {name} because it is required by the database system"),
        ));
    }
    if scene.rights.current() == role.id {
        return Err(Error::new(ErrorKind::ObjectInUse, "current user cannot be dropped"));
    }
    if scene.rights.session() == role.id {
        return Err(Error::new(ErrorKind::ObjectInUse, "session user cannot be dropped"));
    }
    let uses = super::grants::uses_of(scene, role.id);
    if !uses.is_empty() {
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!("role \"{name}\" cannot be dropped because some objects depend on it"),
        )
        .with_detail(uses.join("\n"))
        .with_hint(format!(
            "first run REASSIGN OWNED BY {name} TO another_role; DROP OWNED BY {name}"
        )));
    }
    Ok(AccessPlan::of(AccessChange::DropRole { id: role.id }))
}

pub(super) fn grant(
    scene: &Scene<'_>,
    role: &str,
    member: &str,
    admin: bool,
) -> Result<AccessPlan> {
    let (group, member_role) = (scene.role(role)?, scene.role(member)?);
    check_admin(scene, group)?;
    if scene.access().roles_of(group.id, false).contains(&member_role.id) {
        return Err(Error::new(
            ErrorKind::InvalidGrant,
            format!("role \"{role}\" is a member of role \"{member}\""),
        )
        .with_detail("A circle of memberships is not possible."));
    }
    let known = scene
        .access()
        .memberships()
        .iter()
        .find(|one| one.role == group.id && one.member == member_role.id);
    if known.is_some_and(|known| known.admin || !admin) {
        return Ok(AccessPlan::nothing(format!(
            "role \"{member}\" is already a member of role \"{role}\""
        )));
    }
    Ok(AccessPlan::of(AccessChange::PutMembership(Membership {
        role: group.id,
        member: member_role.id,
        admin,
        grantor: scene.rights.current(),
    })))
}

pub(super) fn revoke(
    scene: &Scene<'_>,
    role: &str,
    member: &str,
    admin_only: bool,
) -> Result<AccessPlan> {
    let (group, member_role) = (scene.role(role)?, scene.role(member)?);
    check_admin(scene, group)?;
    let known = scene
        .access()
        .memberships()
        .iter()
        .find(|one| one.role == group.id && one.member == member_role.id);
    let Some(known) = known else {
        return Ok(AccessPlan::nothing(format!(
            "role \"{member}\" is not a member of role \"{role}\""
        )));
    };
    Ok(AccessPlan::of(match admin_only {
        true => AccessChange::PutMembership(Membership { admin: false, ..known.clone() }),
        false => AccessChange::DropMembership { role: group.id, member: member_role.id },
    }))
}
