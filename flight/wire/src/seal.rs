//! Protects tokens and tickets against forgery by a seal: the HMAC-SHA-256 of the text, appended to
//! the text. Only this process knows the key; after a restart the server refuses earlier tokens and
//! tickets.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use stratalog_model::{Error, Result};
use uuid::Uuid;

/// Bytes of the authentication code after the text.
const CODE_BYTES: usize = 32;

/// The key of the authentication codes.
#[derive(Clone)]
pub struct Seal(Hmac<Sha256>);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(…)")
    }
}

impl Seal {
    /// Creates a seal with a random key.
    ///
    /// # Errors
    /// `Internal`, never in practice: the key may have any length.
    pub fn random() -> Result<Self> {
        let key: Vec<u8> = (0..4).flat_map(|_| Uuid::new_v4().into_bytes()).collect();
        let code = Hmac::<Sha256>::new_from_slice(&key)
            .map_err(|error| Error::internal(format!("no key for tickets: {error}")))?;
        Ok(Self(code))
    }

    /// Appends the authentication code of `text`. A text that is sealed for one `purpose`, for
    /// example tokens, is invalid for any other purpose.
    pub fn seal(&self, purpose: &str, mut text: Vec<u8>) -> Vec<u8> {
        let code = self.code(purpose, &text).finalize().into_bytes();
        text.extend_from_slice(&code);
        text
    }

    /// Checks the authentication code of a sealed text, in constant time. Returns the text without
    /// the code; `None` if the code is wrong.
    pub fn open<'a>(&self, purpose: &str, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (text, code) = sealed.split_at_checked(sealed.len().checked_sub(CODE_BYTES)?)?;
        self.code(purpose, text).verify_slice(code).ok()?;
        Some(text)
    }

    fn code(&self, purpose: &str, text: &[u8]) -> Hmac<Sha256> {
        let mut code = self.0.clone();
        code.update(purpose.as_bytes());
        code.update(&[0]);
        code.update(text);
        code
    }
}

#[cfg(test)]
mod tests;
