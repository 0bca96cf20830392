//! Turns credentials into identities.
//!
//! ```text
//!   credentials ─► limits ─► check against the catalog's state ─► LoginObserver ─► Authenticated
//! ```
//! All refusals of a user name and password are the same for the client, in text and in time: a
//! wrong password, an unknown role, a role without a password or without LOGIN, an expired
//! password. The server's log has the reason.

mod header;
mod password;
mod recent;
mod scram_login;
mod token;
mod validity;

use std::{collections::HashMap, fmt, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use ring::hmac;
use stratalog_model::{BoxFuture, Error, ErrorKind, Result};
use stratalog_visor_core::{
    Catalog, CatalogState,
    access::{ITERATIONS_DEFAULT, Identity, Role, TokenId, Verifier},
};
use tokio::{sync::Semaphore, time::Instant};

use self::recent::RecentLogins;
pub use self::{
    scram_login::ScramLogin,
    token::{TOKEN_PREFIX, token_hash},
    validity::LoginStamp,
};
use crate::{
    ClientOrigin, LoginAttempt, LoginMethod, LoginObserver,
    limits::{ConnectionPlace, ConnectionsByAddress, FailedLogins},
    scram::ScramSecret,
};

/// Maximum number of passwords that are checked at once, each on a thread that may block.
const PASSWORD_CHECKS_MAX: usize = 2;

/// Bytes of the salt of a made-up verifier, as in real verifiers.
const SALT_BYTES: usize = 16;

/// The limits of logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticatorSettings {
    /// The number of iterations in made-up verifiers: the number of new passwords.
    pub scram_iterations: u32,
    /// Failed logins per minute of one address as one role, after which further logins are refused
    /// without a check; 0 for no limit. Ten times as many for one address and for one role.
    pub failed_logins_per_minute_max: u32,
    /// Maximum number of simultaneous connections of one address; 0 for no limit.
    pub connections_per_address_max: usize,
}

impl Default for AuthenticatorSettings {
    fn default() -> Self {
        Self {
            scram_iterations: ITERATIONS_DEFAULT,
            failed_logins_per_minute_max: 60,
            connections_per_address_max: 0,
        }
    }
}

/// A client that has proved its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The user name of the session.
    pub user: String,
    /// On whose behalf the client's statements run.
    pub identity: Identity,
    /// Initial settings of the role's sessions (ALTER ROLE … SET): names and values. Settings of
    /// the client's own start-up message come after these settings.
    pub settings: Vec<(String, String)>,
    /// Maximum number of simultaneous sessions of the role; `None` for no limit.
    pub connections_max: Option<u32>,
    /// The end of the login, in nanoseconds since 1970, from the credentials; `None` for no end.
    pub expires_ns: Option<i64>,
}

/// Verifies tokens that this server has not made, such as JWT.
pub trait BearerVerifier: Send + Sync + fmt::Debug {
    /// Verifies a token; `None` if the token is of another kind.
    ///
    /// # Errors
    /// `InvalidAuthorization` for a token that is invalid or expired.
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<VerifiedBearer>>>;
}

/// The content of a verified token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedBearer {
    /// The name of the role.
    pub role: String,
    /// The end of the validity, in nanoseconds since 1970.
    pub expires_ns: Option<i64>,
}

/// Checks the credentials of all clients of a server.
#[derive(Debug)]
pub struct Authenticator {
    catalog: Arc<Catalog>,
    settings: AuthenticatorSettings,
    secret: ServerSecret,
    failed: FailedLogins,
    connections: ConnectionsByAddress,
    checks: Arc<Semaphore>,
    recent: RecentLogins,
    observer: Option<Arc<dyn LoginObserver>>,
    bearers: Option<Arc<dyn BearerVerifier>>,
    /// The last recorded uses of tokens, in nanoseconds since 1970.
    token_uses: Mutex<HashMap<TokenId, i64>>,
}

/// The key of made-up salts and of the cache of recent logins.
struct ServerSecret(hmac::Key);

impl fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSecret")
    }
}

impl ServerSecret {
    /// Bytes that nobody can compute without the secret, the same for the same parts.
    fn derive(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut derived = [0; 32];
        derived.iter_mut().zip(context.sign().as_ref()).for_each(|(to, from)| *to = *from);
        derived
    }
}

