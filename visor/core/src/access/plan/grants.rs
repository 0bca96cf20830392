//! Privileges, owners and default privileges.

use std::collections::BTreeSet;

use stratalog_model::{ColumnId, Error, ErrorKind, Result};

use super::{AccessPlan, Scene, list::AccessList};
use crate::access::{
    DefaultGrant, Grant, GrantObjects, GrantedPrivileges, Grantee, Object, Privilege, RoleId,
    change::AccessChange,
    decision::{Columns, unknown_relation},
};

/// Maximum length of an access list, which limits the catalog's memory.
const GRANTS_MAX: usize = 10_000;

/// One privilege, on the whole object or on one column.
type Item = (Privilege, Option<ColumnId>);

/// The objects of a statement; refuses objects that the actor may not know of.
fn objects(scene: &Scene<'_>, objects: &GrantObjects) -> Result<Vec<Object>> {
    match objects {
        GrantObjects::Objects(objects) => {
            for object in objects {
                if let Object::Chronicle(id) = object {
                    let seen = scene.state.chronicle_by_id(*id);
                    let seen = seen.filter(|seen| scene.state.is_visible(&scene.rights, seen));
                    seen.ok_or_else(|| unknown_relation(&id.to_string()))?;
                }
            }
            Ok(objects.clone())
        }
        GrantObjects::TablesIn(schemas) => {
            let mut all = Vec::new();
            for schema in schemas {
                for database in scene.state.databases() {
                    let of_schema = scene.state.chronicles(&database.name).filter(|one| {
                        scene.state.schema_object(&one.database, &one.schema) == Some(*schema)
                            && scene.state.is_visible(&scene.rights, one)
                    });
                    all.extend(of_schema.map(|one| Object::Chronicle(one.id)));
                }
            }
            Ok(all)
        }
    }
}

/// The privileges of a statement on one object.
fn items(scene: &Scene<'_>, privileges: &GrantedPrivileges, object: Object) -> Result<Vec<Item>> {
    let grantable = Privilege::grantable_on(object);
    let GrantedPrivileges::Some(listed) = privileges else {
        // As in PostgreSQL, ALL PRIVILEGES does not make the grantee an owner.
        let all = grantable.iter().filter(|privilege| **privilege != Privilege::Ownership);
        return Ok(all.map(|privilege| (*privilege, None)).collect());
    };
    let mut items = Vec::new();
    for (privilege, columns) in listed {
        let keyword = privilege.keyword();
        let (kind, name) = scene.state.object_name(object);
        let invalid = |message: String| Error::new(ErrorKind::InvalidGrant, message);
        if !grantable.contains(privilege) {
            let valid: Vec<&str> = grantable.iter().map(|one| one.keyword()).collect();
            return Err(invalid(format!("invalid privilege type {keyword} for {kind}"))
                .with_hint(format!("the privileges of a {kind} are {}", valid.join(", "))));
        }
        let Some(columns) = columns else {
            items.push((*privilege, None));
            continue;
        };
        let (Privilege::Select, Object::Chronicle(id)) = (*privilege, object) else {
            return Err(invalid(format!("invalid privilege type {keyword} for column"))
                .with_hint("only SELECT can be limited to columns"));
        };
        let definition = scene.state.chronicle_by_id(id);
        let definition = definition.ok_or_else(|| unknown_relation(&name))?;
        for column in columns {
            let found = definition.column_named(column).ok_or_else(|| {
                Error::new(
                    ErrorKind::UndefinedColumn,
                    format!("column \"{column}\" of relation \"{name}\" does not exist"),
                )
            })?;
            items.push((*privilege, Some(found.id)));
        }
    }
    Ok(items)
}

