//! A login by a password that the client sends.

use std::sync::Arc;

use stratalog_model::{Error, Result};

use super::{Authenticated, Authenticator, of_role, wrong_password};
use crate::{ClientOrigin, LoginAttempt, LoginMethod};

impl Authenticator {
    /// Logs in with a user name and a password. On a server without a password, every password is
    /// accepted. The check of a password takes milliseconds, on a thread that may block; only a few
    /// checks run at once.
    ///
    /// # Errors
    /// `InvalidPassword` for a refused login, whatever the reason; `InvalidAuthorization` if too
    /// many logins have failed; an error of the observer.
    pub async fn password(
        &self,
        user: &str,
        password: &str,
        origin: ClientOrigin,
    ) -> Result<Authenticated> {
        if !self.is_required() {
            return self.trust(user, origin).await;
        }
        let attempt = LoginAttempt::new(user, origin, LoginMethod::Password);
        let state = self.catalog.state();
        let (secret, reason) = self.secret_of(&state, user);
        // The verifier is a part of the proof: the cache forgets a password when it changes.
        let proof = self.secret.derive(&[
            password.as_bytes(),
            &secret.verifier.salt,
            &secret.verifier.stored_key,
        ]);
        let is_recent = !secret.doomed && self.recent.contains(&self.recent_key(&attempt, &proof));
        let right = is_recent || {
            self.check_failures(user, origin)?;
            let turn = Arc::clone(&self.checks).acquire_owned().await;
            let turn = turn.map_err(|_| Error::internal("no password can be checked"))?;
            // Many logins may have failed while this login waited for its turn.
            self.check_failures(user, origin)?;
            let (verifier, password) = (secret.verifier, password.to_string());
            let matching = tokio::task::spawn_blocking(move || {
                let matching = verifier.matches(&password);
                drop(turn);
                matching
            });
            matching.await.map_err(|error| Error::internal(format!("password check: {error}")))?
        };
        match state.access().role_named(user) {
            Some(role) if right && !secret.doomed => {
                self.record_success(&attempt, &proof).await?;
                Ok(of_role(role))
            }
            _ => {
                self.record_refusal(&attempt, reason.unwrap_or("wrong password")).await;
                Err(wrong_password(user))
            }
        }
    }
}
