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
    decoded_columns::DecodedColumns,
    schema::StorySchema,
    shelf::{Shelf, StoryId, StoryName, make_folder},
    story::Story,
};

/// Suffix of a spool file's name.
pub(crate) const BUILDING_SUFFIX: &str = ".building";

/// The stories on a shelf.
#[derive(Debug)]
pub struct Stories {
    shelf: Arc<dyn Shelf>,
    disk: Arc<dyn Disk>,
    spool: PathBuf,
    open: Mutex<Cache>,
    decoded: Arc<DecodedColumns>,
    doomed: Mutex<Vec<StoryName>>,
    holds: AtomicUsize,
}

/// Prevents the removal of doomed stories.
#[derive(Debug)]
pub struct StoriesHold(Arc<Stories>);

impl Drop for StoriesHold {
    fn drop(&mut self) {
        let held = self.0.holds.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(held > 0, "a hold ends twice");
    }
}

impl Stories {
    /// Opens a shelf. `spool` is a folder on `disk` (made if missing) for stories under
    /// construction, and needs room for all of them. Unfinished files are removed from the spool
    /// folder and from the shelf. The cache of open stories keeps at most `open_bytes_max` bytes,
    /// besides stories in use. The cache of decoded columns keeps at most `decoded_bytes_max`
    /// bytes.
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
        let decoded = Arc::new(DecodedColumns::new(decoded_bytes_max));
        Ok(Self { shelf, disk, spool: spool.to_path_buf(), open, decoded, doomed, holds })
    }

    /// The stories of an unused shelf, for readers: nothing is made, removed or cached.
    pub fn look(shelf: Arc<dyn Shelf>, disk: Arc<dyn Disk>, spool: &Path) -> Self {
        let (open, doomed) = (Mutex::new(Cache::new(0)), Mutex::default());
        let holds = AtomicUsize::new(0);
        let decoded = Arc::new(DecodedColumns::new(0));
        Self { shelf, disk, spool: spool.to_path_buf(), open, decoded, doomed, holds }
    }

    /// Like [`Self::open_story`], but reads the shelf instead of the cache.
    ///
    /// # Errors
    /// The errors of [`Self::open_story`].
    pub async fn open_anew(&self, built: &BuiltStory) -> Result<Arc<Story>> {
        let decoded = Arc::new(DecodedColumns::new(0));
        Story::open(Arc::clone(&self.shelf), built, decoded).await.map(Arc::new)
    }

    /// Begins a story with an unused number.
    ///
    /// # Errors
    /// `DiskFull`, `Io`; `Internal` for invalid columns.
    pub fn build(
        &self,
        id: StoryId,
        schema: &StorySchema,
        settings: StorySettings,
    ) -> Result<Builder> {
        let (shelf, disk) = (Arc::clone(&self.shelf), Arc::clone(&self.disk));
        Builder::create(shelf, disk, &self.spool, id, schema, settings)
    }

    /// Opens a story of the manifest. The tail is verified, and compared with the manifest's
    /// description. Callers keep the story only for the duration of a query: the cache keeps
    /// stories within its budget.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing, damaged or another story; `Io`, `ConnectionFailure`.
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

    /// Removes a story that no manifest names any more. The story must have no readers.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub async fn remove(&self, name: StoryName) -> Result<()> {
        self.open.lock().remove(name);
        self.shelf.remove(name).await
    }

    /// Dooms an obsolete story: the next [`Self::remove_doomed`] removes the story.
    pub fn doom(&self, name: StoryName) {
        self.doomed.lock().push(name);
    }

    /// Holds all stories of any manifest that is read from now on: doomed stories stay until a
    /// later [`Self::remove_doomed`].
    pub fn hold(self: &Arc<Self>) -> StoriesHold {
        self.holds.fetch_add(1, Ordering::SeqCst);
        StoriesHold(Arc::clone(self))
    }

    /// Reads and verifies every byte and every value of a story on the shelf, without the cache.
    ///
    /// # Errors
    /// The errors of [`Self::open_story`].
    pub async fn verify(&self, built: &BuiltStory) -> Result<()> {
        self.open_anew(built).await?.check().await
    }

    /// Reads a complete range of a story's file without verification.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing or too short; `Io`, `ConnectionFailure`.
    pub async fn read_raw(&self, name: StoryName, range: Range<u64>) -> Result<Bytes> {
        self.shelf.read(name, range).await
    }

    /// Removes the doomed stories, unless a [hold](Self::hold) exists. After a failure, the
    /// remaining stories stay doomed.
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

    /// Whether reads of stories cost only local resources.
    pub fn is_near(&self) -> bool {
        self.shelf.shape().near
    }

    /// The place of a story's file, for messages.
    pub fn place(&self, name: StoryName) -> String {
        self.shelf.place(name)
    }

    /// Whether `files` contains a story with its length: a cheap check.
    ///
    /// # Errors
    /// `DataCorrupted`.
    pub fn check(&self, built: &BuiltStory, files: &BTreeMap<StoryName, u64>) -> Result<()> {
        let place = self.shelf.place(built.name());
        let what = match files.get(&built.name()) {
            Some(bytes) if *bytes == built.bytes => return Ok(()),
            Some(bytes) => {
                format!("has {bytes} bytes, but {} bytes according to the manifest", built.bytes)
            }
            None => "is missing".to_string(),
        };
        Err(Error::new(ErrorKind::DataCorrupted, format!("story {place} {what}"))
            .with_hint("restore the file from a backup"))
    }

    /// Removes the stories of `files` outside of `kept`. Returns the number of removed stories.
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
        debug_assert!(removed <= files.len(), "more stories are removed than there are");
        debug_assert!(removed + kept.len() >= files.len(), "an unknown story stays");
        Ok(removed)
    }

    /// The existing stories, and the lengths of their files.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub async fn files(&self) -> Result<BTreeMap<StoryName, u64>> {
        self.shelf.list().await
    }

    /// Bytes of the cache of open stories.
    pub fn open_bytes(&self) -> usize {
        self.open.lock().bytes()
    }

    /// Bytes of the cache of decoded columns.
    pub fn decoded_bytes(&self) -> u64 {
        self.decoded.bytes()
    }
}