pub(super) fn grant(
    scene: &Scene<'_>,
    privileges: &GrantedPrivileges,
    of: &GrantObjects,
    grantees: &[Grantee],
    grantable: bool,
) -> Result<AccessPlan> {
    let grantees: Vec<Option<RoleId>> =
        grantees.iter().map(|one| scene.grantee(one)).collect::<Result<_>>()?;
    if grantable && grantees.contains(&None) {
        return Err(Error::new(
            ErrorKind::InvalidGrant,
            "grant options can only be granted to roles",
        ));
    }
    let mut plan = AccessPlan::default();
    for object in objects(scene, of)? {
        let mut list = AccessList::of(scene, object);
        for (column, wanted) in by_column(items(scene, privileges, object)?) {
            let all = *privileges == GrantedPrivileges::All;
            let (grantor, allowed) =
                list.granting(column, &wanted, all, "granted", &mut plan.notices)?;
            for (grantee, privilege) in pairs(&grantees, &allowed) {
                list.add(Grant { grantee, privilege, column, grantable, grantor })?;
            }
        }
        let grants = list.into_grants();
        if grants.len() > GRANTS_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("an object can have at most {GRANTS_MAX} grants"),
            )
            .with_hint("grant the privileges to a group, and the group to its members"));
        }
        plan.changes.push(AccessChange::SetGrants { object, grants });
    }
    Ok(plan)
}

/// The items of each column, and of the whole object.
fn by_column(items: Vec<Item>) -> Vec<(Option<ColumnId>, Vec<Privilege>)> {
    let mut groups: Vec<(Option<ColumnId>, Vec<Privilege>)> = Vec::new();
    for (privilege, column) in items {
        match groups.iter_mut().find(|(of, _)| *of == column) {
            Some((_, group)) => group.push(privilege),
            None => groups.push((column, vec![privilege])),
        }
    }
    groups
}

fn pairs(
    grantees: &[Option<RoleId>],
    privileges: &[Privilege],
) -> impl Iterator<Item = (Option<RoleId>, Privilege)> {
    grantees.iter().flat_map(|grantee| privileges.iter().map(|privilege| (*grantee, *privilege)))
}

pub(super) fn revoke(
    scene: &Scene<'_>,
    privileges: &GrantedPrivileges,
    of: &GrantObjects,
    grantees: &[Grantee],
    (grant_option_only, cascade): (bool, bool),
) -> Result<AccessPlan> {
    let grantees: Vec<Option<RoleId>> =
        grantees.iter().map(|one| scene.grantee(one)).collect::<Result<_>>()?;
    let mut plan = AccessPlan::default();
    for object in objects(scene, of)? {
        let mut list = AccessList::of(scene, object);
        let before = list.grants().to_vec();
        for (column, wanted) in by_column(items(scene, privileges, object)?) {
            let all = *privileges == GrantedPrivileges::All;
            let (grantor, allowed) =
                list.granting(column, &wanted, all, "revoked", &mut plan.notices)?;
            for (grantee, privilege) in pairs(&grantees, &allowed) {
                let from = (grantee, privilege, column, grantor);
                list.remove(from, grant_option_only, cascade)?;
            }
            // REVOKE on the whole object also revokes the privilege on columns.
            let columns = match column {
                None => list.columns(&wanted),
                Some(_) => Vec::new(),
            };
            for column in columns {
                let (grantor, allowed) = list.best_grantor(Some(column), &wanted);
                for (grantee, privilege) in pairs(&grantees, &allowed) {
                    let from = (grantee, privilege, Some(column), grantor);
                    list.remove(from, grant_option_only, cascade)?;
                }
            }
        }
        let grants = list.into_grants();
        if grants != before {
            plan.changes.push(AccessChange::SetGrants { object, grants });
        }
    }
    Ok(plan)
}

pub(super) fn set_owner(scene: &Scene<'_>, object: Object, owner: &str) -> Result<AccessPlan> {
    scene.need(Privilege::Ownership, object)?;
    let owner = scene.role(owner)?;
    scene.need_membership(owner.id)?;
    // As in PostgreSQL, the new owner must be able to create such objects.
    if !scene.rights.is_superuser()
        && let Object::Chronicle(id) = object
        && let Some(chronicle) = scene.state.chronicle_by_id(id)
        && let Some(schema) = scene.state.schema_object(&chronicle.database, &chronicle.schema)
    {
        let identity = crate::access::Identity::of_role(owner.id);
        let rights = scene.access().rights(&identity, scene.now_ns)?;
        scene.state.check(&rights, Privilege::Create, schema, Columns::All)?;
    }
    Ok(AccessPlan { changes: owner_changes(scene, object, owner.id), notices: Vec::new() })
}

