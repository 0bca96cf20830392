//! Rewrites pieces into fewer pieces: disjoint in time, without deleted and replaced events.
//!
//! ```text
//!   parts of the inputs, by first tick ─► pool ─► windows of ticks ─► tablets or stories ─► edit
//!                                           ▲            │             (durable, read back)
//!                                           └────────────┘ events later parts may still overlap
//! ```

use std::{collections::BTreeMap, sync::Arc};

use stratalog_model::{
    ChronicleDefinition, Gsn, Result, SchemaVersion, TierName,
    aggregate::Windows,
    store::{MoveCounts, MoveKind},
};
use stratalog_story::{StorySchema, StorySettings};

use crate::{
    ingest::chronicle::Chronicle,
    sabotage,
    settings::EngineSettings,
    tiering::{
        build::{self, EventSource, Sizes, WrittenPiece, rows::EventRows, story::StoryWriter},
        choose::{self, LargestPiece},
        collect,
        files::EngineFiles,
        mover::Mover,
        piece_numbers::PieceNumbers,
        pressure_flush,
    },
    version::{
        Version,
        manifest::PieceRecord,
        piece::{OpenPiece, Part},
        published_versions::PinnedVersion,
    },
};

/// Rewrites all pieces of a chronicle into few disjoint stories. Only for the holder of the lock
/// `moving`.
///
/// # Errors
/// Like [`rewrite`]; finished rewrites keep their effect.
pub async fn settle(
    mover: &Arc<Mover>,
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
) -> Result<MoveCounts> {
    let mut moved = MoveCounts::default();
    // Deep overlaps first, to hold few pieces in memory at a time.
    while let Some(inputs) = overlapping(mover, chronicle) {
        let merged = rewrite(mover, files, chronicle, &inputs, TierName::Tablet).await?;
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
    Ok(moved.and(rewrite(mover, files, chronicle, &inputs, TierName::Story).await?))
}

/// Stories written before an index of their chronicle.
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

/// Pieces in a deep overlap.
fn overlapping(mover: &Mover, chronicle: &Chronicle) -> Option<Vec<Arc<OpenPiece>>> {
    let pieces = pieces_of(chronicle);
    let records: Vec<PieceRecord> = pieces.iter().map(|piece| *piece.record()).collect();
    let chosen = choose::deep(&records, &mover.settings)?;
    Some(pieces.into_iter().filter(|piece| chosen.contains(&piece.record().id)).collect())
}

/// The due move of a chronicle's pieces: its kind, the target tier, and the pieces.
///
/// # Errors
/// `DataCorrupted`, `Io`, `ConnectionFailure` for a story read to find missing indexes.
pub async fn next(
    mover: &Mover,
    chronicle: &Chronicle,
    fan_in: usize,
) -> Result<Option<(MoveKind, TierName, Vec<Arc<OpenPiece>>)>> {
    let pieces = pieces_of(chronicle);
    let records: Vec<PieceRecord> = pieces.iter().map(|piece| *piece.record()).collect();
    let pin_for_ns = collect::pin_for_ns(mover, chronicle.id());
    let acquirers = mover.acquirers_of(chronicle.id());
    let archive = || {
        let settings = settings_of(mover, chronicle);
        let chosen =
            choose::archive(&records, &settings, pin_for_ns, acquirers, mover.clock.now_ns())?;
        Some((MoveKind::Archive, TierName::Story, chosen))
    };
    let merge = || {
        let largest = LargestPiece::tablet(&mover.settings);
        let chosen = choose::merge_tablets(&records, largest, fan_in, pin_for_ns)?;
        Some((MoveKind::Merge, TierName::Tablet, chosen))
    };
    let join = || {
        let stories: Vec<PieceRecord> =
            records.iter().filter(|record| record.tier() == TierName::Story).copied().collect();
        let largest = LargestPiece::story(&settings_of(mover, chronicle));
        let chosen = choose::merge(&stories, largest, fan_in)?;
        Some((MoveKind::Merge, TierName::Story, chosen))
    };
    let due = match merge().or_else(archive).or_else(join) {
        Some(due) => Some(due),
        None => {
            // One story at a time: other moves may become due.
            let first = unindexed(mover, chronicle, &pieces).await?.into_iter().next();
            first.map(|piece| (MoveKind::Index, TierName::Story, vec![piece]))
        }
    };
    let Some((kind, target, chosen)) = due else { return Ok(None) };
    let inputs = pieces.into_iter().filter(|piece| chosen.contains(&piece.record().id));
    Ok(Some((kind, target, inputs.collect())))
}

/// The settings, adjusted by the chronicle's options.
fn settings_of(mover: &Mover, chronicle: &Chronicle) -> EngineSettings {
    let definition = mover.files.as_ref().and_then(|files| files.definitions.of(chronicle.id()));
    let tiering = definition.map(|definition| definition.tiering).unwrap_or_default();
    mover.settings.for_chronicle(&tiering)
}

fn pieces_of(chronicle: &Chronicle) -> Vec<Arc<OpenPiece>> {
    chronicle.state().version.pieces().iter().cloned().collect()
}

/// Rewrites pieces of a chronicle into new pieces of a tier. Moves nothing for a dropped chronicle.
/// Only for the holder of the lock `move_lock`.
///
/// # Errors
/// `DiskFull`, `Io`, `ConnectionFailure`, `DataCorrupted`: then nothing has changed.
pub async fn rewrite(
    mover: &Arc<Mover>,
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
    inputs: &[Arc<OpenPiece>],
    target: TierName,
) -> Result<MoveCounts> {
    // Read first: every snapshot of the version below has at least this gsn.
    let snapshot_gsn = mover.publisher.published().gsn;
    let version = Arc::clone(&chronicle.state().version);
    // The events of a chronicle dropped in the meantime are no longer needed.
    let Some(definition) = files.definitions.of(chronicle.id()) else {
        return Ok(MoveCounts::default());
    };
    // Frames of replacements and deletes must be durable before the rewrite leaves out events.
    collect::sync(mover.log.as_ref()).await?;
    let since_ns = inputs.iter().map(|piece| piece.record().since_ns).min();
    let from = EventSource { snapshot_gsn, since_ns: since_ns.unwrap_or_default() };
    let mut writing = PieceWriting {
        mover,
        files,
        chronicle,
        definition: &definition,
        from,
        target,
        numbers: PieceNumbers::new(&mover.piece_counter, files, chronicle.id(), target),
        keep_blocks: mostly_kept(inputs),
        written: Vec::new(),
        dropped: Vec::new(),
    };
    pressure_flush::run_with_flushes(mover, writing.write(inputs, &version)).await?;
    let PieceWriting { written, dropped, numbers, .. } = writing;
    let removed: Vec<u64> = inputs.iter().map(|piece| piece.record().id).collect();
    let moved = MoveCounts {
        rows: written.iter().map(|written| written.record.rows).sum(),
        pieces_added: written.len() as u64,
        pieces_removed: removed.len() as u64,
        bytes: written.iter().map(|written| written.record.bytes).sum(),
    };
    let added = collect::open(files, chronicle, &written)?;
    let kept = added.clone();
    // Meanwhile events may have left the journal, other events may have been deleted, or the
    // chronicle may have been dropped.
    let Some(version) = chronicle.version() else { return Ok(MoveCounts::default()) };
    // Deletes in the edit must not be more durable than their frames.
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

/// True if most of the events are in memory.
fn mostly_kept(inputs: &[Arc<OpenPiece>]) -> bool {
    let kept = inputs.iter().filter(|piece| piece.cached_bytes() > 0);
    let rows: u64 = inputs.iter().map(|piece| piece.record().rows).sum();
    kept.map(|piece| piece.record().rows).sum::<u64>() * 2 > rows
}

/// New pieces during their writing.
struct PieceWriting<'a> {
    mover: &'a Mover,
    files: &'a EngineFiles,
    chronicle: &'a Chronicle,
    definition: &'a ChronicleDefinition,
    from: EventSource,
    target: TierName,
    numbers: PieceNumbers<'a>,
    /// True if the events are in memory, and shall stay in memory.
    keep_blocks: bool,
    written: Vec<WrittenPiece>,
    /// Arrival numbers of replaced events, left out of the new pieces.
    dropped: Vec<u64>,
}

impl PieceWriting<'_> {
    /// Writes the events of `inputs` without deleted and replaced events.
    async fn write(&mut self, inputs: &[Arc<OpenPiece>], version: &Version) -> Result<()> {
        let mut by_shape: BTreeMap<SchemaVersion, Vec<(&OpenPiece, Part)>> = BTreeMap::new();
        for piece in inputs {
            let parts = by_shape.entry(piece.shape().version).or_default();
            parts.extend(piece.parts().await?.iter().map(|part| (piece.as_ref(), part.clone())));
        }
        for (schema_version, mut parts) in by_shape {
            parts.sort_by_key(|(piece, part)| (part.hull.start, piece.record().id, part.number));
            let snapshot_gsn = self.from.snapshot_gsn;
            let mut sweep = PartSweep {
                version,
                snapshot_gsn,
                parts: parts.into_iter(),
                next: None,
                pool: Vec::new(),
                windows: match self.target {
                    TierName::Story => Windows::common(&self.definition.scale).rev().collect(),
                    _ => Vec::new(),
                },
            };
            match self.target {
                TierName::Story => self.stories(schema_version, &mut sweep).await?,
                _ => self.tablets(&mut sweep).await?,
            }
        }
        Ok(())
    }

    async fn tablets(&mut self, sweep: &mut PartSweep<'_>) -> Result<()> {
        let settings = &self.mover.settings;
        // One window is one tablet, for any number of events in a tick.
        let sizes = Sizes { tablet_rows_max: usize::MAX, ..Sizes::of(settings, self.keep_blocks) };
        let tablets = &self.files.shelves.tablets;
        let id = self.chronicle.id();
        let most = WindowLimit { rows: settings.tablet_rows_max, bytes: usize::MAX };
        while let Some(rows) = sweep.window(most, &mut self.dropped).await? {
            let (from, number) = (self.from, &mut || self.numbers.take());
            let tablets = build::write_windows(tablets, id, &rows, from, number, sizes)?;
            let bytes = tablets.iter().map(|written| written.record.bytes).sum();
            self.written.extend(tablets);
            self.mover.write_throttle.throttle(bytes).await;
        }
        Ok(())
    }

    async fn stories(&mut self, version: SchemaVersion, sweep: &mut PartSweep<'_>) -> Result<()> {
        let settings = self.mover.settings.for_chronicle(&self.definition.tiering);
        let schema = StorySchema::of(self.definition, version)?;
        let mut open: Option<StoryWriter> = None;
        let most = WindowLimit { rows: settings.slice_rows_max, bytes: settings.slice_bytes_max };
        while let Some(rows) = sweep.window(most, &mut self.dropped).await? {
            let mut writer = match open.take() {
                Some(writer) => writer,
                None => {
                    let packed =
                        StorySettings { cell_rows: settings.cell_rows, ..StorySettings::default() };
                    let stories = &self.files.shelves.stories;
                    StoryWriter::new(stories, self.numbers.take(), &schema, packed)?
                }
            };
            let before = writer.bytes();
            writer.push(&rows)?;
            self.mover.write_throttle.throttle(writer.bytes().saturating_sub(before)).await;
            let full = writer.rows() >= settings.story_rows_max
                || writer.bytes() >= settings.story_bytes_max;
            match full {
                true => self.finish(writer).await?,
                false => open = Some(writer),
            }
        }
        match open {
            Some(writer) => self.finish(writer).await,
            None => Ok(()),
        }
    }

    async fn finish(&mut self, writer: StoryWriter) -> Result<()> {
        let record = writer.finish(self.from.snapshot_gsn, self.from.since_ns).await?;
        self.written.push(WrittenPiece { record, tablet: None });
        Ok(())
    }
}

