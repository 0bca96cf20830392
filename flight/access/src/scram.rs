//! The server's side of SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677).
//!
//! ```text
//!   client: gs2 header, n=, r=client nonce     ─► [`ScramExchange::start`]
//!   server: r=both nonces, s=salt, i=iterations ◄─
//!   client: c=channel binding, r=, p=proof      ─► [`ScramExchange::finish`]
//!   server: v=signature of the server           ◄─
//! ```
//! A user without a usable password goes through the same exchange with a made-up verifier, and
//! fails at the end: clients see no difference to a wrong password.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::{
    digest, hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_visor_core::access::Verifier;
use subtle::ConstantTimeEq as _;

/// The mechanism without channel binding.
pub const SCRAM: &str = "SCRAM-SHA-256";

/// The mechanism with channel binding.
pub const SCRAM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// The only supported type of channel binding.
const BINDING_TYPE: &str = "tls-server-end-point";

/// Bytes of a nonce before its text form, as in PostgreSQL.
const NONCE_BYTES: usize = 18;

/// Maximum bytes of a message of the client, as in PostgreSQL.
pub const MESSAGE_BYTES_MAX: usize = 1_024;

const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// The made-up or real secret of a user, and whether a right proof is enough.
#[derive(Debug, Clone)]
pub struct ScramSecret {
    /// The verifier of the password.
    pub verifier: Verifier,
    /// True if the login fails even with the right proof.
    pub doomed: bool,
}

/// One exchange with one client.
#[derive(Debug)]
pub struct ScramExchange {
    secret: ScramSecret,
    /// The hash of the server's certificate; `None` if -PLUS is not offered.
    server_end_point: Option<Vec<u8>>,
    /// State after the first message.
    begun: Option<BegunExchange>,
}

#[derive(Debug)]
struct BegunExchange {
    /// The expected content of `c=`.
    binding: String,
    nonce: String,
    client_first_bare: String,
    server_first: String,
}

impl ScramExchange {
    /// Creates an exchange. `server_end_point` is the hash of the server's certificate of this
    /// connection's handshake; `None` without TLS, or for a certificate without a hash.
    pub fn new(secret: ScramSecret, server_end_point: Option<Vec<u8>>) -> Self {
        Self { secret, server_end_point, begun: None }
    }

