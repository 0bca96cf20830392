//! A login by SCRAM.

use stratalog_model::Result;

use super::{Authenticated, Authenticator, of_role, wrong_password};
use crate::{
    ClientOrigin, LoginAttempt, LoginMethod,
    scram::{ScramExchange, ScramSecret},
};

/// The state of a login by SCRAM between two messages.
#[derive(Debug)]
pub struct ScramLogin {
    exchange: ScramExchange,
    secret: ScramSecret,
    reason: Option<&'static str>,
    attempt: LoginAttempt,
}

impl ScramLogin {
    /// The mechanisms that the server offers, the best first.
    pub fn mechanisms(&self) -> &'static [&'static str] {
        self.exchange.mechanisms()
    }

    /// Takes the client's first message; returns the server's first message.
    ///
    /// # Errors
    /// See [`ScramExchange::start`].
    pub fn start(&mut self, mechanism: &str, message: &[u8]) -> Result<String> {
        self.exchange.start(mechanism, message)
    }
}

impl Authenticator {
    /// Begins a login by SCRAM. `server_end_point` is [`TlsPeer::server_end_point`] of the
    /// connection.
    ///
    /// # Errors
    /// `InvalidAuthorization` if too many logins have failed.
    ///
    /// [`TlsPeer::server_end_point`]: crate::TlsPeer::server_end_point
    pub fn scram(
        &self,
        user: &str,
        origin: ClientOrigin,
        server_end_point: Option<Vec<u8>>,
    ) -> Result<ScramLogin> {
        self.check_failures(user, origin)?;
        let (secret, reason) = self.secret_of(&self.catalog.state(), user);
        let attempt = LoginAttempt::new(user, origin, LoginMethod::Scram);
        let exchange = ScramExchange::new(secret.clone(), server_end_point);
        Ok(ScramLogin { exchange, secret, reason, attempt })
    }

    /// Takes the client's final message. Returns the login, and the server's final message.
    ///
    /// # Errors
    /// `InvalidPassword` for a refused login, whatever the reason; `ProtocolViolation`,
    /// `InvalidAuthorization` for a broken exchange; an error of the observer.
    pub async fn finish_scram(
        &self,
        mut login: ScramLogin,
        message: &[u8],
    ) -> Result<(Authenticated, String)> {
        let attempt = &login.attempt;
        let answer = match login.exchange.finish(message) {
            Ok(answer) => answer,
            Err(error) => {
                self.record_refusal(attempt, error.message()).await;
                return Err(error);
            }
        };
        // The role may have changed during the exchange.
        let state = self.catalog.state();
        let (now, reason) = self.secret_of(&state, &attempt.user);
        let role = state.access().role_named(&attempt.user);
        match (answer, role) {
            (Some(answer), Some(role)) if !now.doomed && now.verifier == login.secret.verifier => {
                self.record_success(attempt, &[]).await?;
                Ok((of_role(role), answer))
            }
            _ => {
                let reason = login.reason.or(reason).unwrap_or("wrong password");
                self.record_refusal(attempt, reason).await;
                Err(wrong_password(&attempt.user))
            }
        }
    }
}