/// Sweeps through parts of pieces by time, with only overlapping parts in memory.
struct PartSweep<'a> {
    version: &'a Version,
    snapshot_gsn: Gsn,
    parts: std::vec::IntoIter<(&'a OpenPiece, Part)>,
    next: Option<(&'a OpenPiece, Part)>,
    /// Events not yet in a window.
    pool: Vec<EventRows>,
    /// Windows of time, the widest first: a slice ends at the end of a window if possible.
    windows: Vec<Windows>,
}

/// Approximate size of a window.
#[derive(Debug, Clone, Copy)]
struct WindowLimit {
    rows: usize,
    bytes: usize,
}

impl WindowLimit {
    /// Maximum number of rows of a window, at the average row size of `pool`.
    fn rows_of(self, pool: &[EventRows]) -> usize {
        let rows: usize = pool.iter().map(EventRows::len).sum();
        let bytes: usize = pool.iter().map(EventRows::bytes).sum();
        let fitting = self.bytes as u128 * rows as u128 / bytes.max(1) as u128;
        self.rows.min(usize::try_from(fitting).unwrap_or(usize::MAX)).max(1)
    }
}

impl PartSweep<'_> {
    /// The next window of ticks: about the size `most`, with all events of its ticks.
    async fn window(
        &mut self,
        most: WindowLimit,
        dropped: &mut Vec<u64>,
    ) -> Result<Option<EventRows>> {
        loop {
            let rows_max = most.rows_of(&self.pool);
            // Gives way to urgent moves.
            tokio::task::yield_now().await;
            self.next = self.next.take().or_else(|| self.parts.next());
            let Some((piece, part)) = self.next.take() else {
                let Some(pool) = EventRows::concat(std::mem::take(&mut self.pool))? else {
                    return Ok(None);
                };
                return self.cut(pool, rows_max, None).map(Some);
            };
            // No later part has events before this tick.
            let frontier = part.hull.start.0;
            let settled =
                |rows: &EventRows| rows.ticks.iter().filter(|tick| **tick < frontier).count();
            if self.pool.iter().map(settled).sum::<usize>() >= rows_max
                && let Some(pool) = EventRows::concat(std::mem::take(&mut self.pool))?
            {
                self.next = Some((piece, part));
                return self.cut(pool, rows_max, Some(frontier)).map(Some);
            }
            let rows =
                EventRows::of_part(piece, &part, self.version, self.snapshot_gsn, dropped).await?;
            if self.pool.is_empty() || !sabotage::active("late-lost-in-merge") {
                self.pool.extend(rows);
            }
        }
    }

    /// Takes the first `rows_max` events before the frontier, together with all events of their
    /// last tick. Takes fewer events, at least half of `rows_max`, if a window of time ends there.
    /// The remaining events stay in the pool.
    fn cut(
        &mut self,
        pool: EventRows,
        rows_max: usize,
        frontier: Option<i64>,
    ) -> Result<EventRows> {
        let tick = |row: &u32| pool.ticks.get(*row as usize).copied().unwrap_or_default();
        let before = |row: &u32| frontier.is_none_or(|frontier| tick(row) < frontier);
        let mut order: Vec<u32> = (0..pool.len() as u32).collect();
        order.sort_by_key(tick);
        let settled = order.partition_point(before);
        let last = order.get(..settled.min(rows_max)).and_then(<[u32]>::last).map(tick);
        // Never cuts within a tick.
        let end = order.partition_point(|row| last.is_none_or(|last| tick(row) <= last));
        if end == pool.len() {
            return Ok(pool);
        }
        let next = order.get(end).map(tick);
        let ends = self.windows.iter().filter_map(|windows| windows.start(next?));
        let mut ends = ends.map(|start| order.partition_point(|row| tick(row) < start));
        let end = ends.find(|end| *end >= rows_max.div_ceil(2)).unwrap_or(end);
        let (window, rest) = order.split_at(end);
        self.pool.push(pool.pick(rest)?);
        pool.pick(window)
    }
}