/// The changes that give an object to a new owner. Grants of the old owner become grants of the
/// new owner.
fn owner_changes(scene: &Scene<'_>, object: Object, owner: RoleId) -> Vec<AccessChange> {
    let before = scene.access().owner(object);
    let mut changes = vec![AccessChange::SetOwner { object, owner }];
    if scene.access().has_own_grants(object) {
        let mut grants = scene.access().grants(object).into_owned();
        for grant in &mut grants {
            if grant.grantor == before {
                grant.grantor = owner;
            }
        }
        changes.push(AccessChange::SetGrants { object, grants });
    }
    changes
}

/// Checks that the actor has the rights of a role.
fn check_includes(scene: &Scene<'_>, role: RoleId) -> Result<()> {
    match scene.rights.includes(role) && scene.rights.scope_allows_all() {
        true => Ok(()),
        false => Err(scene.deny(format!(
            "permission denied to act for role \"{}\"",
            scene.access().role_name(role)
        ))),
    }
}

pub(super) fn reassign(scene: &Scene<'_>, from: &str, to: &str) -> Result<AccessPlan> {
    let (from, to) = (scene.role(from)?.id, scene.role(to)?.id);
    check_includes(scene, from)?;
    check_includes(scene, to)?;
    if from == RoleId::FOUNDER {
        return Err(Error::new(
            ErrorKind::DependentObjects,
            "cannot reassign objects of the predefined superuser",
        ));
    }
    let owned: Vec<Object> = scene.access().owned_by(from).collect();
    let changes = owned.into_iter().flat_map(|object| owner_changes(scene, object, to)).collect();
    Ok(AccessPlan { changes, notices: Vec::new() })
}

pub(super) fn drop_owned(scene: &Scene<'_>, name: &str) -> Result<AccessPlan> {
    let role = scene.role(name)?.id;
    check_includes(scene, role)?;
    if scene.access().owned_by(role).next().is_some() || role == RoleId::FOUNDER {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!("DROP OWNED drops no tables, and role \"{name}\" owns objects"),
        )
        .with_hint(format!("drop the objects, or REASSIGN OWNED BY {name} TO another_role")));
    }
    let mut changes = Vec::new();
    for (object, grants) in &scene.access().grants {
        let mut list = AccessList::of(scene, *object);
        list.forget(role)?;
        let kept = list.into_grants();
        if kept.len() != grants.len() {
            changes.push(AccessChange::SetGrants { object: *object, grants: kept });
        }
    }
    let mut defaults = scene.access().defaults().to_vec();
    defaults.retain(|one| one.creator != role && one.grantee != Some(role));
    if defaults.len() != scene.access().defaults().len() {
        changes.push(AccessChange::SetDefaults { defaults });
    }
    for policy in scene.access().policies.values().flatten() {
        if !policy.roles.contains(&role) {
            continue;
        }
        let mut rest = policy.clone();
        rest.roles.retain(|one| *one != role);
        changes.push(match rest.roles.is_empty() {
            true => {
                AccessChange::DropPolicy { chronicle: policy.chronicle, name: policy.name.clone() }
            }
            false => AccessChange::PutPolicy(Box::new(rest)),
        });
    }
    Ok(AccessPlan { changes, notices: Vec::new() })
}

