//! A hold for a copy of the files: a fixed state of the manifest, with all its files.
//!
//! ```text
//!   hold ─► state of the manifest ─► its files are copied ─► hold ends
//!     └ from here on, files made useless by edits stay ────┘ and are removed now
//! ```
//! The engine removes a file, or a segment of the journal, only after the edit that makes the file
//! useless. The hold begins before the read of the state. A removal before the hold can therefore
//! concern only a file not named by the state.

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

/// A hold on all segments of the journal, until the drop.
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

/// A state of the manifest, with a hold on all its files. The drop ends the hold, removes files,
/// and blocks the thread.
#[derive(Debug)]
pub struct BackupHold {
    mover: Arc<Mover>,
    journal: Option<JournalHold>,
    shelves: Shelves,
    state: Arc<ManifestState>,
    _tablets: TabletsHold,
    _stories: StoriesHold,
}

/// A file named by the manifest.
#[derive(Debug, Clone)]
pub struct HeldPiece {
    record: PieceRecord,
    chronicle: ChronicleId,
}

impl Engine {
    /// Holds the files named by the manifest now.
    ///
    /// # Errors
    /// `FeatureNotSupported` for an engine without files beside the log.
    pub fn hold(&self) -> Result<BackupHold> {
        let mover = Arc::clone(self.mover());
        let files = mover.files()?;
        let journal = Some(JournalHold::new(&mover));
        let (tablets, stories) = (files.shelves.tablets.hold(), files.shelves.stories.hold());
        let shelves = files.shelves.clone();
        // Read after the holds: see the module's comment.
        let state = files.manifest.state();
        Ok(BackupHold { mover, journal, shelves, state, _tablets: tablets, _stories: stories })
    }
}

impl BackupHold {
    /// Returns after all written frames of the journal are durable, at any requested level.
    ///
    /// # Errors
    /// The errors of the log.
    pub async fn sync(&self) -> Result<()> {
        collect::sync(self.mover.log.as_ref()).await
    }

    /// The first needed frame of the journal.
    pub fn floor(&self) -> Lsn {
        self.state.floor.lsn
    }

    /// Ends the hold on the journal's segments.
    pub fn let_journal_go(&mut self) {
        self.journal = None;
    }

    /// Fails if the disk lacks room while the hold delays removals.
    ///
    /// # Errors
    /// `DiskFull`; the errors of a log stopped for good.
    pub async fn check_room(&self) -> Result<()> {
        let journal = self.mover.journal_release.is_due();
        if !journal && !self.shelves.tablets.is_holding() {
            return Ok(());
        }
        self.mover.log.reserve(0).await.map(drop)
    }

    /// The state, for [`write_manifest`].
    ///
    /// # Errors
    /// `Internal`.
    pub fn manifest(&self) -> Result<Bytes> {
        manifest::encode(&self.state).map(Bytes::from)
    }

    /// The files named by the state.
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
    /// The number.
    pub fn id(&self) -> u64 {
        self.record.id
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.record.bytes
    }

    /// The tier: tablet or story.
    pub fn tier(&self) -> TierName {
        self.record.tier()
    }

    /// The story; `None` for a tablet.
    pub fn story(&self) -> Option<BuiltStory> {
        self.record.story(self.chronicle)
    }

    /// Path and disk of a tablet's file.
    pub fn tablet_path(&self, held: &BackupHold) -> (Arc<dyn Disk>, PathBuf) {
        held.shelves.tablets.file(TabletId(self.record.id))
    }

    /// The record of the manifest for this piece: equal records mean equal files.
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

/// Writes a state into the empty log of a manifest, durably.
///
/// # Errors
/// `DataCorrupted` for an unreadable state; the errors of the log.
pub async fn write_manifest(log: Arc<dyn Log>, state: &[u8]) -> Result<()> {
    manifest::write(log, state).await
}
