//! Reads certificates and keys from PEM files.

use std::{fs::File, io::Read as _, os::unix::fs::MetadataExt as _, path::Path};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use stratalog_model::{Error, ErrorKind, Result};

/// Maximum bytes of a file.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The bits of a file's mode for the group and for others.
const GROUP_AND_OTHERS: u32 = 0o077;

/// The bits that a key file of root must not have: write and execute for the group, everything for
/// others.
const BEYOND_GROUP_READ: u32 = 0o037;

/// The certificates of a PEM file, in the order of the file.
///
/// # Errors
/// `ConfigFileError`.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = read(path, |_| Ok(()))?;
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| broken(path, &error.to_string()))?;
    if found.is_empty() {
        return Err(broken(path, "the file contains no certificate in PEM format"));
    }
    Ok(found)
}

/// The private key of a PEM file.
///
/// # Errors
/// `ConfigFileError`, also if others may read the file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    let text = read(path, |file| check_mode(path, file))?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        rustls::pki_types::pem::Error::NoItemsFound => {
            let encrypted = text.windows(9).any(|part| part == b"ENCRYPTED");
            broken(
                path,
                match encrypted {
                    true => "the private key is encrypted; write it without a passphrase",
                    false => "the file contains no private key in PEM format",
                },
            )
        }
        other => broken(path, &other.to_string()),
    })
}

/// Checks owner and mode of a key file, with PostgreSQL's rules.
fn check_mode(path: &Path, file: &File) -> Result<()> {
    let metadata = file.metadata().map_err(|error| broken(path, &error.to_string()))?;
    if !metadata.is_file() {
        return Err(broken(path, "the private key is not a regular file"));
    }
    let (owner, us) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != us && owner != 0 {
        return Err(broken(path, "the private key must be owned by the server's user or by root"));
    }
    let forbidden = if owner == 0 { BEYOND_GROUP_READ } else { GROUP_AND_OTHERS };
    if metadata.mode() & forbidden == 0 {
        return Ok(());
    }
    Err(broken(path, "the private key has group or world access").with_hint(
        "set mode 0600 if the server's user owns the file, or 0640 if root owns the file",
    ))
}

fn read(path: &Path, check: impl FnOnce(&File) -> Result<()>) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| broken(path, &error.to_string());
    let file = File::open(path).map_err(failed)?;
    check(&file)?;
    let mut text = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(failed)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(broken(path, &format!("the file is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn broken(path: &Path, reason: &str) -> Error {
    Error::new(
        ErrorKind::ConfigFileError,
        format!("cannot use {} for TLS: {reason}", path.display()),
    )
}
