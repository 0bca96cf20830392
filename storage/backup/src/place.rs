//! The place where backups are stored: a folder, or a prefix of an object store.
//!
//! ```text
//!   PLACE/files/<kind>-<hash>           files, each stored once for all backups
//!   PLACE/backups/<name>.backup         lists: a backup exists once its list exists
//!   PLACE/LOCK, PLACE/locks/lock        lock of the process that changes the place
//! ```

use std::{
    collections::{BTreeMap, hash_map::RandomState},
    hash::{BuildHasher as _, Hasher as _},
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use stratalog_model::{Disk, Error, ErrorKind, Result};
use stratalog_story::{
    Content, Objects, RemoteSettings, environment, make_folder, without_secrets,
};

use crate::content::{BytesContent, chunks, lost, read_file};

/// Folder of the backed-up files.
pub(crate) const FILES: &str = "files";
/// Folder of the lists of backups.
pub(crate) const BACKUPS: &str = "backups";

const FOLDERS: [&str; 2] = [FILES, BACKUPS];
const BUILDING_SUFFIX: &str = ".building";
const LOCAL_LOCK: &str = "LOCK";
const LOCKS: &str = "locks";
const REMOTE_LOCK: &str = "locks/lock";

/// How often the owner of a lock in an object store renews the lock, in seconds.
const RENEWAL_SECONDS: u64 = 60;
/// A lock is stale if it was not renewed for this time, by the store's clock; in milliseconds.
const STALE_MS: i64 = 15 * 60 * 1000;

/// A place where backups are stored.
#[derive(Debug, Clone)]
pub struct Place(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Local { disk: Arc<dyn Disk>, folder: PathBuf },
    Remote(Arc<Objects>),
}

impl Place {
    /// The place at a path or a URL: `file:///path`, `s3://bucket/prefix`, `gs://bucket/prefix`,
    /// `az://container/prefix`. Credentials come from the environment. Opens no file and no
    /// connection.
    ///
    /// # Errors
    /// `InvalidParameterValue` for an invalid URL.
    pub fn of_url(url: &str, disk: &Arc<dyn Disk>, settings: RemoteSettings) -> Result<Self> {
        let invalid = |what: &str| {
            Error::new(
                ErrorKind::InvalidParameterValue,
                format!("\"{}\" is not a place for backups: {what}", without_secrets(url)),
            )
            .with_hint("write a path, file:///path, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix")
        };
        if url.trim().is_empty() {
            return Err(invalid("it is empty"));
        }
        if !url.contains("://") {
            return Ok(Self::folder(Arc::clone(disk), Path::new(url)));
        }
        let parsed = url::Url::parse(url).map_err(|error| invalid(&error.to_string()))?;
        if parsed.scheme() == "file" {
            let path = parsed.to_file_path();
            let path = path.map_err(|()| invalid("the path is not a local path"))?;
            return Ok(Self::folder(Arc::clone(disk), &path));
        }
        Ok(Self::objects(Objects::from_url(url, environment(), "file of a backup", settings)?))
    }

    /// A place in a folder, which the first backup creates.
    pub fn folder(disk: Arc<dyn Disk>, folder: &Path) -> Self {
        Self(Kind::Local { disk, folder: folder.to_path_buf() })
    }

    /// A place in an object store.
    pub fn objects(objects: Objects) -> Self {
        Self(Kind::Remote(Arc::new(objects)))
    }

    /// The folder; `None` for an object store.
    pub fn local(&self) -> Option<&Path> {
        match &self.0 {
            Kind::Local { folder, .. } => Some(folder),
            Kind::Remote(_) => None,
        }
    }

    /// Path or URL of the place, for messages.
    pub fn root(&self) -> String {
        match &self.0 {
            Kind::Local { folder, .. } => folder.display().to_string(),
            Kind::Remote(objects) => objects.root().to_string(),
        }
    }

    /// Path or URL of a file in the place, for messages.
    pub(crate) fn place(&self, name: &str) -> String {
        match &self.0 {
            Kind::Local { folder, .. } => folder.join(name).display().to_string(),
            Kind::Remote(objects) => objects.place(name),
        }
    }

    /// Locks the place against changes by any further process, and makes the folders of the place.
    ///
    /// # Errors
    /// `ObjectInUse` if another process has locked the place; `DiskFull`, `Io`,
    /// `ConnectionFailure`.
    pub async fn guard(&self) -> Result<PlaceGuard> {
        match &self.0 {
            Kind::Local { disk, folder } => {
                for name in FOLDERS {
                    make_folder(disk.as_ref(), &folder.join(name))?;
                }
                let lock =
                    disk.lock(&folder.join(LOCAL_LOCK)).map_err(|error| match error.kind() {
                        io::ErrorKind::WouldBlock => self.in_use("another process uses the place"),
                        _ => Error::io(format!("cannot lock {}", folder.display()), error),
                    })?;
                Ok(PlaceGuard(Guard::Local(lock)))
            }
            Kind::Remote(objects) => self.lock_remote(objects).await,
        }
    }

    fn in_use(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::ObjectInUse,
            format!(
                "a backup to {}, or a removal of backups at this place, is running: {what}",
                self.root()
            ),
        )
        .with_hint("wait for the end of the other command, and try again")
    }

    async fn lock_remote(&self, objects: &Arc<Objects>) -> Result<PlaceGuard> {
        let token = BytesContent(Bytes::from(token()));
        for _ in 0..3 {
            // The answer may have been lost: the content of the lock file shows who has the lock.
            objects.put_first(REMOTE_LOCK, &token).await?;
            if read_all(objects, REMOTE_LOCK).await?.is_some_and(|found| found == token.0) {
                return Ok(PlaceGuard(Guard::remote(objects, token.0)));
            }
            // The upload time of a new file shows the current time of the store's clock.
            let probe = format!("{LOCKS}/{}", String::from_utf8_lossy(&token.0));
            objects.replace(&probe, &token).await?;
            let there = objects.list(LOCKS).await?;
            objects.remove(&probe).await?;
            let put_ms = |name: &str| there.get(name).map(|file| file.put_ms);
            if let (Some(lock_ms), Some(now_ms)) = (put_ms(REMOTE_LOCK), put_ms(&probe)) {
                let silent_ms = now_ms.saturating_sub(lock_ms);
                if silent_ms < STALE_MS {
                    return Err(self.in_use(&format!(
                        "the lock was renewed {} s ago; the lock of a killed process expires after {} minutes",
                        silent_ms / 1000,
                        STALE_MS / 60_000
                    )));
                }
                objects.remove(REMOTE_LOCK).await?;
            }
        }
        Err(self.in_use("several other processes request the lock"))
    }

    /// Stores a complete file durably, under a name that is not in use; returns `false` if the name
    /// is in use. The caller must have locked the place by [`Self::guard`].
    ///
    /// # Errors
    /// `DiskFull`, `Io`, `ConnectionFailure`; errors of `content`.
    pub(crate) async fn put(&self, name: &str, content: &dyn Content) -> Result<bool> {
        debug_assert!(is_in_folder(name), "the file is outside of the folders of a place");
        match &self.0 {
            Kind::Local { disk, folder } => {
                let path = folder.join(name);
                let failed = |error| Error::io(format!("cannot write {}", path.display()), error);
                if disk.exists(&path).map_err(failed)? {
                    return Ok(false);
                }
                put_file(disk.as_ref(), &path, content).await?;
                Ok(true)
            }
            Kind::Remote(objects) => objects.put(name, content).await,
        }
    }

    /// Reads all bytes of a range of a file.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing or too short; `Io`, `ConnectionFailure`.
    pub(crate) async fn read(&self, name: &str, range: Range<u64>) -> Result<Bytes> {
        match &self.0 {
            Kind::Local { disk, folder } => read_file(disk.as_ref(), &folder.join(name), range),
            Kind::Remote(objects) => objects.read(name, range).await,
        }
    }

    /// Reads a complete file of `bytes` bytes, and returns its checksum.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub(crate) async fn checksum(&self, name: &str, bytes: u64) -> Result<u32> {
        let mut checksum = 0;
        for range in chunks(bytes) {
            checksum = crc32c::crc32c_append(checksum, &self.read(name, range).await?);
        }
        Ok(checksum)
    }

    /// The files of a folder, with their lengths. Names are relative to the folder. Unfinished
    /// files are omitted.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub(crate) async fn list(&self, of: &str) -> Result<BTreeMap<String, u64>> {
        debug_assert!(FOLDERS.contains(&of), "a place has no such folder");
        match &self.0 {
            Kind::Local { disk, folder } => {
                let folder = folder.join(of);
                let failed = |error| Error::io(format!("cannot read {}", folder.display()), error);
                if !disk.exists(&folder).map_err(failed)? {
                    return Ok(BTreeMap::new());
                }
                let names = disk.list(&folder).map_err(failed)?.into_iter();
                let whole = names.filter(|name| !name.ends_with(BUILDING_SUFFIX));
                let len = |name: String| {
                    let bytes = disk.open(&folder.join(&name))?.len()?;
                    Ok((name, bytes))
                };
                whole.map(len).collect::<io::Result<_>>().map_err(failed)
            }
            Kind::Remote(objects) => {
                let files = objects.list(of).await?.into_iter();
                let below =
                    |name: &str| Some(name.strip_prefix(of)?.strip_prefix('/')?.to_string());
                Ok(files.filter_map(|(name, file)| Some((below(&name)?, file.bytes))).collect())
            }
        }
    }

    /// Removes a file; does nothing if the file does not exist. The caller must have locked the
    /// place.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        debug_assert!(is_in_folder(name), "the file is outside of the folders of a place");
        match &self.0 {
            Kind::Local { disk, folder } => {
                let path = folder.join(name);
                match disk.remove_file(&path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(Error::io(format!("cannot remove {}", path.display()), error))
                    }
                    _ => Ok(()),
                }
            }
            Kind::Remote(objects) => objects.remove(name).await,
        }
    }

    /// Makes earlier removals from a folder durable, and removes unfinished files. The caller must
    /// have locked the place.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn tidy(&self, of: &str) -> Result<()> {
        debug_assert!(FOLDERS.contains(&of), "a place has no such folder");
        let Kind::Local { disk, folder } = &self.0 else { return Ok(()) };
        let folder = folder.join(of);
        let failed = |error| Error::io(format!("cannot tidy {}", folder.display()), error);
        for name in disk.list(&folder).map_err(failed)? {
            if name.ends_with(BUILDING_SUFFIX) {
                disk.remove_file(&folder.join(name)).map_err(failed)?;
            }
        }
        disk.sync_dir(&folder).map_err(failed)
    }
}

