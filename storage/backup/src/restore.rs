//! Makes a data directory from a backup.
//!
//! ```text
//!   FORMAT.restoring, synced ─► files, verified, synced ─► manifest ─► folders synced
//!                                                                                │
//!                          FORMAT ◄─ renamed, synced ◄───────────────────────────┘
//! ```
//! Until the last step, every server refuses the directory, because it has no file FORMAT.

use std::{
    collections::BTreeSet,
    io,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use stratalog_engine::write_manifest;
use stratalog_journal::{Journal, JournalSettings};
use stratalog_model::{Disk, DiskFile, Error, ErrorKind, Log, Result};
use stratalog_story::{Shelf, Spool, StoryName, make_folder};

use crate::{
    Entry, List, Place, Watch,
    content::chunks,
    place::{FILES, damaged},
    retention,
    save::MANIFEST_PATH,
};

const FORMAT: &str = "FORMAT";
/// Name of the file FORMAT while the restore is incomplete.
pub const RESTORING: &str = "FORMAT.restoring";
const LOCK: &str = "LOCK";
/// Entries allowed in an empty directory.
const HARMLESS: [&str; 2] = [LOCK, "lost+found"];
/// Folders of a data directory.
const FOLDERS: [&str; 7] =
    ["catalog", "journal", "manifest", "tablets", "stories", "clock", "spool"];

/// The target of a restore: the new data directory.
#[derive(Debug)]
pub struct Target {
    /// The disk of the directory.
    pub disk: Arc<dyn Disk>,
    /// The directory (made if missing), which must be empty.
    pub directory: PathBuf,
    /// The shelf for the stories, if the stories are not in the directory; must be empty.
    pub stories: Option<Arc<dyn Shelf>>,
    /// Additional files to write into the directory: name and content.
    pub own_files: Vec<(String, Bytes)>,
    /// Settings of the manifest's journal.
    pub manifest: JournalSettings,
}

/// The result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreResult {
    /// Name of the backup.
    pub name: String,
    /// Number of restored files.
    pub files: u64,
    /// Size of the files in the backup, in bytes.
    pub bytes: u64,
}

/// Makes a data directory from the backup with the given name, or from the newest backup. Verifies
/// the checksum of every file. Between its await points, the function blocks the thread.
///
/// # Errors
/// `UndefinedObject` if the backup does not exist; `ObjectNotInPrerequisiteState` if the target is
/// not empty; `DataCorrupted`, with the name of the file, for a damaged file; `DiskFull`, `Io`,
/// `ConnectionFailure`, `QueryCanceled`. After an error, no server accepts the directory.
pub async fn restore(
    place: &Place,
    backup: Option<&str>,
    target: &Target,
    watch: &Watch,
) -> Result<RestoreResult> {
    let list = find(place, backup).await?;
    watch.begin(list.bytes());
    let Target { disk, directory, stories, own_files, manifest } = target;
    let _lock = begin(disk, directory)?;
    if let Some(shelf) = stories
        && let Some(name) = shelf.list().await?.keys().next()
    {
        return Err(not_empty(
            &format!("\"{}\" is there", shelf.place(*name)),
            "the place of stories",
        ));
    }
    check_room(disk.as_ref(), directory, &list)?;
    let folders = BTreeSet::new();
    let mut restoring = RestoreTask { place, disk, directory, manifest, watch, folders };
    let format = list.files.iter().find(|file| file.path == FORMAT);
    let format = format
        .ok_or_else(|| damaged(&place.root(), "the list of the backup names no file FORMAT"))?;
    restoring.write(format, &directory.join(RESTORING)).await?;
    for (name, bytes) in own_files {
        let path = directory.join(name);
        let made = disk.create(&path).and_then(|file| {
            file.write_all_at(bytes, 0)?;
            file.sync_all()
        });
        made.map_err(|error| Error::io(format!("cannot write {}", path.display()), error))?;
    }
    let synced = disk.sync_dir(directory);
    synced.map_err(|error| Error::io(format!("cannot sync {}", directory.display()), error))?;
    for folder in FOLDERS {
        make_folder(disk.as_ref(), &directory.join(folder))?;
    }
    for file in &list.files {
        restoring.add(file, stories.as_deref()).await?;
    }
    debug_assert_eq!(watch.done(), watch.bytes(), "the progress is not complete");
    restoring.complete()?;
    Ok(RestoreResult { files: list.files.len() as u64, bytes: list.bytes(), name: list.name })
}

