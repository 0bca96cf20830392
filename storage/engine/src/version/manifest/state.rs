//! The state of the manifest, and the effect of an edit: pure functions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stratalog_model::{
    ChronicleId, Error, Gsn, Lsn, ProducerId, Result, SchemaVersion, StatementId, Tick, TickRange,
};

use crate::version::{fence::Fence, lost_positions::LostPositions};

/// The owners of all events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestState {
    /// The events of the pieces, for each chronicle.
    pub chronicles: BTreeMap<ChronicleId, OwnedEvents>,
    /// The beginning of the journal.
    pub floor: Floor,
    /// Highest number ever given to a piece.
    pub last_piece: u64,
}

/// The events of the pieces of one chronicle.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Owned")]
pub struct OwnedEvents {
    /// Pieces own the events up to this gsn; the journal owns later events.
    pub through: Gsn,
    /// The next arrival number: all lower numbers are taken.
    pub next_seq: u64,
    /// The tick after the last tick of all present and past pieces.
    #[serde(rename = "sealed")]
    pub ticks_end: Option<Tick>,
    /// The highest tick ever committed, at the last move. Earlier releases did not write this
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<Tick>,
    /// The pieces, by number.
    pub pieces: BTreeMap<u64, PieceRecord>,
    /// Deletes up to `through` with hidden rows in a piece.
    pub fences: Vec<Fence>,
    /// Replaced events of the pieces: arrival number, and gsn of the replacement.
    pub replaced: BTreeMap<u64, u64>,
    /// Positions of deleted events.
    #[serde(default, skip_serializing_if = "LostPositions::is_empty")]
    pub lost: LostPositions,
}

/// A file of events. The engine compares all fields with the file when the file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRecord {
    /// The number; never used again.
    pub id: u64,
    /// Shape of the events.
    pub schema_version: SchemaVersion,
    /// Length of the file.
    pub bytes: u64,
    /// Bytes of the events without compression.
    pub unpacked_bytes: u64,
    /// Blocks or row groups in it.
    pub parts: u32,
    /// Events in the file, replaced and deleted events included.
    pub rows: u64,
    /// Checksum of the checksums in the file.
    pub checksum: u32,
    /// Smallest range around the ticks.
    pub ticks: TickRange,
    /// Lowest and highest gsn.
    pub gsns: (Gsn, Gsn),
    /// Deletes up to this gsn are applied: the file leaves out their events.
    pub fenced_through: Gsn,
    /// Commit time of the oldest events, in nanoseconds since 1970, as known when the events left
    /// the journal. Earlier releases wrote the time of leaving the journal.
    pub since_ns: i64,
    /// Kind of the file.
    pub file: PieceFile,
}

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceFile {
    /// Blocks, on this machine.
    Tablet,
    /// A Parquet file.
    Story {
        /// End of the row groups.
        tail_at: u64,
    },
}

/// The beginning of the journal: earlier frames are not needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// First needed frame.
    pub lsn: Lsn,
    /// Highest gsn given before this frame.
    pub gsn: Gsn,
    /// Highest statement before this frame.
    pub statement: StatementId,
    /// Producers, and the last committed number of each producer before this frame (F68).
    pub producers: Vec<(ProducerId, u64)>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// A change of the owner of a chronicle's events (CL-3).
    Move(Move),
    /// A later beginning of the journal.
    Raise(Floor),
    /// Dropped chronicles.
    Forget(Vec<ChronicleId>),
}

/// A change of the owner of a chronicle's events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The chronicle.
    pub chronicle: ChronicleId,
    /// The new border between journal and pieces.
    pub through: Gsn,
    /// The next arrival number: all lower numbers are taken.
    pub next_seq: u64,
    /// New pieces.
    pub added: Vec<PieceRecord>,
    /// Pieces without remaining events: the new pieces hold the events, or the events are gone.
    pub removed: Vec<u64>,
    /// Deletes with hidden rows in the pieces after the move.
    pub fences: Vec<Fence>,
    /// Newly known replaced events of these pieces: arrival number, and gsn of the replacement.
    pub replaced: Vec<(u64, u64)>,
    /// Arrival numbers of replaced events no longer held by any piece.
    pub forgotten: Vec<u64>,
    /// All positions of deleted events.
    #[serde(default, skip_serializing_if = "LostPositions::is_empty")]
    pub lost: LostPositions,
    /// The highest tick ever committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<Tick>,
}

impl OwnedEvents {
    /// The highest tick ever committed, according to this record.
    pub fn highest(&self) -> Option<Tick> {
        let last = self.ticks_end.map(|end| Tick(end.0.saturating_sub(1)));
        self.highest.max(last)
    }

    /// Highest gsn in this record. The journal must reach this gsn: otherwise the journal would
    /// give a lower gsn to new events, and these events would count as deleted or as owned by
    /// pieces.
    pub fn last_gsn(&self) -> Gsn {
        let carried_out = self.pieces.values().map(|piece| piece.fenced_through);
        let deleted = self.fences.iter().map(Fence::raised);
        let replaced = self.replaced.values().copied().map(Gsn);
        carried_out.chain(deleted).chain(replaced).fold(self.through, Gsn::max)
    }
}

impl ManifestState {
    /// Number of entries in a snapshot.
    pub fn records(&self) -> usize {
        let of = |owned: &OwnedEvents| {
            1 + owned.pieces.len() + owned.fences.len() + owned.replaced.len()
        };
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
    /// `Internal` for an edit in contradiction to this state.
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
                        return Err(contradiction(format!(
                            "piece {id} does not exist, and cannot be removed"
                        )));
                    }
                }
                for piece in &moved.added {
                    let new = piece.gsns.1 <= moved.through;
                    if !new || owned.pieces.insert(piece.id, *piece).is_some() {
                        return Err(contradiction(format!("piece {} cannot be added", piece.id)));
                    }
                    next.last_piece = next.last_piece.max(piece.id);
                    owned.ticks_end = owned.ticks_end.max(Some(piece.ticks.end));
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
        debug_assert!(self.last_piece <= next.last_piece && self.floor.lsn <= next.floor.lsn);
        debug_assert!(self.floor.gsn <= next.floor.gsn, "the gsn of the floor goes back");
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
