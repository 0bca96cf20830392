//! A part of an append: events, followed by deletes. An append begins a new part at each savepoint,
//! and at the first event after a delete. ROLLBACK TO SAVEPOINT drops whole parts.
//!
//! Each part has its own statement id. The commit frame of the append names the parts to commit.

use std::sync::Arc;

use parking_lot::Mutex;
use stratalog_model::{
    Durability, Error, ErrorKind, Frame, Lsn, Result, StatementId, log::Reservation,
};
use tokio::sync::Notify;

use super::{
    chunk::Chunk,
    outcome::{Outcome, OutcomeEnd},
    step::Step,
};
use crate::ingest::{delete::deletion::Deletion, keeper::Keeper};

/// The events and deletes of one part. Dropping this value rolls the part back, unless
/// [`Self::take`] has taken the chunks.
#[derive(Debug)]
pub struct AppendPart {
    keeper: Arc<Keeper>,
    statement: StatementId,
    /// Chunks that the log does not have yet. If an append has only one chunk, the chunk can commit
    /// in a single frame, without a commit frame.
    buffered: Vec<Chunk>,
    /// Payload bytes of `buffered`.
    buffered_bytes: usize,
    streamed: Vec<Chunk>,
    /// Deletes of the events of this part and of earlier parts.
    deletes: Vec<Deletion>,
    /// The outcome of the part: statements that need keys of these chunks wait for it. Fields drop
    /// in this order: the keys must be free before waiting statements wake.
    outcome: Arc<Outcome>,
    endings: Vec<OutcomeEnd>,
    flight: Arc<StreamedFrames>,
}

impl AppendPart {
    /// An empty part under a new statement id. `waiter` is the id of the whole append in the wait
    /// graph: all parts of an append wait under this id.
    pub fn new(keeper: Arc<Keeper>, statement: StatementId, waiter: u64) -> Self {
        let outcome = Outcome::new(waiter);
        let endings = vec![OutcomeEnd(Arc::clone(&outcome))];
        let (buffered, streamed, flight) = (Vec::new(), Vec::new(), Arc::default());
        let deletes = Vec::new();
        Self {
            keeper,
            statement,
            buffered,
            buffered_bytes: 0,
            streamed,
            deletes,
            outcome,
            endings,
            flight,
        }
    }

    /// The outcome of the part, for other statements that wait for its keys.
    pub fn outcome(&self) -> &Arc<Outcome> {
        &self.outcome
    }

    /// The statement id of the part's frames.
    pub fn statement(&self) -> StatementId {
        self.statement
    }

    /// True if the part has neither events nor deletes.
    pub fn is_empty(&self) -> bool {
        self.buffered.is_empty() && self.streamed.is_empty() && self.deletes.is_empty()
    }

    /// The deletes, in order.
    pub fn deletes(&self) -> &[Deletion] {
        &self.deletes
    }

    /// Adds a delete of all events so far, including events of earlier parts. The part accepts no
    /// events afterwards.
    pub fn delete(&mut self, deletion: Deletion) {
        self.deletes.push(deletion);
    }

