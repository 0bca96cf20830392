//! Computes the changes of an access command: pure functions that check the actor's rights first.

mod grants;
mod list;
mod policies;
mod roles;
mod tokens;

use stratalog_model::{ChronicleDefinition, ColumnId, Error, ErrorKind, Result};

use super::{
    AccessCommand, AccessState, Grant, Grantee, Identity, Object, Policy, Privilege, Rights, Role,
    RoleId, RowSecurity, change::AccessChange, decision::Columns,
};
use crate::catalog::CatalogState;

/// A planned access command: changes, and notices for the client.
#[derive(Debug, Default)]
pub(crate) struct AccessPlan {
    pub(crate) changes: Vec<AccessChange>,
    pub(crate) notices: Vec<String>,
}

impl AccessPlan {
    fn of(change: AccessChange) -> Self {
        Self { changes: vec![change], notices: Vec::new() }
    }

    fn nothing(notice: String) -> Self {
        Self { changes: Vec::new(), notices: vec![notice] }
    }
}

/// The state, the actor and the time of a command.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) state: &'a CatalogState,
    pub(crate) rights: Rights<'a>,
    pub(crate) now_ns: i64,
}

impl<'a> Scene<'a> {
    /// The scene of an actor.
    ///
    /// # Errors
    /// `InvalidAuthorization` if the actor's identity is no longer valid.
    pub(crate) fn of(state: &'a CatalogState, actor: &Identity, now_ns: i64) -> Result<Self> {
        Ok(Self { state, rights: state.access().rights(actor, now_ns)?, now_ns })
    }

    fn access(&self) -> &'a AccessState {
        self.state.access()
    }

    fn role(&self, name: &str) -> Result<&'a Role> {
        self.access().role_named(name).ok_or_else(|| unknown_role(name))
    }

    fn grantee(&self, name: &Grantee) -> Result<Option<RoleId>> {
        name.as_deref().map(|name| Ok(self.role(name)?.id)).transpose()
    }

    pub(crate) fn need(&self, privilege: Privilege, object: Object) -> Result<()> {
        self.state.check(&self.rights, privilege, object, Columns::All)
    }

    /// Checks that the actor may act as a role, which gets an object.
    fn need_membership(&self, role: RoleId) -> Result<()> {
        let current = self.rights.current();
        let may = self.rights.is_superuser() || self.access().may_become(current, role);
        match may && self.rights.scope_allows_all() {
            true => Ok(()),
            false => Err(self
                .deny(format!("must be member of role \"{}\"", self.access().role_name(role)))),
        }
    }

    fn deny(&self, message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InsufficientPrivilege, message)
    }
}

