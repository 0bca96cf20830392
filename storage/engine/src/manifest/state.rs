//! What the manifest says, and how an edit changes it: pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stratalog_model::{
    ChronicleId, Error, Gsn, Lsn, ProducerId, Result, SchemaVersion, StatementId, Tick, TickRange,
};

use crate::version::{Fence, lost::Lost};

/// Who owns what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestState {
    /// What the pieces of each chronicle hold.
    pub chronicles: BTreeMap<ChronicleId, Owned>,
    /// Where the journal begins.
    pub floor: Floor,
    /// Highest number that a piece ever had.
    pub last_piece: u64,
}

/// What the pieces of one chronicle hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owned {
    /// Events up to this gsn belong to the pieces, later ones to the journal.
    pub through: Gsn,
    /// Arrival numbers below this one were given.
    pub next_seq: u64,
    /// No event of a piece has, or ever had, this tick or a later one.
    pub sealed: Option<Tick>,
    /// The highest tick that was ever committed, as of the last move. What earlier releases wrote lacks
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<Tick>,
    /// The pieces, by number.
    pub pieces: BTreeMap<u64, PieceRecord>,
    /// Deletes up to `through` that hide rows of a piece.
    pub fences: Vec<Fence>,
    /// Events of the pieces, by arrival number, that were replaced by those of the gsn's.
    pub replaced: BTreeMap<u64, u64>,
    /// Positions of which events were deleted.
    #[serde(default, skip_serializing_if = "Lost::is_empty")]
    pub lost: Lost,
}

/// A file of events. All of it is compared with the file when that is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRecord {
    /// Its number; never used again.
    pub id: u64,
    /// Shape of its events.
    pub schema_version: SchemaVersion,
    /// Length of the file.
    pub bytes: u64,
    /// Bytes of its events when they are unpacked.
    pub unpacked_bytes: u64,
    /// Blocks or row groups in it.
    pub parts: u32,
    /// Events in it, replaced and deleted ones included.
    pub rows: u64,
    /// Checksum of the checksums in it.
    pub checksum: u32,
    /// Smallest range around its ticks.
    pub ticks: TickRange,
    /// Lowest and highest gsn.
    pub gsns: (Gsn, Gsn),
    /// Deletes up to this gsn have been carried out in it.
    pub fenced_through: Gsn,
    /// Nanoseconds since 1970 when its oldest events were committed, as far as was known when they left
    /// the journal. Earlier releases wrote when they left it.
    pub since_ns: i64,
    /// What kind of file it is.
    pub file: PieceFile,
}

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceFile {
    /// Blocks, on this machine.
    Tablet,
    /// Parquet.
    Story {
        /// Where the row groups end.
        tail_at: u64,
    },
}

/// Where the journal begins: nothing before is needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// First frame that is needed.
    pub lsn: Lsn,
    /// Highest gsn that was given before it.
    pub gsn: Gsn,
    /// Highest statement before it.
    pub statement: StatementId,
    /// Producers, and the last number committed of each before it (F68).
    pub producers: Vec<(ProducerId, u64)>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Events of a chronicle change hands (CL-3).
    Move(Move),
    /// The journal begins later.
    Raise(Floor),
    /// Chronicles that were dropped.
    Forget(Vec<ChronicleId>),
}

/// Events of a chronicle change hands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Whose.
    pub chronicle: ChronicleId,
    /// The new border between journal and pieces.
    pub through: Gsn,
    /// Arrival numbers below this one were given.
    pub next_seq: u64,
    /// New pieces.
    pub added: Vec<PieceRecord>,
    /// Pieces whose events the new ones hold, or nobody any more.
    pub removed: Vec<u64>,
    /// Deletes that hide rows of the pieces that there are then.
    pub fences: Vec<Fence>,
    /// Events of those pieces, by arrival number, that were replaced by others, besides those
    /// that were known.
    pub replaced: Vec<(u64, u64)>,
    /// Replaced events, by arrival number, that no piece holds any more.
    pub forgotten: Vec<u64>,
    /// All positions of which events were deleted.
    #[serde(default, skip_serializing_if = "Lost::is_empty")]
    pub lost: Lost,
    /// The highest tick that was ever committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<Tick>,
}

