//! An SQL cursor: the rows of a query, which FETCH reads in steps.
//!
//! ```text
//!   position   0     1 … n     n + 1
//!              │     │         └ after the last row
//!              │     └ on a row: the one that was read last
//!              └ before the first
//! ```

use std::{collections::VecDeque, sync::Arc, time::Duration};

use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
    datatypes::SchemaRef,
};
use datafusion::execution::memory_pool::MemoryReservation;
use futures::{FutureExt as _, StreamExt as _, stream, stream::BoxStream};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_postgres::errors::{from_arrow, from_datafusion};
use tokio::{sync::OwnedMutexGuard, time::Instant};

use crate::Rows;

/// The movement of a FETCH, from the position of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Forward by this number of rows, or to the end.
    Forward(Option<u64>),
    /// Backward by this number of rows, or to the beginning.
    Backward(Option<u64>),
    /// To a row by number: 1 is the first row, and -1 is the last row.
    Absolute(i64),
    /// To the row at this distance from the current row; a negative number moves back.
    Relative(i64),
}

/// The rows of a query, and the position of the cursor.
#[derive(Debug)]
pub struct SqlCursor {
    rows: Rows,
    ended: bool,
    /// The error of the query; the cursor cannot read further.
    failed: Option<Error>,
    position: u64,
    /// Number of rows read from the result.
    read: u64,
    /// The rows in memory, in order. With SCROLL: all rows read so far. Without SCROLL: the current
    /// row and the rows after the current row.
    batches: VecDeque<RecordBatch>,
    /// The memory reservation of a cursor with SCROLL; `None` without SCROLL.
    memory: Option<MemoryReservation>,
    /// The deadline of a FETCH that waits for future rows of an endless result. `None` once the
    /// FETCH has received rows: the FETCH then takes only available rows.
    until: Option<Instant>,
}

impl SqlCursor {
    /// A cursor positioned before the first row. With a memory reservation, the cursor stores all
    /// rows it reads and can move back.
    pub fn new(rows: Rows, memory: Option<MemoryReservation>) -> Self {
        Self {
            rows,
            ended: false,
            failed: None,
            position: 0,
            read: 0,
            batches: VecDeque::new(),
            memory,
            until: None,
        }
    }

    /// Schema of the rows.
    pub fn schema(&self) -> &SchemaRef {
        self.rows.schema()
    }

    /// Whether the cursor can move back (SCROLL).
    pub fn scrolls(&self) -> bool {
        self.memory.is_some()
    }

    /// Runs a FETCH: the cursor moves as the caller reads the stream. From an endless result, the
    /// stream returns the available rows; if no row is available, the stream waits for rows for at
    /// most `wait`.
    ///
    /// # Errors
    /// `ObjectNotInPrerequisiteState` for a move back without SCROLL; `FeatureNotSupported` for a
    /// row counted from the end of an endless result. The stream returns the errors of the query,
    /// and `OutOfMemory`.
    pub async fn fetch(
        mut this: OwnedMutexGuard<Self>,
        direction: Direction,
        wait: Duration,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        this.until = Some(Instant::now() + wait);
        match direction {
            Direction::Forward(Some(0)) => this.stay().await,
            Direction::Forward(count) => Ok(Self::forward(this, count)),
            Direction::Backward(count) => {
                this.check_scrolls()?;
                Ok(stream::iter(this.backward(count)?.into_iter().map(Ok)).boxed())
            }
            Direction::Relative(0) => this.stay().await,
            Direction::Relative(distance) => {
                let to = i128::from(this.position) + i128::from(distance);
                this.go_to(u64::try_from(to.max(0)).unwrap_or(u64::MAX)).await
            }
            Direction::Absolute(..0) if this.rows.is_endless() => Err(no_last_row()),
            Direction::Absolute(number) => match u64::try_from(number) {
                Ok(number) => this.go_to(number).await,
                Err(_) => {
                    this.check_scrolls()?;
                    this.read_to(u64::MAX).await?;
                    let last = i128::from(this.read) + 1 + i128::from(number);
                    this.go_to(u64::try_from(last.max(0)).unwrap_or(0)).await
                }
            },
        }
    }

    fn forward(
        this: OwnedMutexGuard<Self>,
        count: Option<u64>,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        let left = count.unwrap_or(u64::MAX);
        stream::try_unfold((this, left), |(mut this, left)| async move {
            if left == 0 {
                return Ok(None);
            }
            let Some(batch) = this.next_rows(left).await? else { return Ok(None) };
            // Rows are available: wait no longer.
            this.until = None;
            let left = left - batch.num_rows() as u64;
            Ok(Some((batch, (this, left))))
        })
        .boxed()
    }

    /// Returns at most `most` rows after the position of the cursor, and moves the cursor; `None`
    /// at the end, or if no rows are available yet.
    async fn next_rows(&mut self, most: u64) -> Result<Option<RecordBatch>> {
        let first = self.position + 1;
        self.read_to(first).await?;
        if first > self.read {
            // At the end of the result, the position moves behind the last row.
            if self.ended {
                self.position = self.read + 1;
            }
            return Ok(None);
        }
        let Some((batch, row)) = self.find(first) else { return Err(lost()) };
        let rows = (batch.num_rows() - row).min(usize::try_from(most).unwrap_or(usize::MAX));
        let taken = batch.slice(row, rows);
        self.position += rows as u64;
        if self.memory.is_none() {
            self.forget_passed();
        }
        Ok(Some(taken))
    }

