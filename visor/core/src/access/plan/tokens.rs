//! Tokens.

use stratalog_model::{Error, ErrorKind, Result};

use super::{AccessPlan, Scene};
use crate::{
    access::{Object, Privilege, RoleId, Token, TokenScope, change::AccessChange},
    catalog::name,
};

/// Maximum number of tokens, which limits the catalog's memory.
const TOKENS_MAX: usize = 100_000;

/// The length of a hash in hexadecimal digits.
const HASH_DIGITS: usize = 64;

/// Checks that the actor may create and revoke tokens of a role: its own tokens, or all tokens for
/// a role that may create roles. Only superusers manage tokens of superusers.
fn check_manages(scene: &Scene<'_>, role: RoleId) -> Result<()> {
    if !scene.rights.scope_allows_all() {
        return Err(scene.deny("permission denied: a token with a limited scope manages no tokens"));
    }
    if scene.rights.is_superuser() || scene.rights.current() == role {
        return Ok(());
    }
    scene.need(Privilege::CreateRole, Object::Server)?;
    if scene.access().is_superuser(role) {
        let name = scene.access().role_name(role);
        return Err(
            scene.deny(format!("only a superuser can manage tokens of superuser \"{name}\""))
        );
    }
    let has_admin = scene
        .access()
        .memberships()
        .iter()
        .any(|one| one.role == role && one.admin && scene.rights.includes(one.member));
    match has_admin {
        true => Ok(()),
        false => Err(scene.deny(format!(
            "permission denied: tokens of role \"{}\" need the admin option on the role",
            scene.access().role_name(role)
        ))),
    }
}

pub(super) fn create(
    scene: &Scene<'_>,
    token_name: &str,
    role: &str,
    (hash, scope, expires_ns): (&str, TokenScope, Option<i64>),
) -> Result<AccessPlan> {
    name::check("token", token_name)?;
    let role = scene.role(role)?;
    check_manages(scene, role.id)?;
    if !role.attributes.login {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("role \"{}\" may not log in, so it can have no token", role.name),
        )
        .with_hint(format!("ALTER ROLE {} LOGIN", role.name)));
    }
    if scene.access().tokens().any(|one| one.role == role.id && one.name == token_name) {
        return Err(Error::new(
            ErrorKind::DuplicateObject,
            format!("token \"{token_name}\" of role \"{}\" already exists", role.name),
        ));
    }
    if scene.access().tokens().count() >= TOKENS_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("the maximum number of tokens, {TOKENS_MAX}, is reached"),
        ));
    }
    let is_hash = hash.len() == HASH_DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hash || scene.access().token_by_hash(hash).is_some() {
        return Err(Error::internal("a token has no usable hash"));
    }
    if expires_ns.is_some_and(|end| end <= scene.now_ns) {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            "the token would expire before its creation",
        ));
    }
    let token = Token {
        id: scene.access().next_token(),
        name: token_name.to_string(),
        role: role.id,
        hash: hash.to_string(),
        scope,
        created_ns: scene.now_ns,
        expires_ns,
        used_ns: None,
    };
    Ok(AccessPlan::of(AccessChange::PutToken(Box::new(token))))
}

pub(super) fn drop(scene: &Scene<'_>, token_name: &str, role: &str) -> Result<AccessPlan> {
    let role = scene.role(role)?;
    check_manages(scene, role.id)?;
    let found = scene.access().tokens().find(|one| one.role == role.id && one.name == token_name);
    let found = found.ok_or_else(|| {
        Error::new(
            ErrorKind::UndefinedObject,
            format!("token \"{token_name}\" of role \"{}\" does not exist", role.name),
        )
    })?;
    Ok(AccessPlan::of(AccessChange::DropToken { id: found.id }))
}

pub(super) fn used(scene: &Scene<'_>, hash: &str, used_ns: i64) -> AccessPlan {
    match scene.access().token_by_hash(hash) {
        Some(token) => {
            let token = Token { used_ns: token.used_ns.max(Some(used_ns)), ..token.clone() };
            AccessPlan::of(AccessChange::PutToken(Box::new(token)))
        }
        // The token was revoked in the meantime.
        None => AccessPlan::default(),
    }
}
