//! Logins by token.

use ring::digest;
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_visor_core::{
    access::{AccessCommand, Identity, Token},
    catalog::Command,
};

use super::{Authenticated, Authenticator, login_role, of_role};
use crate::{ClientOrigin, LoginAttempt, LoginMethod};

/// The beginning of every token of this server.
pub const TOKEN_PREFIX: &str = "slt_";

/// The use of a token is recorded at most once in this time, in nanoseconds: an hour.
const USE_RECORDED_NS: i64 = 3_600_000_000_000;

/// Maximum number of tokens whose last use is remembered.
const USES_MAX: usize = 16_384;

/// The hash of a token's text as the catalog stores it: SHA-256 in hexadecimal digits.
pub fn token_hash(text: &str) -> String {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Authenticator {
    /// Logs in with a token of this server, or with a token that the [`BearerVerifier`] accepts.
    /// On a server without a password, a token counts as well.
    ///
    /// # Errors
    /// `InvalidAuthorization` for an unknown, revoked or expired token, and if too many logins have
    /// failed; an error of the observer.
    ///
    /// [`BearerVerifier`]: super::BearerVerifier
    pub async fn token(&self, text: &str, origin: ClientOrigin) -> Result<Authenticated> {
        let mut attempt = LoginAttempt::new("", origin, LoginMethod::Token);
        if !text.starts_with(TOKEN_PREFIX)
            && let Some(bearers) = &self.bearers
        {
            self.check_failures("", origin)?;
            attempt.method = LoginMethod::Bearer;
            match bearers.verify(text).await {
                Ok(Some(verified)) => return self.bearer(attempt, text, verified).await,
                Ok(None) => {}
                Err(error) => {
                    self.record_refusal(&attempt, error.message()).await;
                    return Err(error);
                }
            }
        }
        let (state, hash) = (self.catalog.state(), token_hash(text));
        let Some(token) = state.access().token_by_hash(&hash) else {
            self.check_failures("", origin)?;
            return Err(self.refuse_token(attempt, "the token is unknown or was revoked").await);
        };
        let now_ns = self.catalog.now_ns();
        let name = state.access().role_name(token.role);
        attempt.user.clone_from(&name);
        attempt.token = Some(token.name.clone());
        if token.expires_ns.is_some_and(|end| end <= now_ns) {
            return Err(self.refuse_token(attempt, "the token has expired").await);
        }
        let role = match login_role(&state, &name) {
            Ok(role) => role,
            Err(reason) => return Err(self.refuse_token(attempt, reason).await),
        };
        self.record_success(&attempt, hash.as_bytes()).await?;
        self.record_use(token, now_ns).await;
        Ok(Authenticated {
            identity: Identity::of_token(role.id, token.id, token.scope),
            expires_ns: token.expires_ns,
            ..of_role(role)
        })
    }

    async fn bearer(
        &self,
        mut attempt: LoginAttempt,
        text: &str,
        verified: super::VerifiedBearer,
    ) -> Result<Authenticated> {
        let state = self.catalog.state();
        attempt.user.clone_from(&verified.role);
        match login_role(&state, &verified.role) {
            Ok(role) => {
                self.record_success(&attempt, text.as_bytes()).await?;
                Ok(Authenticated {
                    identity: Identity::of_role(role.id).until(verified.expires_ns),
                    expires_ns: verified.expires_ns,
                    ..of_role(role)
                })
            }
            Err(reason) => Err(self.refuse_token(attempt, reason).await),
        }
    }

    async fn refuse_token(&self, attempt: LoginAttempt, reason: &str) -> Error {
        self.record_refusal(&attempt, reason).await;
        Error::new(ErrorKind::InvalidAuthorization, reason)
            .with_hint("create a token: stratalog token create NAME --role ROLE")
    }

    /// Records the use of a token in the catalog, at most once per hour.
    async fn record_use(&self, token: &Token, now_ns: i64) {
        let is_new = |last: Option<i64>| {
            last.is_none_or(|last| now_ns.saturating_sub(last) >= USE_RECORDED_NS)
        };
        {
            let mut uses = self.token_uses.lock();
            if !is_new(token.used_ns) || !is_new(uses.get(&token.id).copied()) {
                return;
            }
            if uses.len() >= USES_MAX {
                uses.clear();
            }
            // Another request must not record the same use.
            uses.insert(token.id, now_ns);
        }
        let command = AccessCommand::UseToken { hash: token.hash.clone(), used_ns: now_ns };
        let applied = self.catalog.apply(Identity::System, Command::Access(command)).await;
        if let Err(error) = applied {
            self.token_uses.lock().remove(&token.id);
            tracing::warn!(error = error.message(), "the use of a token could not be recorded");
        }
    }
}
