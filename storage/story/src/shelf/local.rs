//! A shelf (storage of finished stories) in a folder of a local disk.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use stratalog_model::{Disk, DiskFile, Error, Result};

use super::{ReadShape, Shelf, Spool, StoryName, blocking, cut_off, missing};
use crate::sabotage;

/// Suffix of a file that is being copied to the shelf.
const BUILDING_SUFFIX: &str = ".building";

/// Bytes per read and write of a copy.
const COPY_BYTES: usize = 1 << 20;

/// Stories in a folder, with one subfolder per chronicle.
#[derive(Debug, Clone)]
pub struct LocalShelf {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
}

impl LocalShelf {
    /// Opens the shelf in `folder`, which is made if missing.
    ///
    /// # Errors
    /// `DiskFull`, `Io`.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path) -> Result<Self> {
        make_folder(disk.as_ref(), folder)?;
        Ok(Self { disk, folder: folder.to_path_buf() })
    }

    /// The shelf in a folder, for readers only: makes no folder.
    pub fn look(disk: Arc<dyn Disk>, folder: &Path) -> Self {
        Self { disk, folder: folder.to_path_buf() }
    }

    fn path(&self, name: StoryName) -> PathBuf {
        self.folder.join(name.to_string())
    }

    fn put_now(&self, name: StoryName, spool: &Spool) -> Result<()> {
        let path = self.path(name);
        let failed = |error| Error::io(format!("cannot write {}", path.display()), error);
        if self.disk.exists(&path).map_err(failed)? {
            return Err(Error::internal(format!("story {name} already exists")));
        }
        let folder = path.parent().unwrap_or(&self.folder);
        self.disk.create_dir_all(folder).map_err(failed)?;
        // The sync is needed even for an existing folder: its creator may have stopped before the
        // sync.
        self.disk.sync_dir(&self.folder).map_err(failed)?;
        match self.rename(spool, &path) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let building = folder.join(format!("{:020}{BUILDING_SUFFIX}", name.id.0));
                let copied = self.copy(spool, &building, &path);
                if copied.is_err() {
                    // Best effort: if the removal fails, the next start removes the file.
                    self.disk.remove_file(&building).ok();
                }
                copied.map_err(failed)?;
            }
            renamed => renamed.map_err(failed)?,
        }
        if sabotage::active("story-name-unsynced") {
            return Ok(());
        }
        let synced = self.disk.sync_dir(folder).map_err(failed);
        if synced.is_err() {
            self.disk.remove_file(&path).ok();
        }
        synced
    }

    /// Renames the file to its place on the shelf; fails if the shelf is on another disk.
    fn rename(&self, spool: &Spool, path: &Path) -> io::Result<()> {
        if !Arc::ptr_eq(&self.disk, &spool.disk) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        // The entry in the spool folder must be durable before the rename, too.
        self.disk.sync_dir(spool.path.parent().unwrap_or(&self.folder))?;
        self.disk.rename(&spool.path, path)
    }

    fn copy(&self, spool: &Spool, building: &Path, path: &Path) -> io::Result<()> {
        if self.disk.exists(building)? {
            self.disk.remove_file(building)?;
        }
        let from = spool.disk.open(&spool.path)?;
        let to = self.disk.create(building)?;
        let mut buffer = vec![0; COPY_BYTES];
        let mut at = 0;
        while at < spool.bytes {
            let read = from.read_at(&mut buffer, at)?;
            let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            to.write_all_at(part, at)?;
            at += read as u64;
        }
        to.sync_all()?;
        self.disk.rename(building, path)
    }

    fn read_now(&self, name: StoryName, range: &Range<u64>) -> Result<Bytes> {
        let path = self.path(name);
        let file = self.open_file(&path)?;
        let wanted = range.end.saturating_sub(range.start) as usize;
        let mut bytes = Vec::with_capacity(wanted);
        while bytes.len() < wanted {
            let (at, left) = (range.start + bytes.len() as u64, wanted - bytes.len());
            let read = file.append_at(&mut bytes, left, at);
            let read =
                read.map_err(|error| Error::io(format!("cannot read {}", path.display()), error))?;
            if read == 0 {
                return Err(cut_off(&path.display().to_string(), range, at));
            }
        }
        debug_assert_eq!(bytes.len(), wanted, "the disk read too many bytes");
        Ok(bytes.into())
    }

    fn open_file(&self, path: &Path) -> Result<Box<dyn DiskFile>> {
        self.disk.open(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => missing(&path.display().to_string()),
            _ => Error::io(format!("cannot open {}", path.display()), error),
        })
    }

    /// The names of all files of all chronicles, relative to the folder of the shelf.
    fn names(&self) -> Result<Vec<String>> {
        let failed = |error| Error::io(format!("cannot read {}", self.folder.display()), error);
        let mut names = Vec::new();
        for folder in self.disk.list(&self.folder).map_err(failed)? {
            if folder.parse::<u32>().is_ok() {
                let files = self.disk.list(&self.folder.join(&folder)).map_err(failed)?;
                names.extend(files.into_iter().map(|file| format!("{folder}/{file}")));
            }
        }
        Ok(names)
    }

    fn list_now(&self) -> Result<BTreeMap<StoryName, u64>> {
        let names = self.names()?.into_iter().filter_map(|name| name.parse().ok());
        names.map(|name| Ok((name, self.len_now(name)?))).collect()
    }

    fn len_now(&self, name: StoryName) -> Result<u64> {
        let path = self.path(name);
        let len = self.open_file(&path)?.len();
        len.map_err(|error| Error::io(format!("cannot read {}", path.display()), error))
    }

    fn remove_now(&self, path: &Path) -> Result<()> {
        match self.disk.remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(format!("cannot remove {}", path.display()), error))
            }
            _ => Ok(()),
        }
    }

    fn tidy_now(&self) -> Result<()> {
        for name in self.names()? {
            let whole = name.strip_suffix(BUILDING_SUFFIX).map(|name| format!("{name}.parquet"));
            if whole.is_some_and(|whole| whole.parse::<StoryName>().is_ok()) {
                self.remove_now(&self.folder.join(name))?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Shelf for LocalShelf {
    async fn put(&self, name: StoryName, spool: &Spool) -> Result<()> {
        let (shelf, spool) = (self.clone(), spool.clone());
        blocking(move || shelf.put_now(name, &spool)).await
    }

    async fn read(&self, name: StoryName, range: Range<u64>) -> Result<Bytes> {
        let shelf = self.clone();
        blocking(move || shelf.read_now(name, &range)).await
    }

    async fn len(&self, name: StoryName) -> Result<u64> {
        let shelf = self.clone();
        blocking(move || shelf.len_now(name)).await
    }

    async fn list(&self) -> Result<BTreeMap<StoryName, u64>> {
        let shelf = self.clone();
        blocking(move || shelf.list_now()).await
    }

    async fn remove(&self, name: StoryName) -> Result<()> {
        let shelf = self.clone();
        blocking(move || shelf.remove_now(&shelf.path(name))).await
    }

    async fn tidy(&self) -> Result<()> {
        let shelf = self.clone();
        blocking(move || shelf.tidy_now()).await
    }

    fn place(&self, name: StoryName) -> String {
        self.path(name).display().to_string()
    }

    fn shape(&self) -> ReadShape {
        ReadShape { request_bytes: 4 << 20, gap_bytes_max: 128 << 10, at_once: 2, near: true }
    }
}

/// Makes a folder and its missing parents, and makes all of them durable.
///
/// # Errors
/// `DiskFull`, `Io`.
pub fn make_folder(disk: &dyn Disk, folder: &Path) -> Result<()> {
    let failed = |error| Error::io(format!("cannot create {}", folder.display()), error);
    let mut parents: Vec<&Path> = folder.parent().into_iter().collect();
    while let Some(parent) = parents.last().copied()
        && !disk.exists(parent).map_err(failed)?
    {
        let Some(above) = parent.parent() else { break };
        parents.push(above);
    }
    disk.create_dir_all(folder).map_err(failed)?;
    // The sync is needed even for an existing folder: its creator may have stopped before the sync.
    for parent in parents {
        disk.sync_dir(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
            .map_err(failed)?;
    }
    Ok(())
}
