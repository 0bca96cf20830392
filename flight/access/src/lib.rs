//! Logins and TLS, shared by all protocols.
//!
//! *What it is*: one [`Authenticator`] per server, which turns credentials (passwords by SCRAM or
//! Basic, tokens, client certificates) into an
//! [`Identity`](stratalog_visor_core::access::Identity), with limits of failed logins and of
//! connections; and one [`Tls`] per server, which makes the TLS side of each connection and takes
//! new certificates without a pause.
//!
//! *What it deliberately is not*: a protocol, and a decision about rights. The catalog decides what
//! an identity may do.
//!
//! *Data path*: socket → [`Tls::accept`] → [`TlsPeer`] (client certificate, channel binding) →
//! credentials → [`Authenticator`] → [`LoginObserver`] (durable) → [`Authenticated`].

pub mod authenticator;
pub mod jwt;
mod limits;
mod observer;
pub mod scram;
mod stream;
pub mod tls;

use std::sync::Arc;

pub use authenticator::{
    Authenticated, Authenticator, AuthenticatorSettings, BearerVerifier, LoginStamp, ScramLogin,
    TOKEN_PREFIX, VerifiedBearer, token_hash,
};
pub use jwt::{JwtSettings, JwtVerifier};
pub use limits::ConnectionPlace;
pub use observer::{ClientOrigin, LoginAttempt, LoginMethod, LoginObserver};
pub use stream::{Arrived, ServerStream};
pub use tls::{Alpn, Tls, TlsPeer, TlsSettings, TlsVersion};

/// What a listener needs to let clients in.
#[derive(Debug, Clone)]
pub struct Access {
    /// Checks credentials.
    pub authenticator: Arc<Authenticator>,
    /// TLS; `None` for a server without a certificate.
    pub tls: Option<Arc<Tls>>,
}

impl Access {
    /// The access to a server without a certificate.
    pub fn without_tls(authenticator: Authenticator) -> Self {
        Self { authenticator: Arc::new(authenticator), tls: None }
    }
}
