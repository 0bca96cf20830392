//! The decision: may this identity do this with this object?

use std::collections::BTreeSet;

use stratalog_model::{ChronicleDefinition, ChronicleId, ColumnId, Error, ErrorKind, Result};

use super::{
    AccessState, Identity, Object, PolicyCommand, Predefined, Privilege, RoleId, RowPolicies,
    TokenId, TokenScope,
};
use crate::catalog::CatalogState;

/// The columns that a request touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns<'a> {
    /// The object as a whole. For a read: a system column, or everything.
    All,
    /// Some columns. An empty list is a read that needs no column, such as `count(*)`: the
    /// privilege on any column is enough.
    Some(&'a [ColumnId]),
}

/// The rights of one identity in one state: computed once, asked many times.
#[derive(Debug, Clone)]
pub struct Rights<'a> {
    access: &'a AccessState,
    /// `None`: every right, within the scope.
    roles: Option<BTreeSet<RoleId>>,
    current: RoleId,
    session: RoleId,
    scope: Option<TokenScope>,
}

impl AccessState {
    /// The rights of an identity.
    ///
    /// # Errors
    /// `InvalidAuthorization` if the identity is no longer valid: the role was dropped, the token
    /// was revoked or has expired at `now_ns`, or the server needs a login since its first
    /// password.
    pub fn rights(&self, identity: &Identity, now_ns: i64) -> Result<Rights<'_>> {
        let (current, session) = (identity.current(), identity.session());
        let every = |scope| Rights { access: self, roles: None, current, session, scope };
        let roles = match identity {
            Identity::System => return Ok(every(None)),
            Identity::Trusted if self.protected => {
                return Err(refused(
                    "the server requires a login since its first password was set",
                )
                .with_hint("connect again with a role and its password"));
            }
            Identity::Trusted => return Ok(every(None)),
            Identity::Role(roles) => roles,
        };
        if roles.expires_ns.is_some_and(|end| end <= now_ns) {
            return Err(refused("the login has expired").with_hint("log in again"));
        }
        if self.role(roles.session).is_none() || self.role(roles.current).is_none() {
            return Err(refused("the role of the session was dropped"));
        }
        let scope = match roles.token {
            Some((id, scope)) => {
                self.check_token(id, now_ns)?;
                Some(scope)
            }
            None => None,
        };
        if roles.current != roles.session && !self.may_become(roles.session, roles.current) {
            return Err(refused("the session's membership in its current role was revoked")
                .with_hint("connect again"));
        }
        if self.is_superuser(roles.current) {
            return Ok(every(scope));
        }
        let held = self.roles_of(roles.current, true);
        Ok(Rights { access: self, roles: Some(held), current, session, scope })
    }

    fn check_token(&self, id: TokenId, now_ns: i64) -> Result<()> {
        let token = self.token(id).ok_or_else(|| refused("the token was revoked"))?;
        match token.expires_ns {
            Some(end) if end <= now_ns => Err(refused("the token has expired")
                .with_hint("create a new token: CALL stratalog.create_token(…)")),
            _ => Ok(()),
        }
    }
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::InvalidAuthorization, message)
}

