//! A disk on which some calls report success without effect ("lies"). The crash tests must detect
//! each lie.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use stratalog_model::{Disk, DiskFile};

/// The calls that report success without effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// All syncs of files.
    Sync,
    /// All syncs of directories.
    SyncDirectory,
    /// Every third sync of files.
    SomeSyncs,
}

impl Lie {
    /// Every lie.
    pub const ALL: &'static [Lie] = &[Lie::Sync, Lie::SyncDirectory, Lie::SomeSyncs];
}

/// A disk that forwards all calls to another disk, except for the calls of a [`Lie`].
#[derive(Debug)]
pub struct SabotageDisk {
    inner: Arc<dyn Disk>,
    lie: Lie,
}

impl SabotageDisk {
    /// A disk that forwards to `inner`, except for the calls of `lie`.
    pub fn new(inner: Arc<dyn Disk>, lie: Lie) -> Self {
        Self { inner, lie }
    }

    fn file(&self, inner: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(SabotageFile { inner, lie: self.lie, syncs: Default::default() })
    }
}

impl Disk for SabotageDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.inner.create_dir_all(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.file(self.inner.open(path)?))
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.file(self.inner.create(path)?))
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.inner.remove_file(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if self.lie == Lie::SyncDirectory { Ok(()) } else { self.inner.sync_dir(path) }
    }
    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        self.inner.free_bytes(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.inner.lock(path)
    }
    fn canonical(&self, path: &Path) -> PathBuf {
        self.inner.canonical(path)
    }
}

#[derive(Debug)]
struct SabotageFile {
    inner: Box<dyn DiskFile>,
    lie: Lie,
    syncs: std::sync::atomic::AtomicU64,
}

impl SabotageFile {
    fn lies(&self) -> bool {
        let syncs = self.syncs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.lie == Lie::Sync || self.lie == Lie::SomeSyncs && syncs % 3 == 2
    }
}

impl DiskFile for SabotageFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_all_at(bytes, offset)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.inner.preallocate(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.lies() { Ok(()) } else { self.inner.sync_data() }
    }
    fn sync_all(&self) -> io::Result<()> {
        if self.lies() { Ok(()) } else { self.inner.sync_all() }
    }
}
