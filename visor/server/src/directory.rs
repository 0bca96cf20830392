//! The data directory: layout, and lock against other processes.
//!
//! ```text
//!   DIR/FORMAT     magic, format version, CRC32C: written last when a directory is made
//!   DIR/FORMAT.new same content, while the directory is not complete
//!   DIR/LOCK       locked while a process has the directory open; holds its process id
//!   DIR/ID         name of the directory in an object store; made when needed
//!   DIR/catalog/   journal of the catalog's commands
//!   DIR/journal/   journal of events
//!   DIR/manifest/  journal of the owners of events
//!   DIR/tablets/   block files with events removed from the journal
//!   DIR/stories/   Parquet files with events removed from the block files, unless stored
//!                  in an object store; one folder for each chronicle
//!   DIR/spool/     incomplete stories; emptied at every start
//!   DIR/index/     index of the block files, by tick and key; rebuilt after a loss (CL-9)
//!   DIR/clock/     the master clock's reservation (CL-8)
//!   DIR/spill/     intermediate results of running queries; emptied at every start
//!   DIR/backups/   the backups of clients
//!   DIR/tls/       certificates and keys made by `stratalog certificate create`
//! ```
//!
//! A directory with FORMAT is complete: all parts have existed, so a missing part is damage. A
//! directory with FORMAT.new is the result of an interrupted first start: the next start creates
//! the missing parts. A directory of version 1 has no manifest: a start adds the manifest. A FORMAT
//! of version 1 in a directory with data of version 2 belongs to another directory, and is refused.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use stratalog_journal::{
    CheckEvent, JournalSettings, RequiredSegments, Scope, check as check_journal,
};
use stratalog_model::{Disk, Error, ErrorKind};

use crate::{
    StartError,
    identity::{ID, ID_NEW},
};

pub(crate) mod usage;

/// Format version of new directories; also the newest version that can be read.
pub const FORMAT_VERSION: u32 = 2;

/// The first format version.
const FORMAT_VERSION_FIRST: u32 = 1;

/// The first format version with a manifest.
const MANIFEST_SINCE: u32 = 2;

const FORMAT: &str = "FORMAT";
const FORMAT_NEW: &str = "FORMAT.new";
const LOCK: &str = "LOCK";
const MAGIC: &str = "stratalog data directory";
const FORMAT_BYTES_MAX: usize = 256;

const CATALOG: &str = "catalog";
const JOURNAL: &str = "journal";
const MANIFEST: &str = "manifest";
const TABLETS: &str = "tablets";
const STORIES: &str = "stories";
const SPOOL: &str = "spool";
const INDEX: &str = "index";
const CLOCK: &str = "clock";
const SPILL: &str = "spill";

/// The folder for backups made by `CALL stratalog.backup`.
pub(crate) const BACKUPS: &str = "backups";

/// The folder for certificates and keys.
pub(crate) const TLS: &str = "tls";

/// Entries that a directory without a database may contain: files of an interrupted start,
/// certificates, and entries of a new file system.
const FRESH_ENTRIES: [&str; 4] = [LOCK, FORMAT_NEW, TLS, "lost+found"];

/// Entries that a directory with FORMAT.new may also contain.
const PARTS: [&str; 11] =
    [CATALOG, JOURNAL, MANIFEST, TABLETS, STORIES, SPOOL, INDEX, CLOCK, SPILL, ID, ID_NEW];

/// Entries that every version creates before FORMAT. If a directory has all of them, but no FORMAT,
/// then FORMAT was lost.
const PARTS_FIRST: [&str; 3] = [CATALOG, JOURNAL, CLOCK];

/// A data directory that this process has locked. Dropping the value releases the lock.
pub struct DataDirectory {
    path: PathBuf,
    /// The format version, if the directory was complete before this process opened it; otherwise
    /// `None`.
    made: Option<u32>,
    _lock: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for DataDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DataDirectory").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DataDirectory {
    /// Checks that a path has a database; changes nothing.
    ///
    /// # Errors
    /// [`StartError::NoDatabase`], or errors of the disk.
    pub fn check_made(disk: &Arc<dyn Disk>, path: &Path) -> Result<(), StartError> {
        let is_there = |file: &Path| {
            disk.exists(file)
                .map_err(|error| Error::io(format!("cannot read {}", file.display()), error))
        };
        if is_there(&path.join(FORMAT))? {
            return Ok(());
        }
        let mut lost = !is_there(&path.join(FORMAT_NEW))?
            && !is_there(&path.join(stratalog_backup::RESTORING))?;
        for part in PARTS_FIRST {
            lost = lost && is_there(&path.join(part))?;
        }
        if lost {
            return Err(StartError::FormatMissing { path: path.to_path_buf() });
        }
        Err(StartError::NoDatabase { path: path.to_path_buf(), exists: is_there(path)? })
    }

