//! The interface through which the server records logins, for the audit log.

use std::{fmt, net::SocketAddr};

use stratalog_metrics::Door;
use stratalog_model::{BoxFuture, Result};

/// Where a client comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOrigin {
    /// The client's address.
    pub address: SocketAddr,
    /// The protocol.
    pub door: Door,
    /// True if the connection uses TLS.
    pub encrypted: bool,
}

impl ClientOrigin {
    /// True if the client runs on this machine, as seen from the address.
    pub fn is_local(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }
}

/// The way in which a client proves its identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LoginMethod {
    /// No proof: the server has no password yet.
    Trust,
    /// A password, by SCRAM-SHA-256 with or without channel binding.
    Scram,
    /// A password in the clear within the protocol, as in HTTP's Basic.
    Password,
    /// A token of this server.
    Token,
    /// A token of another server, such as a JWT.
    Bearer,
    /// A client certificate.
    Certificate,
}

impl LoginMethod {
    /// The word in logs and in the audit log.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Scram => "scram-sha-256",
            Self::Password => "password",
            Self::Token => "token",
            Self::Bearer => "bearer",
            Self::Certificate => "certificate",
        }
    }
}

/// An attempt to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginAttempt {
    /// The user name that the client gave, or the role of its token; empty if unknown.
    pub user: String,
    /// Where the client comes from.
    pub origin: ClientOrigin,
    /// The method.
    pub method: LoginMethod,
    /// The name of the token; `None` for a login without a token of this server.
    pub token: Option<String>,
}

impl LoginAttempt {
    /// An attempt of a user, without a token.
    pub(crate) fn new(user: &str, origin: ClientOrigin, method: LoginMethod) -> Self {
        Self { user: user.to_string(), origin, method, token: None }
    }
}

/// Records logins. The client gets its answer after the returned future has ended.
pub trait LoginObserver: Send + Sync + fmt::Debug {
    /// Records a successful login. A client of HTTP that sends its credentials with each request is
    /// recorded once in a while.
    ///
    /// # Errors
    /// An error refuses the login: no login without its record.
    fn succeeded<'a>(&'a self, attempt: &'a LoginAttempt) -> BoxFuture<'a, Result<()>>;

    /// Records a refused login. `reason` is for the record only: the client must not learn it.
    /// Logins that are refused without a check, because too many logins have failed, are not
    /// recorded one by one.
    ///
    /// # Errors
    /// An error is logged; the login is refused anyway.
    fn refused<'a>(
        &'a self,
        attempt: &'a LoginAttempt,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<()>>;
}
