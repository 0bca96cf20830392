//! Writes tablets from batches in memory. The submodules of this module also write stories. An
//! event is *in force* at a gsn if no commit up to this gsn has replaced or deleted it.
//!
//! ```text
//!   batches of a version ─► rows in force ─► by tick into tablets ─► by (key, tick) into blocks
//!        (journal tier)       (rows)         (tablet_rows_max)         (order, block_rows_max)
//!   pieces of a version  ─► rows in force ─► by tick into slices  ─► by (key, tick) into stories
//!                            (rewrite)         (slice_rows_max)         (story, 1 row group each)
//! ```

use std::{collections::BTreeMap, sync::Arc};

use arrow::{array::UInt32Array, buffer::ScalarBuffer};
use stratalog_model::{ChronicleId, Error, ErrorKind, Gsn, Result, Tick, TickRange, invariant};
use stratalog_tablet::{BlockHead, BlockSummary, BuiltTablet, Section, TabletId, Tablets};

use self::rows::EventRows;
use crate::{
    events::{
        batch::MemoryBatch, block::Block, column::Column, keys::Groups,
        part_events::ColumnSelection, shape::Shape, statistics,
    },
    sabotage,
    settings::EngineSettings,
    version::{
        fence::Fence,
        manifest::{PieceFile, PieceRecord},
    },
};

pub mod order;
pub mod rows;
pub mod story;

/// Size limits of tablets and blocks.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Maximum number of events of a tablet.
    pub tablet_rows_max: usize,
    /// Maximum number of events of a block.
    pub block_rows_max: usize,
    /// Approximate bytes of a block before compression.
    pub block_bytes: usize,
    /// True if the decoded blocks also stay in memory.
    pub keep_blocks: bool,
}

impl Sizes {
    /// The limits from the settings.
    pub fn of(settings: &EngineSettings, keep_blocks: bool) -> Self {
        Self {
            tablet_rows_max: settings.tablet_rows_max,
            block_rows_max: settings.block_rows_max,
            block_bytes: settings.block_bytes,
            keep_blocks,
        }
    }
}

/// The snapshot from which the events of new pieces come.
#[derive(Debug, Clone, Copy)]
pub struct EventSource {
    /// The gsn of the snapshot. The new pieces contain the events that are in force at this gsn.
    pub snapshot_gsn: Gsn,
    /// Commit time of the oldest event, in nanoseconds since 1970, if known.
    pub since_ns: i64,
}

/// A written piece, before the manifest names it.
#[derive(Debug)]
pub struct WrittenPiece {
    /// The record for the manifest.
    pub record: PieceRecord,
    /// The additional data of a tablet; `None` for a story.
    pub tablet: Option<NewTablet>,
}

/// The data of a written tablet.
#[derive(Debug)]
pub struct NewTablet {
    /// The description of the tablet, for the index.
    pub built: BuiltTablet,
    /// The heads (metadata) of the blocks, for the index.
    pub heads: Vec<BlockHead>,
    /// The blocks to keep in memory, by number; empty if none.
    pub blocks: BTreeMap<u32, Block>,
}

/// Writes tablets with the events of `batches` that are in force at `from.snapshot_gsn`. `number`
/// assigns the number of each new tablet. On return, every tablet is durable.
///
/// # Errors
/// `DiskFull`, `Io`. The next start removes the tablets written before the error.
pub fn build(
    tablets: &Tablets,
    chronicle: ChronicleId,
    batches: &[Arc<MemoryBatch>],
    fences: &[Fence],
    from: EventSource,
    number: &mut dyn FnMut() -> u64,
    sizes: Sizes,
) -> Result<Vec<WrittenPiece>> {
    let mut by_shape: BTreeMap<_, Vec<Arc<MemoryBatch>>> = BTreeMap::new();
    for batch in batches {
        by_shape.entry(batch.shape().version).or_default().push(Arc::clone(batch));
    }
    let mut written = Vec::new();
    for batches in by_shape.values() {
        let Some(rows) = EventRows::of_batches(batches, fences, from.snapshot_gsn)? else {
            continue;
        };
        written.extend(write_windows(tablets, chronicle, &rows, from, number, sizes)?);
    }
    debug_assert!(
        rows_of(&written) <= batches.iter().map(|batch| batch.rows() as u64).sum::<u64>(),
        "the tablets have more events than the batches"
    );
    Ok(written)
}