    /// Locks the directory at `path`. If the directory is missing or empty, begins a new database.
    ///
    /// # Errors
    /// [`StartError::ForeignDirectory`] and [`StartError::FormatMissing`], before any write to the
    /// directory; [`StartError::DirectoryLocked`]; [`StartError::NewerFormat`];
    /// [`StartError::UnknownFormat`]; [`StartError::DamagedFormat`]; [`StartError::OlderFormat`];
    /// or errors of the disk.
    pub fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<Self, StartError> {
        let failed = |action: &str, error: io::Error| {
            StartError::from(Error::io(format!("cannot {action} {}", path.display()), error))
        };
        disk.create_dir_all(path).map_err(|error| failed("make the data directory", error))?;
        let names = disk.list(path).map_err(|error| failed("list the data directory", error))?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        let begun = has(FORMAT_NEW);
        let unfinished = begun || has(stratalog_backup::RESTORING);
        if !has(FORMAT) && !unfinished && PARTS_FIRST.into_iter().all(has) {
            return Err(StartError::FormatMissing { path: path.to_path_buf() });
        }
        let ours = |name: &str| FRESH_ENTRIES.contains(&name) || begun && PARTS.contains(&name);
        if !has(FORMAT)
            && let Some(foreign) = names.iter().find(|name| !ours(name))
        {
            return Err(StartError::ForeignDirectory {
                path: path.to_path_buf(),
                entry: foreign.clone(),
            });
        }
        let lock = Self::lock(disk, path)?;
        let made = disk.exists(&path.join(FORMAT)).map_err(|error| failed("read", error))?;
        let mut directory = Self { path: path.to_path_buf(), made: None, _lock: lock };
        directory.note_holder(disk).map_err(|error| failed("write to", error))?;
        if made {
            directory.made = Some(directory.check_format(disk)?);
        }
        if directory.made != Some(FORMAT_VERSION) {
            directory.begin(disk).map_err(|error| failed("write to", error))?;
        }
        Ok(directory)
    }

    /// Locks the existing directory at `path`, and changes nothing else. Returns the directory, and
    /// the error of its file FORMAT, if it has one.
    ///
    /// # Errors
    /// [`StartError::NoDatabase`], [`StartError::DirectoryLocked`], [`StartError::NewerFormat`],
    /// [`StartError::UnknownFormat`], or errors of the disk.
    pub fn hold(
        disk: &Arc<dyn Disk>,
        path: &Path,
    ) -> Result<(Self, Option<StartError>), StartError> {
        let failed = |action: &str, error: io::Error| {
            StartError::from(Error::io(format!("cannot {action} {}", path.display()), error))
        };
        let none = |exists| StartError::NoDatabase { path: path.to_path_buf(), exists };
        if !disk.exists(path).map_err(|error| failed("read", error))? {
            return Err(none(false));
        }
        let names = disk.list(path).map_err(|error| failed("list the data directory", error))?;
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        // A directory without FORMAT has either lost this file, or was never complete. Only in the
        // first case a check is possible.
        let parts = PARTS_FIRST.into_iter().all(has);
        if !has(FORMAT) && (!parts || has(FORMAT_NEW)) {
            return Err(none(true));
        }
        let lock = Self::lock(disk, path)?;
        let mut directory = Self { path: path.to_path_buf(), made: None, _lock: lock };
        match directory.check_format(disk) {
            Ok(version) => {
                directory.made = Some(version);
                Ok((directory, None))
            }
            Err(wrong @ (StartError::DamagedFormat { .. } | StartError::OlderFormat { .. })) => {
                let first = !has(MANIFEST) && directory.version_2_data(disk)?.is_none();
                directory.made = Some(if first { FORMAT_VERSION_FIRST } else { FORMAT_VERSION });
                Ok((directory, Some(wrong)))
            }
            Err(error) => Err(error),
        }
    }

