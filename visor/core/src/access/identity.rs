//! The identity of a session: on whose behalf statements run.

use super::{RoleId, TokenId, TokenScope};

/// On whose behalf a statement runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Identity {
    /// The process itself, and whoever owns the data directory: no right is checked.
    System,
    /// A client of a server without passwords: every right, until the first password exists.
    #[default]
    Trusted,
    /// A client that was authenticated.
    Role(RoleIdentity),
}

/// The roles of an authenticated session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RoleIdentity {
    /// The authenticated role.
    pub session: RoleId,
    /// The role of SET ROLE; otherwise the authenticated role.
    pub current: RoleId,
    /// The token of the login; `None` for a login by password or certificate.
    pub token: Option<(TokenId, TokenScope)>,
    /// The end of the login, in nanoseconds since 1970, from a token of another server (JWT);
    /// `None` for no end.
    pub expires_ns: Option<i64>,
}

impl Identity {
    /// The identity of a login as a role, by password or certificate.
    pub fn of_role(role: RoleId) -> Self {
        Self::Role(RoleIdentity { session: role, current: role, token: None, expires_ns: None })
    }

    /// The identity of a login by token.
    pub fn of_token(role: RoleId, token: TokenId, scope: TokenScope) -> Self {
        Self::Role(RoleIdentity {
            session: role,
            current: role,
            token: Some((token, scope)),
            expires_ns: None,
        })
    }

    /// The same identity, which ends at a time: nanoseconds since 1970.
    #[must_use]
    pub fn until(self, expires_ns: Option<i64>) -> Self {
        match self {
            Self::Role(roles) => Self::Role(RoleIdentity { expires_ns, ..roles }),
            other => other,
        }
    }

    /// The role that owns new objects, and whose rights count.
    pub fn current(&self) -> RoleId {
        match self {
            Self::System | Self::Trusted => RoleId::FOUNDER,
            Self::Role(roles) => roles.current,
        }
    }

    /// The authenticated role, to which RESET ROLE returns.
    pub fn session(&self) -> RoleId {
        match self {
            Self::System | Self::Trusted => RoleId::FOUNDER,
            Self::Role(roles) => roles.session,
        }
    }
}
