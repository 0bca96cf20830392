//! The secret of a data directory from which the server makes up the salts of unknown users. The
//! file `DIR/SECRET` keeps the secret, so that these salts stay the same after a restart.

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// The name of the file.
const SECRET: &str = "SECRET";

/// The name of the file while it is incomplete.
const SECRET_NEW: &str = "SECRET.new";

/// Length of the secret in bytes: two random UUIDs in text form.
const SECRET_BYTES: usize = 72;

/// The secret of a data directory. The first call makes the secret. A directory that cannot store
/// the secret gets a new secret at each start: clients may then notice which users do not exist.
pub(crate) fn of(directory: &Path) -> Vec<u8> {
    let path = directory.join(SECRET);
    match std::fs::read(&path) {
        Ok(secret) if secret.len() == SECRET_BYTES => return secret,
        Ok(_) => tracing::warn!("{} is damaged and is replaced", path.display()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, "cannot read {}", path.display()),
    }
    let secret = format!("{}{}", uuid::Uuid::new_v4(), uuid::Uuid::new_v4()).into_bytes();
    if let Err(error) = store(directory, &secret) {
        tracing::warn!(%error, "cannot write {}", path.display());
    }
    secret
}

fn store(directory: &Path, secret: &[u8]) -> io::Result<()> {
    let new = directory.join(SECRET_NEW);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&new)?;
    file.write_all(secret)?;
    file.sync_all()?;
    std::fs::rename(&new, directory.join(SECRET))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_stays_and_is_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let secret = of(folder.path());
        assert_eq!((of(folder.path()), secret.len()), (secret, SECRET_BYTES));
        let mode = std::fs::metadata(folder.path().join(SECRET)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(folder.path().join(SECRET), "short").unwrap();
        assert_eq!(of(folder.path()).len(), SECRET_BYTES);
    }
}
