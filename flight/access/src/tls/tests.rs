use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn certificate(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/certificates/{name}.pem", env!("CARGO_MANIFEST_DIR")))
}

fn refusal(key: &str, mode: u32, cert_file: PathBuf) -> String {
    let directory = tempfile::tempdir().unwrap();
    let key_file = directory.path().join("server.key");
    std::fs::write(&key_file, key).unwrap();
    std::fs::set_permissions(&key_file, std::fs::Permissions::from_mode(mode)).unwrap();
    let settings =
        TlsSettings { cert_file, key_file, client_ca_file: None, version_min: TlsVersion::Tls12 };
    let error = Tls::load(settings).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConfigFileError);
    error.message().to_string()
}

#[test]
fn unusable_files_are_refused_with_the_reason() {
    let rsa = || certificate("rsa_sha256");
    for mode in [0o644, 0o604, 0o620, 0o660, 0o777] {
        assert!(refusal("", mode, rsa()).contains("group or world access"), "{mode:o}");
    }
    assert!(refusal("", 0o600, rsa()).contains("no private key"));
    assert!(
        refusal(
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            0o600,
            rsa()
        )
        .contains("without a passphrase")
    );
    assert!(refusal("", 0o600, certificate("no_such_file")).contains("No such file"));
    let (empty, key) = (tempfile::NamedTempFile::new().unwrap(), "");
    assert!(refusal(key, 0o600, empty.path().to_path_buf()).contains("no certificate"));
}

#[test]
fn versions_have_names() {
    assert_eq!("1.3".parse(), Ok(TlsVersion::Tls13));
    assert_eq!(TlsVersion::default().to_string(), "1.2");
    assert!("1.1".parse::<TlsVersion>().is_err());
}
