//! The [`Disk`] of the server: files of the local machine.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{FileExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    sync::OnceLock,
};

use rustix::{
    buffer::spare_capacity,
    fs::{FallocateFlags, FlockOperation, OFlags},
    io::{Errno, pread},
};
use stratalog_model::{Disk, DiskFile};

/// The file system of the local machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDisk;

impl Disk for LocalDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Disk that others take")]
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(LocalFile::of(OpenOptions::new().read(true).write(true).open(path)?))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Disk that others take")]
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(LocalFile::of(file))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Disk that others take")]
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Disk that others take")]
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Disk that others take")]
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Disk that others take")]
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(file))
    }

    fn canonical(&self, path: &Path) -> PathBuf {
        path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
    }
}

/// An open file.
#[derive(Debug)]
struct LocalFile {
    file: File,
    /// A second handle to the same file for direct I/O; `None` if the file system has no direct
    /// I/O.
    direct: OnceLock<Option<File>>,
}

impl LocalFile {
    fn of(file: File) -> Box<dyn DiskFile> {
        Box::new(Self { file, direct: OnceLock::new() })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the Disk that others take")]
    fn direct(&self) -> Option<&File> {
        let open = || {
            // Opens the same file, even if it has been renamed.
            let same = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let flags = OFlags::DIRECT.bits().cast_signed();
            OpenOptions::new().write(true).custom_flags(flags).open(same).ok()
        };
        self.direct.get_or_init(open).as_ref()
    }
}

impl DiskFile for LocalFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn write_direct_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        debug_assert!(offset.is_multiple_of(4096), "a direct write within a block");
        debug_assert!(bytes.len().is_multiple_of(4096), "a direct write of a part of a block");
        let refused = |error: &io::Error| error.raw_os_error() == Some(Errno::INVAL.raw_os_error());
        match self.direct().map(|direct| direct.write_all_at(bytes, offset)) {
            // The write was refused because the disk needs a larger alignment: write through the
            // page cache.
            Some(Err(error)) if refused(&error) => self.file.write_all_at(bytes, offset),
            Some(written) => written,
            None => self.file.write_all_at(bytes, offset),
        }
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match self.file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    fn append_at(&self, buffer: &mut Vec<u8>, bytes: usize, offset: u64) -> io::Result<usize> {
        // Reads into the spare capacity of the vector, which may be larger than `bytes` and needs
        // no zeroing.
        buffer.reserve_exact(bytes);
        let start = buffer.len();
        loop {
            match pread(&self.file, spare_capacity(buffer), offset) {
                Err(Errno::INTR) => {}
                outcome => {
                    let read = outcome?.min(bytes);
                    buffer.truncate(start + read);
                    debug_assert_eq!(buffer.len(), start + read, "the buffer has other bytes");
                    return Ok(read);
                }
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        loop {
            match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len) {
                Err(Errno::INTR) => {}
                // Some file systems have no fallocate. The caller then continues without
                // preallocation.
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}
