//! Where stories lie.

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

/// Ending of the name of a story.
const SUFFIX: &str = ".parquet";

/// Number of a story; never used again.
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
    /// Whose events.
    pub chronicle: ChronicleId,
    /// Which story.
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
        // One name, one way to write it.
        if parsed.to_string() == name { Ok(parsed) } else { Err(()) }
    }
}

/// A finished file on the machine's own disk, synced.
#[derive(Debug, Clone)]
pub struct Spool {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Where on it.
    pub path: PathBuf,
    /// Length.
    pub bytes: u64,
}

/// How a shelf wants to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadShape {
    /// Bytes of a request, about.
    pub request_bytes: u64,
    /// Bytes that nobody needs are read along when they lie between two that somebody does,
    /// and are no more than this.
    pub gap_bytes_max: u64,
    /// Requests at a time.
    pub at_once: usize,
    /// Whether reading costs this machine alone: no network, and nobody's bill.
    pub near: bool,
}

/// A place of immutable files. It may be far away: everything on it can take long and fail.
#[async_trait]
pub trait Shelf: Send + Sync + fmt::Debug {
    /// Puts a finished file there under a name that is not in use: whole and durable when this
    /// returns, and not there, or of no use, when it fails. The spool file may be gone then.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `ConnectionFailure` when the place cannot be reached; `Internal` for
    /// a name that is in use.
    async fn put(&self, name: StoryName, spool: &Spool) -> Result<()>;

    /// Reads a range of a file, all of it.
    ///
    /// # Errors
    /// `DataCorrupted` when the file is missing or ends before; `Io`, `ConnectionFailure`.
    async fn read(&self, name: StoryName, range: Range<u64>) -> Result<Bytes>;

    /// Length of a file.
    ///
    /// # Errors
    /// `DataCorrupted` when the file is missing; `Io`, `ConnectionFailure`.
    async fn len(&self, name: StoryName) -> Result<u64>;

    /// The stories that are there, and their lengths. Files of others are passed over.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    async fn list(&self) -> Result<BTreeMap<StoryName, u64>>;

    /// Removes a file; one that is not there is removed already.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    async fn remove(&self, name: StoryName) -> Result<()>;

    /// Removes what a put that was interrupted left behind. Nobody else may use the shelf.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    async fn tidy(&self) -> Result<()>;

    /// Where a file lies, for people.
    fn place(&self, name: StoryName) -> String;

    /// How it wants to be read.
    fn shape(&self) -> ReadShape;
}

/// A story that should be there is not.
fn missing(place: &str) -> Error {
    objects::missing("story", place)
}

/// A story ends before it should.
fn cut_off(place: &str, range: &Range<u64>, len: u64) -> Error {
    objects::cut_off("story", place, range, len)
}

#[async_trait]
impl Content for Spool {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
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
            Ok(Bytes::from(bytes))
        })
        .await
    }
}

/// Does work that blocks without holding up the other tasks of the runtime, where there is one.
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
