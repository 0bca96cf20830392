use rustls::pki_types::{CertificateDer, pem::PemObject as _};

use super::*;

fn facts(file: &str) -> CertificateFacts {
    let path = format!("{}/tests/certificates/{file}.pem", env!("CARGO_MANIFEST_DIR"));
    CertificateFacts::read(&CertificateDer::from_pem_file(path).unwrap()).unwrap()
}

/// The first 8 bytes of the hash, in hexadecimal digits.
fn end_point(file: &str) -> Option<String> {
    let hash = facts(file).server_end_point?;
    Some(hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

#[test]
fn the_hash_is_that_of_the_signature() {
    // As `openssl dgst` computes them.
    for (file, hash) in [
        ("rsa_sha1", "4d06b9e33f12de47"),
        ("rsa_sha256", "401b0dfe2aa9ceb5"),
        ("rsa_sha512", "2695f39806051318"),
        ("ecdsa_sha256", "af87dfdee5b731e5"),
        ("ecdsa_sha384", "a7c64d705db3ebbe"),
    ] {
        assert_eq!(end_point(file).as_deref(), Some(hash), "{file}");
    }
    // These signatures define no hash, or a hash that clients disagree about.
    assert_eq!((end_point("ed25519"), end_point("rsa_pss")), (None, None));
}

#[test]
fn names_and_the_end_of_the_validity() {
    let facts = facts("ed25519");
    assert_eq!(facts.names, ["ed25519.example", "ed25519.example.org", "ed25519@example.com"]);
    // 2126-11-04 21:04:19 UTC.
    assert_eq!(facts.not_after_ns, 4_949_499_859_000_000_000);
}

#[test]
fn damaged_certificates_are_errors_or_other_facts_but_no_panic() {
    let path = format!("{}/tests/certificates/rsa_sha256.pem", env!("CARGO_MANIFEST_DIR"));
    let whole = CertificateDer::from_pem_file(path).unwrap().to_vec();
    for length in 0..whole.len() {
        assert!(CertificateFacts::read(&whole[..length]).is_err());
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x30, 0x7f, 0x80, 0x84, 0xff] {
            let mut changed = whole.clone();
            changed[at] = value;
            let _ = CertificateFacts::read(&changed);
        }
    }
}

#[test]
fn a_name_with_a_zero_byte_is_no_name() {
    assert_eq!(name(b"admin\0.example"), None);
    assert_eq!(name(b""), None);
    assert_eq!(name(b"admin").as_deref(), Some("admin"));
}
