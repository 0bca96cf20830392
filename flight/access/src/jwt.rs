//! Tokens of other servers: OpenID Connect's JSON web tokens (JWT), signed with keys from a JWKS.
//!
//! ```text
//!   header.claims.signature ─► key by `kid` ─► signature (RS256, ES256, EdDSA) ─► exp, nbf, iss, aud
//!                                 │ unknown: the keys are read again, at most once a minute
//! ```
//! No other algorithm is accepted: neither `none`, nor an algorithm with a shared secret. Keys come
//! from a file or an URL, never from the token.

mod claims;
mod keys;

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use serde::Deserialize;
use stratalog_model::{BoxFuture, Clock, Error, ErrorKind, Result};
use tokio::{sync::Mutex, time::Instant};

use self::keys::KeySet;
use crate::{BearerVerifier, VerifiedBearer};

/// Maximum bytes of a token.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The keys are read again at most once in this time because of an unknown key.
const REREAD_INTERVAL: Duration = Duration::from_secs(60);

/// Keys from a URL are read again after this time, so that removed keys lose their effect.
const KEYS_AGE_MAX: Duration = Duration::from_secs(3600);

/// The settings of tokens of other servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtSettings {
    /// The path of a file with a JWKS, or its URL: `https://…`, or `http://…`.
    pub keys: String,
    /// The required claim `iss`.
    pub issuer: String,
    /// The required member of the claim `aud`.
    pub audience: String,
    /// The claim that holds the name of the role.
    pub role_claim: String,
}

/// Verifies JSON web tokens.
#[derive(Debug)]
pub struct JwtVerifier {
    settings: JwtSettings,
    clock: Arc<dyn Clock>,
    known: RwLock<KnownKeys>,
    /// Locked while the keys are read: only the requests that need new keys wait.
    reading: Mutex<()>,
}

#[derive(Debug, Default)]
struct KnownKeys {
    keys: Arc<KeySet>,
    /// The time of the last attempt to read the keys; `None` before the first attempt.
    tried: Option<Instant>,
    /// The time of the last successful attempt.
    read: Option<Instant>,
}

/// The header of a token.
#[derive(Debug, Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that the verifier must understand; this verifier understands none.
    #[serde(default)]
    crit: Option<serde_json::Value>,
}

impl JwtVerifier {
    /// Creates a verifier. The keys are read at the first token.
    pub fn new(settings: JwtSettings, clock: Arc<dyn Clock>) -> Self {
        Self { settings, clock, known: RwLock::default(), reading: Mutex::default() }
    }

    async fn verify_token(&self, token: &str) -> Result<Option<VerifiedBearer>> {
        let mut parts = token.split('.');
        let (Some(head), Some(body), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Ok(None);
        };
        if token.len() > TOKEN_BYTES_MAX {
            return Err(refused("the token is too long"));
        }
        let Some(header) = decoded(head).and_then(|json| serde_json::from_slice(&json).ok()) else {
            return Ok(None);
        };
        let header: Header = header;
        if header.crit.is_some() {
            return Err(refused("the token needs an unknown extension (crit)"));
        }
        let algorithm = keys::Algorithm::of(&header.alg).ok_or_else(|| {
            refused("the algorithm of the token is none of RS256, ES256 and EdDSA")
        })?;
        let signature = decoded(signature).ok_or_else(|| refused("the token is malformed"))?;
        let signed = token.get(..head.len() + 1 + body.len()).unwrap_or_default().as_bytes();
        let kid = header.kid.as_deref();
        let keys = self.keys_for(algorithm, kid).await?;
        if !keys.verifies(algorithm, kid, signed, &signature) {
            return Err(refused("the signature of the token is wrong"));
        }
        let claims = decoded(body).ok_or_else(|| refused("the token is malformed"))?;
        claims::check(&claims, &self.settings, self.clock.now_ns()).map(Some)
    }

    /// The keys, read again if they lack a key for the token, or are old.
    async fn keys_for(&self, algorithm: keys::Algorithm, kid: Option<&str>) -> Result<Arc<KeySet>> {
        if let Some(keys) = self.usable(algorithm, kid) {
            return Ok(keys);
        }
        let _turn = self.reading.lock().await;
        // Another request may have read the keys in the meantime.
        if let Some(keys) = self.usable(algorithm, kid) {
            return Ok(keys);
        }
        let now = Instant::now();
        let is_early =
            |at: Option<Instant>| at.is_some_and(|at| now.duration_since(at) < REREAD_INTERVAL);
        if is_early(self.known.read().tried) {
            return self.present(algorithm, kid);
        }
        self.known.write().tried = Some(now);
        match keys::read(&self.settings.keys).await {
            Ok(keys) => {
                let mut known = self.known.write();
                known.keys = Arc::new(keys);
                known.read = Some(now);
            }
            Err(error) => {
                tracing::error!(
                    error = error.message(),
                    "the keys of jwt_keys could not be read; the earlier keys stay in use"
                );
            }
        }
        self.present(algorithm, kid)
    }

    fn usable(&self, algorithm: keys::Algorithm, kid: Option<&str>) -> Option<Arc<KeySet>> {
        let known = self.known.read();
        let is_fresh = known.read.is_some_and(|at| at.elapsed() < KEYS_AGE_MAX);
        (is_fresh && known.keys.has(algorithm, kid)).then(|| Arc::clone(&known.keys))
    }

    /// The keys in memory, whatever their age.
    fn present(&self, algorithm: keys::Algorithm, kid: Option<&str>) -> Result<Arc<KeySet>> {
        let keys = Arc::clone(&self.known.read().keys);
        match keys.has(algorithm, kid) {
            true => Ok(keys),
            false => Err(refused("no key of jwt_keys has signed the token")),
        }
    }
}

impl BearerVerifier for JwtVerifier {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Option<VerifiedBearer>>> {
        Box::pin(self.verify_token(token))
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

fn refused(message: &str) -> Error {
    Error::new(ErrorKind::InvalidAuthorization, message)
}

#[cfg(test)]
mod tests;