    /// Reads from the result until row `number` is in memory, or until the result ends.
    async fn read_to(&mut self, number: u64) -> Result<()> {
        while !self.ended && self.read < number {
            if let Some(failed) = &self.failed {
                return Err(failed.duplicate());
            }
            let Some(next) = self.next_batch().await else { return Ok(()) };
            let next = next.transpose();
            let kept = next.and_then(|batch| self.keep(batch));
            if let Err(error) = kept {
                self.failed = Some(error.duplicate());
                return Err(error);
            }
        }
        Ok(())
    }

    /// The next batch of the result: `Some(None)` at the end, `None` if no batch is available yet.
    async fn next_batch(&mut self) -> Option<Option<Result<RecordBatch>>> {
        if !self.rows.is_endless() {
            return Some(self.rows.next().await);
        }
        if let Some(next) = self.rows.next().now_or_never() {
            return Some(next);
        }
        let next = tokio::time::timeout_at(self.until?, self.rows.next()).await.ok();
        // From here on, the FETCH takes only available rows.
        self.until = None;
        next
    }

    fn keep(&mut self, batch: Option<RecordBatch>) -> Result<()> {
        let Some(batch) = batch else {
            self.ended = true;
            return Ok(());
        };
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if let Some(memory) = &self.memory {
            memory.try_grow(batch.get_array_memory_size()).map_err(|error| {
                from_datafusion(error).with_hint("a cursor without SCROLL keeps no read rows")
            })?;
        }
        self.read += batch.num_rows() as u64;
        self.batches.push_back(batch);
        Ok(())
    }

    /// The batch that contains row `number`, and the index of the row in the batch.
    fn find(&self, number: u64) -> Option<(&RecordBatch, usize)> {
        let mut behind = self.read;
        for batch in self.batches.iter().rev() {
            let before = behind - batch.num_rows() as u64;
            if number > before && number <= behind {
                return Some((batch, usize::try_from(number - before - 1).ok()?));
            }
            behind = before;
        }
        None
    }

    fn forget_passed(&mut self) {
        let held: u64 = self.batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let mut before = self.read - held;
        while let Some(first) = self.batches.front() {
            let behind = before + first.num_rows() as u64;
            // Keep the batch with the current row of the cursor.
            if behind >= self.position {
                return;
            }
            before = behind;
            self.batches.pop_front();
        }
    }

    fn backward(&mut self, count: Option<u64>) -> Result<Vec<RecordBatch>> {
        let count = match count {
            Some(0) => return Ok(self.current().into_iter().collect()),
            count => count.unwrap_or(u64::MAX),
        };
        let mut left = count.min(self.position.saturating_sub(1));
        // Position 0, before the first row, if fewer than `count` rows come before.
        let to = self.position.saturating_sub(count);
        let mut found = Vec::new();
        while left > 0 {
            let Some((batch, row)) = self.find(self.position - 1) else { return Err(lost()) };
            let rows = (row + 1).min(usize::try_from(left).unwrap_or(usize::MAX));
            let places = (row + 1 - rows..=row).rev();
            let places: UInt32Array =
                places.map(|row| u32::try_from(row).unwrap_or(u32::MAX)).collect();
            found.push(take_record_batch(batch, &places).map_err(from_arrow)?);
            self.position -= rows as u64;
            left -= rows as u64;
        }
        self.position = to;
        Ok(found)
    }

    /// Moves the cursor to a row by number, and returns the row.
    async fn go_to(&mut self, number: u64) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        if number <= self.position {
            self.check_scrolls()?;
        }
        self.pass_to(number).await?;
        // In an endless result, the row may arrive later.
        let found = self.current().filter(|_| self.ended || self.position == number);
        Ok(stream::iter(found.map(Ok)).boxed())
    }

    async fn pass_to(&mut self, number: u64) -> Result<()> {
        if number <= self.position {
            self.position = number;
            return Ok(());
        }
        while self.position < number {
            if self.next_rows(number - self.position).await?.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns the current row of the cursor again.
    async fn stay(&mut self) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        if self.position > 0 {
            self.check_scrolls()?;
        }
        Ok(stream::iter(self.current().map(Ok)).boxed())
    }

    fn current(&self) -> Option<RecordBatch> {
        let (batch, row) = self.find(self.position)?;
        Some(batch.slice(row, 1))
    }

    fn check_scrolls(&self) -> Result<()> {
        match self.scrolls() {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::ObjectNotInPrerequisiteState,
                "cursor can only scan forward",
            )
            .with_hint("Declare it with SCROLL option to enable backward scan.")),
        }
    }
}

fn no_last_row() -> Error {
    Error::new(ErrorKind::FeatureNotSupported, "SUBSCRIBE has no last row")
}

fn lost() -> Error {
    Error::internal("a cursor has lost its row")
}

/// Reads a stream to its end, and returns the number of rows.
pub async fn count(mut rows: BoxStream<'static, Result<RecordBatch>>) -> Result<u64> {
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        count += batch?.num_rows() as u64;
    }
    Ok(count)
}

/// A cursor behind a lock: one statement reads from the cursor at a time.
pub type SharedCursor = Arc<tokio::sync::Mutex<SqlCursor>>;
