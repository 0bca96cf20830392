//! A hold for a backup: fixes one state of the manifest, and prevents the removal of the files that
//! this state names.
//!
//! ```text
//!   hold ─► state of the manifest ─► its files are copied ─► hold ends
//!     └ from here on, unused files stay ─────────────────────┘ and are removed now
//! ```
//! The engine removes a file or a journal segment only after the edit that makes it unused. The
//! hold begins before the state is read: a file that was removed before the hold is not in the
//! state.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use stratalog_model::{ChronicleId, Disk, Error, Log, Lsn, Result, TierName};
use stratalog_story::{BuiltStory, Stories, StoriesHold};
use stratalog_tablet::{BuiltTablet, TabletId, Tablets, TabletsHold};

use crate::{
    engine::Engine,
    tiering::{collect, mover::Mover},
    version::{
        manifest::{self, ManifestState, PieceRecord},
        piece::Shelves,
    },
};

/// A hold on all segments of the journal; ends when dropped.
#[derive(Debug)]
struct JournalHold(Arc<Mover>);

impl JournalHold {
    fn new(mover: &Arc<Mover>) -> Self {
        mover.journal_release.hold();
        Self(Arc::clone(mover))
    }
}

impl Drop for JournalHold {
    fn drop(&mut self) {
        if let Some(before) = self.0.journal_release.end_hold()
            && let Err(error) = self.0.log.release(before)
        {
            tracing::warn!(%error, "cannot remove unused segments of the journal; the server tries again later");
        }
    }
}

/// A state of the manifest, with a hold on all files that the state names. The drop ends the hold
/// and removes the files that have become unused. The drop blocks the thread.
#[derive(Debug)]
pub struct BackupHold {
    mover: Arc<Mover>,
    journal: Option<JournalHold>,
    shelves: Shelves,
    state: Arc<ManifestState>,
    _tablets: TabletsHold,
    _stories: StoriesHold,
}

/// A file (tablet or story) that the held state names.
#[derive(Debug, Clone)]
pub struct HeldPiece {
    record: PieceRecord,
    chronicle: ChronicleId,
}

impl Engine {
    /// Begins a hold on the files that the manifest names now.
    ///
    /// # Errors
    /// `FeatureNotSupported` for an engine that has no files besides the log.
    pub fn hold(&self) -> Result<BackupHold> {
        let mover = Arc::clone(self.mover());
        let files = mover.files()?;
        let journal = Some(JournalHold::new(&mover));
        let (tablets, stories) = (files.shelves.tablets.hold(), files.shelves.stories.hold());
        let shelves = files.shelves.clone();
        // Read after the holds begin: see the module's comment.
        let state = files.manifest.state();
        Ok(BackupHold { mover, journal, shelves, state, _tablets: tablets, _stories: stories })
    }
}

impl BackupHold {
    /// Waits until all frames written to the journal are durable, even frames of statements that do
    /// not ask for durability.
    ///
    /// # Errors
    /// The errors of the log.
    pub async fn sync(&self) -> Result<()> {
        collect::sync(self.mover.log.as_ref()).await
    }

    /// The first frame of the journal that the held state needs.
    pub fn floor(&self) -> Lsn {
        self.state.floor.lsn
    }

    /// Ends the hold on the journal's segments, but not on the other files.
    pub fn let_journal_go(&mut self) {
        self.journal = None;
    }

    /// Checks that the disk has room. The hold delays removals, and may fill the disk.
    ///
    /// # Errors
    /// `DiskFull`; the errors of a log that has stopped.
    pub async fn check_room(&self) -> Result<()> {
        let journal = self.mover.journal_release.is_due();
        if !journal && !self.shelves.tablets.is_holding() {
            return Ok(());
        }
        self.mover.log.reserve(0).await.map(drop)
    }

    /// The encoded state, for [`write_manifest`].
    ///
    /// # Errors
    /// `Internal`.
    pub fn manifest(&self) -> Result<Bytes> {
        manifest::encode(&self.state).map(Bytes::from)
    }

    /// The files that the state names.
    pub fn pieces(&self) -> Vec<HeldPiece> {
        let pieces = self.state.pieces();
        pieces.map(|(chronicle, record)| HeldPiece { record: *record, chronicle }).collect()
    }

    /// The folder of the tablets.
    pub fn tablets(&self) -> &Arc<Tablets> {
        &self.shelves.tablets
    }

    /// The storage of the stories: a folder or an object store.
    pub fn stories(&self) -> &Arc<Stories> {
        &self.shelves.stories
    }

    /// Reads every byte of a piece, and verifies all checksums.
    ///
    /// # Errors
    /// `DataCorrupted` with file and offset; `Io`, `ConnectionFailure`.
    pub async fn verify(&self, piece: &HeldPiece) -> Result<()> {
        match piece.story() {
            Some(built) => self.shelves.stories.verify(&built).await,
            None => self.shelves.tablets.tablet(&piece.tablet())?.verify(),
        }
    }
}

impl HeldPiece {
    /// The number of the piece.
    pub fn id(&self) -> u64 {
        self.record.id
    }

    /// Length of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.record.bytes
    }

    /// The tier: tablet or story.
    pub fn tier(&self) -> TierName {
        self.record.tier()
    }

    /// The description of the story; `None` for a tablet.
    pub fn story(&self) -> Option<BuiltStory> {
        self.record.story(self.chronicle)
    }

    /// Disk and path of a tablet's file.
    pub fn tablet_path(&self, held: &BackupHold) -> (Arc<dyn Disk>, PathBuf) {
        held.shelves.tablets.file(TabletId(self.record.id))
    }

    /// The manifest's record of this piece, as JSON. Equal records mean equal files.
    ///
    /// # Errors
    /// `Internal`.
    pub fn described(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&(self.chronicle, self.record))
            .map_err(|error| Error::internal(format!("a record of the manifest: {error}")))
    }

    fn tablet(&self) -> BuiltTablet {
        debug_assert!(self.story().is_none(), "a story is read as a tablet");
        BuiltTablet {
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

/// Writes a state into the empty log of a new manifest. On return, the state is durable.
///
/// # Errors
/// `DataCorrupted` if the state cannot be decoded; the errors of the log.
pub async fn write_manifest(log: Arc<dyn Log>, state: &[u8]) -> Result<()> {
    manifest::write(log, state).await
}