/// Whether a name is in one of the folders of a place.
fn is_in_folder(name: &str) -> bool {
    name.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder))
}

/// The lock of a place. While the lock exists, no further process can change the place.
#[derive(Debug)]
pub struct PlaceGuard(Guard);

enum Guard {
    Local(Box<dyn Send + Sync>),
    Remote { objects: Arc<Objects>, token: Bytes, renewal: Renewal },
}

/// The task for renewing a lock; dropping the value stops the task.
struct Renewal(tokio::task::JoinHandle<()>);

impl Drop for Renewal {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Guard")
    }
}

impl Guard {
    fn remote(objects: &Arc<Objects>, token: Bytes) -> Self {
        let (store, mine) = (Arc::clone(objects), token.clone());
        let renewal = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(RENEWAL_SECONDS)).await;
                match read_all(&store, REMOTE_LOCK).await {
                    Ok(Some(found)) if found == mine => {
                        if let Err(error) = store.replace(REMOTE_LOCK, &BytesContent(found)).await {
                            tracing::warn!(%error, "the lock of the backups is not renewed");
                        }
                    }
                    // Another process has taken over the lock: `PlaceGuard::check` reports this.
                    Ok(_) => return,
                    Err(error) => tracing::warn!(%error, "the lock of the backups is not renewed"),
                }
            }
        });
        Self::Remote { objects: Arc::clone(objects), token, renewal: Renewal(renewal) }
    }
}

