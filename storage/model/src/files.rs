//! Counts the files of a data directory by their use: journal, tablets, stories, index …

use std::fmt;

use crate::Result;

/// Counts the files of a data directory. The type that manages the directory implements this trait.
pub trait DataFiles: Send + Sync + fmt::Debug {
    /// The number of files and bytes of each kind at this moment, in the order of
    /// [`FileKind::ALL`]. The sum of the bytes equals the output of `du`; a folder of the directory
    /// may be a link to another disk. Blocks.
    ///
    /// # Errors
    /// `Io`.
    fn usage(&self) -> Result<Vec<FileUsage>>;

    /// True if the stories are in an object store, not in the data directory.
    fn has_object_store(&self) -> bool;
}

/// The number and the size of the files of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileUsage {
    /// The kind.
    pub kind: FileKind,
    /// Number of files; folders do not count.
    pub files: u64,
    /// Allocated bytes of the files and their folders.
    pub bytes: u64,
}

/// The use of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Segments of the journal of events.
    Journal,
    /// A segment file that the journal of events has made in advance.
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