    /// The events.
    pub fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.streamed.iter().chain(&self.buffered)
    }

    /// The events, followed by the deletes.
    pub fn steps(&self) -> impl Iterator<Item = Step<&Chunk, &Deletion>> {
        self.chunks().map(Step::Events).chain(self.deletes.iter().map(Step::Delete))
    }

    /// Buffers a chunk. If all buffered chunks together exceed `bytes_max`, returns the earlier
    /// chunks: the caller must send them to the log.
    pub fn keep(&mut self, chunk: Chunk, bytes_max: usize) -> Vec<Chunk> {
        debug_assert!(self.deletes.is_empty(), "an event follows a delete");
        let fits = self.buffered_bytes + chunk.payload.len() <= bytes_max;
        let before = if fits { Vec::new() } else { self.release() };
        self.buffered_bytes += chunk.payload.len();
        self.buffered.push(chunk);
        self.assert_consistent();
        before
    }

    fn assert_consistent(&self) {
        debug_assert_eq!(
            self.buffered.is_empty(),
            self.buffered_bytes == 0,
            "the bytes are not the bytes of the kept chunks"
        );
    }

    /// Appends the events and deletes of the next part to this part, and returns `None`. Returns
    /// `next` unchanged if the parts cannot join: their buffered chunks together exceed
    /// `bytes_max`, the log already has an event of the next part, or an event would follow a
    /// delete.
    pub fn join(&mut self, mut next: AppendPart, bytes_max: usize) -> Option<AppendPart> {
        let bytes = self.buffered_bytes + next.buffered_bytes;
        let follows_delete = !self.deletes.is_empty() && !next.buffered.is_empty();
        if !next.streamed.is_empty() || bytes > bytes_max || follows_delete {
            return Some(next);
        }
        debug_assert!(next.streamed.is_empty() && bytes <= bytes_max);
        self.buffered_bytes = bytes;
        self.buffered.append(&mut next.buffered);
        self.deletes.append(&mut next.deletes);
        self.endings.append(&mut next.endings);
        self.assert_consistent();
        None
    }

    /// Removes and returns the buffered chunks.
    pub fn release(&mut self) -> Vec<Chunk> {
        self.buffered_bytes = 0;
        std::mem::take(&mut self.buffered)
    }

    /// Returns the chunk if the part consists of exactly one chunk that is not in the log yet. The
    /// chunk can then commit in a single frame, and counts as streamed from then on.
    pub fn alone(&mut self) -> Option<&Chunk> {
        if !self.streamed.is_empty() || self.buffered.len() != 1 || !self.deletes.is_empty() {
            return None;
        }
        self.streamed = self.release();
        self.streamed.first()
    }

    /// Drops all events and deletes, and frees the keys of the events.
    pub fn clear(&mut self) {
        drop(self.take());
    }

    /// Removes and returns events and deletes, for a commit.
    pub fn take(&mut self) -> Vec<Step> {
        let mut chunks = std::mem::take(&mut self.streamed);
        chunks.append(&mut self.release());
        let deletes = std::mem::take(&mut self.deletes);
        debug_assert!(self.is_empty(), "events stay behind");
        chunks.into_iter().map(Step::Events).chain(deletes.into_iter().map(Step::Delete)).collect()
    }

    /// Sends a chunk to the log as a streamed frame. The events do not count until the commit frame
    /// is durable.
    ///
    /// # Errors
    /// The errors of the log, including errors of chunks streamed earlier.
    pub async fn stream(&mut self, chunk: Chunk, durability: Durability) -> Result<()> {
        debug_assert_ne!(self.statement, StatementId(0), "a streamed frame commits itself");
        let reservation = self.reserve(chunk.payload.len()).await?;
        let frame = chunk.frame(self.statement, None);
        self.streamed.push(chunk);
        self.submit(frame, reservation, durability);
        Ok(())
    }

    /// Sends the deletes to the log, after all events of the part. The deletes do not count until
    /// the commit frame is durable.
    ///
    /// # Errors
    /// The errors of the log, including errors of chunks streamed earlier.
    pub async fn stream_deletes(&self, durability: Durability) -> Result<()> {
        debug_assert!(self.buffered.is_empty(), "a delete overtakes events");
        for deletion in &self.deletes {
            let frame = deletion.frame(self.statement);
            let reservation = self.reserve(frame.payload.len()).await?;
            self.submit(frame, reservation, durability);
        }
        Ok(())
    }

    async fn reserve(&self, bytes: usize) -> Result<Reservation> {
        if let Some(error) = &self.flight.state.lock().failed {
            return Err(error.duplicate());
        }
        self.keeper.log.reserve(bytes).await
    }

    fn submit(&self, frame: Frame, reservation: Reservation, durability: Durability) {
        self.flight.state.lock().outstanding += 1;
        let landing = StreamedFrame { flight: Arc::clone(&self.flight), landed: false };
        let (keeper, statement) = (Arc::clone(&self.keeper), self.statement);
        let done = Box::new(move |result: Result<Lsn>| {
            if let Ok(lsn) = &result {
                landing.flight.opened(&keeper, statement, *lsn);
            }
            landing.land(result.err());
        });
        self.keeper.log.submit(frame, reservation, durability, done);
    }

    /// Waits until every streamed frame is written.
    ///
    /// # Errors
    /// The errors of the log.
    pub async fn landed(&self) -> Result<()> {
        self.flight.landed().await
    }

    /// True if the log has written all streamed frames, without an error.
    pub fn has_landed(&self) -> bool {
        let state = self.flight.state.lock();
        state.outstanding == 0 && state.failed.is_none()
    }

    /// Ends the statement: the journal no longer keeps its segments for the frames of this
    /// statement.
    pub fn end(&self) {
        self.flight.end(&self.keeper, self.statement);
    }
}

impl Drop for AppendPart {
    fn drop(&mut self) {
        self.end();
    }
}

/// The streamed frames of one part that the log has not written yet, and the first error.
#[derive(Debug, Default)]
struct StreamedFrames {
    state: Mutex<StreamedFramesState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct StreamedFramesState {
    outstanding: usize,
    ended: bool,
    failed: Option<Error>,
}

impl StreamedFrames {
    /// Waits until every streamed frame is written.
    async fn landed(&self) -> Result<()> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.lock();
                if let Some(error) = &state.failed {
                    return Err(error.duplicate());
                }
                if state.outstanding == 0 {
                    return Ok(());
                }
            }
            changed.await;
        }
    }

    /// Called when the log has written a frame: the journal must keep its segments from `lsn`
    /// onward until the statement ends.
    fn opened(&self, keeper: &Keeper, statement: StatementId, lsn: Lsn) {
        let state = self.state.lock();
        if !state.ended {
            keeper.floor_candidates.opened(statement, lsn);
        }
    }

    /// Ends the statement: the journal need not keep frames of the statement, including frames
    /// written later.
    fn end(&self, keeper: &Keeper, statement: StatementId) {
        let mut state = self.state.lock();
        state.ended = true;
        keeper.floor_candidates.ended(statement);
    }

    fn land(&self, failed: Option<Error>) {
        let mut state = self.state.lock();
        debug_assert!(state.outstanding > 0, "a frame lands twice");
        state.outstanding -= 1;
        if let Some(error) = failed {
            state.failed.get_or_insert(error);
        }
        drop(state);
        self.changed.notify_one();
    }
}

/// One streamed frame that the log has not written yet. If the log drops the completion without
/// calling it, the frame counts as failed.
struct StreamedFrame {
    flight: Arc<StreamedFrames>,
    landed: bool,
}

impl StreamedFrame {
    fn land(mut self, failed: Option<Error>) {
        self.landed = true;
        self.flight.land(failed);
    }
}

impl Drop for StreamedFrame {
    fn drop(&mut self) {
        if !self.landed {
            let error = Error::new(ErrorKind::Shutdown, "the log was closed");
            self.flight.land(Some(error));
        }
    }
}
