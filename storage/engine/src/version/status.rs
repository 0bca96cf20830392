//! Reports the pieces of a version and the progress of moves, for operators.

use std::sync::Arc;

use stratalog_model::{
    ChronicleId, Gsn, Tick, TickRange, TierName,
    store::{PieceStatus, Watermarks},
};

use super::piece::OpenPiece;
use crate::version::Version;

/// The status of each piece of a version. The events in memory count as one piece of the journal
/// tier.
pub fn pieces(chronicle: ChronicleId, version: &Version) -> Vec<PieceStatus> {
    let mut pieces: Vec<PieceStatus> = version
        .pieces()
        .iter()
        .map(|piece| {
            let record = piece.record();
            PieceStatus {
                chronicle,
                tier: piece.tier(),
                number: Some(record.id),
                file: Some(piece.place()),
                ticks: record.ticks,
                rows: record.rows,
                bytes: record.bytes,
                memory_bytes: piece.cached_bytes(),
                gsns: record.gsns,
                schema_version: Some(record.schema_version),
            }
        })
        .collect();
    let mut batches = version.batches().peekable();
    if let Some(first) = batches.peek() {
        let mut journal = PieceStatus {
            chronicle,
            tier: TierName::Journal,
            number: None,
            file: None,
            ticks: TickRange::EMPTY,
            rows: 0,
            bytes: 0,
            memory_bytes: 0,
            gsns: (Gsn(first.first_gsn()), Gsn(0)),
            schema_version: None,
        };
        for batch in batches {
            journal.ticks = journal.ticks.hull(&batch.hull());
            journal.rows += batch.rows() as u64;
            journal.bytes += batch.bytes();
            journal.memory_bytes = journal.bytes;
            journal.gsns.1 = Gsn(batch.last_gsn());
        }
        debug_assert!(
            journal.rows == 0 || journal.gsns.0 <= journal.gsns.1,
            "the last gsn of the journal precedes the first gsn"
        );
        pieces.push(journal);
    }
    pieces
}

/// How far the events of a version have moved down the tiers.
pub fn watermarks(chronicle: ChronicleId, version: &Version) -> Watermarks {
    let pieces = version.pieces();
    let stories = pieces.iter().filter(|piece| piece.tier() == TierName::Story);
    let last = |piece: &Arc<OpenPiece>| Tick(piece.record().ticks.end.0 - 1);
    let stories = stories.map(last).max();
    debug_assert!(
        stories.is_none_or(|last| last.0 < pieces.ticks_end()),
        "a story continues behind the end of the ticks"
    );
    Watermarks {
        chronicle,
        through: pieces.through,
        tablets: Some(pieces.ticks_end()).filter(|end| *end > i64::MIN).map(|end| Tick(end - 1)),
        stories,
    }
}