fn rows_of(written: &[WrittenPiece]) -> u64 {
    written.iter().map(|written| written.record.rows).sum()
}

/// Writes events into tablets, each for a window of ticks. `number` assigns the number of each new
/// tablet.
///
/// # Errors
/// The errors of [`build`].
pub fn write_windows(
    tablets: &Tablets,
    chronicle: ChronicleId,
    rows: &EventRows,
    from: EventSource,
    number: &mut dyn FnMut() -> u64,
    sizes: Sizes,
) -> Result<Vec<WrittenPiece>> {
    debug_assert!(u32::try_from(rows.len()).is_ok(), "an event has no row number");
    let mut by_tick: Vec<u32> = (0..rows.len() as u32).collect();
    by_tick.sort_by_key(|row| rows.ticks.get(*row as usize).copied());
    let groups = Groups::of(&rows.columns, &rows.shape.keys, rows.len())?;
    let ranks = ranks(&groups);
    debug_assert_eq!(rows.gsns.len(), rows.len());
    debug_assert_eq!(rows.seqs.len(), rows.len(), "an event has no arrival number");
    debug_assert_eq!(ranks.len(), groups.keys.len(), "a key has no rank");
    let windows = by_tick.chunks(sizes.tablet_rows_max.max(1)).map(|window| {
        let id = TabletId(number());
        write(tablets, id, chronicle, rows, &groups, &ranks, window, from, sizes)
    });
    let written = windows.collect::<Result<Vec<_>>>()?;
    debug_assert_eq!(rows_of(&written), rows.len() as u64, "events are lost between tablets");
    Ok(written)
}

/// For each key group, its rank in the order of the keys.
pub fn ranks(groups: &Groups) -> Vec<u32> {
    let mut order: Vec<usize> = (0..groups.keys.len()).collect();
    order.sort_by(|a, b| groups.keys.get(*a).cmp(&groups.keys.get(*b)));
    let mut ranks = vec![0; order.len()];
    for (rank, group) in order.into_iter().enumerate() {
        if let Some(slot) = ranks.get_mut(group) {
            *slot = rank as u32;
        }
    }
    ranks
}

#[expect(clippy::too_many_arguments, reason = "one call, all of it is needed")]
fn write(
    tablets: &Tablets,
    id: TabletId,
    chronicle: ChronicleId,
    rows: &EventRows,
    groups: &Groups,
    ranks: &[u32],
    window: &[u32],
    from: EventSource,
    sizes: Sizes,
) -> Result<WrittenPiece> {
    debug_assert!(!window.is_empty(), "a tablet has no events");
    let at = |values: &[i64], row: u32| values.get(row as usize).copied().unwrap_or_default();
    let sorted = order::by_key(rows, groups, ranks, window);
    let bytes: usize = rows.columns.iter().map(Column::bytes).sum();
    let row_bytes = bytes / rows.ticks.len().max(1) + 24;
    let block_rows = (sizes.block_bytes / row_bytes.max(1)).clamp(1, sizes.block_rows_max.max(1));

    let mut builder = tablets.build(id, chronicle, rows.shape.version)?;
    let (mut hull, mut gsns) = (TickRange::EMPTY, (u64::MAX, 0));
    for chunk in sorted.chunks(block_rows) {
        let pick = |values: &[i64]| -> ScalarBuffer<i64> {
            chunk.iter().map(|row| at(values, *row)).collect::<Vec<_>>().into()
        };
        let indices = UInt32Array::from(chunk.to_vec());
        let columns =
            rows.columns.iter().map(|column| column.pick(&indices)).collect::<Result<Vec<_>>>()?;
        let block = Block {
            columns,
            ticks: pick(&rows.ticks),
            seqs: pick(&rows.seqs),
            gsns: pick(&rows.gsns),
        };
        let summary = summary(&block, chunk, groups);
        hull = hull.hull(&summary.hull());
        gsns = (gsns.0.min(summary.gsns.0), gsns.1.max(summary.gsns.1));
        let sections = block.encode()?;
        let sections = sections.iter().map(|(bytes, width)| Section { bytes, word_bytes: *width });
        builder.push(summary, &sections.collect::<Vec<_>>())?;
    }
    let (built, heads) = builder.finish()?;
    let blocks = check(tablets, &built, rows.shape.as_ref(), window.len(), sizes.keep_blocks)?;
    invariant!(
        MovesPreserve,
        built.rows == window.len() as u64,
        "tablet {} has {} of {} events",
        built.id,
        built.rows,
        window.len()
    );
    debug_assert!(!hull.is_empty() && gsns.0 <= gsns.1);
    debug_assert_eq!(heads.len() as u64, u64::from(built.blocks), "a block has no head");
    debug_assert!(blocks.is_empty() || blocks.len() == heads.len(), "a block is not kept");
    let record = PieceRecord {
        id: built.id.0,
        schema_version: built.schema_version,
        bytes: built.bytes,
        unpacked_bytes: heads.iter().map(|head| head.unpacked_bytes() as u64).sum(),
        parts: built.blocks,
        rows: built.rows,
        checksum: built.checksum,
        ticks: hull,
        gsns: (Gsn(gsns.0), Gsn(gsns.1)),
        fenced_through: from.snapshot_gsn,
        since_ns: from.since_ns,
        file: PieceFile::Tablet,
    };
    Ok(WrittenPiece { record, tablet: Some(NewTablet { built, heads, blocks }) })
}

