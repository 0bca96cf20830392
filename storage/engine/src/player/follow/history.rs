//! History in the order of commits, out of one pinned version, with little of it in memory.
//!
//! ```text
//!   pieces:   [1 … 900]   [850 … 1700]   [1701 … 2000]      parts are read by their lowest gsn
//!   pool:     ─────────── rows that were read ──┐
//!   frontier: lowest gsn of what is unread: rows before it are settled ─► window, sorted
//!   batches:  behind all pieces, in the order of commits already
//! ```
//! Parts that lie across each other in the log, as those of merged or late events do, may be more
//! than memory is for: then the pool keeps the lowest positions, and the sweep ends behind them.

use std::{collections::VecDeque, sync::Arc};

use arrow::{
    array::{AsArray, Int64Array, RecordBatch, UInt32Array},
    compute::{interleave_record_batch, take_record_batch},
    datatypes::Int64Type,
};
use stratalog_model::{
    Error, ErrorKind, Gsn, GsnRange, Result,
    subscribe::{Gap, GapCause, SubscribeRequest},
};

use super::{GSN, memory, together};
use crate::{
    memtable::batch::MemoryBatch,
    pieces::{
        piece::{OpenPiece, Part},
        reader::Reader,
    },
    player::piece::Shared,
    version::Version,
};

/// Rows of a window, about.
const WINDOW_ROWS: usize = 1 << 16;

/// Bytes that are enough for a window, however few rows they are: a follower has one, as long as it
/// takes. Fewer are, where the memory for that is used.
const WINDOW_BYTES: usize = 8 << 20;

/// Rows that are kept whatever their bytes: with a MiB each, as many as the pool may have.
const KEPT_ROWS_MIN: usize = 1 << 6;

/// Rows that were read and are not settled, at most.
const POOL_ROWS_MAX: usize = 1 << 20;

/// Bytes of such rows, at most.
const POOL_BYTES_MAX: usize = 64 << 20;

/// What comes next.
#[derive(Debug)]
pub struct Window {
    /// Events, by ascending gsn, and these.
    pub rows: Vec<(RecordBatch, Int64Array)>,
    /// What could not be read.
    pub damaged: Vec<Gap>,
    /// All before this position was told, now or before.
    pub end: Gsn,
    /// The version has no more.
    pub ended: bool,
}

/// A way through a version.
pub struct Sweep {
    version: Arc<Version>,
    shared: Arc<Shared>,
    /// Place of `_gsn` among the columns that are read; the last one if nobody asks for it.
    gsn_at: usize,
    /// Columns that are asked for.
    columns: usize,
    batch_rows_max: usize,
    /// Everything that is asked for.
    gsns: GsnRange,
    /// By lowest gsn, those that were not opened.
    pieces: VecDeque<Arc<OpenPiece>>,
    /// By lowest gsn, parts of open pieces that were not read.
    parts: VecDeque<(Arc<Reader>, Part)>,
    pool: Vec<Pooled>,
    /// Only positions before this one are read.
    limit: Gsn,
    /// Those in memory, behind all that pieces have, in order.
    batches: VecDeque<Arc<MemoryBatch>>,
    damaged: Vec<Gap>,
}

/// Rows of a part.
struct Pooled {
    rows: RecordBatch,
    /// Positions and rows, ascending; those that were not told.
    order: Vec<(i64, u32)>,
}

impl Sweep {
    /// Begins with the positions `gsns` of a version that is seen up to their end.
    ///
    /// # Errors
    /// `Internal`.
    pub fn begin(
        version: &Arc<Version>,
        wanted: &SubscribeRequest,
        gsns: GsnRange,
    ) -> Result<Self> {
        let gsn = wanted.chronicle.columns.len() + GSN;
        let mut projection = wanted.projection.clone();
        let columns = projection.len();
        let gsn_at = match projection.iter().position(|at| *at == gsn) {
            Some(at) => at,
            None => {
                projection.push(gsn);
                columns
            }
        };
        let request = memory::request(&wanted.chronicle, projection, gsns);
        let visible = Gsn(gsns.end.0.saturating_sub(1));
        let shared = Arc::new(Shared::new(&request, Arc::clone(version), visible)?);
        let mut pieces: Vec<Arc<OpenPiece>> = version.pieces().iter().cloned().collect();
        pieces.retain(|piece| piece.gsns().overlaps(&gsns));
        pieces.sort_by_key(|piece| piece.gsns().start);
        let batches = version.batches().filter(|batch| batch.gsns().overlaps(&gsns)).cloned();
        Ok(Self {
            batches: batches.collect(),
            version: Arc::clone(version),
            shared,
            gsn_at,
            columns,
            batch_rows_max: wanted.batch_rows_max.max(1),
            gsns,
            pieces: pieces.into(),
            parts: VecDeque::new(),
            pool: Vec::new(),
            limit: gsns.end,
            damaged: Vec::new(),
        })
    }

