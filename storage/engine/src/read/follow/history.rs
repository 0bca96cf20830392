//! Reads the history of a chronicle in commit order (by gsn) from a pinned version, with bounded
//! memory.
//!
//! ```text
//!   pieces:   [1 … 900]   [850 … 1700]   [1701 … 2000]      parts are read by lowest gsn
//!   pool:     ───────────── rows already read ──┐
//!   frontier: lowest gsn of unread parts: rows before it are complete ─► window, sorted
//!   batches in memory: read after all pieces; already in commit order
//! ```
//!
//! Parts (blocks of tablets, row groups of stories) may overlap in gsn order, for example after a
//! merge or with late events. If the pool reaches its memory limit, it keeps only the rows with the
//! lowest gsn's, and this sweep ends after them.

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

use super::{
    concat_batches_up_to,
    memory::{self, GSN},
};
use crate::{
    events::batch::MemoryBatch,
    read::{journal_split::SharedRequest, pieces::reader::PieceReader},
    version::{
        Version,
        piece::{OpenPiece, Part},
    },
};

/// Approximate number of rows of a window.
const WINDOW_ROWS: usize = 1 << 16;

/// Bytes at which a window is complete, even with few rows. A follower keeps a window in memory
/// until its client has taken all events. The limit is lower if the memory for windows is scarce.
const WINDOW_BYTES: usize = 8 << 20;

/// Number of rows that the pool keeps, no matter how large the rows are. With 1 MiB per row, these
/// rows reach the byte limit of the pool.
const KEPT_ROWS_MIN: usize = 1 << 6;

/// Maximum number of rows in the pool at or after the frontier.
const POOL_ROWS_MAX: usize = 1 << 20;

/// Maximum bytes of the rows in the pool.
const POOL_BYTES_MAX: usize = 64 << 20;

/// The next events of a sweep, in commit order.
#[derive(Debug)]
pub struct HistoryWindow {
    /// Batches of events, ascending by gsn, each with the gsn's of its rows.
    pub rows: Vec<(RecordBatch, Int64Array)>,
    /// Ranges of gsn's that could not be read because of damage.
    pub damaged: Vec<Gap>,
    /// Every event with a gsn before this gsn is in this window or in an earlier window.
    pub end: Gsn,
    /// True if the version has no further events.
    pub ended: bool,
}

/// A sweep: a scan of a version in commit order.
pub struct HistorySweep {
    version: Arc<Version>,
    shared: Arc<SharedRequest>,
    /// Position of `_gsn` among the columns to read; the last column if the request does not
    /// include `_gsn`.
    gsn_at: usize,
    /// Number of requested columns.
    columns: usize,
    batch_rows_max: usize,
    /// The requested gsn's.
    gsns: GsnRange,
    /// Pieces (tablets and stories) not opened yet, by lowest gsn.
    pieces: VecDeque<Arc<OpenPiece>>,
    /// Parts of open pieces not read yet, by lowest gsn.
    parts: VecDeque<(Arc<PieceReader>, Part)>,
    pool: Vec<PooledRows>,
    /// The sweep reads only gsn's before this limit.
    limit: Gsn,
    /// Batches in memory, in order; all of them come after the events of the pieces.
    batches: VecDeque<Arc<MemoryBatch>>,
    damaged: Vec<Gap>,
}

/// Rows of one part that wait in the pool.
struct PooledRows {
    rows: RecordBatch,
    /// gsn and row number of the remaining rows, ascending by gsn.
    order: Vec<(i64, u32)>,
}