impl PlaceGuard {
    /// Checks that this process still has the lock. A process suspended for long may have lost the
    /// lock.
    ///
    /// # Errors
    /// `ObjectInUse` if another process has the lock; `ConnectionFailure`.
    pub(crate) async fn check(&self) -> Result<()> {
        let Guard::Remote { objects, token, .. } = &self.0 else { return Ok(()) };
        if read_all(objects, REMOTE_LOCK).await?.is_some_and(|found| found == *token) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ObjectInUse,
            format!("another process took the lock of the backups in {}", objects.root()),
        )
        .with_hint("this process was suspended for a long time; run the command again"))
    }

    /// Releases the lock.
    pub async fn end(self) {
        match self.0 {
            Guard::Local(lock) => drop(lock),
            Guard::Remote { objects, token, renewal } => {
                drop(renewal);
                let found = read_all(&objects, REMOTE_LOCK).await;
                let ours = found.is_ok_and(|found| found.is_some_and(|found| found == token));
                if ours && let Err(error) = objects.remove(REMOTE_LOCK).await {
                    tracing::warn!(%error, "the lock of the backups could not be removed; the lock expires after 15 minutes");
                }
            }
        }
    }
}

/// Reads a small file of an object store; `None` for a missing file.
async fn read_all(objects: &Objects, name: &str) -> Result<Option<Bytes>> {
    let read = async {
        let bytes = objects.len(name).await?;
        objects.read(name, 0..bytes).await
    };
    match read.await {
        Ok(bytes) => Ok(Some(bytes)),
        // The file is missing, or was replaced between the two requests.
        Err(error) if error.kind() == ErrorKind::DataCorrupted => Ok(None),
        Err(error) => Err(error),
    }
}