    /// The mechanisms that the server offers, the best first.
    pub fn mechanisms(&self) -> &'static [&'static str] {
        match self.server_end_point {
            Some(_) => &[SCRAM_PLUS, SCRAM],
            None => &[SCRAM],
        }
    }

    /// Takes the client's first message; returns the server's first message.
    ///
    /// # Errors
    /// `ProtocolViolation` for a malformed message or a mechanism that the server does not offer;
    /// `InvalidAuthorization` if an attacker between client and server has hidden -PLUS from the
    /// client; `FeatureNotSupported`.
    pub fn start(&mut self, mechanism: &str, message: &[u8]) -> Result<String> {
        if self.begun.is_some() {
            return Err(malformed("a second first message"));
        }
        if !self.mechanisms().contains(&mechanism) {
            return Err(violation("client selected an invalid SASL authentication mechanism"));
        }
        let message = text(message)?;
        let plus = mechanism == SCRAM_PLUS;
        let mut parts = message.splitn(3, ',');
        let (Some(flag), Some(authorization), Some(bare)) =
            (parts.next(), parts.next(), parts.next())
        else {
            return Err(malformed("a part of the first message is missing"));
        };
        let binding = self.binding(flag, plus)?;
        if !authorization.is_empty() {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "client uses authorization identity, but it is not supported",
            ));
        }
        let mut parts = bare.split(',');
        let user = parts.next().unwrap_or_default();
        if user.starts_with("m=") {
            return Err(Error::new(
                ErrorKind::FeatureNotSupported,
                "client requires an unsupported SCRAM extension",
            ));
        }
        // The user of the start-up message counts, as in PostgreSQL.
        if !user.starts_with("n=") {
            return Err(malformed("attribute \"n\" is expected"));
        }
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let nonce = nonce.ok_or_else(|| malformed("attribute \"r\" is expected"))?;
        if nonce.is_empty() || !nonce.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
            return Err(malformed("the nonce is not printable"));
        }
        let mut random = [0; NONCE_BYTES];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| Error::internal("the system has no random bytes"))?;
        let nonce = format!("{nonce}{}", STANDARD.encode(random));
        let verifier = &self.secret.verifier;
        let (salt, iterations) = (STANDARD.encode(&verifier.salt), verifier.iterations);
        let server_first = format!("r={nonce},s={salt},i={iterations}");
        self.begun = Some(BegunExchange {
            binding,
            nonce,
            client_first_bare: bare.to_string(),
            server_first: server_first.clone(),
        });
        Ok(server_first)
    }

    /// The expected content of `c=`, for the channel-binding flag of the client.
    fn binding(&self, flag: &str, plus: bool) -> Result<String> {
        match (flag, plus) {
            ("n" | "y", true) => Err(malformed(
                "client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include \
                 channel binding data",
            )),
            ("y", false) if self.server_end_point.is_some() => Err(Error::new(
                ErrorKind::InvalidAuthorization,
                "SCRAM channel binding negotiation error",
            )
            .with_detail(
                "the client supports SCRAM channel binding but thinks the server does not. \
                 However, this server does support channel binding: somebody between client and \
                 server may have changed the messages",
            )),
            ("n" | "y", false) => Ok(STANDARD.encode(format!("{flag},,"))),
            (_, false) => Err(malformed(
                "client selected SCRAM-SHA-256 without channel binding, but the SCRAM message \
                 includes channel binding data",
            )),
            (_, true) => {
                let Some(kind) = flag.strip_prefix("p=") else {
                    return Err(malformed("unexpected channel-binding flag"));
                };
                let hash = self.server_end_point.as_ref().filter(|_| kind == BINDING_TYPE);
                let hash =
                    hash.ok_or_else(|| violation("unsupported SCRAM channel-binding type"))?;
                let header = format!("{flag},,");
                Ok(STANDARD.encode([header.as_bytes(), hash.as_slice()].concat()))
            }
        }
    }

    /// Takes the client's final message. Returns the server's final message, or `None` if the proof
    /// is wrong or the user is doomed.
    ///
    /// # Errors
    /// `ProtocolViolation` for a malformed message; `InvalidAuthorization` if the channel binding
    /// is that of another connection.
    pub fn finish(&mut self, message: &[u8]) -> Result<Option<String>> {
        let begun = self.begun.take().ok_or_else(|| malformed("the first message is missing"))?;
        let message = text(message)?;
        let (without_proof, proof) =
            message.rsplit_once(",p=").ok_or_else(|| malformed("attribute \"p\" is expected"))?;
        let mut parts = without_proof.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c="));
        let binding = binding.ok_or_else(|| malformed("attribute \"c\" is expected"))?;
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let nonce = nonce.ok_or_else(|| malformed("attribute \"r\" is expected"))?;
        if binding != begun.binding {
            return Err(Error::new(
                ErrorKind::InvalidAuthorization,
                "SCRAM channel binding check failed",
            ));
        }
        if nonce != begun.nonce {
            return Err(violation("invalid SCRAM response").with_detail("nonce does not match"));
        }
        let proof = STANDARD.decode(proof).ok().filter(|proof| proof.len() == KEY_BYTES);
        let proof = proof.ok_or_else(|| malformed("the proof is not 32 bytes in base64"))?;
        let signed = format!("{},{},{without_proof}", begun.client_first_bare, begun.server_first);
        let verifier = &self.secret.verifier;
        let signature = sign(&verifier.stored_key, signed.as_bytes());
        let client_key: Vec<u8> =
            proof.iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let stored_key = digest::digest(&digest::SHA256, &client_key);
        let right = bool::from(stored_key.as_ref().ct_eq(verifier.stored_key.as_slice()));
        let server_signature = sign(&verifier.server_key, signed.as_bytes());
        let answer = format!("v={}", STANDARD.encode(server_signature));
        Ok((right && !self.secret.doomed).then_some(answer))
    }
}

fn sign(key: &[u8], message: &[u8]) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message)
}

fn text(message: &[u8]) -> Result<&str> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(malformed("the message is too long"));
    }
    let text = std::str::from_utf8(message).ok().filter(|text| !text.contains('\0'));
    text.ok_or_else(|| malformed("the message is not text"))
}

fn violation(message: &str) -> Error {
    Error::new(ErrorKind::ProtocolViolation, message)
}

fn malformed(detail: &str) -> Error {
    violation("malformed SCRAM message").with_detail(detail)
}

#[cfg(test)]
mod tests;
