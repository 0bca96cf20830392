//! Decided changes of roles, rights and policies, as parts of the catalog's records.

use serde::{Deserialize, Serialize};
use stratalog_model::{ChronicleId, Result};

use super::{
    AccessState, DefaultGrant, Grant, Membership, Object, Policy, Role, RoleId, RowSecurity, Token,
    TokenId,
};
use crate::catalog::misfit;

/// A decided change. Each change carries complete values, so that a replay computes nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AccessChange {
    /// Creates a role, or replaces the role with the same number.
    PutRole(Box<Role>),
    DropRole {
        id: RoleId,
    },
    /// Creates a membership, or replaces the membership of the same roles.
    PutMembership(Membership),
    DropMembership {
        role: RoleId,
        member: RoleId,
    },
    SetOwner {
        object: Object,
        owner: RoleId,
    },
    /// Replaces the access list of an object.
    SetGrants {
        object: Object,
        grants: Vec<Grant>,
    },
    /// Replaces all default privileges.
    SetDefaults {
        defaults: Vec<DefaultGrant>,
    },
    /// Creates a policy, or replaces the policy with the same name.
    PutPolicy(Box<Policy>),
    DropPolicy {
        chronicle: ChronicleId,
        name: String,
    },
    SetRowSecurity {
        chronicle: ChronicleId,
        security: RowSecurity,
    },
    /// Creates a token, or replaces the token with the same number.
    PutToken(Box<Token>),
    DropToken {
        id: TokenId,
    },
    /// From now on, every client must log in.
    Protect,
    /// The chronicle is the audit log.
    SetAudit {
        chronicle: ChronicleId,
    },
}

impl AccessState {
    /// Applies a change.
    ///
    /// # Errors
    /// `DataCorrupted` if the change does not fit the state; the change may be partly applied.
    pub(crate) fn apply(&mut self, change: &AccessChange) -> Result<()> {
        match change {
            AccessChange::PutRole(role) => self.put_role(role.as_ref().clone()),
            AccessChange::DropRole { id } => {
                if self.remove_role(*id).is_none() {
                    return Err(misfit(format!("role {} does not exist", id.0)));
                }
            }
            AccessChange::PutMembership(membership) => {
                let same = |one: &Membership| {
                    (one.role, one.member) == (membership.role, membership.member)
                };
                self.memberships.retain(|one| !same(one));
                self.memberships.push(membership.clone());
            }
            AccessChange::DropMembership { role, member } => {
                self.memberships.retain(|one| (one.role, one.member) != (*role, *member));
            }
            AccessChange::SetOwner { object, owner } => {
                self.owners.insert(*object, *owner);
            }
            AccessChange::SetGrants { object, grants } => {
                self.grants.insert(*object, grants.clone());
            }
            AccessChange::SetDefaults { defaults } => self.defaults.clone_from(defaults),
            AccessChange::PutPolicy(policy) => {
                let policies = self.policies.entry(policy.chronicle).or_default();
                policies.retain(|one| one.name != policy.name);
                policies.push(policy.as_ref().clone());
                policies.sort_by(|left, right| left.name.cmp(&right.name));
            }
            AccessChange::DropPolicy { chronicle, name } => {
                if let Some(policies) = self.policies.get_mut(chronicle) {
                    policies.retain(|one| one.name != *name);
                }
            }
            AccessChange::SetRowSecurity { chronicle, security } => {
                self.row_security.insert(*chronicle, *security);
            }
            AccessChange::PutToken(token) => {
                self.next_token = self.next_token.max(token.id.0.saturating_add(1));
                if let Some(before) = self.tokens.insert(token.id, token.as_ref().clone()) {
                    self.tokens_by_hash.remove(&before.hash);
                }
                self.tokens_by_hash.insert(token.hash.clone(), token.id);
            }
            AccessChange::DropToken { id } => {
                if let Some(token) = self.tokens.remove(id) {
                    self.tokens_by_hash.remove(&token.hash);
                }
            }
            AccessChange::Protect => self.protected = true,
            AccessChange::SetAudit { chronicle } => self.audit = Some(*chronicle),
        }
        Ok(())
    }
}