impl HistorySweep {
    /// Begins a sweep over the gsn's `gsns` of a version. The end of `gsns` is the end of the
    /// visible events.
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
        let shared = Arc::new(SharedRequest::new(&request, Arc::clone(version), visible)?);
        let mut pieces: Vec<Arc<OpenPiece>> = version.pieces().iter().cloned().collect();
        pieces.retain(|piece| piece.gsns().overlaps(&gsns));
        pieces.sort_by_key(|piece| piece.gsns().start);
        let batches = version.batches().filter(|batch| batch.gsns().overlaps(&gsns)).cloned();
        let batches: VecDeque<Arc<MemoryBatch>> = batches.collect();
        debug_assert!(
            batches.iter().is_sorted_by(|a, b| a.last_gsn() < b.first_gsn()),
            "the batches of a version overlap"
        );
        Ok(Self {
            batches,
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

    /// The version of the sweep.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Reads the next window of events. The window exceeds `bytes_max` bytes by at most one part.
    ///
    /// # Errors
    /// `Io`, `ConnectionFailure`. Damaged data is not an error; the window lists the damage.
    pub async fn window(&mut self, bytes_max: usize) -> Result<HistoryWindow> {
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

    /// Opens the pieces that may contain the next gsn's.
    async fn open_pieces(&mut self) -> Result<()> {
        loop {
            let first = self.parts.front().map(|(_, part)| part.gsns.start);
            let next = self.pieces.front().map(|piece| piece.gsns().start);
            let due = next.filter(|next| *next < self.limit);
            let due = due.is_some_and(|next| first.is_none_or(|first| next <= first));
            let Some(piece) = self.pieces.pop_front_if(|_| due) else { return Ok(()) };
            let reader = Arc::new(PieceReader::new(Arc::clone(&piece), Arc::clone(&self.shared)));
            match piece.parts().await {
                Ok(parts) => {
                    let wanted = parts.iter().filter(|part| part.gsns.overlaps(&self.gsns));
                    let wanted = wanted.map(|part| (Arc::clone(&reader), part.clone()));
                    let mut all: Vec<(Arc<PieceReader>, Part)> = self.parts.drain(..).collect();
                    all.extend(wanted);
                    all.sort_by_key(|(_, part)| part.gsns.start);
                    self.parts = all.into();
                }
                Err(error) => self.damaged(piece.gsns(), error)?,
            }
        }
    }

    /// Records a damaged range of gsn's in the window. Errors other than damage end the sweep.
    fn damaged(&mut self, gsns: GsnRange, error: Error) -> Result<()> {
        if error.kind() != ErrorKind::DataCorrupted {
            return Err(error);
        }
        tracing::warn!(%error, %gsns, "subscribers receive a gap for unreadable events");
        let gsns = gsns.intersect(&self.gsns);
        debug_assert!(!gsns.is_empty(), "a gap has no positions");
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
        debug_assert!(
            order.iter().all(|(gsn, _)| self.gsns.contains(Gsn(gsn.cast_unsigned()))),
            "a sweep reads unwanted positions"
        );
        if !order.is_empty() {
            self.pool.push(PooledRows { rows, order });
        }
        Ok(())
    }

    /// Number of rows in the pool with a gsn before `frontier`.
    fn settled(&self, frontier: Gsn) -> usize {
        self.pool.iter().map(|pooled| pooled.before(frontier)).sum()
    }

    /// If the pool is too large, drops its rows with the highest gsn's. The next sweep reads these
    /// and all later events.
    fn keep_within_bounds(&mut self) -> Result<()> {
        let rows: usize = self.pool.iter().map(|pooled| pooled.order.len()).sum();
        if rows <= KEPT_ROWS_MIN || rows <= POOL_ROWS_MAX && self.bytes() <= POOL_BYTES_MAX {
            return Ok(());
        }
        let mut gsns: Vec<i64> =
            self.pool.iter().flat_map(|pooled| pooled.order.iter().map(|(gsn, _)| *gsn)).collect();
        let kept = (rows / 2).max(KEPT_ROWS_MIN);
        debug_assert!(kept < rows, "a full pool keeps all rows");
        let (_, limit, _) = gsns.select_nth_unstable(kept);
        self.limit = self.limit.min(Gsn(limit.cast_unsigned()));
        let limit = self.limit;
        debug_assert!(limit <= self.gsns.end, "a sweep goes on behind its end");
        for pooled in &mut self.pool {
            let kept = pooled.before(limit);
            pooled.order.truncate(kept);
        }
        self.shrink()
    }

    fn bytes(&self) -> usize {
        self.pool.iter().map(|pooled| pooled.rows.get_array_memory_size()).sum()
    }

    /// Frees the memory of rows that are no longer in the pool.
    fn shrink(&mut self) -> Result<()> {
        self.pool.retain(|pooled| !pooled.order.is_empty());
        self.pool.iter_mut().try_for_each(PooledRows::shrink)
    }

    /// Moves the rows with a gsn before `frontier` from the pool into a window, in order.
    fn cut(&mut self, frontier: Gsn, all_read: bool) -> Result<HistoryWindow> {
        let mut picked: Vec<(i64, u32, u32)> = Vec::new();
        for (at, pooled) in (0..).zip(&mut self.pool) {
            let before = pooled.before(frontier);
            picked.extend(pooled.order.drain(..before).map(|(gsn, row)| (gsn, at, row)));
        }
        if !picked.is_sorted() {
            picked.sort_unstable();
        }
        debug_assert!(picked.is_sorted_by(|a, b| a.0 < b.0), "two pieces have the same event");
        let batches: Vec<&RecordBatch> = self.pool.iter().map(|pooled| &pooled.rows).collect();
        let mut rows = Vec::with_capacity(picked.len() / self.batch_rows_max + 1);
        for chunk in picked.chunks(self.batch_rows_max) {
            let indices: Vec<(usize, usize)> =
                chunk.iter().map(|(_, at, row)| (*at as usize, *row as usize)).collect();
            rows.push(interleave_record_batch(&batches, &indices)?);
        }
        self.shrink()?;
        let end = match self.batches.front() {
            // The pieces have no further events: the window reaches up to the batches in memory.
            Some(batch) if all_read && self.limit == self.gsns.end => Gsn(batch.first_gsn()),
            _ => frontier,
        };
        self.window_of(rows, end.max(self.gsns.start), all_read && end >= self.limit)
    }

    /// Reads the next events from memory, in order. Called after all pieces: the batches in memory
    /// are later than the events of the pieces.
    fn in_memory(&mut self, bytes_max: usize) -> Result<HistoryWindow> {
        debug_assert!(
            self.pieces.is_empty() && self.parts.is_empty() && self.pool.is_empty(),
            "events of pieces come after events in memory"
        );
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
        let rows = concat_batches_up_to(rows, self.batch_rows_max)?;
        self.window_of(rows, end, self.batches.is_empty())
    }

    fn window_of(
        &mut self,
        rows: Vec<RecordBatch>,
        end: Gsn,
        ended: bool,
    ) -> Result<HistoryWindow> {
        let columns: Vec<usize> = (0..self.columns).collect();
        let rows = rows.into_iter().map(|rows| {
            let gsns = self.gsns_of(&rows)?.clone();
            Ok((rows.project(&columns)?, gsns))
        });
        let rows: Vec<(RecordBatch, Int64Array)> = rows.collect::<Result<_>>()?;
        debug_assert!(
            rows.last()
                .and_then(|(_, gsns)| gsns.values().last())
                .is_none_or(|last| last.cast_unsigned() < end.0),
            "a window ends before its events"
        );
        Ok(HistoryWindow { rows, damaged: std::mem::take(&mut self.damaged), end, ended })
    }
}

impl PooledRows {
    fn before(&self, frontier: Gsn) -> usize {
        self.order.partition_point(|(gsn, _)| gsn.cast_unsigned() < frontier.0)
    }

    fn shrink(&mut self) -> Result<()> {
        debug_assert!(self.order.len() <= self.rows.num_rows(), "a row is in the pool twice");
        if self.order.len() * 2 > self.rows.num_rows() {
            return Ok(());
        }
        let kept = UInt32Array::from_iter_values(self.order.iter().map(|(_, row)| *row));
        self.rows = take_record_batch(&self.rows, &kept)?;
        self.order.iter_mut().zip(0..).for_each(|(place, row)| place.1 = row);
        Ok(())
    }
}

/// Reads the wanted events of a part.
async fn read(reader: &PieceReader, part: &Part) -> Result<RecordBatch> {
    let wanted = reader.column_selection(&part.hull);
    let events = reader.piece().read(part, &wanted).await?;
    let mut batches = reader.unordered(&events, &part.hull)?;
    debug_assert!(batches.len() <= 1, "a part comes in several batches");
    match batches.pop() {
        Some(rows) => Ok(rows),
        None => Ok(RecordBatch::new_empty(Arc::clone(&reader.shared().schema))),
    }
}
