//! The interface of a disk: the server uses a real disk, the simulator a disk with faults.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// A directory tree on a disk. All paths are absolute. A change is durable only after the matching
/// sync call; a new or renamed file also needs [`Disk::sync_dir`] of its parent.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a directory and its parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The names of the entries of a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Whether the path exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes a new file. Fails if the file exists.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Renames `from` to `to`, atomically; replaces an existing `to`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Free bytes of the file system of `path` that an unprivileged process may use.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Locks the file at `path` exclusively; makes the file if missing. Dropping the returned guard
    /// releases the lock. `WouldBlock` if another process has the lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// The canonical form of a path, for error messages and comparisons.
    fn canonical(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// An open file. Offsets and lengths are in bytes.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Like [`Self::write_all_at`], but bypasses the page cache if possible; for bytes that will
    /// not be read soon. The address of `bytes`, their length and `offset` must be multiples of
    /// 4096. The bytes are durable only after a sync of the file.
    fn write_direct_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        debug_assert!(bytes.len().is_multiple_of(4096), "the bytes end within a block");
        debug_assert!(offset.is_multiple_of(4096), "the bytes begin within a block");
        self.write_all_at(bytes, offset)
    }
    /// Reads up to `buffer.len()` bytes at `offset`. Returns the number of bytes read; 0 at the end
    /// of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Reads up to `bytes` bytes at `offset`, and appends them to `buffer`. Returns the number of
    /// bytes read; 0 at the end of the file.
    fn append_at(&self, buffer: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<usize> {
        let start = buffer.len();
        buffer.resize(start + bytes, 0);
        let read = self.read_at(buffer.get_mut(start..).unwrap_or_default(), offset);
        debug_assert!(
            read.as_ref().ok().is_none_or(|read| *read <= bytes),
            "the disk returned more bytes than wanted"
        );
        buffer.truncate(start + *read.as_ref().unwrap_or(&0));
        debug_assert!(buffer.len() >= start, "the earlier bytes of the buffer are gone");
        read
    }
    /// The length of the file in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Sets the length of the file: cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves disk space for the first `len` bytes, and extends the file to `len` with zeros.
    /// `StorageFull` if the disk lacks space.
    fn preallocate(&self, len: u64) -> io::Result<()>;
    /// fdatasync: makes contents and length durable.
    fn sync_data(&self) -> io::Result<()>;
    /// fsync: makes contents and all metadata durable.
    fn sync_all(&self) -> io::Result<()>;
}
