//! The identity of a data directory in an object store. The file `DIR/ID` contains a UUID and its
//! checksum.

use std::{io, path::Path, sync::Arc};

use stratalog_model::{Disk, Error, ErrorKind, Result};

/// The name of the file with the identity.
pub const ID: &str = "ID";

/// The name of the file while it is incomplete.
pub const ID_NEW: &str = "ID.new";

const BYTES_MAX: usize = 256;

/// Makes a new random identity.
pub fn anew() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// The content of the file ID for an identity: a line with the identity, and a line with the
/// checksum.
pub fn text_of(id: &str) -> String {
    format!("{id}\ncrc32c {:08x}\n", crc32c::crc32c(id.as_bytes()))
}

/// The identity of a directory. The first call creates the file with a new identity, and makes it
/// durable. A copied directory has the identity of the original; a restored backup gets a new
/// identity.
///
/// # Errors
/// `DiskFull`, `Io`; `DataCorrupted` for a file without a valid identity.
pub fn of(disk: &Arc<dyn Disk>, directory: &Path) -> Result<String> {
    let path = directory.join(ID);
    let failed = |error| Error::io(format!("cannot use {}", path.display()), error);
    if disk.exists(&path).map_err(failed)? {
        let text = read(disk, &path).map_err(failed)?;
        let id = text.lines().next().unwrap_or_default();
        if text == text_of(id) && id.parse::<uuid::Uuid>().is_ok() {
            return Ok(id.to_string());
        }
        let what = format!("{} does not contain the identity of the directory", path.display());
        return Err(Error::new(ErrorKind::DataCorrupted, what).with_hint(
            "restore the file from a backup of the disk; or remove the file, and the object \"owner\" below story_url: the next start creates both again",
        ));
    }
    let id = anew();
    make(disk, directory, &id).map_err(failed)?;
    Ok(id)
}

fn make(disk: &Arc<dyn Disk>, directory: &Path, id: &str) -> io::Result<()> {
    let (new, text) = (directory.join(ID_NEW), text_of(id));
    // An interrupted call may have left this file behind.
    let file = if disk.exists(&new)? { disk.open(&new)? } else { disk.create(&new)? };
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()?;
    disk.rename(&new, &directory.join(ID))?;
    disk.sync_dir(directory)
}

fn read(disk: &Arc<dyn Disk>, path: &Path) -> io::Result<String> {
    let mut bytes = vec![0; BYTES_MAX];
    let length = disk.open(path)?.read_at(&mut bytes, 0)?;
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use stratalog_journal::LocalDisk;

    use super::*;

    #[test]
    fn a_name_stays_and_damage_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
        // Simulates a file that a killed start has left behind.
        std::fs::write(folder.path().join(ID_NEW), "x".repeat(200)).expect("written");
        let id = of(&disk, folder.path()).expect("a name");
        assert_eq!(of(&disk, folder.path()).expect("the same"), id);
        assert!(!folder.path().join(ID_NEW).exists());
        let path = folder.path().join(ID);
        let text = std::fs::read(&path).expect("read");
        for at in 0..text.len() {
            let mut flipped = text.clone();
            flipped[at] ^= 1;
            std::fs::write(&path, flipped).expect("written");
            let error = of(&disk, folder.path()).expect_err("damage");
            assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{at}");
        }
    }
}
