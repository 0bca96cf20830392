//! The tablet tier: pieces as a request reads them.
//!
//! ```text
//!   blocks ─► those of the wanted ticks and keys ─► rows that are seen
//!     any order:  block by block
//!     ordered:    all of a tablet, sorted by (tick, seq): a tablet is one window of ticks
//! ```

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int16Array, Int64Array, RecordBatch, RecordBatchOptions, StringViewArray, UInt32Array,
};
use stratalog_model::{
    ChronicleDefinition, Error, Gsn, Result, Tick, TickRange, TickRanges, Tier, TierName,
    tier::{BatchStream, Extent, Piece, ScanOrder, ScanRequest},
};
use stratalog_tablet::BlockHead;

use super::{
    block::Block,
    set::{OpenPiece, is_behind},
};
use crate::{
    memtable::column::Column,
    player::{keyed, piece::Shared, stream},
    sabotage,
    version::{Fence, Version},
};

/// The pieces of one version of one chronicle.
#[derive(Debug)]
pub struct TabletTier {
    version: Arc<Version>,
}

impl TabletTier {
    /// The tier of a pinned version.
    pub fn new(version: Arc<Version>) -> Self {
        Self { version }
    }
}

impl Tier for TabletTier {
    fn name(&self) -> TierName {
        TierName::Tablet
    }

    fn extent(&self, _: &ChronicleDefinition, ranges: &TickRanges, _: Gsn) -> Option<Extent> {
        self.version.pieces().extent(ranges, self.version.fences())
    }

    fn pieces(&self, request: &Arc<ScanRequest>, visible: Gsn) -> Result<Vec<Box<dyn Piece>>> {
        if self.version.pieces().is_empty() {
            return Ok(Vec::new());
        }
        let shared = Arc::new(Shared::new(request, Arc::clone(&self.version), visible)?);
        let keys = keyed::keys_of(request)?;
        let mut pieces: Vec<Box<dyn Piece>> = Vec::new();
        for piece in self.version.pieces().iter() {
            let blocks = u64::from(piece.record().blocks);
            if !request.ticks.overlaps(&piece.record().ticks) {
                request.metrics.tablet.pruned(blocks);
                continue;
            }
            let wanted = |head: &&BlockHead| {
                request.ticks.overlaps(&head.summary.hull()) && may_hold(head, keys.as_deref())
            };
            let heads: Vec<BlockHead> = piece.blocks()?.iter().filter(wanted).cloned().collect();
            request.metrics.tablet.pruned(blocks - heads.len() as u64);
            if !heads.is_empty() {
                let (piece, shared) = (Arc::clone(piece), Arc::clone(&shared));
                pieces.push(Box::new(TabletPiece { piece, heads, shared }));
            }
        }
        Ok(pieces)
    }
}

/// Whether one of the keys may be in a block.
fn may_hold(head: &BlockHead, keys: Option<&[Vec<u8>]>) -> bool {
    let (first, last) = (&head.summary.keys.0, &head.summary.keys.1);
    keys.is_none_or(|keys| {
        let at = keys.partition_point(|key| key.as_slice() < first.as_ref());
        keys.get(at).is_some_and(|key| key.as_slice() <= last.as_ref())
    })
}

/// Some blocks of a tablet, as a request reads them.
struct TabletPiece {
    piece: Arc<OpenPiece>,
    heads: Vec<BlockHead>,
    shared: Arc<Shared>,
}

impl Piece for TabletPiece {
    fn ticks(&self) -> TickRange {
        self.heads.iter().fold(TickRange::EMPTY, |hull, head| hull.hull(&head.summary.hull()))
    }

    fn rows_max(&self) -> usize {
        self.heads.iter().map(|head| head.summary.rows as usize).sum()
    }

    fn read(self: Box<Self>) -> BatchStream {
        if self.shared.request.order == ScanOrder::Any {
            let heads = self.heads.clone().into_iter();
            return stream::of_iterator(heads.flat_map(move |head| match self.of_block(&head) {
                Ok(batches) => batches.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }));
        }
        match self.sorted() {
            Ok(batches) => stream::of_iterator(batches.into_iter().map(Ok)),
            Err(error) => stream::of_iterator([Err(error)].into_iter()),
        }
    }
}

impl TabletPiece {
    /// A block, and the rows of it that are seen.
    fn selected(&self, head: &BlockHead) -> Result<(Block, Vec<u32>)> {
        let block = self.piece.read(head)?;
        let metrics = &self.shared.request.metrics.tablet;
        metrics.read(u64::from(head.summary.rows), head.bytes());
        let Shared { request, keys, version, visible, .. } = self.shared.as_ref();
        let mut fences: Vec<&Fence> = self.piece.fences_among(version.fences()).collect();
        if sabotage::active("fence-ignored") {
            fences.clear();
        }
        let pieces = version.pieces();
        let mut rows = Vec::with_capacity(block.rows());
        let whole = request.ticks.covers(&head.summary.hull());
        let events = block.ticks.iter().zip(block.seqs.iter()).zip(block.gsns.iter());
        for (row, ((tick, seq), gsn)) in events.enumerate() {
            let seen = (whole || request.ticks.contains(Tick(*tick)))
                && !is_behind(&fences, Tick(*tick), *gsn)
                && !pieces.is_replaced(*seq, *visible);
            if seen {
                rows.push(row as u32);
            }
        }
        for set in keys.iter() {
            let column = self.column(&block, set.column)?;
            let matches = set.matches(&column)?;
            rows.retain(|row| matches.get(*row as usize).copied().unwrap_or(false));
        }
        Ok((block, rows))
    }

