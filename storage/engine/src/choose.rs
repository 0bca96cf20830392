//! What moves next: pure decisions, on what is known of pieces and pressure (F31, F32, F35).

use std::collections::BTreeMap;

use stratalog_model::{ChronicleId, SchemaVersion};

use crate::{manifest::PieceRecord, settings::EngineSettings};

/// Pieces that one merge brings together, at most.
const FAN_IN_MAX: usize = 16;

/// What the journal tier holds of one chronicle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Whose.
    pub chronicle: ChronicleId,
    /// Bytes of its events in memory.
    pub bytes: u64,
    /// The oldest of them.
    pub oldest_gsn: u64,
}

/// What all of them take, and may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pressure {
    /// Bytes of memory in use.
    pub memory_bytes: u64,
    /// From here on events leave.
    pub memory_bytes_high: u64,
    /// Bytes that appends wait for.
    pub memory_bytes_wanted: u64,
    /// Bytes that there are.
    pub memory_bytes_max: u64,
    /// Bytes of the journal's segments.
    pub journal_bytes: u64,
    /// From here on events leave.
    pub journal_bytes_high: u64,
}

/// Whose events leave the journal next: where memory is short, those of the chronicle with the
/// most; where the journal is long, those of the one that holds on to its beginning. `None`
/// when nothing is short.
pub fn flush(loads: &[Load], pressure: &Pressure) -> Option<ChronicleId> {
    let wanted = pressure.memory_bytes.saturating_add(pressure.memory_bytes_wanted);
    let short = pressure.memory_bytes >= pressure.memory_bytes_high
        || (pressure.memory_bytes_wanted > 0 && wanted > pressure.memory_bytes_max);
    let chosen = if short {
        loads.iter().max_by_key(|load| (load.bytes, load.chronicle))
    } else if pressure.journal_bytes >= pressure.journal_bytes_high {
        loads.iter().min_by_key(|load| (load.oldest_gsn, load.chronicle))
    } else {
        None
    };
    chosen.map(|load| load.chronicle)
}

/// Which pieces of one chronicle are worth being one, by number: at least `fan_in` that
/// overlap at some tick, or that are neighbours and small. Those where the most overlap come
/// first: every read of those ticks goes through all of them.
pub fn merge(pieces: &[PieceRecord], settings: &EngineSettings, fan_in: usize) -> Option<Vec<u64>> {
    let mut by_shape: BTreeMap<SchemaVersion, Vec<&PieceRecord>> = BTreeMap::new();
    for piece in pieces {
        by_shape.entry(piece.schema_version).or_default().push(piece);
    }
    let fan_in = fan_in.max(2);
    let mut best: Option<Vec<&PieceRecord>> = None;
    for alike in by_shape.values_mut() {
        alike.sort_by_key(|piece| (piece.ticks.start, piece.id));
        let found = deepest(alike, fan_in).or_else(|| small(alike, settings, fan_in));
        best = best.max_by_len(found);
    }
    Some(best?.iter().map(|piece| piece.id).collect())
}

trait Longer {
    fn max_by_len(self, other: Self) -> Self;
}

impl<T> Longer for Option<Vec<T>> {
    fn max_by_len(self, other: Self) -> Self {
        let len = |list: &Self| list.as_ref().map_or(0, Vec::len);
        if len(&other) > len(&self) { other } else { self }
    }
}

/// The pieces that overlap where the most do, the smallest of them where there are too many.
fn deepest<'a>(pieces: &[&'a PieceRecord], fan_in: usize) -> Option<Vec<&'a PieceRecord>> {
    let mut open: Vec<&PieceRecord> = Vec::new();
    let mut most: Vec<&PieceRecord> = Vec::new();
    for piece in pieces {
        open.retain(|earlier| earlier.ticks.end > piece.ticks.start);
        open.push(piece);
        if open.len() > most.len() {
            most.clone_from(&open);
        }
    }
    if most.len() < fan_in {
        return None;
    }
    most.sort_by_key(|piece| (piece.rows, piece.id));
    most.truncate(FAN_IN_MAX);
    Some(most)
}

/// The longest run of neighbours that together fill a tablet or less.
fn small<'a>(
    pieces: &[&'a PieceRecord],
    settings: &EngineSettings,
    fan_in: usize,
) -> Option<Vec<&'a PieceRecord>> {
    let (mut from, mut rows, mut bytes) = (0, 0, 0);
    let mut longest = 0..0;
    for (at, piece) in pieces.iter().enumerate() {
        rows += piece.rows;
        bytes += piece.unpacked_bytes;
        while rows > settings.tablet_rows_max as u64
            || bytes > settings.move_bytes
            || at + 1 - from > FAN_IN_MAX
        {
            let Some(first) = pieces.get(from) else { break };
            rows -= first.rows;
            bytes -= first.unpacked_bytes;
            from += 1;
        }
        if at + 1 - from > longest.len() {
            longest = from..at + 1;
        }
    }
    let run = pieces.get(longest).filter(|run| run.len() >= fan_in)?;
    Some(run.to_vec())
}

#[cfg(test)]
mod tests;
