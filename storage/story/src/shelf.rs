//! The interface of shelves: a shelf stores finished stories, in a folder or in an object store.

mod local;
mod remote;

use std::{collections::BTreeMap, fmt, ops::Range, path::PathBuf, str::FromStr, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stratalog_model::{ChronicleId, Disk, Error, ErrorKind, Result};

pub use local::{LocalShelf, make_folder};
pub use remote::RemoteShelf;

use crate::objects::{self, Content};

/// Suffix of a story's file name.
const SUFFIX: &str = ".parquet";

/// Number of a story; never reused.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct StoryId(pub u64);

impl fmt::Display for StoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Name of a story on its shelf: `7/00000000000000000042.parquet`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StoryName {
    /// Chronicle of the events.
    pub chronicle: ChronicleId,
    /// Number of the story.
    pub id: StoryId,
}

impl fmt::Display for StoryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:020}{SUFFIX}", self.chronicle, self.id.0)
    }
}

impl FromStr for StoryName {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        let (folder, file) = name.split_once('/').ok_or(())?;
        let digits = file.strip_suffix(SUFFIX).ok_or(())?;
        let chronicle = ChronicleId(folder.parse().map_err(|_| ())?);
        let parsed = Self { chronicle, id: StoryId(digits.parse().map_err(|_| ())?) };
        // Each name has only one valid spelling: refuse all others.
        if parsed.to_string() == name { Ok(parsed) } else { Err(()) }
    }
}

/// A finished and synced story file on the local disk, before it is stored on the shelf.
#[derive(Debug, Clone)]
pub struct Spool {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Path on the disk.
    pub path: PathBuf,
    /// Length in bytes.
    pub bytes: u64,
}

/// The access pattern with which reads of a shelf are fastest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadShape {
    /// Approximate size of one request, in bytes.
    pub request_bytes: u64,
    /// If the gap between two needed ranges is at most this number of bytes, one request reads both
    /// ranges and the gap.
    pub gap_bytes_max: u64,
    /// Number of concurrent requests.
    pub at_once: usize,
    /// Whether reads use only local resources: no network and no fees.
    pub near: bool,
}

/// A store of immutable story files. The store may be remote: every operation may take long and may
/// fail.
#[async_trait]
pub trait Shelf: Send + Sync + fmt::Debug {
    /// Stores a finished file on the shelf, under a name that is not in use. After success, the
    /// file is complete and durable. After a failure, the file is missing or invalid. In both cases
    /// the file `spool` may be gone.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `ConnectionFailure` if the place is unreachable; `Internal` for a name in
    /// use.
    async fn put(&self, name: StoryName, spool: &Spool) -> Result<()>;

    /// Reads all bytes of a range of a file.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing or too short; `Io`, `ConnectionFailure`.
    async fn read(&self, name: StoryName, range: Range<u64>) -> Result<Bytes>;

    /// Length of a file in bytes.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing; `Io`, `ConnectionFailure`.
    async fn len(&self, name: StoryName) -> Result<u64>;

    /// The stories on the shelf, with the lengths of their files. Ignores files that are not
    /// stories.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    async fn list(&self) -> Result<BTreeMap<StoryName, u64>>;

    /// Removes a file. Does nothing if the file does not exist.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    async fn remove(&self, name: StoryName) -> Result<()>;

    /// Removes what interrupted calls of `put` have left. No other process may use the shelf.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    async fn tidy(&self) -> Result<()>;

    /// Path or URL of a file, for messages.
    fn place(&self, name: StoryName) -> String;

    /// The access pattern with which reads of the shelf are fastest.
    fn shape(&self) -> ReadShape;
}

/// The error for a missing story file.
fn missing(place: &str) -> Error {
    objects::missing("story", place)
}

/// The error for a story file that is too short.
fn cut_off(place: &str, range: &Range<u64>, len: u64) -> Error {
    objects::cut_off("story", place, range, len)
}

#[async_trait]
impl Content for Spool {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        debug_assert!(range.start <= range.end, "the range is reversed");
        debug_assert!(range.end <= self.bytes, "the range ends behind the file");
        let spool = self.clone();
        blocking(move || {
            let failed = |error| Error::io(format!("cannot read {}", spool.path.display()), error);
            let file = spool.disk.open(&spool.path).map_err(failed)?;
            let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
            let mut done = 0;
            while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
                match file.read_at(rest, range.start + done as u64).map_err(failed)? {
                    0 => return Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
                    read => done += read,
                }
            }
            debug_assert_eq!(done, bytes.len(), "the disk read too many bytes");
            Ok(Bytes::from(bytes))
        })
        .await
    }
}

/// Runs blocking work. Inside an async runtime, the work runs outside of the runtime's worker
/// threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.map_err(|error| {
            Error::new(ErrorKind::Internal, "a read or write of a story was interrupted")
                .with_source(error)
        })?,
        Err(_) => work(),
    }
}

#[cfg(test)]
mod tests;