impl Rights<'_> {
    /// True if no right is missing: a superuser without a token's limits.
    pub fn is_unlimited(&self) -> bool {
        self.roles.is_none() && self.scope_allows_all()
    }

    /// True if the identity may know of all chronicles.
    pub fn sees_everything(&self) -> bool {
        let all = [Predefined::MONITOR, Predefined::READ_ALL, Predefined::WRITE_ALL];
        self.roles.is_none() || all.iter().any(|role| self.includes(*role))
    }

    /// True if the identity is a superuser, within the scope of a token.
    pub fn is_superuser(&self) -> bool {
        self.roles.is_none()
    }

    /// True if no token limits the rights.
    pub fn scope_allows_all(&self) -> bool {
        self.scope.is_none_or(|scope| scope == TokenScope::All)
    }

    /// The role whose rights count.
    pub fn current(&self) -> RoleId {
        self.current
    }

    /// The authenticated role.
    pub fn session(&self) -> RoleId {
        self.session
    }

    /// True if the identity has the rights of a role.
    pub fn includes(&self, role: RoleId) -> bool {
        self.roles.as_ref().is_none_or(|roles| roles.contains(&role))
    }

    /// True if the identity has the rights of the object's owner, without regard to the scope of a
    /// token: a decision about an action asks [`Self::has`]. The audit log has no owner: a role
    /// cannot remove the records of the role's own actions.
    pub fn owns(&self, object: Object) -> bool {
        !self.is_audit(object) && self.includes(self.access.owner(object))
            || self.holds(Privilege::Ownership, object, None)
    }

    /// True if the identity may add columns to a chronicle: as owner, also with a token for writes,
    /// because line protocol adds the columns of new fields.
    pub(crate) fn may_add_columns(&self, chronicle: ChronicleId) -> bool {
        let scope = self.scope.is_none_or(|scope| scope.allows(Privilege::Insert));
        scope && self.owns(Object::Chronicle(chronicle))
    }

    /// True if the identity has the privilege on the object. Grants on columns count only for
    /// [`Columns::Some`].
    pub fn has(&self, privilege: Privilege, object: Object, columns: Columns<'_>) -> bool {
        if self.is_audit(object) && !matches!(privilege, Privilege::Select | Privilege::Subscribe) {
            return false;
        }
        if !self.scope.is_none_or(|scope| scope.allows(privilege)) {
            return false;
        }
        if self.roles.is_none() || self.has_by_predefined_role(privilege, object) {
            return true;
        }
        if object != Object::Server && self.owns(object) {
            return true;
        }
        if self.holds(privilege, object, None) {
            return true;
        }
        match columns {
            Columns::All => false,
            Columns::Some([]) => self.holds_on_any_column(privilege, object),
            Columns::Some(columns) => {
                columns.iter().all(|column| self.holds(privilege, object, Some(*column)))
            }
        }
    }

    fn is_audit(&self, object: Object) -> bool {
        self.access.audit.is_some_and(|audit| object == Object::Chronicle(audit))
    }

    /// True if a grant to the identity, or to PUBLIC, allows the privilege.
    fn holds(&self, privilege: Privilege, object: Object, column: Option<ColumnId>) -> bool {
        self.any_grant(object, |one| one == privilege, |on| on == column)
    }

    fn holds_on_any_column(&self, privilege: Privilege, object: Object) -> bool {
        self.any_grant(object, |one| one == privilege, |_| true)
    }

    fn any_grant(
        &self,
        object: Object,
        privilege: impl Fn(Privilege) -> bool,
        column: impl Fn(Option<ColumnId>) -> bool,
    ) -> bool {
        self.access.grants(object).iter().any(|grant| {
            privilege(grant.privilege)
                && column(grant.column)
                && grant.grantee.is_none_or(|grantee| self.includes(grantee))
        })
    }

    fn has_by_predefined_role(&self, privilege: Privilege, object: Object) -> bool {
        let member = |role| self.includes(role);
        let attributes = self.access.role(self.current).map(|role| &role.attributes);
        match privilege {
            Privilege::Select | Privilege::Subscribe if self.is_audit(object) => {
                member(Predefined::AUDIT)
            }
            Privilege::Select | Privilege::Subscribe => member(Predefined::READ_ALL),
            Privilege::Insert | Privilege::Delete => member(Predefined::WRITE_ALL),
            Privilege::Usage => {
                matches!(object, Object::Schema { .. })
                    && (member(Predefined::READ_ALL) || member(Predefined::WRITE_ALL))
            }
            Privilege::Monitor => member(Predefined::MONITOR),
            Privilege::Signal => member(Predefined::SIGNAL),
            Privilege::BackUp => member(Predefined::BACKUP),
            Privilege::Administer => member(Predefined::ADMINISTER),
            Privilege::ReadAudit => member(Predefined::AUDIT),
            Privilege::CreateRole => attributes.is_some_and(|has| has.create_role),
            Privilege::CreateDatabase => attributes.is_some_and(|has| has.create_database),
            _ => false,
        }
    }

    /// True if the identity may know that a chronicle exists: it may use the schema, and has any
    /// privilege on the chronicle or on one of its columns. Members of `pg_monitor` know all
    /// chronicles.
    pub fn may_see(&self, chronicle: &ChronicleDefinition, schema: Object) -> bool {
        let object = Object::Chronicle(chronicle.id);
        self.sees_everything()
            || self.owns(object)
            || self.has(Privilege::Usage, schema, Columns::All)
                && self.any_grant(object, |_| true, |_| true)
    }

    /// True if the identity may know the number, times and sizes of all rows of a chronicle: it may
    /// read every column of every row, or is a member of `pg_monitor`.
    pub fn may_count(&self, chronicle: ChronicleId) -> bool {
        self.has(Privilege::Monitor, Object::Server, Columns::All)
            || self.has(Privilege::Select, Object::Chronicle(chronicle), Columns::All)
                && self.row_policies(chronicle, PolicyCommand::Select).is_none()
    }

    /// The row policies that apply to the identity; `None` if the identity may read or append every
    /// row.
    pub fn row_policies(
        &self,
        chronicle: ChronicleId,
        command: PolicyCommand,
    ) -> Option<RowPolicies> {
        let security = self.access.row_security(chronicle);
        if !security.enabled || self.roles.is_none() {
            return None;
        }
        let bypasses =
            self.access.role(self.current).is_some_and(|role| role.attributes.bypass_row_security);
        if bypasses || self.owns(Object::Chronicle(chronicle)) && !security.forced {
            return None;
        }
        let mut policies = RowPolicies::default();
        for policy in self.access.policies(chronicle) {
            let applies = policy.command == PolicyCommand::All || policy.command == command;
            let to_me =
                policy.roles.is_empty() || policy.roles.iter().any(|role| self.includes(*role));
            if !applies || !to_me {
                continue;
            }
            let check = policy.check_sql.as_ref().filter(|_| command == PolicyCommand::Insert);
            let text = check.or(policy.using_sql.as_ref());
            let text = text.cloned().unwrap_or_else(|| "true".to_string());
            match policy.permissive {
                true => policies.any.push(text),
                false => policies.all.push(text),
            }
        }
        Some(policies)
    }
}

