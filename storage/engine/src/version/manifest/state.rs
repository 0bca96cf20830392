//! The state of the manifest, and the effect of an edit on the state, as pure functions.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stratalog_model::{
    ChronicleId, Error, Gsn, Lsn, ProducerId, Result, SchemaVersion, StatementId, Tick, TickRange,
};

use crate::version::{fence::Fence, lost_positions::LostPositions};

/// The owners of all events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestState {
    /// The events that pieces own, for each chronicle.
    pub chronicles: BTreeMap<ChronicleId, OwnedEvents>,
    /// The floor: the beginning of the journal.
    pub floor: Floor,
    /// Highest number that was ever assigned to a piece.
    pub last_piece: u64,
}

/// The events of one chronicle that pieces (tablets and stories) own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Owned")]
pub struct OwnedEvents {
    /// Pieces own the events up to this gsn; the journal owns later events.
    pub through: Gsn,
    /// The next arrival number to assign: all lower numbers are assigned.
    pub next_seq: u64,
    /// The tick after the last tick of all pieces, including pieces that no longer exist.
    #[serde(rename = "sealed")]
    pub ticks_end: Option<Tick>,
    /// The highest tick ever committed, as of the last move. Earlier releases did not write this
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest: Option<Tick>,
    /// The pieces, by number.
    pub pieces: BTreeMap<u64, PieceRecord>,
    /// Fences up to `through` that hide rows of a piece.
    pub fences: Vec<Fence>,
    /// Events in pieces that later events replaced: arrival number of the event, and gsn of the
    /// replacement.
    pub replaced: BTreeMap<u64, u64>,
    /// The gsn's of deleted events.
    #[serde(default, skip_serializing_if = "LostPositions::is_empty")]
    pub lost: LostPositions,
}

/// The record of a piece (a file of events). When the engine opens the file, it compares all fields
/// with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PieceRecord {
    /// The number of the piece; never used again.
    pub id: u64,
    /// Schema version of the events.
    pub schema_version: SchemaVersion,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Bytes of the events without compression.
    pub unpacked_bytes: u64,
    /// Number of blocks or row groups in the file.
    pub parts: u32,
    /// Number of events in the file, including replaced and deleted events.
    pub rows: u64,
    /// Checksum over all checksums in the file.
    pub checksum: u32,
    /// Smallest range that contains the ticks of the events.
    pub ticks: TickRange,
    /// Lowest and highest gsn of the events.
    pub gsns: (Gsn, Gsn),
    /// The file was written after all deletes up to this gsn, and omits their events.
    pub fenced_through: Gsn,
    /// Commit time of the oldest event, in nanoseconds since 1970, as estimated when the events
    /// left the journal. Earlier releases wrote the time at which the events left the journal.
    pub since_ns: i64,
    /// Kind of the file.
    pub file: PieceFile,
}

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PieceFile {
    /// A tablet: a file of blocks on a local disk.
    Tablet,
    /// A story: a Parquet file.
    Story {
        /// Offset of the end of the row groups, where the page index and the footer begin.
        tail_at: u64,
    },
}

/// The floor: the beginning of the journal. Earlier frames are not needed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// lsn of the first needed frame.
    pub lsn: Lsn,
    /// Highest gsn assigned before this frame.
    pub gsn: Gsn,
    /// Highest statement id before this frame.
    pub statement: StatementId,
    /// For each producer, the last number committed before this frame (F68).
    pub producers: Vec<(ProducerId, u64)>,
}

/// One change of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Changes the owner of events of a chronicle (CL-3).
    Move(Move),
    /// Moves the floor: the journal begins later.
    Raise(Floor),
    /// Removes dropped chronicles from the state.
    Forget(Vec<ChronicleId>),
}

/// A change of the owner of events of a chronicle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The chronicle.
    pub chronicle: ChronicleId,
    /// The new border: pieces own the events up to this gsn, and the journal owns the later events.
    pub through: Gsn,
    /// The next arrival number to assign: all lower numbers are assigned.
    pub next_seq: u64,
    /// New pieces.
    pub added: Vec<PieceRecord>,
    /// Numbers of removed pieces: the new pieces contain their events, or the events are gone.
    pub removed: Vec<u64>,
    /// The fences that hide rows in pieces after the move.
    pub fences: Vec<Fence>,
    /// Newly recorded replacements of events in pieces: arrival number of the event, and gsn of the
    /// replacement.
    pub replaced: Vec<(u64, u64)>,
    /// Arrival numbers of replaced events that no piece contains any more.
    pub forgotten: Vec<u64>,
    /// The gsn's of all deleted events.
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

    /// Highest gsn in this record. The journal must reach this gsn: otherwise it would assign lower
    /// gsn's to new events, and these events would count as deleted or as owned by pieces.
    pub fn last_gsn(&self) -> Gsn {
        let carried_out = self.pieces.values().map(|piece| piece.fenced_through);
        let deleted = self.fences.iter().map(Fence::raised);
        let replaced = self.replaced.values().copied().map(Gsn);
        carried_out.chain(deleted).chain(replaced).fold(self.through, Gsn::max)
    }
}

impl ManifestState {
    /// Number of entries that a snapshot of the state has.
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
    /// `Internal` if the edit contradicts this state.
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