impl Owned {
    /// The highest tick that was ever committed, as far as is known here.
    pub fn highest(&self) -> Option<Tick> {
        let sealed = self.sealed.map(|end| Tick(end.0.saturating_sub(1)));
        self.highest.max(sealed)
    }

    /// Highest gsn that is told of here. The journal reaches it: events that it gives a lower
    /// one would be taken for deleted, or for those that the pieces hold.
    pub fn last_gsn(&self) -> Gsn {
        let carried_out = self.pieces.values().map(|piece| piece.fenced_through);
        let deleted = self.fences.iter().map(Fence::raised);
        let replaced = self.replaced.values().copied().map(Gsn);
        carried_out.chain(deleted).chain(replaced).fold(self.through, Gsn::max)
    }
}

impl ManifestState {
    /// Entries that a snapshot has.
    pub fn records(&self) -> usize {
        let of = |owned: &Owned| 1 + owned.pieces.len() + owned.fences.len() + owned.replaced.len();
        self.chronicles.values().map(of).sum()
    }

    /// The pieces of all chronicles.
    pub fn pieces(&self) -> impl Iterator<Item = (ChronicleId, &PieceRecord)> {
        let all = self.chronicles.iter();
        all.flat_map(|(id, owned)| owned.pieces.values().map(move |piece| (*id, piece)))
    }

    /// The state after an edit.
    ///
    /// # Errors
    /// `Internal` for an edit that cannot follow this state.
    pub fn after(&self, edit: &Edit) -> Result<Self> {
        let mut next = self.clone();
        match edit {
            Edit::Move(moved) => {
                let owned = next.chronicles.entry(moved.chronicle).or_default();
                if moved.through < owned.through || moved.next_seq < owned.next_seq {
                    return Err(contradiction(format!(
                        "chronicle {} goes back from gsn {} to {}",
                        moved.chronicle, owned.through, moved.through
                    )));
                }
                for id in &moved.removed {
                    if owned.pieces.remove(id).is_none() {
                        return Err(contradiction(format!("there is no piece {id} to remove")));
                    }
                }
                for piece in &moved.added {
                    let new = piece.gsns.1 <= moved.through;
                    if !new || owned.pieces.insert(piece.id, *piece).is_some() {
                        return Err(contradiction(format!("piece {} cannot be added", piece.id)));
                    }
                    next.last_piece = next.last_piece.max(piece.id);
                    owned.sealed = owned.sealed.max(Some(piece.ticks.end));
                }
                (owned.through, owned.next_seq) = (moved.through, moved.next_seq);
                owned.fences.clone_from(&moved.fences);
                owned.lost.clone_from(&moved.lost);
                owned.highest = owned.highest.max(moved.highest);
                owned.replaced.extend(moved.replaced.iter().copied());
                for seq in &moved.forgotten {
                    owned.replaced.remove(seq);
                }
            }
            Edit::Raise(floor) => {
                if floor.lsn < self.floor.lsn || floor.gsn < self.floor.gsn {
                    return Err(contradiction("the journal's beginning goes back".to_string()));
                }
                next.floor = floor.clone();
            }
            Edit::Forget(chronicles) => {
                for id in chronicles {
                    next.chronicles.remove(id);
                }
            }
        }
        Ok(next)
    }

    /// Numbers of all pieces.
    pub fn piece_ids(&self) -> BTreeSet<u64> {
        self.pieces().map(|(_, piece)| piece.id).collect()
    }
}

fn contradiction(what: String) -> Error {
    Error::internal(format!("an edit of the manifest: {what}"))
}