/// Plans one access command.
///
/// # Errors
/// `InsufficientPrivilege`; PostgreSQL's errors for missing, existing and used objects.
pub(crate) fn plan(scene: &Scene<'_>, command: &AccessCommand) -> Result<AccessPlan> {
    use AccessCommand as C;
    match command {
        C::CreateRole { name, options, member_of, members, admins, if_not_exists } => {
            roles::create(scene, name, options, (member_of, members, admins), *if_not_exists)
        }
        C::AlterRole { name, options } => roles::alter(scene, name, options),
        C::RenameRole { from, to } => roles::rename(scene, from, to),
        C::SetRoleSetting { name, setting, value } => {
            roles::set(scene, name, setting.as_deref(), value.as_deref())
        }
        C::CommentOnRole { name, comment } => roles::comment(scene, name, comment.as_deref()),
        C::DropRole { name, if_exists } => roles::drop(scene, name, *if_exists),
        C::GrantRole { role, member, admin } => roles::grant(scene, role, member, *admin),
        C::RevokeRole { role, member, admin_only } => {
            roles::revoke(scene, role, member, *admin_only)
        }
        C::Grant { privileges, objects, grantees, grantable } => {
            grants::grant(scene, privileges, objects, grantees, *grantable)
        }
        C::Revoke { privileges, objects, grantees, grant_option_only, cascade } => {
            grants::revoke(scene, privileges, objects, grantees, (*grant_option_only, *cascade))
        }
        C::SetOwner { object, owner } => grants::set_owner(scene, *object, owner),
        C::ReassignOwned { from, to } => grants::reassign(scene, from, to),
        C::DropOwned { name } => grants::drop_owned(scene, name),
        C::SetDefaults {
            creator,
            schema,
            of_schemas,
            privileges,
            grantees,
            granted,
            grantable,
        } => grants::set_defaults(
            scene,
            (creator.as_deref(), *schema, *of_schemas),
            privileges.as_deref(),
            grantees,
            (*granted, *grantable),
        ),
        C::CreatePolicy { policy, roles } => policies::create(scene, policy, roles),
        C::AlterPolicy { .. } => policies::alter(scene, command),
        C::DropPolicy { chronicle, name, if_exists } => {
            policies::drop(scene, *chronicle, name, *if_exists)
        }
        C::SetRowSecurity { chronicle, enabled, forced } => {
            policies::set_row_security(scene, *chronicle, *enabled, *forced)
        }
        C::CreateToken { name, role, hash, scope, expires_ns } => {
            tokens::create(scene, name, role, (hash, *scope, *expires_ns))
        }
        C::DropToken { name, role } => tokens::drop(scene, name, role),
        C::UseToken { hash, used_ns } => Ok(tokens::used(scene, hash, *used_ns)),
    }
}

/// The changes that give a new object to its creator, or to another owner: the owner, and default
/// privileges.
///
/// # Errors
/// `UndefinedObject` for an unknown owner; `InsufficientPrivilege` if the actor cannot act as the
/// owner.
pub(crate) fn adopt(
    scene: &Scene<'_>,
    object: Object,
    schema: Option<Object>,
    owner: Option<&str>,
) -> Result<Vec<AccessChange>> {
    let creator = match owner {
        Some(name) => {
            let owner = scene.role(name)?.id;
            scene.need_membership(owner)?;
            owner
        }
        None => scene.rights.current(),
    };
    let mut changes = Vec::new();
    if creator != RoleId::FOUNDER {
        changes.push(AccessChange::SetOwner { object, owner: creator });
    }
    if let Some(grants) = grants::defaults_for(scene, creator, object, schema) {
        changes.push(AccessChange::SetGrants { object, grants });
    }
    Ok(changes)
}

/// The changes that give the rights on a replaced chronicle to its replacement, which has columns of
/// the same names under other ids.
pub(crate) fn inherit(
    access: &AccessState,
    from: &ChronicleDefinition,
    to: &ChronicleDefinition,
) -> Vec<AccessChange> {
    let (old, new) = (Object::Chronicle(from.id), Object::Chronicle(to.id));
    let mut changes = vec![AccessChange::SetOwner { object: new, owner: access.owner(old) }];
    if access.has_own_grants(old) {
        let column_of = |id: ColumnId| {
            let name = &from.columns.iter().find(|column| column.id == id)?.name;
            Some(to.column_named(name)?.id)
        };
        let renumbered = |grant: Grant| match grant.column {
            Some(column) => Some(Grant { column: Some(column_of(column)?), ..grant }),
            None => Some(grant),
        };
        let grants = access.grants(old).into_owned().into_iter().filter_map(renumbered).collect();
        changes.push(AccessChange::SetGrants { object: new, grants });
    }
    for policy in access.policies(from.id) {
        let policy = Policy { chronicle: to.id, ..policy.clone() };
        changes.push(AccessChange::PutPolicy(Box::new(policy)));
    }
    let security = access.row_security(from.id);
    if security != RowSecurity::default() {
        changes.push(AccessChange::SetRowSecurity { chronicle: to.id, security });
    }
    changes
}

pub(crate) fn unknown_role(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedObject, format!("role \"{name}\" does not exist"))
}
