//! From pieces into fewer ones: disjoint in time, without deleted and replaced events.
//!
//! ```text
//!   inputs, by first tick ─► pool ─► windows of ticks ─► tablets, durable, read back ─► edit
//!                             ▲            │                                          (added,
//!                             └────────────┘ what later inputs may still overlap       removed)
//! ```

use std::{collections::BTreeMap, sync::Arc};

use stratalog_model::{ChronicleId, Gsn, Result, SchemaVersion, store::Moved};

use crate::{
    choose,
    collect::{self, Files},
    engine::Core,
    keeper::chronicle::Chronicle,
    manifest::PieceRecord,
    pieces::{
        build::{self, Sizes, Written},
        rows::Rows,
        set::OpenPiece,
    },
    sabotage,
    version::{Version, published::Pinned},
};

/// Brings the pieces of a chronicle into as few and disjoint ones as there can be. Only by
/// whoever moves events.
///
/// # Errors
/// As [`rewrite`]; what was done before stays.
pub async fn settle(core: &Arc<Core>, files: &Files, chronicle: &Arc<Chronicle>) -> Result<Moved> {
    let mut moved = Moved::default();
    let all: Vec<Arc<OpenPiece>> = pieces_of(chronicle);
    // What was deleted or replaced goes; then what overlaps, or is small.
    let version = Arc::clone(&chronicle.state().version);
    for piece in all {
        let dead = version.pieces().has_replaced()
            || piece.fences_among(version.fences()).next().is_some();
        if dead {
            moved = moved.and(rewrite(core, files, chronicle, &[piece]).await?);
        }
    }
    while let Some(inputs) = next_merge(core, chronicle, 2) {
        moved = moved.and(rewrite(core, files, chronicle, &inputs).await?);
    }
    Ok(moved)
}

/// The pieces of a chronicle that are worth merging, at least `fan_in` of them.
pub fn next_merge(
    core: &Core,
    chronicle: &Chronicle,
    fan_in: usize,
) -> Option<Vec<Arc<OpenPiece>>> {
    let pieces = pieces_of(chronicle);
    let records: Vec<PieceRecord> = pieces.iter().map(|piece| *piece.record()).collect();
    let chosen = choose::merge(&records, &core.settings, fan_in)?;
    Some(pieces.into_iter().filter(|piece| chosen.contains(&piece.record().id)).collect())
}

fn pieces_of(chronicle: &Chronicle) -> Vec<Arc<OpenPiece>> {
    chronicle.state().version.pieces().iter().cloned().collect()
}

/// Brings pieces of a chronicle into new ones. Only by whoever moves events.
///
/// # Errors
/// `DiskFull`, `Io`, `DataCorrupted`: nothing has changed then.
pub async fn rewrite(
    core: &Arc<Core>,
    files: &Files,
    chronicle: &Arc<Chronicle>,
    inputs: &[Arc<OpenPiece>],
) -> Result<Moved> {
    // Read first: every snapshot of the version below has at least this gsn.
    let shown = core.published().gsn;
    let version = Arc::clone(&chronicle.state().version);
    // What replaced or deleted events must not be lost once they are gone.
    collect::sync(core).await?;
    let first = core.next_piece(files);
    let mut dropped = Vec::new();
    let written =
        write(core, files, chronicle.id(), inputs, &version, (shown, first), &mut dropped);
    let written = written.inspect_err(|_| core.give_up_pieces(files, first))?;
    let removed: Vec<u64> = inputs.iter().map(|piece| piece.record().id).collect();
    let moved = Moved {
        rows: written.iter().map(|written| written.record.rows).sum(),
        pieces_added: written.len() as u64,
        pieces_removed: removed.len() as u64,
    };
    let added = collect::open(files, chronicle, &written)?;
    let through = version.pieces().through;
    let edit = collect::Change {
        through,
        written: &written,
        removed: removed.clone(),
        forgotten: dropped.clone(),
        version: &version,
    };
    let (publishing, moving) = (Arc::clone(core), Arc::clone(chronicle));
    let publish = move || {
        publishing.change(|_| {
            let version = moving.swap_pieces(added, &removed, &dropped);
            (Some(Pinned { chronicle: Arc::clone(&moving), version }), ())
        });
    };
    collect::commit(core, files, chronicle, edit, publish).await?;
    inputs.iter().for_each(|piece| piece.doom());
    Ok(moved)
}

