//! All roles, rights, policies and tokens at one instant.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use stratalog_model::ChronicleId;

use super::{
    DefaultGrant, FOUNDER_NAME, Grant, Membership, Object, PREDEFINED, Policy, Privilege, Role,
    RoleAttributes, RoleId, RowSecurity, Token, TokenId,
};

/// Oid of schema `public`, in each database.
pub(crate) const OID_PUBLIC: u32 = 2_200;

/// The roles, rights, policies and tokens of a catalog state.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessState {
    /// True from the first password on: every client must log in.
    pub(crate) protected: bool,
    /// The audit log, once it exists.
    pub(crate) audit: Option<ChronicleId>,
    roles: BTreeMap<RoleId, Role>,
    by_name: BTreeMap<String, RoleId>,
    next_role: RoleId,
    pub(crate) memberships: Vec<Membership>,
    /// Owners other than the founder.
    pub(crate) owners: BTreeMap<Object, RoleId>,
    /// Access lists that differ from the default list of their object.
    pub(crate) grants: BTreeMap<Object, Vec<Grant>>,
    pub(crate) defaults: Vec<DefaultGrant>,
    pub(crate) policies: BTreeMap<ChronicleId, Vec<Policy>>,
    pub(crate) row_security: BTreeMap<ChronicleId, RowSecurity>,
    pub(crate) tokens: BTreeMap<TokenId, Token>,
    pub(crate) tokens_by_hash: BTreeMap<String, TokenId>,
    pub(crate) next_token: u32,
}

impl AccessState {
    /// The state of a new data directory: the founder and the predefined roles.
    pub(crate) fn genesis() -> Self {
        let mut state = Self {
            protected: false,
            audit: None,
            roles: BTreeMap::new(),
            by_name: BTreeMap::new(),
            next_role: RoleId::FIRST,
            memberships: Vec::new(),
            owners: BTreeMap::new(),
            grants: BTreeMap::new(),
            defaults: Vec::new(),
            policies: BTreeMap::new(),
            row_security: BTreeMap::new(),
            tokens: BTreeMap::new(),
            tokens_by_hash: BTreeMap::new(),
            next_token: 1,
        };
        let founder = RoleAttributes {
            superuser: true,
            create_role: true,
            create_database: true,
            login: true,
            bypass_row_security: true,
            ..RoleAttributes::default()
        };
        let predefined = PREDEFINED.iter().map(|(id, name, _)| (*id, *name));
        for (id, name) in [(RoleId::FOUNDER, FOUNDER_NAME)].into_iter().chain(predefined) {
            let attributes = match id {
                RoleId::FOUNDER => founder.clone(),
                _ => RoleAttributes::default(),
            };
            state.put_role(Role {
                id,
                name: name.to_string(),
                attributes,
                password: None,
                settings: Vec::new(),
                comment: None,
            });
        }
        state
    }

    /// True from the first password on: every client must log in.
    pub fn is_protected(&self) -> bool {
        self.protected
    }

    /// The chronicle of the audit log; `None` before the first record.
    pub fn audit(&self) -> Option<ChronicleId> {
        self.audit
    }

    /// All roles, by number.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// The role with a number.
    pub fn role(&self, id: RoleId) -> Option<&Role> {
        self.roles.get(&id)
    }

    /// The role with a name.
    pub fn role_named(&self, name: &str) -> Option<&Role> {
        self.by_name.get(name).and_then(|id| self.roles.get(id))
    }

    /// The name of a role, or its number if the role does not exist.
    pub fn role_name(&self, id: RoleId) -> String {
        self.role(id).map_or_else(|| id.0.to_string(), |role| role.name.clone())
    }

    /// All memberships.
    pub fn memberships(&self) -> &[Membership] {
        &self.memberships
    }

    /// The owner of an object.
    pub fn owner(&self, object: Object) -> RoleId {
        self.owners.get(&object).copied().unwrap_or(RoleId::FOUNDER)
    }

    /// The objects that a role owns, besides the founder's objects without a record.
    pub fn owned_by(&self, role: RoleId) -> impl Iterator<Item = Object> {
        self.owners.iter().filter(move |(_, owner)| **owner == role).map(|(object, _)| *object)
    }