    /// The rows of a block that are seen, in batches.
    fn of_block(&self, head: &BlockHead) -> Result<Vec<RecordBatch>> {
        let (block, rows) = self.selected(head)?;
        let rows: Vec<(usize, u32)> = rows.into_iter().map(|row| (0, row)).collect();
        let chunks = rows.chunks(self.shared.request.batch_rows_max.max(1));
        chunks.map(|rows| self.batch(std::slice::from_ref(&block), rows)).collect()
    }

    /// The rows that are seen, in order, in batches.
    fn sorted(&self) -> Result<Vec<RecordBatch>> {
        let request = &self.shared.request;
        let mut blocks = Vec::with_capacity(self.heads.len());
        let mut order: Vec<(i64, i64, u32, u32)> = Vec::new();
        for head in &self.heads {
            let (block, rows) = self.selected(head)?;
            let at = blocks.len() as u32;
            order.extend(rows.into_iter().map(|row| {
                let of = |values: &[i64]| values.get(row as usize).copied().unwrap_or_default();
                (of(&block.ticks), of(&block.seqs), at, row)
            }));
            blocks.push(block);
        }
        order.sort_unstable();
        if request.order == ScanOrder::Descending {
            order.reverse();
        }
        order.truncate(request.limit.unwrap_or(usize::MAX));
        let rows: Vec<(usize, u32)> =
            order.into_iter().map(|(_, _, block, row)| (block as usize, row)).collect();
        rows.chunks(request.batch_rows_max.max(1)).map(|rows| self.batch(&blocks, rows)).collect()
    }

    /// A batch of rows of blocks.
    fn batch(&self, blocks: &[Block], rows: &[(usize, u32)]) -> Result<RecordBatch> {
        let request = &self.shared.request;
        let user = request.chronicle.columns.len();
        let ordered = (request.order != ScanOrder::Any).then_some([user, user + 1]);
        let wanted = request.projection.iter().copied().chain(ordered.into_iter().flatten());
        let arrays = wanted
            .map(|at| match at.checked_sub(user) {
                None => self.stored(blocks, rows, at),
                Some(system) => system_column(blocks, rows, system),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let schema = Arc::clone(&self.shared.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    fn stored(&self, blocks: &[Block], rows: &[(usize, u32)], at: usize) -> Result<ArrayRef> {
        if let [block] = blocks {
            let indices = UInt32Array::from_iter_values(rows.iter().map(|(_, row)| *row));
            return self.column(block, at)?.rows(&indices);
        }
        let parts = blocks
            .iter()
            .map(|block| {
                let column = self.column(block, at)?;
                column.slice(0, column.len())
            })
            .collect::<Result<Vec<_>>>()?;
        let parts: Vec<&dyn arrow::array::Array> = parts.iter().map(AsRef::as_ref).collect();
        let indices: Vec<(usize, usize)> =
            rows.iter().map(|(block, row)| (*block, *row as usize)).collect();
        Ok(arrow::compute::interleave(&parts, &indices)?)
    }

    /// The column of the request's chronicle at `at`; for one that is younger than the
    /// block, what its definition says.
    fn column(&self, block: &Block, at: usize) -> Result<Column> {
        let Some(definition) = self.shared.request.chronicle.columns.get(at) else {
            return Err(Error::internal(format!("there is no column {at}")));
        };
        let stored = self.piece.shape().position(definition.id);
        match stored.and_then(|at| block.columns.get(at)) {
            Some(column) => Ok(column.clone()),
            None => Column::constant(
                definition.missing_value.as_deref(),
                &definition.column_type.arrow_type(),
                block.rows(),
            ),
        }
    }
}

/// A system column, by its place in `SYSTEM_COLUMNS`.
fn system_column(blocks: &[Block], rows: &[(usize, u32)], at: usize) -> Result<ArrayRef> {
    let numbers = |of: fn(&Block) -> &[i64]| -> ArrayRef {
        let values = rows.iter().map(|(block, row)| {
            let values = blocks.get(*block).map(of).unwrap_or(&[]);
            values.get(*row as usize).copied().unwrap_or_default()
        });
        Arc::new(Int64Array::from_iter_values(values))
    };
    Ok(match at {
        0 => numbers(|block| &block.ticks),
        1 => numbers(|block| &block.seqs),
        2 | 4 => numbers(|block| &block.gsns),
        3 => Arc::new(Int16Array::from_value(0, rows.len())),
        5 => {
            let tier = TierName::Tablet.to_string();
            let names = std::iter::repeat_n(tier.as_str(), rows.len());
            Arc::new(StringViewArray::from_iter_values(names))
        }
        other => return Err(Error::internal(format!("there is no system column {other}"))),
    })
}
