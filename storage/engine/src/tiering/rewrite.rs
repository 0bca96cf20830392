//! Rewrites pieces into fewer pieces that are disjoint in time and contain no deleted or replaced
//! events.
//!
//! ```text
//!   chosen pieces ─► sweep: windows of ticks ─► target: tablets or stories ─► edit ─► new version
//!                                               (durable, read back)
//! ```

use std::sync::Arc;

use stratalog_model::{
    Result, invariant,
    store::{MoveCounts, MoveKind},
};

use crate::{
    ingest::chronicle::Chronicle,
    sabotage,
    settings::EngineSettings,
    tiering::{
        build::EventSource,
        choose::{self, LargestPiece},
        collect,
        files::EngineFiles,
        mover::Mover,
        piece_numbers::PieceNumbers,
        pressure_flush,
        target::{PieceWriting, STORIES, TABLETS, TargetTier},
    },
    version::{manifest::PieceRecord, piece::OpenPiece, published_versions::PinnedVersion},
};

/// Rewrites all pieces of a chronicle into few disjoint stories. The caller must hold `move_lock`.
///
/// # Errors
/// Like [`rewrite`]; rewrites completed before the error keep their effect.
pub async fn settle(
    mover: &Arc<Mover>,
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
) -> Result<MoveCounts> {
    let mut moved = MoveCounts::default();
    // First merges deep overlaps, so that later rewrites have few pieces in memory at a time.
    while let Some(inputs) = overlapping(mover, chronicle) {
        let merged = rewrite(mover, files, chronicle, &inputs, TABLETS).await?;
        if merged.pieces_removed == 0 {
            return Ok(moved);
        }
        moved = moved.and(merged);
    }
    let pieces = pieces_of(chronicle);
    let version = Arc::clone(&chronicle.state().version);
    let dead = |piece: &Arc<OpenPiece>| {
        version.pieces().has_replaced() || piece.fences_among(version.fences()).next().is_some()
    };
    let records: Vec<PieceRecord> = pieces.iter().map(|piece| *piece.record()).collect();
    let unsettled = choose::unsettled(&records, &settings_of(mover, chronicle));
    let unindexed = unindexed(mover, chronicle, &pieces).await?;
    let inputs: Vec<Arc<OpenPiece>> = pieces
        .into_iter()
        .filter(|piece| {
            let id = piece.record().id;
            unsettled.contains(&id) || unindexed.contains(&id) || dead(piece)
        })
        .collect();
    if inputs.is_empty() {
        return Ok(moved);
    }
    Ok(moved.and(rewrite(mover, files, chronicle, &inputs, STORIES).await?))
}

/// The stories among the pieces that lack a secondary index, because they were written before the
/// index was created.
async fn unindexed(
    mover: &Mover,
    chronicle: &Chronicle,
    pieces: &[Arc<OpenPiece>],
) -> Result<Vec<u64>> {
    let definition = mover.files.as_ref().and_then(|files| files.definitions.of(chronicle.id()));
    let mut found = Vec::new();
    for piece in pieces {
        if let Some(definition) = &definition
            && piece.lacks_index(definition).await?
        {
            found.push(piece.record().id);
        }
    }
    Ok(found)
}

/// Pieces of a deep overlap (see [`choose::deep`]), for the next merge.
fn overlapping(mover: &Mover, chronicle: &Chronicle) -> Option<Vec<Arc<OpenPiece>>> {
    let pieces = pieces_of(chronicle);
    let records: Vec<PieceRecord> = pieces.iter().map(|piece| *piece.record()).collect();
    let chosen = choose::deep(&records, &mover.settings)?;
    let inputs: Vec<Arc<OpenPiece>> =
        pieces.into_iter().filter(|piece| chosen.contains(&piece.record().id)).collect();
    debug_assert_eq!(inputs.len(), chosen.len(), "a chosen piece does not exist");
    Some(inputs)
}

