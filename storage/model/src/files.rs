//! Counts the files of a data directory for each use: journal, tablets, stories, index …

use std::fmt;

use crate::Result;

/// Counts the files of a data directory. The owner of the directory implements the trait.
pub trait DataFiles: Send + Sync + fmt::Debug {
    /// One entry for each kind, in the order of [`FileKind::ALL`], with the sizes of now. The sum of
    /// the bytes is the output of `du`; a folder of the directory may be a link to another disk.
    /// Blocks.
    ///
    /// # Errors
    /// `Io`.
    fn usage(&self) -> Result<Vec<FileUsage>>;

    /// True if an object store holds the stories.
    fn has_object_store(&self) -> bool;
}

/// The files of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileUsage {
    /// The kind.
    pub kind: FileKind,
    /// Number of files, without folders.
    pub files: u64,
    /// Allocated bytes of files and folders.
    pub bytes: u64,
}

/// The use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Segments of the journal of events.
    Journal,
    /// The segment that the journal of events made ahead of need.
    SpareSegment,
    /// Tablets.
    Tablets,
    /// Stories.
    Stories,
    /// Stories under construction.
    Spool,
    /// The index of the tablets.
    Index,
    /// The journal of the owners of events.
    Manifest,
    /// The journal of definitions.
    Catalog,
    /// The clock's files.
    Clock,
    /// Intermediate results of queries.
    Spill,
    /// Backups inside the directory.
    Backups,
    /// All other files, and the directory itself.
    Other,
}

impl FileKind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Journal,
        Self::SpareSegment,
        Self::Tablets,
        Self::Stories,
        Self::Spool,
        Self::Index,
        Self::Manifest,
        Self::Catalog,
        Self::Clock,
        Self::Spill,
        Self::Backups,
        Self::Other,
    ];
}