impl Authenticator {
    /// Creates an authenticator. `secret` is random, and should stay the same across restarts: the
    /// made-up salts of unknown users come from `secret`, and a salt that changes would tell that
    /// the user does not exist.
    pub fn new(catalog: Arc<Catalog>, settings: AuthenticatorSettings, secret: &[u8]) -> Self {
        Self {
            catalog,
            settings,
            secret: ServerSecret(hmac::Key::new(hmac::HMAC_SHA256, secret)),
            failed: FailedLogins::new(settings.failed_logins_per_minute_max),
            connections: ConnectionsByAddress::new(settings.connections_per_address_max),
            checks: Arc::new(Semaphore::new(PASSWORD_CHECKS_MAX)),
            recent: RecentLogins::default(),
            observer: None,
            bearers: None,
            token_uses: Mutex::default(),
        }
    }

    /// Records all logins with `observer`.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn LoginObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Accepts tokens of other servers, as `bearers` verifies them.
    #[must_use]
    pub fn with_bearer_verifier(self, bearers: Arc<dyn BearerVerifier>) -> Self {
        Self { bearers: Some(bearers), ..self }
    }

    /// True if clients must log in: from the first password on.
    pub fn is_required(&self) -> bool {
        self.catalog.state().access().is_protected()
    }

    /// Takes a place for a new connection. The caller keeps the place as long as the connection.
    ///
    /// # Errors
    /// `TooManyConnections` if the address has too many connections.
    pub fn admit(&self, address: IpAddr) -> Result<ConnectionPlace> {
        self.connections.enter(address)
    }

    /// Logs in without credentials, on a server without a password.
    ///
    /// # Errors
    /// `InvalidAuthorization` if the server requires a login; an error of the observer.
    pub async fn trust(&self, user: &str, origin: ClientOrigin) -> Result<Authenticated> {
        let state = self.catalog.state();
        if state.access().is_protected() {
            return Err(login_required());
        }
        let attempt = LoginAttempt::new(user, origin, LoginMethod::Trust);
        self.record_success(&attempt, &[]).await?;
        let role = state.access().role_named(user);
        Ok(Authenticated {
            user: user.to_string(),
            identity: Identity::Trusted,
            settings: role.map(|role| role.settings.clone()).unwrap_or_default(),
            connections_max: None,
            expires_ns: None,
        })
    }

    /// Logs in by the names of a verified client certificate, as the role `user`. `None` if no name
    /// is the name of this role: then the client may prove its identity in another way.
    ///
    /// # Errors
    /// `InvalidAuthorization` if the role may not log in; an error of the observer.
    pub async fn certificate(
        &self,
        names: &[String],
        user: &str,
        origin: ClientOrigin,
    ) -> Result<Option<Authenticated>> {
        if !names.iter().any(|name| name == user) {
            return Ok(None);
        }
        let attempt = LoginAttempt::new(user, origin, LoginMethod::Certificate);
        let state = self.catalog.state();
        if !state.access().is_protected() {
            return self.trust(user, origin).await.map(Some);
        }
        match login_role(&state, user) {
            Ok(role) => {
                self.record_success(&attempt, &[]).await?;
                Ok(Some(of_role(role)))
            }
            Err(reason) => {
                self.record_refusal(&attempt, reason).await;
                Err(Error::new(
                    ErrorKind::InvalidAuthorization,
                    format!("certificate authentication failed for user \"{user}\""),
                ))
            }
        }
    }

