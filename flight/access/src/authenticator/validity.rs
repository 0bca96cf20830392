//! The validity of logins that last longer than a call, such as the tokens of Flight's Handshake.

use stratalog_model::{Error, ErrorKind, Result};
use stratalog_visor_core::access::{Identity, RoleId, Verifier};

use super::Authenticator;

/// The state of a role at a login: a login ends when the role's password changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginStamp(Option<(RoleId, Option<Verifier>)>);

impl Authenticator {
    /// The stamp of a new login.
    pub fn stamp(&self, identity: &Identity) -> LoginStamp {
        let Identity::Role(roles) = identity else { return LoginStamp(None) };
        let state = self.catalog.state();
        let password = state.access().role(roles.session).and_then(|role| role.password.clone());
        LoginStamp(Some((roles.session, password)))
    }

    /// Checks that a login is still valid: the role exists and may log in, its password is the
    /// password of the login, and its token was not revoked and has not expired.
    ///
    /// # Errors
    /// `InvalidAuthorization`.
    pub fn check_valid(&self, identity: &Identity, stamp: &LoginStamp) -> Result<()> {
        let state = self.catalog.state();
        state.access().rights(identity, self.catalog.now_ns())?;
        let Some((role, password)) = &stamp.0 else { return Ok(()) };
        let role = state.access().role(*role);
        let may_log_in = role.is_some_and(|role| role.attributes.login);
        if may_log_in && role.and_then(|role| role.password.as_ref()) == password.as_ref() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidAuthorization,
            "the role of the login was changed: its password, or its right to log in",
        )
        .with_hint("log in again"))
    }
}
