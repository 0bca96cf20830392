use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::{Value, json};

use super::{keys::Algorithm, *};

const NOW_S: i64 = 1_800_000_000;

#[derive(Debug)]
struct StillClock;

impl Clock for StillClock {
    fn now_ns(&self) -> i64 {
        NOW_S * 1_000_000_000
    }

    fn monotonic_ns(&self) -> u64 {
        0
    }
}

fn settings() -> JwtSettings {
    JwtSettings {
        keys: String::new(),
        issuer: "https://issuer.example".to_string(),
        audience: "stratalog".to_string(),
        role_claim: "sub".to_string(),
    }
}

fn encoded(json: &Value) -> String {
    URL_SAFE_NO_PAD.encode(json.to_string())
}

fn good() -> Value {
    json!({ "iss": "https://issuer.example", "aud": ["x", "stratalog"], "sub": "ann", "exp": NOW_S + 10 })
}

fn checked(claims: &Value) -> Result<VerifiedBearer> {
    claims::check(claims.to_string().as_bytes(), &settings(), NOW_S * 1_000_000_000)
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = good();
    claims[name] = value;
    claims
}

#[test]
fn claims_are_checked() {
    let verified = checked(&good()).unwrap();
    assert_eq!(verified.role, "ann");
    assert_eq!(verified.expires_ns, Some((NOW_S + 70) * 1_000_000_000));
    for (name, value) in [
        ("exp", json!(NOW_S - 61)),
        ("exp", json!("soon")),
        ("exp", Value::Null),
        ("nbf", json!(NOW_S + 61)),
        ("iss", json!("https://other.example")),
        ("aud", json!("other")),
        ("aud", json!(["other"])),
        ("aud", json!({})),
        ("sub", json!("")),
        ("sub", json!(7)),
    ] {
        assert!(checked(&with(name, value.clone())).is_err(), "{name} {value}");
    }
    for (name, value) in [
        ("exp", json!(NOW_S - 59)),
        ("nbf", json!(NOW_S + 59)),
        ("exp", json!(4e9)),
        ("exp", json!(u64::MAX)),
        ("aud", json!("stratalog")),
    ] {
        assert!(checked(&with(name, value.clone())).is_ok(), "{name} {value}");
    }
    assert!(claims::check(b"[]", &settings(), 0).is_err());
}

#[test]
fn signatures_are_checked_with_the_key_of_the_kid() {
    let random = SystemRandom::new();
    let edwards =
        Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref())
            .unwrap();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let elliptic = EcdsaKeyPair::from_pkcs8(
        algorithm,
        EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap().as_ref(),
        &random,
    )
    .unwrap();
    let point = elliptic.public_key().as_ref();
    let web = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    let keys = json!({ "keys": [
        { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": web(edwards.public_key().as_ref()) },
        { "kty": "EC", "crv": "P-256", "kid": "ec", "x": web(&point[1..33]), "y": web(&point[33..]) },
        { "kty": "oct", "kid": "shared", "k": "AAAA" },
        { "kty": "EC", "crv": "P-256", "kid": "encryption", "use": "enc", "x": "", "y": "" },
        "no key"
    ] });
    let keys = KeySet::parse(keys.to_string().as_bytes()).unwrap();
    let signature = edwards.sign(b"text");
    assert!(keys.verifies(Algorithm::EdDsa, Some("ed"), b"text", signature.as_ref()));
    assert!(keys.verifies(Algorithm::EdDsa, None, b"text", signature.as_ref()));
    assert!(!keys.verifies(Algorithm::EdDsa, Some("ed"), b"other", signature.as_ref()));
    assert!(!keys.verifies(Algorithm::EdDsa, Some("ec"), b"text", signature.as_ref()));
    let signature = elliptic.sign(&random, b"text").unwrap();
    assert!(keys.verifies(Algorithm::Es256, Some("ec"), b"text", signature.as_ref()));
    assert!(!keys.has(Algorithm::Rs256, None) && !keys.has(Algorithm::Es256, Some("encryption")));
    assert!(KeySet::parse(b"{\"keys\": []}").is_none());
}

#[test]
fn other_algorithms_are_unknown() {
    for name in ["none", "None", "HS256", "RS512", "PS256", "rs256", ""] {
        assert_eq!(Algorithm::of(name), None, "{name}");
    }
}

#[tokio::test]
async fn forged_tokens_are_refused() {
    let keys = "/no/file".to_string();
    let verifier = JwtVerifier::new(JwtSettings { keys, ..settings() }, Arc::new(StillClock));
    for header in [
        json!({ "alg": "none" }),
        json!({ "alg": "HS256" }),
        json!({ "alg": "EdDSA", "crit": ["b64"] }),
        json!({ "alg": "EdDSA", "kid": "unknown" }),
    ] {
        let token = format!("{}.{}.", encoded(&header), encoded(&good()));
        let error = verifier.verify(&token).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidAuthorization, "{header}");
    }
    // Other texts may be tokens of another kind.
    for text in ["", "a.b", "a.b.c", "slt_abc", "a.b.c.d"] {
        assert_eq!(verifier.verify(text).await.unwrap(), None, "{text}");
    }
}
