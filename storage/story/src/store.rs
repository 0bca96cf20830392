//! The stories of a data directory: building, opening, caching and removal.

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
    build::Builder,
    cache::Cache,
    decoded_columns::DecodedColumns,
    description::BuiltStory,
    schema::StorySchema,
    settings::StorySettings,
    shelf::{Shelf, StoryId, StoryName, make_folder},
    story::Story,
};

/// Suffix of the name of an unfinished story.
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

/// While this value exists, obsolete stories ("doomed" stories) are not removed.
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
    /// construction; it needs space for all of them. Removes unfinished files from the spool folder
    /// and from the shelf. The cache of open stories keeps at most `open_bytes_max` bytes, plus
    /// stories in use. The cache of decoded columns keeps at most `decoded_bytes_max` bytes.
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

    /// The stories of a shelf that no server uses, for reading only: creates, removes and caches
    /// nothing.
    pub fn look(shelf: Arc<dyn Shelf>, disk: Arc<dyn Disk>, spool: &Path) -> Self {
        let (open, doomed) = (Mutex::new(Cache::new(0)), Mutex::default());
        let holds = AtomicUsize::new(0);
        let decoded = Arc::new(DecodedColumns::new(0));
        Self { shelf, disk, spool: spool.to_path_buf(), open, decoded, doomed, holds }
    }

    /// Like [`Self::open_story`], but bypasses the cache and reads the shelf.
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

    /// Opens a story that the manifest names. Verifies the tail, and compares it with the
    /// manifest's description `built`. Callers must drop the story at the end of a query, so that
    /// the cache can stay within its budget.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing, damaged or a different story; `Io`,
    /// `ConnectionFailure`.
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

    /// Removes a story that the manifest no longer names. No reader may use the story.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub async fn remove(&self, name: StoryName) -> Result<()> {
        self.open.lock().remove(name);
        self.shelf.remove(name).await
    }

    /// Marks an obsolete story for removal by the next [`Self::remove_doomed`].
    pub fn doom(&self, name: StoryName) {
        self.doomed.lock().push(name);
    }

    /// Prevents the removal of doomed stories while the result exists: all stories of a manifest
    /// that is read from now on stay readable. After the drop, the next [`Self::remove_doomed`]
    /// removes the doomed stories.
    pub fn hold(self: &Arc<Self>) -> StoriesHold {
        self.holds.fetch_add(1, Ordering::SeqCst);
        StoriesHold(Arc::clone(self))
    }

    /// Reads a story from the shelf, without the cache, and verifies all bytes and values.
    ///
    /// # Errors
    /// The errors of [`Self::open_story`].
    pub async fn verify(&self, built: &BuiltStory) -> Result<()> {
        self.open_anew(built).await?.check().await
    }

    /// Reads all bytes of a range of a story's file, without verification.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing or too short; `Io`, `ConnectionFailure`.
    pub async fn read_raw(&self, name: StoryName, range: Range<u64>) -> Result<Bytes> {
        self.shelf.read(name, range).await
    }

    /// Removes the doomed stories, unless a [hold](Self::hold) exists. After a failure, the
    /// remaining stories stay doomed and are removed by a later call.
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

    /// Whether reads of stories use only local resources: no network and no fees.
    pub fn is_near(&self) -> bool {
        self.shelf.shape().near
    }

    /// Path or URL of a story's file, for messages.
    pub fn place(&self, name: StoryName) -> String {
        self.shelf.place(name)
    }

    /// Checks that `files` contains the story with the correct length. Reads nothing.
    ///
    /// # Errors
    /// `DataCorrupted` if the file is missing or has another length.
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

    /// Removes all stories of `files` that are not in `kept`. Returns the number of removed
    /// stories.
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

    /// All stories on the shelf, with the lengths of their files.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`.
    pub async fn files(&self) -> Result<BTreeMap<StoryName, u64>> {
        self.shelf.list().await
    }

    /// Size of the cache of open stories, in bytes.
    pub fn open_bytes(&self) -> usize {
        self.open.lock().bytes()
    }

    /// Size of the cache of decoded columns, in bytes.
    pub fn decoded_bytes(&self) -> u64 {
        self.decoded.bytes()
    }
}