    fn lock(disk: &Arc<dyn Disk>, path: &Path) -> Result<Box<dyn Send + Sync>, StartError> {
        let lock_path = path.join(LOCK);
        disk.lock(&lock_path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StartError::DirectoryLocked {
                path: path.to_path_buf(),
                holder: read_text(disk, &lock_path).and_then(|text| text.trim().parse().ok()),
            },
            _ => {
                let action = format!("cannot lock the data directory {}", path.display());
                StartError::from(Error::io(action, error))
            }
        })
    }

    /// True if the directory was complete before this process opened it; then a missing part is
    /// damage.
    pub fn is_made(&self) -> bool {
        self.made.is_some()
    }

    /// True if the directory was complete before this process opened it, in a format version with a
    /// manifest.
    pub fn has_manifest(&self) -> bool {
        self.made.is_some_and(|version| version >= MANIFEST_SINCE)
    }

    /// Writes FORMAT, which marks the directory as complete. The caller must have made all parts
    /// durable.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn complete(&mut self, disk: &Arc<dyn Disk>) -> Result<(), StartError> {
        if self.made != Some(FORMAT_VERSION) {
            disk.rename(&self.path.join(FORMAT_NEW), &self.path.join(FORMAT))
                .and_then(|()| disk.sync_dir(&self.path))
                .map_err(|error| {
                    Error::io(format!("cannot write to {}", self.path.display()), error)
                })?;
            self.made = Some(FORMAT_VERSION);
        }
        Ok(())
    }

    /// The path of the file with the format version.
    pub fn format(&self) -> PathBuf {
        self.path.join(FORMAT)
    }

    /// The path of FORMAT.new, which an interrupted start leaves behind.
    pub fn format_new(&self) -> PathBuf {
        self.path.join(FORMAT_NEW)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the catalog's journal.
    pub fn catalog(&self) -> PathBuf {
        self.path.join(CATALOG)
    }

    /// The folder of the journal of events.
    pub fn journal(&self) -> PathBuf {
        self.path.join(JOURNAL)
    }

    /// The folder of the manifest's journal.
    pub fn manifest(&self) -> PathBuf {
        self.path.join(MANIFEST)
    }

    /// The folder of block files.
    pub fn tablets(&self) -> PathBuf {
        self.path.join(TABLETS)
    }

    /// The folder of the stories; empty if the stories are in an object store.
    pub fn stories(&self) -> PathBuf {
        self.path.join(STORIES)
    }

    /// The folder of incomplete stories.
    pub fn spool(&self) -> PathBuf {
        self.path.join(SPOOL)
    }

    /// The folder of the index of block files.
    pub fn index(&self) -> PathBuf {
        self.path.join(INDEX)
    }

    /// The folder of the clock's lease.
    pub fn clock(&self) -> PathBuf {
        self.path.join(CLOCK)
    }

    /// The folder for intermediate results of queries.
    pub fn spill(&self) -> PathBuf {
        self.path.join(SPILL)
    }

    /// Removes intermediate results that an earlier process has left behind.
    pub fn empty_spill(&self) -> Result<(), StartError> {
        let spill = self.spill();
        match std::fs::remove_dir_all(&spill) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(
                format!("cannot empty the spill directory {}", spill.display()),
                error,
            )
            .into()),
            _ => std::fs::create_dir_all(&spill).map_err(|error| {
                Error::io(format!("cannot create the spill directory {}", spill.display()), error)
                    .into()
            }),
        }
    }

    /// Writes the id of this process into LOCK, for the error message of another process that finds
    /// the directory locked. The id needs no sync, because the lock ends with this process.
    fn note_holder(&self, disk: &Arc<dyn Disk>) -> io::Result<()> {
        let file = disk.open(&self.path.join(LOCK))?;
        file.set_len(0)?;
        file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)
    }

    fn check_format(&self, disk: &Arc<dyn Disk>) -> Result<u32, StartError> {
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
        if version < FORMAT_VERSION_FIRST {
            return Err(StartError::UnknownFormat {
                path: self.path.clone(),
                found: version,
                known: FORMAT_VERSION,
            });
        }
        if version < MANIFEST_SINCE
            && let Some(part) = self.version_2_data(disk)?
        {
            return Err(StartError::OlderFormat {
                path: self.path.clone(),
                found: version,
                part,
                since: MANIFEST_SINCE,
            });
        }
        Ok(version)
    }

    /// The name of a part with data that only format version 2 writes; `None` if no part has such
    /// data. An interrupted upgrade from version 1 leaves a manifest without records, and neither
    /// tablets nor stories.
    fn version_2_data(&self, disk: &Arc<dyn Disk>) -> Result<Option<&'static str>, Error> {
        let failed =
            |path: &Path, error| Error::io(format!("cannot read {}", path.display()), error);
        let names = |path: &Path| match disk.exists(path) {
            Ok(true) => disk.list(path).map_err(|error| failed(path, error)),
            Ok(false) => Ok(Vec::new()),
            Err(error) => Err(failed(path, error)),
        };
        let manifest = self.manifest();
        let mut recorded = false;
        let scope = Scope::Closed(RequiredSegments::Any);
        let settings = JournalSettings::default();
        check_journal(disk, &manifest, &settings, scope, &mut |event| {
            match event {
                CheckEvent::Frame { .. } => recorded = true,
                CheckEvent::Fault(fault) if fault.error.kind() == ErrorKind::Io => {
                    return Err(fault.error);
                }
                // A manifest folder without segments is a fault, but it is not data of version 2.
                CheckEvent::Fault(fault) => recorded |= fault.path != manifest,
            }
            Ok(())
        })?;
        let tablet = |name: &String| name.ends_with(".tablet");
        let chronicle = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
        Ok(if recorded {
            Some("a manifest")
        } else if names(&self.tablets())?.iter().any(tablet) {
            Some("tablets")
        } else if names(&self.stories())?.iter().any(chronicle) {
            Some("stories")
        } else {
            None
        })
    }

    /// Makes FORMAT.new durable before any part exists. Otherwise, after a crash, the next start
    /// would mistake the parts for files of another program.
    fn begin(&self, disk: &Arc<dyn Disk>) -> io::Result<()> {
        let new = self.path.join(FORMAT_NEW);
        let file = if disk.exists(&new)? { disk.open(&new)? } else { disk.create(&new)? };
        let text = format_text(FORMAT_VERSION);
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)?;
        file.sync_all()?;
        disk.sync_dir(&self.path)?;
        for part in [self.catalog(), self.journal(), self.manifest(), self.clock()] {
            disk.create_dir_all(&part)?;
        }
        disk.sync_dir(&self.path)
    }
}

/// The content of FORMAT for format version `version`.
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