async fn find(place: &Place, backup: Option<&str>) -> Result<List> {
    let names = retention::names(place).await?;
    let found = match backup {
        Some(name) => names.get_key_value(name),
        None => names.last_key_value(),
    };
    let Some((name, bytes)) = found else {
        let what = backup.map_or("no backup".to_string(), |name| format!("no backup \"{name}\""));
        return Err(Error::new(
            ErrorKind::UndefinedObject,
            format!("{what} exists in {}", place.root()),
        )
        .with_hint("\"stratalog backups --from URL\" lists the existing backups"));
    };
    retention::read(place, name, *bytes).await
}

/// Makes and locks the directory, and checks that the directory is empty.
fn begin(disk: &Arc<dyn Disk>, directory: &Path) -> Result<Box<dyn Send + Sync>> {
    let failed = |error| Error::io(format!("cannot use {}", directory.display()), error);
    make_folder(disk.as_ref(), directory)?;
    let names = disk.list(directory).map_err(failed)?;
    if let Some(name) = names.iter().find(|name| !HARMLESS.contains(&name.as_str())) {
        let what = match name.as_str() {
            RESTORING => "the directory contains files of an interrupted restore".to_string(),
            name => format!("the directory contains \"{name}\""),
        };
        return Err(not_empty(&what, &directory.display().to_string()));
    }
    disk.lock(&directory.join(LOCK)).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::new(
            ErrorKind::ObjectInUse,
            format!("{} is in use by another process", directory.display()),
        ),
        _ => failed(error),
    })
}

fn not_empty(what: &str, place: &str) -> Error {
    Error::new(
        ErrorKind::ObjectNotInPrerequisiteState,
        format!("cannot restore into {place}: {what}"),
    )
    .with_hint("choose an empty or a new directory, or remove the files; nothing was changed")
}

fn check_room(disk: &dyn Disk, directory: &Path, list: &List) -> Result<()> {
    let failed =
        |error| Error::io(format!("cannot read the free space of {}", directory.display()), error);
    let free = disk.free_bytes(directory).map_err(failed)?;
    let needed: u64 = list.files.iter().map(|file| file.restored_bytes).sum();
    if needed <= free {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::DiskFull,
        format!("the disk of {} has too little free space for the backup", directory.display()),
    )
    .with_detail(format!("{free} bytes are free; the backup needs {needed}"))
    .with_hint("free space on the disk, or restore to another disk"))
}

struct RestoreTask<'a> {
    place: &'a Place,
    disk: &'a Arc<dyn Disk>,
    directory: &'a Path,
    manifest: &'a JournalSettings,
    watch: &'a Watch,
    /// Folders with new files, whose names must still be made durable.
    folders: BTreeSet<PathBuf>,
}

