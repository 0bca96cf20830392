//! What an append has taken since a savepoint, and may have to give back alone.
//!
//! Each part has a statement id of its own: the frame that commits the append names those that
//! count.

use std::sync::Arc;

use parking_lot::Mutex;
use stratalog_model::{Durability, Error, ErrorKind, Lsn, Result, StatementId};
use tokio::sync::Notify;

use super::chunk::Chunk;
use crate::engine::Core;

/// The events of a part. Dropping it rolls it back, unless its chunks were taken.
#[derive(Debug)]
pub struct Part {
    core: Arc<Core>,
    statement: StatementId,
    /// The last one, which may commit by itself.
    held: Option<Chunk>,
    streamed: Vec<Chunk>,
    flight: Arc<Flight>,
}

impl Part {
    /// A part without events, under a statement id that was never used.
    pub fn new(core: Arc<Core>, statement: StatementId) -> Self {
        Self { core, statement, held: None, streamed: Vec::new(), flight: Arc::default() }
    }

    /// Its statement id.
    pub fn statement(&self) -> StatementId {
        self.statement
    }

    /// Whether it took no event.
    pub fn is_empty(&self) -> bool {
        self.held.is_none() && self.streamed.is_empty()
    }

    /// Its events.
    pub fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        self.streamed.iter().chain(&self.held)
    }

    /// Holds a chunk; gives back the one that was held.
    pub fn hold(&mut self, chunk: Chunk) -> Option<Chunk> {
        self.held.replace(chunk)
    }

    /// The chunk that is held, no more.
    pub fn release(&mut self) -> Option<Chunk> {
        self.held.take()
    }

    /// Its only chunk, if it is held: it may commit by itself. It counts as streamed then.
    pub fn alone(&mut self) -> Option<&Chunk> {
        if !self.streamed.is_empty() {
            return None;
        }
        self.streamed.extend(self.held.take());
        self.streamed.first()
    }

    /// Forgets all events: what they reserved is free.
    pub fn clear(&mut self) {
        self.held = None;
        self.streamed.clear();
    }

    /// Its events, to be committed.
    pub fn take(&mut self) -> Vec<Chunk> {
        let mut chunks = std::mem::take(&mut self.streamed);
        chunks.extend(self.held.take());
        chunks
    }

    /// Hands a chunk to the log; it does not count before the commit frame.
    ///
    /// # Errors
    /// Those of the log, of earlier chunks too.
    pub async fn stream(&mut self, chunk: Chunk, durability: Durability) -> Result<()> {
        if let Some(error) = &self.flight.state.lock().failed {
            return Err(error.duplicate());
        }
        let reservation = self.core.log.reserve(chunk.payload.len()).await?;
        let frame = chunk.frame(self.statement, None);
        self.streamed.push(chunk);
        self.flight.state.lock().outstanding += 1;
        let landing = Landing { flight: Arc::clone(&self.flight), landed: false };
        let (core, statement) = (Arc::clone(&self.core), self.statement);
        let done = Box::new(move |result: Result<Lsn>| {
            if let Ok(lsn) = &result {
                landing.flight.opened(&core, statement, *lsn);
            }
            landing.land(result.err());
        });
        self.core.log.submit(frame, reservation, durability, done);
        Ok(())
    }

    /// Waits until every streamed frame is written.
    ///
    /// # Errors
    /// Those of the log.
    pub async fn landed(&self) -> Result<()> {
        self.flight.landed().await
    }

    /// Its frames are no longer those of a statement that is open.
    pub fn end(&self) {
        self.flight.end(&self.core, self.statement);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is known about streamed frames.
#[derive(Debug, Default)]
struct Flight {
    state: Mutex<FlightState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct FlightState {
    outstanding: usize,
    ended: bool,
    failed: Option<Error>,
}

impl Flight {
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

    /// A frame of the statement is in the journal.
    fn opened(&self, core: &Core, statement: StatementId, lsn: Lsn) {
        let state = self.state.lock();
        if !state.ended {
            core.places.opened(statement, lsn);
        }
    }

    /// The statement has ended; what lands from here on is of no use.
    fn end(&self, core: &Core, statement: StatementId) {
        let mut state = self.state.lock();
        state.ended = true;
        core.places.ended(statement);
    }

    fn land(&self, failed: Option<Error>) {
        let mut state = self.state.lock();
        state.outstanding -= 1;
        if let Some(error) = failed {
            state.failed.get_or_insert(error);
        }
        drop(state);
        self.changed.notify_one();
    }
}

/// One streamed frame under way; a log that drops its completion counts as a failure.
struct Landing {
    flight: Arc<Flight>,
    landed: bool,
}

impl Landing {
    fn land(mut self, failed: Option<Error>) {
        self.landed = true;
        self.flight.land(failed);
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if !self.landed {
            let error = Error::new(ErrorKind::Shutdown, "the log was closed");
            self.flight.land(Some(error));
        }
    }
}
