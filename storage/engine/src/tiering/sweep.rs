//! A sweep: reads the parts (blocks, row groups) of pieces in the order of time, with only
//! overlapping parts in memory at once.
//!
//! ```text
//!   parts of the pieces, by first tick ─► pool ─► windows of ticks, with all events of their ticks
//!                                           ▲            │
//!                                           └────────────┘ events that later parts may overlap
//! ```
//!
//! Exception: a tick with too many events for memory, for example one event of each of a million
//! series, is divided into several windows.

use stratalog_model::{Gsn, Result, aggregate::Windows};

use crate::{
    sabotage,
    tiering::build::rows::EventRows,
    version::{
        Version,
        piece::{OpenPiece, Part},
    },
};

/// Reads parts of pieces in the order of time, with only overlapping parts in memory at once.
pub struct PartSweep<'a> {
    version: &'a Version,
    snapshot_gsn: Gsn,
    /// The parts still to read, by first tick.
    parts: std::vec::IntoIter<(&'a OpenPiece, Part)>,
    next: Option<(&'a OpenPiece, Part)>,
    /// Events that were read, but are not in a window yet.
    pool: Vec<EventRows>,
    /// Time windows of several lengths, the longest first: the output windows end at the end of
    /// one of them if possible.
    windows: Vec<Windows>,
    /// True if the next output window may begin with the last tick of the previous one.
    continues_tick: bool,
}

/// Size limit of an output window.
#[derive(Debug, Clone, Copy)]
pub struct WindowLimit {
    /// Maximum number of rows. The events of one tick are divided only if they are more than twice
    /// this number.
    pub rows: usize,
    /// Approximate maximum number of bytes.
    pub bytes: usize,
}

impl WindowLimit {
    /// Maximum number of rows of a window, given the average row size in `pool`.
    fn rows_of(self, pool: &[EventRows]) -> usize {
        let rows: usize = pool.iter().map(EventRows::len).sum();
        let bytes: usize = pool.iter().map(EventRows::bytes).sum();
        let fitting = self.bytes as u128 * rows as u128 / bytes.max(1) as u128;
        self.rows.min(usize::try_from(fitting).unwrap_or(usize::MAX)).max(1)
    }
}

impl<'a> PartSweep<'a> {
    /// A sweep through `parts` that returns the events in force at `snapshot_gsn`. `windows` are
    /// the time windows, the longest first.
    pub fn new(
        version: &'a Version,
        snapshot_gsn: Gsn,
        mut parts: Vec<(&'a OpenPiece, Part)>,
        windows: Vec<Windows>,
    ) -> Self {
        debug_assert!(
            parts.windows(2).all(|pair| {
                matches!(pair, [(a, _), (b, _)] if a.shape().version == b.shape().version)
            }),
            "the parts have several shapes"
        );
        parts.sort_by_key(|(piece, part)| (part.hull.start, piece.record().id, part.number));
        let parts = parts.into_iter();
        Self {
            version,
            snapshot_gsn,
            parts,
            next: None,
            pool: Vec::new(),
            windows,
            continues_tick: false,
        }
    }

    /// True if the next output window may begin with the last tick of the previous one.
    pub fn continues_tick(&self) -> bool {
        self.continues_tick
    }

    /// Returns the next output window of about the size `most`; `None` at the end. The window has
    /// either all events of its ticks, or some events of a single tick.
    pub async fn window(
        &mut self,
        most: WindowLimit,
        dropped: &mut Vec<u64>,
    ) -> Result<Option<EventRows>> {
        loop {
            let rows_max = most.rows_of(&self.pool);
            // Yields, so that urgent flushes can run.
            tokio::task::yield_now().await;
            self.next = self.next.take().or_else(|| self.parts.next());
            let Some((piece, part)) = self.next.take() else {
                let Some(pool) = EventRows::concat(std::mem::take(&mut self.pool))? else {
                    return Ok(None);
                };
                return self.cut(pool, rows_max, None).map(Some);
            };
            // All later parts begin at or after this tick.
            let frontier = part.hull.start.0;
            let ticks = || self.pool.iter().flat_map(|rows| rows.ticks.iter());
            let settled = ticks().filter(|tick| **tick < frontier).count();
            let at_frontier = ticks().filter(|tick| **tick == frontier).count();
            if (settled >= rows_max || at_frontier / 2 >= rows_max)
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

    /// Removes the first events from the pool: `rows_max` events before the frontier, plus all
    /// other events of their last tick. Removes fewer events, but at least half of `rows_max`, if a
    /// time window ends there.
    ///
    /// A tick with more than twice `rows_max` events is divided, and also the tick of the frontier,
    /// to which later parts may add events. The resulting window has events of a single tick.
    fn cut(
        &mut self,
        pool: EventRows,
        rows_max: usize,
        frontier: Option<i64>,
    ) -> Result<EventRows> {
        debug_assert!(self.pool.is_empty(), "a window leaves out events of the pool");
        debug_assert!(rows_max > 0 && !pool.ticks.is_empty(), "a window has no events");
        let tick = |row: &u32| pool.ticks.get(*row as usize).copied().unwrap_or_default();
        let reached = |row: &u32| frontier.is_none_or(|frontier| tick(row) <= frontier);
        let mut order: Vec<u32> = (0..pool.len() as u32).collect();
        order.sort_by_key(tick);
        let settled = order.partition_point(reached);
        debug_assert!(frontier.is_none() || settled >= rows_max, "a window ends before it is full");
        let last = order.get(..settled.min(rows_max)).and_then(<[u32]>::last).map(tick);
        let start = order.partition_point(|row| last.is_some_and(|last| tick(row) < last));
        let end = order.partition_point(|row| last.is_none_or(|last| tick(row) <= last));
        let divides = end > rows_max.saturating_mul(2) || frontier.is_some() && last >= frontier;
        self.continues_tick = divides && start == 0;
        if divides {
            let end = if start > 0 { start } else { end.min(rows_max) };
            return self.split(&pool, &order, end);
        }
        if end == pool.len() {
            return Ok(pool);
        }
        let next = order.get(end).map(tick);
        let ends = self.windows.iter().filter_map(|windows| windows.start(next?));
        let mut ends = ends.map(|start| order.partition_point(|row| tick(row) < start));
        let end = ends.find(|end| *end >= rows_max.div_ceil(2)).unwrap_or(end);
        self.split(&pool, &order, end)
    }

    /// Removes the first `end` events in the order `order` from the pool, and returns them.
    fn split(&mut self, pool: &EventRows, order: &[u32], end: usize) -> Result<EventRows> {
        debug_assert!(0 < end && end <= pool.len(), "a window of {end} of {} events", pool.len());
        let (window, rest) = order.split_at(end);
        if !rest.is_empty() {
            self.pool.push(pool.pick(rest)?);
        }
        pool.pick(window)
    }
}