impl RestoreTask<'_> {
    async fn add(&mut self, file: &Entry, stories: Option<&dyn Shelf>) -> Result<()> {
        let story = file.path.strip_prefix("stories/").and_then(|name| name.parse().ok());
        match (file.path.as_str(), story, stories) {
            (FORMAT, ..) => {}
            (MANIFEST_PATH, ..) => self.write_manifest(file).await?,
            (_, Some(name), Some(shelf)) => self.put_story(file, name, shelf).await?,
            _ => {
                let path = self.path_of(file)?;
                let folder = path.parent().unwrap_or(self.directory);
                if self.folders.insert(folder.to_path_buf()) {
                    make_folder(self.disk.as_ref(), folder)?;
                }
                self.write(file, &path).await?;
            }
        }
        self.watch.advance(file.bytes);
        Ok(())
    }

    /// The path of a file in the target. The path is always inside one of the data folders.
    fn path_of(&self, file: &Entry) -> Result<PathBuf> {
        let path = Path::new(&file.path);
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        let first = path.components().next().and_then(|part| part.as_os_str().to_str());
        if !plain || !first.is_some_and(|first| FOLDERS.contains(&first)) {
            let what = format!(
                "the list of the backup names \"{}\", which is not a file of a database",
                file.path
            );
            return Err(damaged(&self.place.root(), &what));
        }
        let path = self.directory.join(path);
        debug_assert!(path.starts_with(self.directory), "the file leaves the directory");
        Ok(path)
    }

    /// Copies a file and makes the content durable; the name becomes durable later.
    async fn write(&self, file: &Entry, path: &Path) -> Result<()> {
        let failed = |error| Error::io(format!("cannot write {}", path.display()), error);
        let target = self.disk.create(path).map_err(failed)?;
        extend(target.as_ref(), file.restored_bytes.max(file.bytes)).map_err(failed)?;
        self.read(file, |at, bytes| target.write_all_at(bytes, at).map_err(failed)).await?;
        target.sync_all().map_err(failed)
    }

    /// Reads a file of the backup, passes its bytes to `take`, and verifies the checksum.
    async fn read(
        &self,
        file: &Entry,
        mut take: impl FnMut(u64, &Bytes) -> Result<()>,
    ) -> Result<()> {
        let name = format!("{FILES}/{}", file.object);
        let with_place = |error: Error| match error.kind() {
            ErrorKind::DataCorrupted => hinted(error),
            _ => error,
        };
        let mut checksum = 0;
        for range in chunks(file.bytes) {
            self.watch.check()?;
            let bytes = self.place.read(&name, range.clone()).await.map_err(with_place)?;
            checksum = crc32c::crc32c_append(checksum, &bytes);
            take(range.start, &bytes)?;
        }
        if checksum != file.checksum {
            let what = format!("the checksum does not match; the file would be {}", file.path);
            return Err(hinted(damaged(&self.place.place(&name), &what)));
        }
        Ok(())
    }

    async fn write_manifest(&self, file: &Entry) -> Result<()> {
        let mut state = Vec::new();
        self.read(file, |_, bytes| {
            state.extend_from_slice(bytes);
            Ok(())
        })
        .await?;
        debug_assert_eq!(state.len() as u64, file.bytes, "the state is not complete");
        let folder = self.directory.join("manifest");
        let log: Arc<dyn Log> =
            Arc::new(Journal::open(Arc::clone(self.disk), folder, self.manifest.clone())?);
        let written = write_manifest(Arc::clone(&log), &state).await;
        written.and(log.close())
    }

    /// Stores a story on a shelf outside of the directory.
    async fn put_story(&self, file: &Entry, name: StoryName, shelf: &dyn Shelf) -> Result<()> {
        let path = self.directory.join("spool").join(format!("{:020}.building", name.id.0));
        self.write(file, &path).await?;
        let spool = Spool { disk: Arc::clone(self.disk), path: path.clone(), bytes: file.bytes };
        shelf.put(name, &spool).await?;
        let mut checksum = 0;
        for range in chunks(file.bytes) {
            self.watch.check()?;
            checksum = crc32c::crc32c_append(checksum, &shelf.read(name, range).await?);
        }
        if checksum != file.checksum {
            return Err(damaged(
                &shelf.place(name),
                "the bytes read back differ from the written bytes",
            ));
        }
        match self.disk.remove_file(&path) {
            // The file no longer exists if the shelf is on the same disk, because the shelf renames
            // it.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("cannot remove {}", path.display()), error))
            }
            _ => Ok(()),
        }
    }

    /// Renames FORMAT to its final name, durably: from now on, servers accept the directory.
    fn complete(&self) -> Result<()> {
        let directory = self.directory;
        let failed = |error| Error::io(format!("cannot write to {}", directory.display()), error);
        for folder in &self.folders {
            self.disk.sync_dir(folder).map_err(failed)?;
        }
        self.disk.sync_dir(directory).map_err(failed)?;
        let (from, to) = (directory.join(RESTORING), directory.join(FORMAT));
        self.disk.rename(&from, &to).map_err(failed)?;
        self.disk.sync_dir(directory).map_err(failed)
    }
}

fn hinted(error: Error) -> Error {
    error.with_hint(
        "choose another backup with --backup; the directory is incomplete: remove the directory",
    )
}

/// Sets the length of a new file, and reserves its disk space if the file system supports this.
fn extend(file: &dyn DiskFile, bytes: u64) -> io::Result<()> {
    match file.preallocate(bytes) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => file.set_len(bytes),
        outcome => outcome,
    }
}
