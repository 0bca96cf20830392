//! Verifiers of passwords for SCRAM-SHA-256 (RFC 5802, RFC 7677). The server never stores a
//! password.

use std::{fmt, num::NonZeroU32, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{digest, hmac, pbkdf2, rand::SecureRandom};
use serde::{Deserialize, Serialize};
use stratalog_model::{Error, ErrorKind, Result};

/// Length of a salt in bytes, as in PostgreSQL.
pub const SALT_BYTES: usize = 16;

/// Length of a SHA-256 digest in bytes.
const DIGEST_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// The default number of iterations, as in PostgreSQL.
pub const ITERATIONS_DEFAULT: u32 = 4_096;

/// The accepted numbers of iterations. A login computes nothing with the number, but the client
/// does.
pub const ITERATIONS: std::ops::RangeInclusive<u32> = 4_096..=10_000_000;

/// The longest accepted password, in bytes, as in libpq.
pub const PASSWORD_BYTES_MAX: usize = 1_024;

/// A verifier of a password. The text form is PostgreSQL's:
/// `SCRAM-SHA-256$iterations:salt$stored key:server key`, with base64.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Verifier {
    /// The number of iterations of the key derivation.
    pub iterations: u32,
    /// The salt.
    pub salt: Vec<u8>,
    /// H(HMAC(salted password, "Client Key")).
    pub stored_key: [u8; DIGEST_BYTES],
    /// HMAC(salted password, "Server Key").
    pub server_key: [u8; DIGEST_BYTES],
}

/// The verifier stays out of logs.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

impl Verifier {
    /// Computes the verifier of a password with a random salt. The computation takes milliseconds:
    /// do not call it on an I/O thread.
    ///
    /// # Errors
    /// `InvalidParameterValue` for an empty or too long password, or iterations out of range;
    /// `Internal` if the system has no random bytes.
    pub fn of_password(password: &str, iterations: u32) -> Result<Self> {
        let mut salt = [0; SALT_BYTES];
        ring::rand::SystemRandom::new()
            .fill(&mut salt)
            .map_err(|_| Error::internal("the system has no random bytes"))?;
        Self::with_salt(password, iterations, &salt)
    }

    /// Computes the verifier of a password with a given salt.
    ///
    /// # Errors
    /// As [`Self::of_password`].
    pub fn with_salt(password: &str, iterations: u32, salt: &[u8]) -> Result<Self> {
        let invalid = |message: String| Error::new(ErrorKind::InvalidParameterValue, message);
        if password.is_empty() {
            return Err(invalid("the password is empty".to_string()));
        }
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(invalid(format!("the password is longer than {PASSWORD_BYTES_MAX} bytes")));
        }
        let rounds = NonZeroU32::new(iterations).filter(|_| ITERATIONS.contains(&iterations));
        let rounds = rounds.ok_or_else(|| {
            invalid(format!(
                "{iterations} iterations are outside of {} to {}",
                ITERATIONS.start(),
                ITERATIONS.end()
            ))
        })?;
        // Clients send a password that SASLprep refuses unchanged; PostgreSQL accepts it, too.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let mut salted = [0; DIGEST_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, salt, prepared.as_bytes(), &mut salted);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let client_key = hmac::sign(&key, b"Client Key");
        Ok(Self {
            iterations,
            salt: salt.to_vec(),
            stored_key: array(digest::digest(&digest::SHA256, client_key.as_ref()).as_ref()),
            server_key: array(hmac::sign(&key, b"Server Key").as_ref()),
        })
    }

    /// True if `password` is the password of the verifier. The comparison takes the same time for
    /// every password. The computation takes milliseconds.
    pub fn matches(&self, password: &str) -> bool {
        // A password that no verifier can have still costs the time of a computation.
        let usable = !password.is_empty() && password.len() <= PASSWORD_BYTES_MAX;
        let tried = if usable { password } else { "\u{1}" };
        let computed = Self::with_salt(tried, self.iterations, &self.salt);
        computed.is_ok_and(|computed| {
            use subtle::ConstantTimeEq as _;
            usable && bool::from(computed.stored_key.ct_eq(&self.stored_key))
        })
    }
}

fn array(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    let mut copy = [0; DIGEST_BYTES];
    for (target, byte) in copy.iter_mut().zip(bytes) {
        *target = *byte;
    }
    copy
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(self.stored_key),
            STANDARD.encode(self.server_key)
        )
    }
}

impl FromStr for Verifier {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let rest = text.strip_prefix("SCRAM-SHA-256$")?;
            let (head, keys) = rest.split_once('$')?;
            let (iterations, salt) = head.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            let key = |text: &str| <[u8; DIGEST_BYTES]>::try_from(STANDARD.decode(text).ok()?).ok();
            let iterations = iterations.parse().ok().filter(|count| ITERATIONS.contains(count))?;
            let salt = STANDARD.decode(salt).ok().filter(|salt| !salt.is_empty())?;
            Some(Self { iterations, salt, stored_key: key(stored)?, server_key: key(server)? })
        };
        read().ok_or_else(|| {
            Error::new(ErrorKind::InvalidParameterValue, "the password verifier is invalid")
                .with_hint(
                    "write a password, or SCRAM-SHA-256$iterations:salt$stored key:server key",
                )
        })
    }
}

impl TryFrom<String> for Verifier {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Verifier> for String {
    fn from(verifier: Verifier) -> Self {
        verifier.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, section 3: user "user", password "pencil".
    #[test]
    fn keys_of_the_example_of_rfc_7677() {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        let verifier = Verifier::with_salt("pencil", 4096, &salt).unwrap();
        let message = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                       r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                       s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                       c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let key = hmac::Key::new(hmac::HMAC_SHA256, &verifier.server_key);
        let signature = STANDARD.encode(hmac::sign(&key, message.as_bytes()));
        assert_eq!(signature, "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert!(verifier.matches("pencil") && !verifier.matches("Pencil"));
        assert_eq!(verifier.to_string().parse::<Verifier>().unwrap(), verifier);
    }

    #[test]
    fn invalid_passwords_and_verifiers_are_refused() {
        assert!(Verifier::of_password("", 4096).is_err());
        assert!(Verifier::of_password(&"x".repeat(1025), 4096).is_err());
        assert!(Verifier::of_password("x", 1).is_err());
        for text in ["md5abc", "SCRAM-SHA-256$1:AA==$AA==:AA==", "SCRAM-SHA-256$4096:$:", ""] {
            assert!(text.parse::<Verifier>().is_err(), "{text}");
        }
        let verifier = Verifier::of_password("x", 4096).unwrap();
        assert!(!verifier.matches("") && !format!("{verifier:?}").contains("key"));
    }
}