/// A unique token.
fn token() -> String {
    let number = || RandomState::new().build_hasher().finish();
    let token = format!("{:016x}{:016x}", number(), number());
    debug_assert_eq!(token.len(), 32, "the token is not complete");
    token
}

/// Writes a file under a temporary name, syncs the file, and renames the file.
async fn put_file(disk: &dyn Disk, path: &Path, content: &dyn Content) -> Result<()> {
    let failed = |error| Error::io(format!("cannot write {}", path.display()), error);
    let folder = path.parent().ok_or_else(|| Error::internal("a file without a folder"))?;
    let mut building = path.as_os_str().to_os_string();
    building.push(BUILDING_SUFFIX);
    let building = PathBuf::from(building);
    if disk.exists(&building).map_err(failed)? {
        disk.remove_file(&building).map_err(failed)?;
    }
    let file = disk.create(&building).map_err(failed)?;
    let write = async {
        for range in chunks(content.bytes()) {
            let start = range.start;
            let bytes = content.read(range).await?;
            file.write_all_at(&bytes, start).map_err(failed)?;
        }
        file.sync_all().map_err(failed)
    };
    if let Err(error) = write.await {
        // Frees the disk space. If the removal fails, the next attempt overwrites the temporary
        // file.
        disk.remove_file(&building).ok();
        return Err(error);
    }
    disk.rename(&building, path).map_err(failed)?;
    disk.sync_dir(folder).map_err(failed)
}

/// The error for a stored file that differs from its entry in the list.
pub(crate) fn damaged(place: &str, what: &str) -> Error {
    lost(place, &format!("is damaged: {what}"))
}