/// Descriptions of the objects, grants and policies that depend on a role.
pub(super) fn uses_of(scene: &Scene<'_>, role: RoleId) -> Vec<String> {
    let named = |object| {
        let (kind, name) = scene.state.object_name(object);
        format!("{kind} {name}")
    };
    let access = scene.access();
    let mut uses: BTreeSet<String> = BTreeSet::new();
    uses.extend(access.owned_by(role).map(|object| format!("owner of {}", named(object))));
    for (object, grants) in &access.grants {
        if grants.iter().any(|one| one.grantee == Some(role) || one.grantor == role) {
            uses.insert(format!("privileges for {}", named(*object)));
        }
    }
    if access.defaults().iter().any(|one| one.grantee == Some(role) || one.creator == role) {
        uses.insert("default privileges".to_string());
    }
    for policy in access.policies.values().flatten().filter(|one| one.roles.contains(&role)) {
        let table = named(Object::Chronicle(policy.chronicle));
        uses.insert(format!("target of policy {} on {table}", policy.name));
    }
    uses.into_iter().take(100).collect()
}

pub(super) fn set_defaults(
    scene: &Scene<'_>,
    (creator, schema, of_schemas): (Option<&str>, Option<Object>, bool),
    privileges: Option<&[Privilege]>,
    grantees: &[Grantee],
    (granted, grantable): (bool, bool),
) -> Result<AccessPlan> {
    let creator = match creator {
        Some(name) => scene.role(name)?.id,
        None => scene.rights.current(),
    };
    check_includes(scene, creator)?;
    let schema = match schema {
        Some(Object::Schema { database, schema }) => Some((database, schema)),
        _ => None,
    };
    let kind = match of_schemas {
        true => Object::Schema { database: 0, schema: 0 },
        false => Object::Chronicle(stratalog_model::ChronicleId(0)),
    };
    let grantable_on = Privilege::grantable_on(kind);
    let all: Vec<Privilege> =
        grantable_on.iter().copied().filter(|one| *one != Privilege::Ownership).collect();
    let privileges = privileges.unwrap_or(&all);
    if let Some(wrong) = privileges.iter().find(|one| !grantable_on.contains(one)) {
        return Err(Error::new(
            ErrorKind::InvalidGrant,
            format!(
                "invalid privilege type {} for {}",
                wrong.keyword(),
                if of_schemas { "schema" } else { "relation" }
            ),
        ));
    }
    let mut defaults = scene.access().defaults().to_vec();
    for grantee in grantees {
        let grantee = scene.grantee(grantee)?;
        for privilege in privileges {
            defaults.retain(|one| {
                (one.creator, one.schema, one.of_schemas, one.grantee, one.privilege)
                    != (creator, schema, of_schemas, grantee, *privilege)
            });
            if granted {
                defaults.push(DefaultGrant {
                    creator,
                    schema,
                    of_schemas,
                    grantee,
                    privilege: *privilege,
                    grantable,
                });
            }
        }
    }
    if defaults.len() > GRANTS_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("there can be at most {GRANTS_MAX} default privileges"),
        ));
    }
    Ok(AccessPlan::of(AccessChange::SetDefaults { defaults }))
}

/// The access list of a new object by the default privileges of its creator; `None` without any.
pub(super) fn defaults_for(
    scene: &Scene<'_>,
    creator: RoleId,
    object: Object,
    schema: Option<Object>,
) -> Option<Vec<Grant>> {
    let of_schemas = matches!(object, Object::Schema { .. });
    if !of_schemas && !matches!(object, Object::Chronicle(_)) {
        return None;
    }
    let place = match schema {
        Some(Object::Schema { database, schema }) => Some((database, schema)),
        _ => None,
    };
    let applies = |one: &&DefaultGrant| {
        one.creator == creator
            && one.of_schemas == of_schemas
            && (one.schema.is_none() || one.schema == place)
    };
    let mut grants = scene.access().grants(object).into_owned();
    let before = grants.len();
    for one in scene.access().defaults().iter().filter(applies) {
        grants.push(Grant {
            grantee: one.grantee,
            privilege: one.privilege,
            column: None,
            grantable: one.grantable,
            grantor: creator,
        });
    }
    (grants.len() > before).then_some(grants)
}
