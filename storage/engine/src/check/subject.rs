//! The subject of a check: the data to check.

use std::{collections::BTreeMap, fmt, sync::Arc};

use stratalog_model::{ChronicleDefinition, ChronicleId, Decision, Gsn};
use stratalog_story::StoryName;
use stratalog_tablet::TabletId;

use crate::{
    Engine, ManifestReplay, Shelves,
    version::{
        manifest::{Manifest, ManifestState, OwnedEvents},
        piece::OpenPiece,
    },
};

/// The data to check: the owners of the events, and the places of the files.
#[derive(Clone)]
pub struct Subject {
    /// The state of the manifest: the owners of the events.
    pub(crate) state: Arc<ManifestState>,
    /// The storage of tablets and stories.
    pub(crate) shelves: Shelves,
    /// Looks up a chronicle by its id.
    pub(crate) definitions: Arc<CatalogLookup>,
    /// True if the catalog could be read. If not, an unknown chronicle is no finding.
    pub(crate) is_catalog_known: bool,
    /// The last decision of the catalog, which the next start completes (RFC 0023).
    pub(crate) decision: Option<Decision>,
    /// The manifest of a running engine, to learn its current floor; `None` for a directory without
    /// a running engine.
    pub(crate) manifest: Option<Arc<Manifest>>,
    /// Keeps the files of the pieces from being removed. Pins no whole versions, which would also
    /// keep memory in use.
    _pinned: Vec<Arc<OpenPiece>>,
}

/// What the catalog knows about the id of a chronicle.
pub(crate) type CatalogLookup = dyn Fn(ChronicleId) -> CatalogEntry + Send + Sync;

/// What the catalog knows about the id of a chronicle.
#[derive(Debug, Clone)]
pub enum CatalogEntry {
    /// The chronicle exists.
    Chronicle(Arc<ChronicleDefinition>),
    /// The chronicle was dropped.
    Dropped,
    /// The id was never assigned.
    Never,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Subject {
    /// A subject for a data directory without a running engine. `definitions` is `None` if the
    /// catalog cannot be read.
    pub fn of_directory(
        manifest: ManifestReplay,
        shelves: Shelves,
        definitions: Option<Arc<CatalogLookup>>,
        decision: Option<Decision>,
    ) -> stratalog_model::Result<Self> {
        let is_catalog_known = definitions.is_some();
        Ok(Self {
            state: Arc::new(manifest.finish()?),
            shelves,
            definitions: definitions.unwrap_or_else(|| Arc::new(|_| CatalogEntry::Never)),
            is_catalog_known,
            decision,
            manifest: None,
            _pinned: Vec::new(),
        })
    }

    /// The storage of tablets and stories.
    pub fn shelves(&self) -> &Shelves {
        &self.shelves
    }

    /// True if the manifest names a tablet.
    pub fn names_tablet(&self, id: TabletId) -> bool {
        let mut pieces = self.state.pieces();
        pieces.any(|(chronicle, piece)| piece.id == id.0 && piece.story(chronicle).is_none())
    }

    /// True if the manifest names a story.
    pub fn names_story(&self, name: StoryName) -> bool {
        let owned = self.state.chronicles.get(&name.chronicle);
        owned
            .and_then(|owned| owned.pieces.get(&name.id.0))
            .is_some_and(|piece| piece.story(name.chronicle).is_some())
    }

    /// The floor: the lsn of the first needed frame of the journal.
    pub fn floor(&self) -> stratalog_model::Lsn {
        self.state.floor.lsn
    }

    /// The chronicles that the manifest knows.
    pub(crate) fn chronicles(&self) -> impl Iterator<Item = (&ChronicleId, &OwnedEvents)> {
        self.state.chronicles.iter()
    }

    /// The definition of an existing chronicle.
    pub(crate) fn definition(&self, id: ChronicleId) -> Option<Arc<ChronicleDefinition>> {
        match (self.definitions)(id) {
            CatalogEntry::Chronicle(definition) => Some(definition),
            CatalogEntry::Dropped | CatalogEntry::Never => None,
        }
    }

    /// The gsn up to which pieces own the events of a chronicle.
    pub(crate) fn through(&self, id: ChronicleId) -> Gsn {
        self.state.chronicles.get(&id).map_or(Gsn(0), |owned| owned.through)
    }
}

impl Engine {
    /// A subject for the running engine: the state that is visible now, with its pieces pinned, for
    /// a check while appends and moves continue.
    ///
    /// # Errors
    /// `FeatureNotSupported` for an engine without files other than the log.
    pub fn subject(&self, definitions: Arc<CatalogLookup>) -> stratalog_model::Result<Subject> {
        let files = self.mover().files()?;
        // Read before the published state: the journal then has every event that the pinned pieces
        // lack.
        let floor = files.manifest.state().floor.clone();
        let published = self.mover().publisher.published();
        let last_piece = u64::MAX;
        let (mut chronicles, mut pinned_pieces) = (BTreeMap::new(), Vec::new());
        for (id, pinned) in &published.versions {
            let pieces = pinned.version.pieces();
            let owned = OwnedEvents {
                through: pieces.through,
                next_seq: pinned.chronicle.next_seq(),
                ticks_end: Some(stratalog_model::Tick(pieces.ticks_end())),
                pieces: pieces.iter().map(|piece| (piece.record().id, *piece.record())).collect(),
                fences: pinned.version.fences().to_vec(),
                replaced: BTreeMap::new(),
                lost: pinned.version.lost().clone(),
                highest: None,
            };
            chronicles.insert(*id, owned);
            pinned_pieces.extend(pieces.iter().cloned());
        }
        Ok(Subject {
            state: Arc::new(ManifestState { chronicles, floor, last_piece }),
            shelves: files.shelves.clone(),
            definitions,
            is_catalog_known: true,
            decision: None,
            manifest: Some(Arc::clone(&files.manifest)),
            _pinned: pinned_pieces,
        })
    }
}