/// Writes the events of `inputs` in force at `at.0` into tablets numbered from `at.1` on.
fn write(
    core: &Core,
    files: &Files,
    chronicle: ChronicleId,
    inputs: &[Arc<OpenPiece>],
    version: &Version,
    at: (Gsn, u64),
    dropped: &mut Vec<u64>,
) -> Result<Vec<Written>> {
    let (shown, first) = at;
    // A window is one tablet, however many events a tick has.
    let rows_max = core.settings.tablet_rows_max.max(1);
    let sizes = Sizes { tablet_rows_max: usize::MAX, ..Sizes::of(&core.settings) };
    let mut by_shape: BTreeMap<SchemaVersion, Vec<&Arc<OpenPiece>>> = BTreeMap::new();
    for piece in inputs {
        by_shape.entry(piece.shape().version).or_default().push(piece);
    }
    let mut written = Vec::new();
    for mut inputs in by_shape.into_values() {
        inputs.sort_by_key(|piece| (piece.record().ticks.start, piece.record().id));
        let mut sweep = Sweep { inputs: inputs.into_iter(), next: None, pool: None };
        while let Some(window) =
            sweep.window(rows_max, |piece| Rows::of_piece(piece, version, shown, dropped))?
        {
            let tablets = &files.tablets;
            build::write_windows(tablets, chronicle, &window, shown, first, sizes, &mut written)?;
        }
    }
    Ok(written)
}

/// Goes through pieces by time, with as few of them in memory as overlap.
struct Sweep<'a, I: Iterator<Item = &'a Arc<OpenPiece>>> {
    inputs: I,
    next: Option<&'a Arc<OpenPiece>>,
    /// Events that no window has had yet.
    pool: Option<Rows>,
}

impl<'a, I: Iterator<Item = &'a Arc<OpenPiece>>> Sweep<'a, I> {
    /// The next window of ticks: about `rows_max` events, all that there are of its ticks.
    fn window(
        &mut self,
        rows_max: usize,
        mut read: impl FnMut(&OpenPiece) -> Result<Option<Rows>>,
    ) -> Result<Option<Rows>> {
        loop {
            self.next = self.next.take().or_else(|| self.inputs.next());
            let frontier = self.next.map_or(i64::MAX, |piece| piece.record().ticks.start.0);
            if let Some(pool) = self.pool.take() {
                let mut settled: Vec<u32> = (0..pool.len() as u32).collect();
                let tick = |row: &u32| pool.ticks.get(*row as usize).copied().unwrap_or_default();
                settled.retain(|row| tick(row) < frontier || self.next.is_none());
                if self.next.is_none() || settled.len() >= rows_max {
                    settled.sort_by_key(|row| (tick(row), *row));
                    let last = settled.get(..rows_max).and_then(<[u32]>::last).map(tick);
                    // Never in the middle of a tick.
                    let end = settled.partition_point(|row| last.is_none_or(|l| tick(row) <= l));
                    settled.truncate(end);
                    if settled.len() == pool.len() {
                        return Ok(Some(pool));
                    }
                    let mut stays = vec![true; pool.len()];
                    for row in &settled {
                        if let Some(stays) = stays.get_mut(*row as usize) {
                            *stays = false;
                        }
                    }
                    let rest: Vec<u32> = (0..pool.len() as u32)
                        .filter(|row| stays.get(*row as usize).is_some_and(|stays| *stays))
                        .collect();
                    self.pool = Some(pool.pick(&rest)?);
                    return pool.pick(&settled).map(Some);
                }
                self.pool = Some(pool);
            }
            let Some(piece) = self.next.take() else { return Ok(None) };
            self.pool = match (self.pool.take(), read(piece)?) {
                (Some(pool), Some(_)) if sabotage::active("late-lost-in-merge") => Some(pool),
                (Some(pool), Some(rows)) => Some(pool.and(rows)?),
                (pool, rows) => pool.or(rows),
            };
        }
    }
}
