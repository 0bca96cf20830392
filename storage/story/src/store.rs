//! The stories of a data directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use stratalog_model::{Disk, Error, ErrorKind, Result};

use crate::{
    build::{Builder, BuiltStory, StorySettings},
    cache::Cache,
    decoded::Decoded,
    schema::StorySchema,
    shelf::{Shelf, StoryId, StoryName, make_folder},
    story::Story,
};

/// Ending of the name of a spool file.
pub(crate) const BUILDING_SUFFIX: &str = ".building";

/// The stories on a shelf.
#[derive(Debug)]
pub struct Stories {
    shelf: Arc<dyn Shelf>,
    disk: Arc<dyn Disk>,
    spool: PathBuf,
    open: Mutex<Cache>,
    decoded: Arc<Decoded>,
    doomed: Mutex<Vec<StoryName>>,
    holds: AtomicUsize,
}

/// As long as it lives, no doomed story is removed.
#[derive(Debug)]
pub struct StoriesHold(Arc<Stories>);

impl Drop for StoriesHold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Stories {
    /// Opens a shelf. `spool` is a folder on `disk`, made if it is missing, where stories are
    /// built; it holds as much as the stories that are being built. Files that were never
    /// finished are removed, there and on the shelf. At most `open_bytes_max` bytes of what
    /// was read about stories are kept in memory, besides those in use, and `decoded_bytes_max`
    /// bytes of columns that were decoded.
    ///
    /// # Errors
    /// `DiskFull`, `Io`, `ConnectionFailure`.
    pub async fn open(
        shelf: Arc<dyn Shelf>,
        disk: Arc<dyn Disk>,
        spool: &Path,
        open_bytes_max: usize,
        decoded_bytes_max: u64,
    ) -> Result<Self> {
        make_folder(disk.as_ref(), spool)?;
        let failed = |error| Error::io(format!("cannot open {}", spool.display()), error);
        for name in disk.list(spool).map_err(failed)? {
            let digits = name.strip_suffix(BUILDING_SUFFIX);
            let ours = |digits: &str| digits.len() == 20 && digits.parse::<u64>().is_ok();
            if digits.is_some_and(ours) {
                disk.remove_file(&spool.join(&name)).map_err(failed)?;
            }
        }
        shelf.tidy().await?;
        let open = Mutex::new(Cache::new(open_bytes_max));
        let (doomed, holds) = (Mutex::default(), AtomicUsize::new(0));
        let decoded = Arc::new(Decoded::new(decoded_bytes_max));
        Ok(Self { shelf, disk, spool: spool.to_path_buf(), open, decoded, doomed, holds })
    }

    /// The stories of a shelf that nobody uses, for whoever only looks: nothing is made or
    /// removed, and nothing kept in memory.
    pub fn look(shelf: Arc<dyn Shelf>, disk: Arc<dyn Disk>, spool: &Path) -> Self {
        let (open, doomed) = (Mutex::new(Cache::new(0)), Mutex::default());
        let holds = AtomicUsize::new(0);
        let decoded = Arc::new(Decoded::new(0));
        Self { shelf, disk, spool: spool.to_path_buf(), open, decoded, doomed, holds }
    }

    /// As [`Self::open_story`], from what lies on the shelf now, whatever is kept in memory.
    ///
    /// # Errors
    /// As [`Self::open_story`].
    pub async fn open_anew(&self, built: &BuiltStory) -> Result<Arc<Story>> {
        let decoded = Arc::new(Decoded::new(0));
        Story::open(Arc::clone(&self.shelf), built, decoded).await.map(Arc::new)
    }

    /// Begins a story of a number that was never used.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `Internal` for columns that cannot be.
    pub fn build(
        &self,
        id: StoryId,
        schema: &StorySchema,
        settings: StorySettings,
    ) -> Result<Builder> {
        let (shelf, disk) = (Arc::clone(&self.shelf), Arc::clone(&self.disk));
        Builder::create(shelf, disk, &self.spool, id, schema, settings)
    }