    /// The access list of an object, without the owner's own rights.
    pub fn grants(&self, object: Object) -> Cow<'_, [Grant]> {
        match self.grants.get(&object) {
            Some(grants) => Cow::Borrowed(grants),
            None => Cow::Owned(default_grants(object)),
        }
    }

    /// True if the access list of an object differs from its default list.
    pub fn has_own_grants(&self, object: Object) -> bool {
        self.grants.contains_key(&object)
    }

    /// All default privileges.
    pub fn defaults(&self) -> &[DefaultGrant] {
        &self.defaults
    }

    /// The policies of a chronicle, sorted by name.
    pub fn policies(&self, chronicle: ChronicleId) -> &[Policy] {
        self.policies.get(&chronicle).map_or(&[], Vec::as_slice)
    }

    /// Whether row policies apply to a chronicle.
    pub fn row_security(&self, chronicle: ChronicleId) -> RowSecurity {
        self.row_security.get(&chronicle).copied().unwrap_or_default()
    }

    /// All tokens, by number.
    pub fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.tokens.values()
    }

    /// The token with a number.
    pub fn token(&self, id: TokenId) -> Option<&Token> {
        self.tokens.get(&id)
    }

    /// The token with a hash. The lookup compares hashes of secrets, so its time tells nothing.
    pub fn token_by_hash(&self, hash: &str) -> Option<&Token> {
        self.tokens_by_hash.get(hash).and_then(|id| self.tokens.get(id))
    }

    /// The number that the next new role gets.
    pub(crate) fn next_role(&self) -> RoleId {
        self.next_role
    }

    /// The number that the next new token gets.
    pub(crate) fn next_token(&self) -> TokenId {
        TokenId(self.next_token)
    }

    pub(crate) fn put_role(&mut self, role: Role) {
        self.next_role = self.next_role.max(RoleId(role.id.0.saturating_add(1)));
        if let Some(before) = self.roles.get(&role.id) {
            self.by_name.remove(&before.name);
        }
        self.by_name.insert(role.name.clone(), role.id);
        self.roles.insert(role.id, role);
        debug_assert_eq!(self.roles.len(), self.by_name.len(), "two roles have one name");
    }

    /// Removes a role with its memberships, grants, default privileges and tokens.
    pub(crate) fn remove_role(&mut self, id: RoleId) -> Option<Role> {
        let role = self.roles.remove(&id)?;
        self.by_name.remove(&role.name);
        self.memberships.retain(|one| one.role != id && one.member != id);
        self.defaults.retain(|one| one.creator != id && one.grantee != Some(id));
        for grants in self.grants.values_mut() {
            grants.retain(|one| one.grantee != Some(id));
        }
        for policies in self.policies.values_mut() {
            // A policy without roles would apply to PUBLIC.
            policies.retain(|one| one.roles.is_empty() || one.roles.iter().any(|role| *role != id));
            for policy in policies.iter_mut() {
                policy.roles.retain(|role| *role != id);
            }
        }
        let tokens: Vec<TokenId> =
            self.tokens.values().filter(|token| token.role == id).map(|token| token.id).collect();
        for token in tokens {
            if let Some(token) = self.tokens.remove(&token) {
                self.tokens_by_hash.remove(&token.hash);
            }
        }
        Some(role)
    }

    /// Removes what is known about a dropped object.
    pub(crate) fn forget(&mut self, object: Object) {
        self.owners.remove(&object);
        self.grants.remove(&object);
        if let Object::Chronicle(id) = object {
            self.policies.remove(&id);
            self.row_security.remove(&id);
        }
        if let Object::Schema { database, schema } = object {
            self.defaults.retain(|one| one.schema != Some((database, schema)));
        }
    }

    /// The role itself and all roles of which the role is a member, directly or indirectly. If
    /// `inherited` is true, only memberships whose rights the role has without SET ROLE count.
    pub fn roles_of(&self, role: RoleId, inherited: bool) -> BTreeSet<RoleId> {
        let mut all = BTreeSet::from([role]);
        let mut open = vec![role];
        while let Some(member) = open.pop() {
            let inherits = self.role(member).is_some_and(|role| role.attributes.inherit);
            if inherited && !inherits {
                continue;
            }
            for one in self.memberships.iter().filter(|one| one.member == member) {
                if all.insert(one.role) {
                    open.push(one.role);
                }
            }
        }
        all
    }

    /// True if `role` may act as `wanted`: the same role, a member, or a superuser.
    pub fn may_become(&self, role: RoleId, wanted: RoleId) -> bool {
        self.is_superuser(role) || self.roles_of(role, false).contains(&wanted)
    }

    /// True if the role exists and is a superuser.
    pub fn is_superuser(&self, role: RoleId) -> bool {
        self.role(role).is_some_and(|role| role.attributes.superuser)
    }
}

/// The access list of an object before the first GRANT or REVOKE, as in PostgreSQL 15: everybody
/// may connect to each database, and look up objects in schema `public`.
fn default_grants(object: Object) -> Vec<Grant> {
    let public = |privilege| Grant {
        grantee: None,
        privilege,
        column: None,
        grantable: false,
        grantor: RoleId::FOUNDER,
    };
    match object {
        Object::Database(_) => vec![public(Privilege::Connect)],
        Object::Schema { schema: OID_PUBLIC, .. } => vec![public(Privilege::Usage)],
        _ => Vec::new(),
    }
}
