//! What is looked at.

use std::{collections::BTreeMap, fmt, sync::Arc};

use stratalog_model::{ChronicleDefinition, ChronicleId, Decision, Gsn};
use stratalog_story::StoryName;
use stratalog_tablet::TabletId;

use crate::{
    Engine, ManifestReplay, Shelves,
    manifest::{Manifest, ManifestState, Owned},
    pieces::piece::OpenPiece,
};

/// Who owns what, and where it lies.
#[derive(Clone)]
pub struct Subject {
    /// Who owns what.
    pub(crate) state: Arc<ManifestState>,
    /// Where files are.
    pub(crate) shelves: Shelves,
    /// The chronicles that exist, by number.
    pub(crate) definitions: Arc<Definitions>,
    /// Whether the chronicles are known: else an unknown one is none of the findings.
    pub(crate) known: bool,
    /// The last decision of the catalog, which a start completes.
    pub(crate) decision: Option<Decision>,
    /// Where the journal begins by now, while an engine has it open.
    pub(crate) manifest: Option<Arc<Manifest>>,
    /// Keeps the files where they are. Only these: versions would keep memory, too.
    _pinned: Vec<Arc<OpenPiece>>,
}

/// What a catalog says of a number.
pub(crate) type Definitions = dyn Fn(ChronicleId) -> Known + Send + Sync;

/// What a catalog says of a chronicle's number.
#[derive(Debug, Clone)]
pub enum Known {
    /// There is such a chronicle.
    Chronicle(Arc<ChronicleDefinition>),
    /// There was one.
    Dropped,
    /// The number was never given.
    Never,
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Subject {
    /// A directory that nobody has open, by what its manifest and its catalog say.
    /// `definitions` is `None` when the catalog cannot be read.
    pub fn of_directory(
        manifest: ManifestReplay,
        shelves: Shelves,
        definitions: Option<Arc<Definitions>>,
        decision: Option<Decision>,
    ) -> stratalog_model::Result<Self> {
        let known = definitions.is_some();
        Ok(Self {
            state: Arc::new(manifest.finish()?),
            shelves,
            definitions: definitions.unwrap_or_else(|| Arc::new(|_| Known::Never)),
            known,
            decision,
            manifest: None,
            _pinned: Vec::new(),
        })
    }

    /// Where files are.
    pub fn shelves(&self) -> &Shelves {
        &self.shelves
    }

    /// Whether a tablet is one of those that count.
    pub fn names_tablet(&self, id: TabletId) -> bool {
        let mut pieces = self.state.pieces();
        pieces.any(|(chronicle, piece)| piece.id == id.0 && piece.story(chronicle).is_none())
    }

    /// Whether a story is one of those that count.
    pub fn names_story(&self, name: StoryName) -> bool {
        let owned = self.state.chronicles.get(&name.chronicle);
        owned
            .and_then(|owned| owned.pieces.get(&name.id.0))
            .is_some_and(|piece| piece.story(name.chronicle).is_some())
    }

    /// First frame of the journal that is needed.
    pub fn floor(&self) -> stratalog_model::Lsn {
        self.state.floor.lsn
    }

    /// Chronicles of which there are pieces.
    pub(crate) fn chronicles(&self) -> impl Iterator<Item = (&ChronicleId, &Owned)> {
        self.state.chronicles.iter()
    }

    /// The definition of a chronicle that exists.
    pub(crate) fn definition(&self, id: ChronicleId) -> Option<Arc<ChronicleDefinition>> {
        match (self.definitions)(id) {
            Known::Chronicle(definition) => Some(definition),
            Known::Dropped | Known::Never => None,
        }
    }

    /// Up to which gsn pieces own the events of a chronicle.
    pub(crate) fn through(&self, id: ChronicleId) -> Gsn {
        self.state.chronicles.get(&id).map_or(Gsn(0), |owned| owned.through)
    }
}

impl Engine {
    /// What is visible now, pinned as long as this is held: for a check while others append
    /// and move.
    ///
    /// # Errors
    /// `FeatureNotSupported` for an engine without files.
    pub fn subject(&self, definitions: Arc<Definitions>) -> stratalog_model::Result<Subject> {
        let core = self.core();
        let files = crate::collect::files_of(core)?;
        // Read first: the journal has all that is behind it and in no pinned piece.
        let floor = files.manifest.state().floor.clone();
        let published = core.published();
        let last_piece = u64::MAX;
        let (mut chronicles, mut pinned_pieces) = (BTreeMap::new(), Vec::new());
        for (id, pinned) in &published.versions {
            let pieces = pinned.version.pieces();
            let owned = Owned {
                through: pieces.through,
                next_seq: pinned.chronicle.next_seq(),
                sealed: Some(stratalog_model::Tick(pieces.sealed())),
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
            known: true,
            decision: None,
            manifest: Some(Arc::clone(&files.manifest)),
            _pinned: pinned_pieces,
        })
    }
}