impl CatalogState {
    /// The decision point of all protocols and statements: checks that an identity may use a
    /// privilege on an object.
    ///
    /// # Errors
    /// `InvalidAuthorization` if the identity is no longer valid. `InsufficientPrivilege` without
    /// the privilege. If the identity may not even know of the object, the error is the error for
    /// an object that does not exist.
    pub fn authorize(
        &self,
        identity: &Identity,
        privilege: Privilege,
        object: Object,
        columns: Columns<'_>,
        now_ns: i64,
    ) -> Result<()> {
        let rights = self.access().rights(identity, now_ns)?;
        self.check(&rights, privilege, object, columns)
    }

    /// Like [`Self::authorize`], for rights that are already computed.
    ///
    /// # Errors
    /// As [`Self::authorize`].
    pub fn check(
        &self,
        rights: &Rights<'_>,
        privilege: Privilege,
        object: Object,
        columns: Columns<'_>,
    ) -> Result<()> {
        let allowed = match privilege {
            Privilege::Ownership => {
                rights.scope.is_none_or(|scope| scope.allows(privilege)) && rights.owns(object)
            }
            _ => rights.has(privilege, object, columns),
        };
        if allowed {
            return Ok(());
        }
        if let Object::Chronicle(id) = object
            && let Some(chronicle) = self.chronicle_by_id(id)
            && !self.is_visible(rights, chronicle)
        {
            return Err(unknown_relation(&chronicle.name));
        }
        Err(self.denied(rights, privilege, object))
    }