    /// The version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// The next events; no more than one step of reading beyond `bytes_max` bytes.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`; what is damaged is told in the window.
    pub async fn window(&mut self, bytes_max: usize) -> Result<Window> {
        let bytes_max = bytes_max.min(WINDOW_BYTES);
        loop {
            self.open_pieces().await?;
            let unread = self.parts.front().map(|(_, part)| part.gsns.start);
            let frontier = unread.unwrap_or(self.gsns.end).min(self.limit);
            let all_read = unread.is_none_or(|unread| unread >= self.limit);
            if all_read && self.pool.is_empty() && self.limit == self.gsns.end {
                return self.in_memory(bytes_max);
            }
            let settled = self.settled(frontier);
            let enough = settled >= WINDOW_ROWS || settled > 0 && self.bytes() > bytes_max;
            if enough || all_read {
                return self.cut(frontier, all_read);
            }
            let Some((reader, part)) = self.parts.pop_front() else {
                return Err(Error::internal("a part of a sweep is missing"));
            };
            match read(&reader, &part).await {
                Ok(rows) => self.add(rows)?,
                Err(error) => self.damaged(part.gsns, error)?,
            }
            self.keep_within_bounds()?;
        }
    }

    /// Opens the pieces that may have the next events.
    async fn open_pieces(&mut self) -> Result<()> {
        loop {
            let first = self.parts.front().map(|(_, part)| part.gsns.start);
            let next = self.pieces.front().map(|piece| piece.gsns().start);
            let due = next.filter(|next| *next < self.limit);
            let due = due.is_some_and(|next| first.is_none_or(|first| next <= first));
            let Some(piece) = self.pieces.pop_front_if(|_| due) else { return Ok(()) };
            let reader = Arc::new(Reader::new(Arc::clone(&piece), Arc::clone(&self.shared)));
            match piece.parts().await {
                Ok(parts) => {
                    let wanted = parts.iter().filter(|part| part.gsns.overlaps(&self.gsns));
                    let wanted = wanted.map(|part| (Arc::clone(&reader), part.clone()));
                    let mut all: Vec<(Arc<Reader>, Part)> = self.parts.drain(..).collect();
                    all.extend(wanted);
                    all.sort_by_key(|(_, part)| part.gsns.start);
                    self.parts = all.into();
                }
                Err(error) => self.damaged(piece.gsns(), error)?,
            }
        }
    }

    /// What is damaged is told; anything else that goes wrong ends the sweep.
    fn damaged(&mut self, gsns: GsnRange, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::DataCorrupted {
            return Err(error);
        }
        tracing::warn!(%error, %gsns, "subscribers are told of events that cannot be read");
        let gsns = gsns.intersect(&self.gsns);
        self.damaged.push(Gap { gsns, cause: GapCause::Damaged(error.to_string()) });
        Ok(())
    }