fn summary(block: &Block, rows: &[u32], groups: &Groups) -> BlockSummary {
    let key = |row: Option<&u32>| {
        let key = row.and_then(|row| groups.keys.get(groups.group(*row as usize)));
        key.map(|key| bytes::Bytes::copy_from_slice(key)).unwrap_or_default()
    };
    let hull = |values: &[i64]| {
        let (low, high) = (values.iter().min(), values.iter().max());
        (low.copied().unwrap_or_default(), high.copied().unwrap_or_default())
    };
    let gsns = hull(&block.gsns);
    let keys = (key(rows.first()), key(rows.last()));
    debug_assert_eq!(rows.len(), block.rows());
    debug_assert!(!rows.is_empty(), "a block has no events");
    debug_assert!(keys.0 <= keys.1, "the first key of a block follows the last key");
    BlockSummary {
        rows: block.rows() as u32,
        ticks: hull(&block.ticks),
        gsns: (gsns.0.cast_unsigned(), gsns.1.cast_unsigned()),
        keys,
        statistics: statistics::of_columns(&block.columns),
    }
}

/// Reads a new tablet back from disk, and verifies its content. Returns the blocks if `keep` is
/// set.
fn check(
    tablets: &Tablets,
    built: &BuiltTablet,
    shape: &Shape,
    rows: usize,
    keep: bool,
) -> Result<BTreeMap<u32, Block>> {
    let mut blocks = BTreeMap::new();
    if sabotage::active("tablet-unverified") {
        return Ok(blocks);
    }
    let tablet = tablets.tablet(built)?;
    let mut found = 0;
    // Reads the heads from the file: the index knows no tablet before the manifest names the file.
    for head in tablet.heads()? {
        let summary = &head.summary;
        let sections = tablet.read_all(&head)?;
        let events =
            Block::decode(&sections, &ColumnSelection::all(shape), shape, summary.rows as usize)?;
        let inside = |tick: &i64| summary.hull().contains(Tick(*tick));
        if !events.ticks.iter().all(inside) {
            return Err(wrong(built, "a block has other ticks than it says"));
        }
        found += events.rows;
        if keep {
            blocks.insert(head.number, events.into_block()?);
        }
    }
    if found != rows {
        return Err(wrong(built, &format!("it has {found} events of {rows}")));
    }
    Ok(blocks)
}

fn wrong(built: &BuiltTablet, what: &str) -> Error {
    Error::new(ErrorKind::DataCorrupted, format!("tablet {} reads back wrongly: {what}", built.id))
        .with_hint("check the disk and the memory of the machine")
}