    /// True if the rights' identity may know that a chronicle exists.
    pub fn is_visible(&self, rights: &Rights<'_>, chronicle: &ChronicleDefinition) -> bool {
        let schema = self.schema_object(&chronicle.database, &chronicle.schema);
        schema.is_some_and(|schema| rights.may_see(chronicle, schema))
    }

    /// The object of a database, by name.
    pub fn database_object(&self, database: &str) -> Option<Object> {
        self.database(database).map(|found| Object::Database(found.oid))
    }

    /// The object of a schema, by names.
    pub fn schema_object(&self, database: &str, schema: &str) -> Option<Object> {
        let database_oid = self.database(database)?.oid;
        let schema = self.schema(database, schema)?.oid;
        Some(Object::Schema { database: database_oid, schema })
    }

    /// The kind and the name of an object, for messages.
    pub fn object_name(&self, object: Object) -> (&'static str, String) {
        let database_name =
            |oid| self.databases().find(|one| one.oid == oid).map(|one| one.name.clone());
        match object {
            Object::Server => ("server", String::new()),
            Object::Database(oid) => ("database", database_name(oid).unwrap_or_default()),
            Object::Schema { database, schema } => {
                let named = database_name(database).and_then(|database| {
                    let found = self.schemas(&database).find(|one| one.oid == schema);
                    found.map(|one| one.name.clone())
                });
                ("schema", named.unwrap_or_default())
            }
            Object::Chronicle(id) => {
                ("table", self.chronicle_by_id(id).map(|one| one.name.clone()).unwrap_or_default())
            }
        }
    }

    fn denied(&self, rights: &Rights<'_>, privilege: Privilege, object: Object) -> Error {
        let role = self.access().role_name(rights.current);
        let error = |message: String| Error::new(ErrorKind::InsufficientPrivilege, message);
        if rights.scope.is_some_and(|scope| !scope.allows(privilege)) {
            let scope = rights.scope.map_or("all", TokenScope::keyword);
            return error(format!(
                "permission denied: the token's scope is {scope}, which excludes {}",
                privilege.keyword()
            ))
            .with_hint("use a token with a wider scope");
        }
        if object == Object::Server {
            let by = match privilege {
                Privilege::Monitor => "membership in pg_monitor",
                Privilege::Signal => "membership in pg_signal_backend",
                Privilege::BackUp => "membership in stratalog_backup",
                Privilege::Administer => "membership in stratalog_administer",
                Privilege::ReadAudit => "membership in stratalog_audit",
                Privilege::CreateRole => "the attribute CREATEROLE",
                Privilege::CreateDatabase => "the attribute CREATEDB",
                _ => "the attribute SUPERUSER",
            };
            return error(format!("permission denied: role \"{role}\" lacks {by}"))
                .with_hint("a superuser can grant it: GRANT … TO …, or ALTER ROLE …");
        }
        let (kind, name) = self.object_name(object);
        if privilege == Privilege::Ownership {
            return error(format!("must be owner of {kind} {name}"));
        }
        let keyword = privilege.keyword();
        error(format!("permission denied for {kind} {name}"))
            .with_detail(format!(
                "role \"{role}\" lacks the privilege {keyword}, or has it only for some columns"
            ))
            .with_hint(format!(
                "the owner can grant it: GRANT {keyword} ON {} {name} TO {role}",
                kind.to_ascii_uppercase()
            ))
    }
}

/// The error for a relation that does not exist, or that the identity may not know of.
pub fn unknown_relation(name: &str) -> Error {
    Error::new(ErrorKind::UndefinedTable, format!("relation \"{name}\" does not exist"))
}
