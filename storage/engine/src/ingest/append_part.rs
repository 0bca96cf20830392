//! The part of an append after a savepoint: events, followed by deletes. A rollback can remove a
//! part alone.
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

/// The events of a part. The drop rolls the part back, unless the chunks were taken.
#[derive(Debug)]
pub struct AppendPart {
    keeper: Arc<Keeper>,
    statement: StatementId,
    /// Chunks not in the log yet. A single chunk may commit in a frame of its own.
    buffered: Vec<Chunk>,
    /// Bytes of the kept chunks.
    buffered_bytes: usize,
    streamed: Vec<Chunk>,
    /// Deletes of the events of this part and of earlier parts.
    deletes: Vec<Deletion>,
    /// Statements waiting for keys of the chunks. Fields drop in this order: the keys are free
    /// before waiting statements wake.
    outcome: Arc<Outcome>,
    endings: Vec<OutcomeEnd>,
    flight: Arc<StreamedFrames>,
}

impl AppendPart {
    /// A part without events, under a new statement id. `waiter` is the id of the append: all its
    /// parts wait under this id.
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

    /// The outcome of the part.
    pub fn outcome(&self) -> &Arc<Outcome> {
        &self.outcome
    }

    /// The statement id.
    pub fn statement(&self) -> StatementId {
        self.statement
    }

    /// True without events and deletes.
    pub fn is_empty(&self) -> bool {
        self.buffered.is_empty() && self.streamed.is_empty() && self.deletes.is_empty()
    }

    /// The deletes, in order.
    pub fn deletes(&self) -> &[Deletion] {
        &self.deletes
    }

    /// Takes a delete of the events up to now, including events of earlier parts. Afterwards the
    /// part takes no more events.
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

    /// Keeps a chunk. Returns the earlier chunks for the log if all chunks together exceed
    /// `bytes_max`.
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

    /// Takes over the events and deletes of the next part, under three conditions: both parts
    /// together keep at most `bytes_max`, the log has no event of the next part, and no event would
    /// follow a delete.
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

    /// Takes out the kept chunks.
    pub fn release(&mut self) -> Vec<Chunk> {
        self.buffered_bytes = 0;
        std::mem::take(&mut self.buffered)
    }

    /// The only chunk of the part, if it is not in the log yet: the chunk may commit in a frame of
    /// its own. The chunk counts as streamed from then on.
    pub fn alone(&mut self) -> Option<&Chunk> {
        if !self.streamed.is_empty() || self.buffered.len() != 1 || !self.deletes.is_empty() {
            return None;
        }
        self.streamed = self.release();
        self.streamed.first()
    }

    /// Drops events and deletes, and frees the keys of the events.
    pub fn clear(&mut self) {
        drop(self.take());
    }

    /// Takes out events and deletes, for a commit.
    pub fn take(&mut self) -> Vec<Step> {
        let mut chunks = std::mem::take(&mut self.streamed);
        chunks.append(&mut self.release());
        let deletes = std::mem::take(&mut self.deletes);
        debug_assert!(self.is_empty(), "events stay behind");
        chunks.into_iter().map(Step::Events).chain(deletes.into_iter().map(Step::Delete)).collect()
    }

    /// Hands a chunk to the log. The chunk does not count before the commit frame.
    ///
    /// # Errors
    /// The errors of the log, errors of earlier chunks included.
    pub async fn stream(&mut self, chunk: Chunk, durability: Durability) -> Result<()> {
        debug_assert_ne!(self.statement, StatementId(0), "a streamed frame commits itself");
        let reservation = self.reserve(chunk.payload.len()).await?;
        let frame = chunk.frame(self.statement, None);
        self.streamed.push(chunk);
        self.submit(frame, reservation, durability);
        Ok(())
    }

    /// Hands the deletes to the log, after all events. The commit frame makes the deletes count.
    ///
    /// # Errors
    /// The errors of the log, errors of earlier chunks included.
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

    /// True if the log has taken all streamed frames.
    pub fn has_landed(&self) -> bool {
        let state = self.flight.state.lock();
        state.outstanding == 0 && state.failed.is_none()
    }

    /// Ends the statement: its frames no longer hold back the beginning of the journal.
    pub fn end(&self) {
        self.flight.end(&self.keeper, self.statement);
    }
}

impl Drop for AppendPart {
    fn drop(&mut self) {
        self.end();
    }
}

/// The state of streamed frames.
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

    /// Records a frame of the statement in the journal.
    fn opened(&self, keeper: &Keeper, statement: StatementId, lsn: Lsn) {
        let state = self.state.lock();
        if !state.ended {
            keeper.floor_candidates.opened(statement, lsn);
        }
    }

    /// Ends the statement: frames written later are useless.
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

/// One streamed frame on its way; a completion dropped by the log counts as a failure.
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
