//! A file in memory; a crash loses unsynced data.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use stratalog_model::{Disk, DiskFile};

#[derive(Debug, Default, Clone)]
pub(super) struct MemoryDisk(Arc<Contents>);

#[derive(Debug, Default)]
struct Contents {
    exists: AtomicBool,
    written: Mutex<Vec<u8>>,
    synced: Mutex<Vec<u8>>,
    syncs: AtomicU64,
    failing: AtomicBool,
    reserves_nothing: AtomicBool,
}

impl MemoryDisk {
    pub fn crash(&self) {
        *self.0.written.lock() = self.0.synced.lock().clone();
    }

    pub fn syncs(&self) -> u64 {
        self.0.syncs.load(Ordering::Relaxed)
    }

    /// Makes the disk behave like a file system without fallocate.
    pub fn reserve_nothing(&self) {
        self.0.reserves_nothing.store(true, Ordering::Relaxed);
    }

    pub fn fail_syncs(&self) {
        self.0.failing.store(true, Ordering::Relaxed);
    }

    /// Simulates that another program overwrites or removes the file.
    pub fn replace(&self, bytes: Option<&[u8]>) {
        self.0.exists.store(bytes.is_some(), Ordering::Relaxed);
        *self.0.written.lock() = bytes.unwrap_or_default().to_vec();
        *self.0.synced.lock() = bytes.unwrap_or_default().to_vec();
    }

    pub fn flip(&self, at: usize) {
        self.0.written.lock()[at] ^= 1;
        self.0.synced.lock()[at] ^= 1;
    }
}

impl Disk for MemoryDisk {
    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _path: &Path) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn exists(&self, _path: &Path) -> io::Result<bool> {
        Ok(self.0.exists.load(Ordering::Relaxed))
    }

    fn open(&self, _path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.clone()))
    }

    fn create(&self, _path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.0.exists.store(true, Ordering::Relaxed);
        Ok(Box::new(self.clone()))
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove_file(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }
}

impl DiskFile for MemoryDisk {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let at = offset as usize;
        self.0.written.lock()[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let written = self.0.written.lock();
        let rest = written.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.written.lock().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.written.lock().resize(len as usize, 0);
        Ok(())
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        if self.0.reserves_nothing.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.syncs.fetch_add(1, Ordering::Relaxed);
        if self.0.failing.load(Ordering::Relaxed) {
            return Err(io::Error::other("device gone"));
        }
        *self.0.synced.lock() = self.0.written.lock().clone();
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }
}
