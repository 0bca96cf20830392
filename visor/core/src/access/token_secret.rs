//! The texts of tokens. A text exists only in the memory of the client; the catalog stores its hash.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::{digest, rand::SecureRandom as _};
use stratalog_model::{Error, Result};

/// The beginning of every token's text.
pub const TOKEN_PREFIX: &str = "slt_";

/// The random bytes of a token.
const TOKEN_BYTES: usize = 32;

/// The text of a new token. The text appears in no log and no error: the type has no `Display`.
pub struct TokenSecret(String);

impl std::fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenSecret")
    }
}

impl TokenSecret {
    /// Makes the text of a new token: [`TOKEN_PREFIX`] and 256 random bits.
    ///
    /// # Errors
    /// `Internal` if the system has no random bytes.
    pub fn generate() -> Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        ring::rand::SystemRandom::new()
            .fill(&mut bytes)
            .map_err(|_| Error::internal("the system has no random bytes"))?;
        Ok(Self(format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
    }

    /// The text, for the one message that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The hash that the catalog stores.
    pub fn hash(&self) -> String {
        hash_of_token(&self.0)
    }
}

/// The hash of a token's text, as the catalog stores it: SHA-256 in hexadecimal digits.
pub fn hash_of_token(text: &str) -> String {
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_random_and_hashed_as_a_whole() {
        let (one, other) = (TokenSecret::generate().unwrap(), TokenSecret::generate().unwrap());
        assert_ne!(one.reveal(), other.reveal());
        assert_eq!(one.reveal().len(), TOKEN_PREFIX.len() + 43);
        assert_eq!(one.hash(), hash_of_token(one.reveal()));
        assert_eq!(format!("{one:?}"), "TokenSecret");
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hash_of_token("abc"), known);
    }
}
