//! What a copy of the files needs: a state of the manifest, and all that it names, held.
//!
//! ```text
//!   hold ─► state of the manifest ─► its files are copied ─► hold ends
//!     └ from here on, what edits have no use for any more stays ┘ and goes now
//! ```
//! A file, or a segment of the journal, is removed after the edit that has no use for it. So a
//! removal that the hold comes too late for is of a file that the state, read behind it, does not
//! name.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;
use stratalog_model::{ChronicleId, Disk, Error, Log, Lsn, Result, TierName};
use stratalog_story::{BuiltStory, Stories, StoriesHold};
use stratalog_tablet::{Built, TabletId, Tablets, TabletsHold};

use crate::{
    collect::{self, files_of},
    engine::{Core, Engine},
    manifest::{self, ManifestState, PieceRecord},
    pieces::piece::Shelves,
};

/// Who holds the journal, and what goes of it when nobody does.
#[derive(Debug, Default)]
pub struct Release(Mutex<Releasing>);

#[derive(Debug, Default)]
struct Releasing {
    holds: usize,
    before: Option<Lsn>,
}

impl Release {
    /// Whether the log keeps what it could give up, for a while.
    pub fn is_held(&self) -> bool {
        self.0.lock().holds > 0
    }

    /// Lets the log give up what is before a frame, now or when nobody holds it any more.
    ///
    /// # Errors
    /// `Io`.
    pub fn release(&self, log: &dyn Log, before: Lsn) -> Result<u64> {
        {
            let mut releasing = self.0.lock();
            if releasing.holds > 0 {
                releasing.before = releasing.before.max(Some(before));
                return Ok(0);
            }
        }
        log.release(before)
    }
}

/// As long as it lives, the journal keeps all of its segments.
#[derive(Debug)]
struct JournalHold(Arc<Core>);

impl JournalHold {
    fn new(core: &Arc<Core>) -> Self {
        core.release.0.lock().holds += 1;
        Self(Arc::clone(core))
    }
}

impl Drop for JournalHold {
    fn drop(&mut self) {
        let before = {
            let mut releasing = self.0.release.0.lock();
            releasing.holds -= 1;
            if releasing.holds > 0 {
                return;
            }
            releasing.before.take()
        };
        if let Some(before) = before
            && let Err(error) = self.0.log.release(before)
        {
            tracing::warn!(%error, "segments of the journal that are of no use are left for later");
        }
    }
}

/// A state of the manifest; all that it names stays where it is as long as this lives. Dropping
/// it removes files, and blocks.
#[derive(Debug)]
pub struct Held {
    core: Arc<Core>,
    journal: Option<JournalHold>,
    shelves: Shelves,
    state: Arc<ManifestState>,
    _tablets: TabletsHold,
    _stories: StoriesHold,
}

/// A file that the manifest names.
#[derive(Debug, Clone)]
pub struct HeldPiece {
    record: PieceRecord,
    chronicle: ChronicleId,
}

impl Engine {
    /// Holds what the manifest names now.
    ///
    /// # Errors
    /// `FeatureNotSupported` for an engine without files beside the log.
    pub fn hold(&self) -> Result<Held> {
        let core = Arc::clone(self.core());
        let files = files_of(&core)?;
        let journal = Some(JournalHold::new(&core));
        let (tablets, stories) = (files.shelves.tablets.hold(), files.shelves.stories.hold());
        let shelves = files.shelves.clone();
        // Not before: see above.
        let state = files.manifest.state();
        Ok(Held { core, journal, shelves, state, _tablets: tablets, _stories: stories })
    }
}

impl Held {
    /// Returns when all that the journal has written is durable, whatever level it asked for.
    ///
    /// # Errors
    /// What the log says.
    pub async fn sync(&self) -> Result<()> {
        collect::sync(&self.core).await
    }

    /// The first frame of the journal that is needed.
    pub fn floor(&self) -> Lsn {
        self.state.floor.lsn
    }

    /// The journal may give up segments from here on.
    pub fn let_journal_go(&mut self) {
        self.journal = None;
    }

    /// Refuses to go on while the disk lacks room that what is held would make.
    ///
    /// # Errors
    /// `DiskFull`; what the log says that has stopped for good.
    pub async fn check_room(&self) -> Result<()> {
        let journal = self.core.release.0.lock().before.is_some();
        if !journal && !self.shelves.tablets.is_holding() {
            return Ok(());
        }
        self.core.log.reserve(0).await.map(drop)
    }

    /// The state, for [`write_manifest`].
    ///
    /// # Errors
    /// `Internal`.
    pub fn manifest(&self) -> Result<Bytes> {
        manifest::encode(&self.state).map(Bytes::from)
    }

    /// The files that it names.
    pub fn pieces(&self) -> Vec<HeldPiece> {
        let pieces = self.state.pieces();
        pieces.map(|(chronicle, record)| HeldPiece { record: *record, chronicle }).collect()
    }

    /// The tablets' folder.
    pub fn tablets(&self) -> &Arc<Tablets> {
        &self.shelves.tablets
    }

    /// The stories' shelf.
    pub fn stories(&self) -> &Arc<Stories> {
        &self.shelves.stories
    }

    /// Reads every byte of a piece and compares it with every checksum.
    ///
    /// # Errors
    /// `DataCorrupted`, with file and offset; `Io`, `ConnectionFailure`.
    pub async fn verify(&self, piece: &HeldPiece) -> Result<()> {
        match piece.story() {
            Some(built) => self.shelves.stories.verify(&built).await,
            None => self.shelves.tablets.tablet(&piece.tablet())?.verify(),
        }
    }
}

impl HeldPiece {
    /// Its number.
    pub fn id(&self) -> u64 {
        self.record.id
    }

    /// Length of its file.
    pub fn bytes(&self) -> u64 {
        self.record.bytes
    }

    /// Whether it is a tablet or a story.
    pub fn tier(&self) -> TierName {
        self.record.tier()
    }

    /// The story; `None` for a tablet.
    pub fn story(&self) -> Option<BuiltStory> {
        self.record.story(self.chronicle)
    }

    /// Where the file of a tablet is, and on which disk.
    pub fn tablet_path(&self, held: &Held) -> (Arc<dyn Disk>, PathBuf) {
        held.shelves.tablets.file(TabletId(self.record.id))
    }

    /// All that the manifest says of it: two files of which it says the same are the same.
    ///
    /// # Errors
    /// `Internal`.
    pub fn described(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&(self.chronicle, self.record))
            .map_err(|error| Error::internal(format!("a record of the manifest: {error}")))
    }

    fn tablet(&self) -> Built {
        Built {
            id: TabletId(self.record.id),
            chronicle: self.chronicle,
            schema_version: self.record.schema_version,
            bytes: self.record.bytes,
            blocks: self.record.parts,
            rows: self.record.rows,
            checksum: self.record.checksum,
        }
    }
}

/// Writes a state into an empty log of a manifest, durably.
///
/// # Errors
/// `DataCorrupted` for a state that cannot be read; what the log says.
pub async fn write_manifest(log: Arc<dyn Log>, state: &[u8]) -> Result<()> {
    manifest::write(log, state).await
}