    /// A story that the manifest names. Its tail is verified and compared with what the
    /// manifest knows. Hold it as long as a query, no longer: this keeps what fits.
    ///
    /// # Errors
    /// `DataCorrupted` when it is missing, damaged or another one; `Io`, `ConnectionFailure`.
    pub async fn open_story(&self, built: &BuiltStory) -> Result<Arc<Story>> {
        let known = self.open.lock().get(built);
        if let Some(story) = known {
            return Ok(story);
        }
        let decoded = Arc::clone(&self.decoded);
        let story = Arc::new(Story::open(Arc::clone(&self.shelf), built, decoded).await?);
        self.open.lock().put(&story);
        Ok(story)
    }

    /// Removes a story that no manifest names any more, and that nobody reads.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub async fn remove(&self, name: StoryName) -> Result<()> {
        self.open.lock().remove(name);
        self.shelf.remove(name).await
    }

    /// Remembers that a story is of no use any more: the next [`Self::remove_doomed`] removes it.
    pub fn doom(&self, name: StoryName) {
        self.doomed.lock().push(name);
    }

    /// Keeps the stories that a manifest names which is read from now on: what is doomed
    /// meanwhile stays, until a later [`Self::remove_doomed`].
    pub fn hold(self: &Arc<Self>) -> StoriesHold {
        self.holds.fetch_add(1, Ordering::SeqCst);
        StoriesHold(Arc::clone(self))
    }

    /// Reads every byte and every value of a story, also what is kept of it in memory.
    ///
    /// # Errors
    /// As [`Self::open_story`].
    pub async fn verify(&self, built: &BuiltStory) -> Result<()> {
        self.open_anew(built).await?.check().await
    }

    /// Reads a range of the file of a story, all of it, as it is.
    ///
    /// # Errors
    /// `DataCorrupted` when the file is missing or ends before; `Io`, `ConnectionFailure`.
    pub async fn read_raw(&self, name: StoryName, range: Range<u64>) -> Result<Bytes> {
        self.shelf.read(name, range).await
    }

    /// Removes what was doomed, unless somebody [holds](Self::hold) it. What cannot be removed
    /// stays so.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub async fn remove_doomed(&self) -> Result<()> {
        loop {
            if self.holds.load(Ordering::SeqCst) > 0 {
                return Ok(());
            }
            let Some(name) = self.doomed.lock().last().copied() else { return Ok(()) };
            self.remove(name).await?;
            self.doomed.lock().retain(|doomed| *doomed != name);
        }
    }

    /// Whether reading stories costs this machine alone.
    pub fn is_near(&self) -> bool {
        self.shelf.shape().near
    }

    /// Where the file of a story lies, for people.
    pub fn place(&self, name: StoryName) -> String {
        self.shelf.place(name)
    }

    /// Whether a story is among `files`, and as long as it was: what costs nothing to see.
    ///
    /// # Errors
    /// `DataCorrupted`.
    pub fn check(&self, built: &BuiltStory, files: &BTreeMap<StoryName, u64>) -> Result<()> {
        let place = self.shelf.place(built.name());
        let what = match files.get(&built.name()) {
            Some(bytes) if *bytes == built.bytes => return Ok(()),
            Some(bytes) => format!("has {bytes} bytes, and the manifest says {}", built.bytes),
            None => "is missing".to_string(),
        };
        Err(Error::new(ErrorKind::DataCorrupted, format!("story {place} {what}"))
            .with_hint("restore the file from a backup"))
    }

    /// Removes those of `files` that `kept` does not name. Returns how many that were.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub async fn keep_only(
        &self,
        kept: &BTreeSet<StoryName>,
        files: &BTreeMap<StoryName, u64>,
    ) -> Result<usize> {
        let mut removed = 0;
        for name in files.keys() {
            if !kept.contains(name) {
                self.remove(*name).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// The stories that are there, and the lengths of their files.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub async fn files(&self) -> Result<BTreeMap<StoryName, u64>> {
        self.shelf.list().await
    }

    /// Bytes of what is kept in memory about stories.
    pub fn open_bytes(&self) -> usize {
        self.open.lock().bytes()
    }

    /// Bytes of columns that are kept decoded.
    pub fn decoded_bytes(&self) -> u64 {
        self.decoded.bytes()
    }
}