    /// The first name of a client certificate that is the name of a role that may log in, for
    /// protocols in which clients send no user name.
    pub fn certificate_user<'a>(&self, names: &'a [String]) -> Option<&'a str> {
        let state = self.catalog.state();
        names.iter().map(String::as_str).find(|name| login_role(&state, name).is_ok())
    }

    /// The verifier of a user's password, or a made-up verifier.
    fn secret_of(&self, state: &CatalogState, user: &str) -> (ScramSecret, Option<&'static str>) {
        let made_up = self.made_up_verifier(user);
        let Some(role) = state.access().role_named(user) else {
            return (ScramSecret { verifier: made_up, doomed: true }, Some("no such role"));
        };
        let reason = match &role.password {
            None => Some("the role has no password"),
            Some(_) if !role.attributes.login => Some("the role may not log in"),
            Some(_)
                if role
                    .attributes
                    .valid_until_ns
                    .is_some_and(|end| end <= self.catalog.now_ns()) =>
            {
                Some("the password has expired")
            }
            Some(_) => None,
        };
        let verifier = role.password.clone().unwrap_or(made_up);
        (ScramSecret { verifier, doomed: reason.is_some() }, reason)
    }

    /// A verifier that looks like that of a real role, always the same for a name.
    fn made_up_verifier(&self, user: &str) -> Verifier {
        let derived = |purpose: &str| self.secret.derive(&[purpose.as_bytes(), user.as_bytes()]);
        Verifier {
            iterations: self.settings.scram_iterations,
            salt: derived("salt").into_iter().take(SALT_BYTES).collect(),
            stored_key: derived("stored key"),
            server_key: derived("server key"),
        }
    }

    /// Refuses a login without a check if too many logins have failed.
    fn check_failures(&self, user: &str, origin: ClientOrigin) -> Result<()> {
        if self.failed.may_try(origin.address.ip(), user, Instant::now()) {
            return Ok(());
        }
        tracing::debug!(address = %origin.address, user, "login refused: too many failed logins");
        Err(Error::new(
            ErrorKind::InvalidAuthorization,
            "too many failed logins; further logins are refused for some time",
        )
        .with_hint("wait a minute; an administrator can raise failed_logins_per_minute_max"))
    }

    /// Records a successful login. `proof` identifies the credentials of a client that may send
    /// them again and again: such a login is recorded once in a while.
    async fn record_success(&self, attempt: &LoginAttempt, proof: &[u8]) -> Result<()> {
        let address = attempt.origin.address.ip();
        if !attempt.user.is_empty() {
            self.failed.succeeded(address, &attempt.user);
        }
        let key = (!proof.is_empty()).then(|| self.recent_key(attempt, proof));
        if key.is_some_and(|key| self.recent.contains(&key)) {
            return Ok(());
        }
        if let Some(observer) = &self.observer {
            observer.succeeded(attempt).await?;
        }
        if let Some(key) = key {
            self.recent.insert(key);
        }
        Ok(())
    }

    /// The key of a login in the cache of recent logins. The key does not tell the credentials.
    fn recent_key(&self, attempt: &LoginAttempt, proof: &[u8]) -> [u8; 32] {
        let address = attempt.origin.address.ip().to_string();
        let method = attempt.method.keyword();
        let (user, door) = (attempt.user.as_bytes(), attempt.origin.door.name());
        self.secret.derive(&[method.as_bytes(), user, address.as_bytes(), door.as_bytes(), proof])
    }

    /// Records a refused login, and counts it.
    async fn record_refusal(&self, attempt: &LoginAttempt, reason: &str) {
        let origin = attempt.origin;
        self.failed.failed(origin.address.ip(), &attempt.user, Instant::now());
        tracing::info!(
            address = %origin.address,
            user = attempt.user,
            method = attempt.method.keyword(),
            reason,
            "login refused"
        );
        if let Some(observer) = &self.observer
            && let Err(error) = observer.refused(attempt, reason).await
        {
            tracing::error!(error = error.message(), "a refused login could not be recorded");
        }
    }
}

/// The role with a name that may log in, or the reason why not.
fn login_role<'a>(
    state: &'a CatalogState,
    name: &str,
) -> std::result::Result<&'a Role, &'static str> {
    let role = state.access().role_named(name).ok_or("no such role")?;
    if role.attributes.login { Ok(role) } else { Err("the role may not log in") }
}

/// A login as a role, by password or certificate.
fn of_role(role: &Role) -> Authenticated {
    Authenticated {
        user: role.name.clone(),
        identity: Identity::of_role(role.id),
        settings: role.settings.clone(),
        connections_max: role.attributes.connections_max,
        expires_ns: None,
    }
}

fn wrong_password(user: &str) -> Error {
    Error::new(
        ErrorKind::InvalidPassword,
        format!("password authentication failed for user \"{user}\""),
    )
}

fn login_required() -> Error {
    Error::new(ErrorKind::InvalidAuthorization, "the server requires a login")
        .with_hint("send a user name and password, or a token")
}

#[cfg(test)]
mod tests;
