//! Keys of a JWKS (RFC 7517), and signatures (RFC 7518, RFC 8037).

use std::{path::Path, time::Duration};

use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
    UnparsedPublicKey,
};
use serde::Deserialize;
use stratalog_model::{Error, ErrorKind, Result};

use super::decoded;

/// Maximum bytes of a JWKS.
const KEYS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of keys.
const KEYS_MAX: usize = 100;

/// The time for one read of a JWKS from a URL.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes of a coordinate of a P-256 point, and of an Ed25519 key.
const COORDINATE_BYTES: usize = 32;

/// The accepted algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// The usable keys of a JWKS.
#[derive(Debug, Default)]
pub(super) struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    kid: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A key as a JWKS has it.
#[derive(Debug, Deserialize)]
struct WebKey {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default, rename = "use")]
    purpose: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: Option<String>,
    #[serde(default)]
    e: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
}

#[derive(Debug, Deserialize)]
struct WebKeys {
    keys: Vec<serde_json::Value>,
}

/// Reads a JWKS from a file or a URL.
///
/// # Errors
/// `ConfigFileError` if the place is not readable or has no usable key.
pub(super) async fn read(place: &str) -> Result<KeySet> {
    let bytes = match place.starts_with("https://") || place.starts_with("http://") {
        true => fetch(place).await?,
        false => {
            let path = place.strip_prefix("file://").unwrap_or(place);
            tokio::fs::read(Path::new(path)).await.map_err(|error| unusable(place, &error))?
        }
    };
    KeySet::parse(&bytes)
        .ok_or_else(|| unusable(place, &"the content is no JWKS with a usable key"))
}

async fn fetch(url: &str) -> Result<Vec<u8>> {
    let client = reqwest::Client::builder()
        .timeout(READ_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| unusable(url, &error))?;
    let failed = |error: reqwest::Error| unusable(url, &error.without_url());
    let mut response = client
        .get(url)
        .send()
        .await
        .and_then(reqwest::Response::error_for_status)
        .map_err(failed)?;
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(failed)? {
        if bytes.len() + piece.len() > KEYS_BYTES_MAX {
            return Err(unusable(url, &"the answer is too long"));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn unusable(place: &str, reason: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::ConfigFileError, format!("cannot use {place} for jwt_keys: {reason}"))
}

impl KeySet {
    /// The usable keys of a JWKS; `None` if it has none.
    pub(super) fn parse(json: &[u8]) -> Option<Self> {
        let WebKeys { keys } = serde_json::from_slice(json).ok()?;
        let keys: Vec<Key> = keys
            .into_iter()
            .take(KEYS_MAX)
            .filter_map(|key| Key::of(serde_json::from_value(key).ok()?))
            .collect();
        (!keys.is_empty()).then_some(Self(keys))
    }

    /// True if a token with this algorithm and `kid` may be signed by one of the keys.
    pub(super) fn has(&self, algorithm: Algorithm, kid: Option<&str>) -> bool {
        self.candidates(algorithm, kid).next().is_some()
    }

    /// True if one of the keys has made the signature.
    pub(super) fn verifies(
        &self,
        algorithm: Algorithm,
        kid: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> bool {
        self.candidates(algorithm, kid).any(|key| key.verifies(signed, signature))
    }

    /// The keys of the algorithm with this `kid`; without a `kid` in the token, all keys of the
    /// algorithm.
    fn candidates(&self, algorithm: Algorithm, kid: Option<&str>) -> impl Iterator<Item = &Key> {
        self.0.iter().filter(move |key| {
            key.algorithm() == algorithm && kid.is_none_or(|kid| key.kid.as_deref() == Some(kid))
        })
    }
}

impl Key {
    fn of(web: WebKey) -> Option<Self> {
        if web.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let bytes = |text: &Option<String>| decoded(text.as_deref()?);
        let coordinate =
            |text: &Option<String>| bytes(text).filter(|bytes| bytes.len() == COORDINATE_BYTES);
        let material = match (web.kty.as_str(), web.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { n: bytes(&web.n)?, e: bytes(&web.e)? },
            ("EC", Some("P-256")) => {
                // The uncompressed form of a point.
                Material::P256([vec![4], coordinate(&web.x)?, coordinate(&web.y)?].concat())
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(coordinate(&web.x)?),
            _ => return None,
        };
        let key = Self { kid: web.kid, material };
        let agrees = web.alg.is_none_or(|alg| Algorithm::of(&alg) == Some(key.algorithm()));
        agrees.then_some(key)
    }

    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        let verified = match &self.material {
            Material::Rsa { n, e } => RsaPublicKeyComponents { n, e }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                signed,
                signature,
            ),
            Material::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature)
            }
            Material::Ed25519(key) => {
                UnparsedPublicKey::new(&ED25519, key).verify(signed, signature)
            }
        };
        verified.is_ok()
    }
}
