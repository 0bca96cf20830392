//! Measures the files of the data directory, for `stratalog.storage`.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use stratalog_journal::SPARE_NAME;
use stratalog_model::{
    Error, Result,
    files::{DataFiles, FileKind, FileUsage},
};

use super::{BACKUPS, CATALOG, CLOCK, INDEX, JOURNAL, MANIFEST, SPILL, SPOOL, STORIES, TABLETS};

/// The unit in which the file system counts the blocks of a file, in bytes.
const BLOCK_BYTES: u64 = 512;

/// The paths whose files are measured.
#[derive(Debug)]
pub(crate) struct DirectoryUsage {
    pub(crate) path: PathBuf,
    pub(crate) has_object_store: bool,
}

impl DataFiles for DirectoryUsage {
    fn usage(&self) -> Result<Vec<FileUsage>> {
        let counted = || -> io::Result<Vec<FileUsage>> {
            let mut usage = FileKind::ALL.map(|kind| FileUsage { kind, files: 0, bytes: 0 });
            add(&mut usage, FileKind::Other, &fs::metadata(&self.path)?);
            count(&mut usage, &self.path, Links::Followed, &|name| match name {
                JOURNAL => FileKind::Journal,
                TABLETS => FileKind::Tablets,
                STORIES => FileKind::Stories,
                SPOOL => FileKind::Spool,
                INDEX => FileKind::Index,
                MANIFEST => FileKind::Manifest,
                CATALOG => FileKind::Catalog,
                CLOCK => FileKind::Clock,
                SPILL => FileKind::Spill,
                BACKUPS => FileKind::Backups,
                _ => FileKind::Other,
            })?;
            Ok(usage.to_vec())
        };
        counted().map_err(|error| {
            Error::io(format!("cannot count the files of {}", self.path.display()), error)
        })
    }

    fn has_object_store(&self) -> bool {
        self.has_object_store
    }
}

/// How a count treats symbolic links.
#[derive(Clone, Copy)]
enum Links {
    /// Counts the file or folder to which the link points: a folder of the directory may be on
    /// another disk.
    Followed,
    /// Counts the link itself.
    Counted,
}

/// Adds the entries of a folder to `usage`, by kind. `kind_of` returns the kind of an entry for its
/// name.
fn count(
    usage: &mut [FileUsage],
    folder: &Path,
    links: Links,
    kind_of: &dyn Fn(&str) -> FileKind,
) -> io::Result<()> {
    let Some(entries) = unless_gone(fs::read_dir(folder))? else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let metadata = match links {
            Links::Followed => fs::metadata(entry.path()),
            Links::Counted => entry.metadata(),
        };
        let Some(metadata) = unless_gone(metadata)? else { continue };
        let kind = kind_of(&entry.file_name().to_string_lossy());
        add(usage, kind, &metadata);
        if metadata.is_dir() {
            count(usage, &entry.path(), Links::Counted, &|name| match (kind, name) {
                (FileKind::Journal, SPARE_NAME) => FileKind::SpareSegment,
                _ => kind,
            })?;
        }
    }
    Ok(())
}

fn add(usage: &mut [FileUsage], kind: FileKind, metadata: &Metadata) {
    if let Some(usage) = usage.iter_mut().find(|usage| usage.kind == kind) {
        usage.files += u64::from(!metadata.is_dir());
        usage.bytes += metadata.blocks() * BLOCK_BYTES;
    }
}

/// Converts the error to `None` for a file that was removed after the listing, and for a folder
/// that only another user may read, such as `lost+found`.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    use io::ErrorKind::{NotFound, PermissionDenied};
    match result {
        Err(error) if matches!(error.kind(), NotFound | PermissionDenied) => Ok(None),
        result => result.map(Some),
    }
}
