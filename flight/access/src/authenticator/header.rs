//! Logins by the header `Authorization` of HTTP and Flight.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use stratalog_model::{Error, ErrorKind, Result};

use super::{Authenticated, Authenticator, login_required, token::TOKEN_PREFIX};
use crate::ClientOrigin;

/// A base64 decoder that accepts missing padding, because some clients omit the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Maximum bytes of a header, as in most servers of HTTP.
const HEADER_BYTES_MAX: usize = 16 << 10;

impl Authenticator {
    /// Logs in by the value of the header `Authorization`:
    ///
    /// ```text
    ///   Basic base64(user:password)     a token may take the place of the password
    ///   Bearer token                    a token of this server, or a JWT
    ///   Token token                     as InfluxDB's clients send it
    ///   Token user:password             as InfluxDB's clients for version 1 send it
    /// ```
    /// On a server without a password, `default_user` is the user of a client without a header, and
    /// tokens are accepted unchecked.
    ///
    /// # Errors
    /// `InvalidAuthorization` without a header, for another scheme or an unreadable header; errors
    /// of [`Self::password`] and [`Self::token`].
    pub async fn header(
        &self,
        value: Option<&str>,
        default_user: &str,
        origin: ClientOrigin,
    ) -> Result<Authenticated> {
        let required = self.is_required();
        let Some(value) = value.map(str::trim).filter(|value| !value.is_empty()) else {
            return match required {
                true => Err(login_required()),
                false => self.trust(default_user, origin).await,
            };
        };
        if value.len() > HEADER_BYTES_MAX {
            return Err(unreadable("the header is too long"));
        }
        let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
        let rest = rest.trim();
        let is = |name: &str| scheme.eq_ignore_ascii_case(name);
        if is("basic") {
            let text = BASE64.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let text = text.ok_or_else(|| unreadable("Basic needs base64 of user:password"))?;
            let (user, password) = text.split_once(':').unwrap_or((text.as_str(), ""));
            let user = if user.is_empty() && !required { default_user } else { user };
            return self.pair(user, password, origin).await;
        }
        if is("bearer") || is("token") {
            if let Some((user, password)) = rest.split_once(':').filter(|_| is("token")) {
                return self.pair(user, password, origin).await;
            }
            return match required {
                true => self.token(rest, origin).await,
                false => self.trust(default_user, origin).await,
            };
        }
        match required {
            true => Err(unreadable("the scheme is none of Basic, Bearer and Token")),
            false => self.trust(default_user, origin).await,
        }
    }

    /// Logs in with a user name and a password, or with a token in the place of the password. The
    /// token must belong to the user, unless the user name is empty.
    ///
    /// # Errors
    /// As [`Self::password`] and [`Self::token`].
    pub async fn pair(
        &self,
        user: &str,
        secret: &str,
        origin: ClientOrigin,
    ) -> Result<Authenticated> {
        if !self.is_required() || !secret.starts_with(TOKEN_PREFIX) {
            return self.password(user, secret, origin).await;
        }
        let login = self.token(secret, origin).await?;
        if user.is_empty() || login.user == user {
            return Ok(login);
        }
        Err(Error::new(
            ErrorKind::InvalidAuthorization,
            format!("the token does not belong to user \"{user}\""),
        ))
    }
}

fn unreadable(reason: &str) -> Error {
    Error::new(
        ErrorKind::InvalidAuthorization,
        format!("the header Authorization is unreadable: {reason}"),
    )
}
