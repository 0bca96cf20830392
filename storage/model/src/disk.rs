//! The disk as a trait: a real disk in the server, a faulty disk in the simulator.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

/// A directory tree on a disk. Paths are complete. A change is durable only after the sync call for
/// this change; a new or renamed file needs [`Disk::sync_dir`] of its parent.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a directory and its parents.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Names of the entries of a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Whether the path exists.
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes a new file; an existing one is an error.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Replaces `to` by `from`, atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
    /// Bytes that an unprivileged process may still write on the file system of `path`.
    fn free_bytes(&self, path: &Path) -> io::Result<u64>;
    /// Takes an exclusive lock on the file at `path` (made if missing). The returned guard releases
    /// the lock on drop. `WouldBlock` if another process holds the lock.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// The canonical form of a path, for error messages and equality.
    fn canonical(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }
}

/// An open file. Offsets and lengths are in bytes.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Writes all of `bytes` at `offset`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Like [`Self::write_all_at`], but past the page cache if possible: for bytes without a reader
    /// in the near future. The address, the length and `offset` are multiples of 4096. The bytes
    /// are durable only after a sync of the file.
    fn write_direct_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        debug_assert!(bytes.len().is_multiple_of(4096), "the bytes end within a block");
        debug_assert!(offset.is_multiple_of(4096), "the bytes begin within a block");
        self.write_all_at(bytes, offset)
    }
    /// Reads up to `buffer.len()` bytes at `offset`; 0 at the end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Appends up to `bytes` bytes at `offset` to `buffer`. Returns the number of bytes read, 0 at
    /// the end of the file.
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
    /// The file's length.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends (with zeros) the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves room for the first `len` bytes and extends the file to `len` with zeros.
    /// `StorageFull` when there is no room.
    fn preallocate(&self, len: u64) -> io::Result<()>;
    /// fdatasync: contents and length are durable.
    fn sync_data(&self) -> io::Result<()>;
    /// fsync: contents and all metadata are durable.
    fn sync_all(&self) -> io::Result<()>;
}