/// A due move: its kind, the target tier, and the pieces to rewrite.
pub type DueMove = (MoveKind, &'static dyn TargetTier, Vec<Arc<OpenPiece>>);

/// The next due move of a chronicle's pieces; `None` if no move is due.
///
/// # Errors
/// `DataCorrupted`, `Io`, `ConnectionFailure` if a story cannot be read to look for missing
/// indexes.
pub async fn next(mover: &Mover, chronicle: &Chronicle, fan_in: usize) -> Result<Option<DueMove>> {
    let pieces = pieces_of(chronicle);
    let records: Vec<PieceRecord> = pieces.iter().map(|piece| *piece.record()).collect();
    let pin_for_ns = collect::pin_for_ns(mover, chronicle.id());
    let acquirers = mover.acquirers_of(chronicle.id());
    let archive = || {
        let settings = settings_of(mover, chronicle);
        let chosen =
            choose::archive(&records, &settings, pin_for_ns, acquirers, mover.clock.now_ns())?;
        Some((MoveKind::Archive, STORIES, chosen))
    };
    let merge = || {
        let largest = LargestPiece::tablet(&mover.settings);
        let chosen = choose::merge_tablets(&records, largest, fan_in, pin_for_ns)?;
        Some((MoveKind::Merge, TABLETS, chosen))
    };
    let join = || {
        let stories: Vec<PieceRecord> =
            records.iter().filter(|record| record.tier() == STORIES.name()).copied().collect();
        let largest = LargestPiece::story(&settings_of(mover, chronicle));
        let chosen = choose::merge(&stories, largest, fan_in)?;
        Some((MoveKind::Merge, STORIES, chosen))
    };
    let due = match merge().or_else(archive).or_else(join) {
        Some(due) => Some(due),
        None => {
            // Only one story at a time, because other moves may become due.
            let first = unindexed(mover, chronicle, &pieces).await?.into_iter().next();
            first.map(|piece| (MoveKind::Index, STORIES, vec![piece]))
        }
    };
    let Some((kind, target, chosen)) = due else { return Ok(None) };
    let inputs: Vec<Arc<OpenPiece>> =
        pieces.into_iter().filter(|piece| chosen.contains(&piece.record().id)).collect();
    debug_assert_eq!(inputs.len(), chosen.len(), "a chosen piece does not exist");
    Ok(Some((kind, target, inputs)))
}

/// The engine's settings, overridden by the options of the chronicle.
fn settings_of(mover: &Mover, chronicle: &Chronicle) -> EngineSettings {
    let definition = mover.files.as_ref().and_then(|files| files.definitions.of(chronicle.id()));
    let tiering = definition.map(|definition| definition.tiering).unwrap_or_default();
    mover.settings.for_chronicle(&tiering)
}

fn pieces_of(chronicle: &Chronicle) -> Vec<Arc<OpenPiece>> {
    chronicle.state().version.pieces().iter().cloned().collect()
}

/// Rewrites the pieces `inputs` of a chronicle into new pieces of the tier `target`. Does nothing
/// for a dropped chronicle. The caller must hold `move_lock`.
///
/// # Errors
/// `DiskFull`, `Io`, `ConnectionFailure`, `DataCorrupted`; nothing has changed then.
pub async fn rewrite(
    mover: &Arc<Mover>,
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
    inputs: &[Arc<OpenPiece>],
    target: &dyn TargetTier,
) -> Result<MoveCounts> {
    debug_assert!(
        inputs.iter().all(|piece| piece.chronicle() == chronicle.id()),
        "a piece of another chronicle"
    );
    // Read before the version below: every later snapshot of this version has at least this gsn.
    let snapshot_gsn = mover.publisher.published().gsn;
    let version = Arc::clone(&chronicle.state().version);
    // The chronicle was dropped in the meantime: its events are no longer needed.
    let Some(definition) = files.definitions.of(chronicle.id()) else {
        return Ok(MoveCounts::default());
    };
    // The frames of replacements and deletes must be durable before the rewrite omits the events
    // that they hide.
    collect::sync(mover.log.as_ref()).await?;
    let since_ns = inputs.iter().map(|piece| piece.record().since_ns).min();
    let from = EventSource { snapshot_gsn, since_ns: since_ns.unwrap_or_default() };
    let mut writing = PieceWriting {
        mover,
        files,
        chronicle,
        definition: &definition,
        from,
        numbers: PieceNumbers::new(&mover.piece_counter, files, chronicle.id(), target.name()),
        keep_blocks: mostly_kept(inputs),
        written: Vec::new(),
        dropped: Vec::new(),
    };
    pressure_flush::run_with_flushes(mover, writing.write(target, inputs, &version)).await?;
    let PieceWriting { written, dropped, numbers, .. } = writing;
    let removed: Vec<u64> = inputs.iter().map(|piece| piece.record().id).collect();
    let moved = MoveCounts {
        rows: written.iter().map(|written| written.record.rows).sum(),
        pieces_added: written.len() as u64,
        pieces_removed: removed.len() as u64,
        bytes: written.iter().map(|written| written.record.bytes).sum(),
    };
    let events: u64 = inputs.iter().map(|piece| piece.record().rows).sum();
    let left_out = dropped.len() as u64;
    debug_assert!(left_out <= events, "more events are left out than the pieces have");
    debug_assert!(
        written.iter().all(|written| written.record.tier() == target.name()),
        "a new piece is in another tier"
    );
    let are_hidden = inputs.iter().any(|piece| piece.fences_among(version.fences()).count() > 0);
    invariant!(
        halt MovesPreserve,
        moved.rows + left_out == events
            || are_hidden && moved.rows < events
            || sabotage::active("late-lost-in-merge")
            || sabotage::active("mark-lost-in-merge"),
        "a rewrite of chronicle {} writes {} of {events} events, and leaves out {left_out}",
        chronicle.id(),
        moved.rows
    );
    let added = collect::open(files, chronicle, &written)?;
    let kept = added.clone();
    // The version may have changed meanwhile: events may have left the journal, other events may
    // have been deleted, or the chronicle may have been dropped.
    let Some(version) = chronicle.version() else { return Ok(MoveCounts::default()) };
    // A delete in the edit must not become durable before its frame.
    if !sabotage::active("rewrite-before-sync") {
        collect::sync(mover.log.as_ref()).await?;
    }
    let change = collect::PieceChange {
        through: version.pieces().through,
        written: &written,
        removed: removed.clone(),
        forgotten: dropped.clone(),
        version: &version,
    };
    let (publishing, moving) = (Arc::clone(&mover.publisher), Arc::clone(chronicle));
    let publish = move || {
        publishing.change(|_| {
            let version = moving.swap_pieces(added, &removed, &dropped);
            (Some(PinnedVersion { chronicle: Arc::clone(&moving), version }), ())
        });
    };
    collect::commit(files, chronicle, change, numbers, publish).await?;
    for piece in inputs {
        piece.doom();
        piece.keep(None);
    }
    collect::keep(mover, &kept, written);
    Ok(moved)
}

/// True if most events of the pieces are in memory (in the backlog).
fn mostly_kept(inputs: &[Arc<OpenPiece>]) -> bool {
    let kept = inputs.iter().filter(|piece| piece.cached_bytes() > 0);
    let rows: u64 = inputs.iter().map(|piece| piece.record().rows).sum();
    kept.map(|piece| piece.record().rows).sum::<u64>() * 2 > rows
}
