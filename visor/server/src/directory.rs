//! The data directory: what lies where, whose it is, and who holds it.
//!
//! ```text
//!   DIR/FORMAT     magic, format version, CRC32C: written last when a directory is made
//!   DIR/LOCK       locked while a process has the directory open; holds its process id
//!   DIR/catalog/   journal of the catalog's commands
//!   DIR/journal/   journal of events
//!   DIR/clock/     the master clock's reservation (CL-8)
//!   DIR/spill/     intermediate results of running queries; emptied at every start
//! ```

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use stratalog_model::{Disk, Error};

use crate::StartError;

/// Format version of the directories that this program makes and reads.
pub const FORMAT_VERSION: u32 = 1;

const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const LOCK: &str = "LOCK";
const MAGIC: &str = "stratalog data directory";
const FORMAT_BYTES_MAX: usize = 256;

/// Entries that a directory may have before it becomes ours: what an interrupted start
/// leaves, and what a fresh file system holds.
const HARMLESS: [&str; 3] = [LOCK, FORMAT_NEW, "lost+found"];

/// A data directory that this process holds. Dropping it gives the lock back.
pub struct DataDirectory {
    path: PathBuf,
    _lock: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for DataDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataDirectory").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DataDirectory {
    /// Refuses a directory at `path` that no server has made; touches nothing.
    ///
    /// # Errors
    /// [`StartError::NoDatabase`], or what the disk says.
    pub fn check_made(disk: &Arc<dyn Disk>, path: &Path) -> Result<(), StartError> {
        let is_there = |file: &Path| {
            disk.exists(file)
                .map_err(|error| Error::io(format!("cannot read {}", file.display()), error))
        };
        if is_there(&path.join(FORMAT))? {
            return Ok(());
        }
        Err(StartError::NoDatabase { path: path.to_path_buf(), exists: is_there(path)? })
    }

    /// Takes the directory at `path`; makes it when it is missing or empty.
    ///
    /// # Errors
    /// [`StartError::ForeignDirectory`], before anything is written to it;
    /// [`StartError::DirectoryLocked`]; [`StartError::NewerFormat`];
    /// [`StartError::DamagedFormat`]; or what the disk says.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<Self, StartError> {
        let failed = |action: &str, error: io::Error| {
            StartError::from(Error::io(format!("cannot {action} {}", path.display()), error))
        };
        disk.create_dir_all(path).map_err(|error| failed("make the data directory", error))?;
        let names = disk.list(path).map_err(|error| failed("list the data directory", error))?;
        if !names.iter().any(|name| name == FORMAT)
            && let Some(foreign) = names.iter().find(|name| !HARMLESS.contains(&name.as_str()))
        {
            return Err(StartError::ForeignDirectory {
                path: path.to_path_buf(),
                entry: foreign.clone(),
            });
        }
        let lock_path = path.join(LOCK);
        let lock = disk.lock(&lock_path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StartError::DirectoryLocked {
                path: path.to_path_buf(),
                holder: read_text(disk, &lock_path).and_then(|text| text.trim().parse().ok()),
            },
            _ => failed("lock the data directory", error),
        })?;
        let directory = Self { path: path.to_path_buf(), _lock: lock };
        directory.note_holder(disk).map_err(|error| failed("write to", error))?;
        match disk.exists(&path.join(FORMAT)) {
            Ok(true) => directory.check_format(disk)?,
            Ok(false) => {
                directory.write_format(disk).map_err(|error| failed("write to", error))?;
            }
            Err(error) => return Err(failed("read", error)),
        }
        for part in [directory.catalog(), directory.journal(), directory.clock()] {
            disk.create_dir_all(&part).map_err(|error| failed("write to", error))?;
        }
        disk.sync_dir(path).map_err(|error| failed("write to", error))?;
        Ok(directory)
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Journal of the catalog.
    pub fn catalog(&self) -> PathBuf {
        self.path.join("catalog")
    }

    /// Journal of events.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    /// The clock's files.
    pub fn clock(&self) -> PathBuf {
        self.path.join("clock")
    }

    /// Intermediate results of queries.
    pub fn spill(&self) -> PathBuf {
        self.path.join("spill")
    }

    /// Removes what queries of an earlier process left behind.
    pub fn empty_spill(&self) -> Result<(), StartError> {
        let spill = self.spill();
        match std::fs::remove_dir_all(&spill) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(
                format!("cannot empty the spill directory {}", spill.display()),
                error,
            )
            .into()),
            _ => std::fs::create_dir_all(&spill).map_err(|error| {
                Error::io(format!("cannot make the spill directory {}", spill.display()), error)
                    .into()
            }),
        }
    }

    /// Writes our process id where a second server finds it. Not synced: it only serves a
    /// message, and the lock itself ends with the process.
    fn note_holder(&self, disk: &Arc<dyn Disk>) -> io::Result<()> {
        let file = disk.open(&self.path.join(LOCK))?;
        file.set_len(0)?;
        file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)
    }

    fn check_format(&self, disk: &Arc<dyn Disk>) -> Result<(), StartError> {
        let damaged = || StartError::DamagedFormat { path: self.path.join(FORMAT) };
        let text = read_text(disk, &self.path.join(FORMAT)).ok_or_else(damaged)?;
        let mut lines = text.lines();
        let (magic, version, checksum) = (lines.next(), lines.next(), lines.next());
        if magic != Some(MAGIC) {
            return Err(damaged());
        }
        let version: u32 = version
            .and_then(|line| line.strip_prefix("version ")?.parse().ok())
            .ok_or_else(damaged)?;
        if checksum != Some(checksum_line(version).as_str()) {
            return Err(damaged());
        }
        if version > FORMAT_VERSION {
            return Err(StartError::NewerFormat {
                path: self.path.clone(),
                found: version,
                known: FORMAT_VERSION,
            });
        }
        Ok(())
    }

    fn write_format(&self, disk: &Arc<dyn Disk>) -> io::Result<()> {
        let (new, path) = (self.path.join(FORMAT_NEW), self.path.join(FORMAT));
        if disk.exists(&new)? {
            disk.remove_file(&new)?;
        }
        let file = disk.create(&new)?;
        file.write_all_at(format_text(FORMAT_VERSION).as_bytes(), 0)?;
        file.sync_all()?;
        disk.rename(&new, &path)?;
        disk.sync_dir(&self.path)
    }
}

/// Contents of the file FORMAT of a directory of `version`.
pub fn format_text(version: u32) -> String {
    format!("{MAGIC}\nversion {version}\n{}\n", checksum_line(version))
}

fn checksum_line(version: u32) -> String {
    format!("crc32c {:08x}", crc32c::crc32c(format!("{MAGIC}\nversion {version}\n").as_bytes()))
}

fn read_text(disk: &Arc<dyn Disk>, path: &Path) -> Option<String> {
    let file = disk.open(path).ok()?;
    let mut bytes = vec![0; FORMAT_BYTES_MAX];
    let length = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