    fn gsns_of<'a>(&self, rows: &'a RecordBatch) -> Result<&'a Int64Array> {
        let gsns = rows.column(self.gsn_at).as_primitive_opt::<Int64Type>();
        gsns.ok_or_else(|| Error::internal("events were read without their gsn"))
    }

    fn add(&mut self, rows: RecordBatch) -> Result<()> {
        let gsns = self.gsns_of(&rows)?;
        let mut order: Vec<(i64, u32)> = gsns.values().iter().copied().zip(0..).collect();
        if !order.is_sorted() {
            order.sort_unstable();
        }
        if !order.is_empty() {
            self.pool.push(Pooled { rows, order });
        }
        Ok(())
    }

    /// How many rows of the pool are before a position.
    fn settled(&self, frontier: Gsn) -> usize {
        self.pool.iter().map(|pooled| pooled.before(frontier)).sum()
    }

    /// Gives up the highest positions of the pool when there are too many: those, and what lies
    /// behind them, are for the next sweep.
    fn keep_within_bounds(&mut self) -> Result<()> {
        let rows: usize = self.pool.iter().map(|pooled| pooled.order.len()).sum();
        if rows <= KEPT_ROWS_MIN || rows <= POOL_ROWS_MAX && self.bytes() <= POOL_BYTES_MAX {
            return Ok(());
        }
        let mut gsns: Vec<i64> =
            self.pool.iter().flat_map(|pooled| pooled.order.iter().map(|(gsn, _)| *gsn)).collect();
        let kept = (rows / 2).max(KEPT_ROWS_MIN);
        let (_, limit, _) = gsns.select_nth_unstable(kept);
        self.limit = self.limit.min(Gsn(limit.cast_unsigned()));
        let limit = self.limit;
        for pooled in &mut self.pool {
            let kept = pooled.before(limit);
            pooled.order.truncate(kept);
        }
        self.shrink()
    }

    fn bytes(&self) -> usize {
        self.pool.iter().map(|pooled| pooled.rows.get_array_memory_size()).sum()
    }

    /// Gives back the memory of rows that are not for this pool any more.
    fn shrink(&mut self) -> Result<()> {
        self.pool.retain(|pooled| !pooled.order.is_empty());
        self.pool.iter_mut().try_for_each(Pooled::shrink)
    }

    /// The rows before a position, in order.
    fn cut(&mut self, frontier: Gsn, all_read: bool) -> Result<Window> {
        let mut picked: Vec<(i64, u32, u32)> = Vec::new();
        for (at, pooled) in (0..).zip(&mut self.pool) {
            let before = pooled.before(frontier);
            picked.extend(pooled.order.drain(..before).map(|(gsn, row)| (gsn, at, row)));
        }
        if !picked.is_sorted() {
            picked.sort_unstable();
        }
        let batches: Vec<&RecordBatch> = self.pool.iter().map(|pooled| &pooled.rows).collect();
        let mut rows = Vec::with_capacity(picked.len() / self.batch_rows_max + 1);
        for chunk in picked.chunks(self.batch_rows_max) {
            let indices: Vec<(usize, usize)> =
                chunk.iter().map(|(_, at, row)| (*at as usize, *row as usize)).collect();
            rows.push(interleave_record_batch(&batches, &indices)?);
        }
        self.shrink()?;
        let end = match self.batches.front() {
            // Pieces have nothing more.
            Some(batch) if all_read && self.limit == self.gsns.end => Gsn(batch.first_gsn()),
            _ => frontier,
        };
        self.told(rows, end.max(self.gsns.start), all_read && end >= self.limit)
    }

    /// Events in memory: behind those of all pieces, and in order.
    fn in_memory(&mut self, bytes_max: usize) -> Result<Window> {
        let (mut rows, mut count, mut bytes) = (Vec::new(), 0, 0);
        while (count == 0 || count < WINDOW_ROWS && bytes < bytes_max as u64)
            && let Some(batch) = self.batches.pop_front()
        {
            count += batch.rows();
            bytes += batch.bytes();
            let visible = self.shared.visible;
            rows.push(memory::rows(&batch, &self.shared.request, &self.version, visible)?);
        }
        let end = self.batches.front().map_or(self.gsns.end, |batch| Gsn(batch.first_gsn()));
        let rows = together(rows, self.batch_rows_max)?;
        self.told(rows, end, self.batches.is_empty())
    }

    fn told(&mut self, rows: Vec<RecordBatch>, end: Gsn, ended: bool) -> Result<Window> {
        let asked: Vec<usize> = (0..self.columns).collect();
        let rows = rows.into_iter().map(|rows| {
            let gsns = self.gsns_of(&rows)?.clone();
            Ok((rows.project(&asked)?, gsns))
        });
        let rows = rows.collect::<Result<_>>()?;
        Ok(Window { rows, damaged: std::mem::take(&mut self.damaged), end, ended })
    }
}

impl Pooled {
    fn before(&self, frontier: Gsn) -> usize {
        self.order.partition_point(|(gsn, _)| gsn.cast_unsigned() < frontier.0)
    }

    fn shrink(&mut self) -> Result<()> {
        if self.order.len() * 2 > self.rows.num_rows() {
            return Ok(());
        }
        let kept = UInt32Array::from_iter_values(self.order.iter().map(|(_, row)| *row));
        self.rows = take_record_batch(&self.rows, &kept)?;
        self.order.iter_mut().zip(0..).for_each(|(place, row)| place.1 = row);
        Ok(())
    }
}

/// The wanted events of a part.
async fn read(reader: &Reader, part: &Part) -> Result<RecordBatch> {
    let wanted = reader.wanted(&part.hull);
    let events = reader.piece().read(part, &wanted).await?;
    let mut batches = reader.unordered(&events, &part.hull)?;
    match batches.pop() {
        Some(rows) => Ok(rows),
        None => Ok(RecordBatch::new_empty(Arc::clone(&reader.shared().schema))),
    }
}
