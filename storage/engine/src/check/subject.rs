//! The subject of a check.

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

/// The owners of the events, and the places of the files.
#[derive(Clone)]
pub struct Subject {
    /// The owners of the events.
    pub(crate) state: Arc<ManifestState>,
    /// The folders and stores of the files.
    pub(crate) shelves: Shelves,
    /// The existing chronicles, by number.
    pub(crate) definitions: Arc<CatalogLookup>,
    /// True if the catalog is known: otherwise an unknown chronicle is no finding.
    pub(crate) is_catalog_known: bool,
    /// The last decision of the catalog, completed by a start.
    pub(crate) decision: Option<Decision>,
    /// The manifest of a running engine, for the current beginning of the journal.
    pub(crate) manifest: Option<Arc<Manifest>>,
    /// Pins the files of the pieces. Not whole versions: versions would hold memory, too.
    _pinned: Vec<Arc<OpenPiece>>,
}

/// The catalog's answer for a chronicle's number.
pub(crate) type CatalogLookup = dyn Fn(ChronicleId) -> CatalogEntry + Send + Sync;

/// The catalog's answer for a chronicle's number.
#[derive(Debug, Clone)]
pub enum CatalogEntry {
    /// An existing chronicle.
    Chronicle(Arc<ChronicleDefinition>),
    /// A dropped chronicle.
    Dropped,
    /// A number never given.
    Never,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Subject {
    /// A directory without a running engine, by its manifest and its catalog. `definitions` is
    /// `None` for an unreadable catalog.
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

    /// The folders and stores of the files.
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

    /// First needed frame of the journal.
    pub fn floor(&self) -> stratalog_model::Lsn {
        self.state.floor.lsn
    }

    /// Chronicles with a record in the manifest.
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
    /// The visible state now, with its pieces pinned: for a check beside appends and moves.
    ///
    /// # Errors
    /// `FeatureNotSupported` for an engine without files.
    pub fn subject(&self, definitions: Arc<CatalogLookup>) -> stratalog_model::Result<Subject> {
        let files = self.mover().files()?;
        // Read first: the journal holds every event after the floor and outside the pinned pieces.
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
