//! A statement that appends.
//!
//! ```text
//!   push          one small push:  [chunk held] ──────────────► Events frame, statement 0
//!   push, push …  more:            Events, Events … (statement n, as they come) ─► Commit n
//!
//!   frame durable ─► gsn's ─► version published ─► waiters woken ─► commit returns
//! ```
//!
//! Streamed frames need not be synced one by one: the commit frame follows when all are
//! written, and its sync covers them.

use std::sync::Arc;

use arrow::array::RecordBatch;
use parking_lot::Mutex;
use stratalog_model::{
    Append, BoxFuture, ChronicleDefinition, Durability, Error, ErrorKind, Gsn, Lsn, ProducerId,
    Result, StatementId,
    batch::EventBatch,
    store::{Admitted, AppendOptions, Appended, OnConflict},
};
use tokio::sync::{Notify, oneshot};

use super::{
    admission::{Push, Tally},
    chunk::{Chunk, commit_frame},
    outcome::{Ending, Outcome},
    producers,
};
use crate::engine::Core;

/// Streamed bytes after which one frame is synced, so that the commit's sync stays short.
const UNSYNCED_BYTES_MAX: usize = 8 << 20;

/// An open append.
#[derive(Debug)]
pub struct OpenAppend {
    // Fields drop in this order: keys are freed before those who wait for them wake.
    held: Option<Chunk>,
    streamed: Vec<Chunk>,
    /// Goes along with the committing frame, which may outlive this.
    ending: Option<Ending>,
    outcome: Arc<Outcome>,
    core: Arc<Core>,
    statement: StatementId,
    options: AppendOptions,
    strictest: Option<Durability>,
    flight: Arc<Flight>,
    unsynced_bytes: usize,
    broken: bool,
    duplicate: bool,
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

/// The committed part of a commit: everything that must happen whether or not anyone
/// still waits for it.
struct Completed {
    chunks: Vec<Chunk>,
    producer: Option<(ProducerId, u64)>,
    ending: Option<Ending>,
    core: Arc<Core>,
    durability: Durability,
    flight: Arc<Flight>,
    statement: StatementId,
}

impl OpenAppend {
    /// An append under a statement id that was never used.
    pub fn new(core: Arc<Core>, statement: StatementId, options: AppendOptions) -> Self {
        let duplicate = options
            .producer
            .is_some_and(|(producer, number)| core.producers.lock().is_duplicate(producer, number));
        let outcome = Outcome::new(statement.0);
        Self {
            held: None,
            streamed: Vec::new(),
            ending: Some(Ending(Arc::clone(&outcome))),
            outcome,
            core,
            statement,
            options,
            strictest: None,
            flight: Arc::default(),
            unsynced_bytes: 0,
            broken: false,
            duplicate,
        }
    }

    async fn take(
        &mut self,
        definition: &ChronicleDefinition,
        rows: RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<Admitted> {
        if self.duplicate {
            return Ok(nothing(definition, &rows));
        }
        let chronicle = self.core.chronicle(definition)?;
        let push = Push::new(definition, chronicle, rows, on_conflict)?;
        self.strictest = self.strictest.max(Some(definition.durability));
        let total = push.ticks.len();
        let first_seq = push.chronicle.take_seqs(total as u64);
        let mut next_seq = first_seq;
        let mut tally = Tally::default();
        let mut start = 0;
        while start < total {
            let columns = push.store(start, self.core.settings.frame_bytes_max)?;
            let rows = columns.first().map_or(1, |column| column.len()).max(1);
            let outcome = Arc::clone(&self.outcome);
            let admitted = push.admit(start, columns, next_seq, &outcome, &self.core).await;
            let mut piece = match admitted {
                Ok(piece) => piece,
                // The first try of this very statement may have committed meanwhile.
                Err(error) if error.kind() == ErrorKind::UniqueViolation && self.retried() => {
                    self.held = None;
                    self.streamed.clear();
                    self.duplicate = true;
                    return Ok(nothing(definition, &push.rows));
                }
                Err(error) => return Err(error),
            };
            tally.add(&mut piece);
            if let Some(chunk) = piece.chunk.take() {
                next_seq += chunk.rows() as u64;
                if let Some(earlier) = self.held.replace(chunk) {
                    self.stream(earlier).await?;
                }
            }
            start += rows;
        }
        push.admitted(first_seq, tally)
    }

    fn retried(&self) -> bool {
        self.options.producer.is_some_and(|(producer, number)| {
            self.core.producers.lock().is_duplicate(producer, number)
        })
    }

    /// Hands a chunk to the log; it does not count before the commit frame.
    async fn stream(&mut self, chunk: Chunk) -> Result<()> {
        if let Some(error) = &self.flight.state.lock().failed {
            return Err(error.duplicate());
        }
        let bytes = chunk.payload.len();
        self.unsynced_bytes += bytes;
        let durability = if self.unsynced_bytes >= UNSYNCED_BYTES_MAX {
            self.unsynced_bytes = 0;
            self.durability()
        } else {
            Durability::Relaxed
        };
        let reservation = self.core.log.reserve(bytes).await?;
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

    fn durability(&self) -> Durability {
        self.options.durability.or(self.strictest).unwrap_or_default()
    }

    async fn finish(mut self) -> Result<Appended> {
        if self.broken {
            return Err(Error::internal("commit of an append after one of its pushes failed"));
        }
        let durability = self.durability();
        if self.duplicate || self.enter_producer().await? {
            return Ok(Appended {
                first_gsn: None,
                last_gsn: None,
                rows: 0,
                durability,
                duplicate: true,
            });
        }
        // From here on, every way out leaves the producer's turn.
        let turn = Turn {
            core: Arc::clone(&self.core),
            outcome: Arc::clone(&self.outcome),
            producer: self.options.producer,
        };
        if self.held.is_none() && self.streamed.is_empty() && self.options.producer.is_none() {
            return Ok(Appended {
                first_gsn: None,
                last_gsn: None,
                rows: 0,
                durability,
                duplicate: false,
            });
        }
        self.core.check_known(self.streamed.iter().chain(&self.held))?;
        let producer = self.options.producer;
        let frame = match self.held.take() {
            Some(chunk) if self.streamed.is_empty() => {
                let frame = chunk.frame(StatementId(0), producer);
                self.streamed.push(chunk);
                frame
            }
            held => {
                if let Some(chunk) = held {
                    self.stream(chunk).await?;
                }
                self.flight.landed().await?;
                commit_frame(self.statement, producer)
            }
        };
        let core = Arc::clone(&self.core);
        let reservation = core.log.reserve(frame.payload.len()).await?;
        let completed = Completed {
            chunks: std::mem::take(&mut self.streamed),
            producer,
            ending: self.ending.take(),
            core: Arc::clone(&core),
            durability,
            flight: Arc::clone(&self.flight),
            statement: self.statement,
        };
        let (sender, receiver) = oneshot::channel();
        if crate::sabotage::active("ack-before-durable") {
            let _ = sender.send(completed.publish(Lsn(0)));
            core.log.submit(frame, reservation, durability, Box::new(|_| {}));
        } else {
            let done = Box::new(move |result: Result<Lsn>| {
                let answer = match result {
                    Ok(lsn) => completed.publish(lsn),
                    Err(error) => {
                        drop(completed);
                        Err(error)
                    }
                };
                drop(turn);
                let _ = sender.send(answer);
            });
            core.log.submit(frame, reservation, durability, done);
        }
        let answer = receiver.await.map_err(|_| {
            Error::new(ErrorKind::Shutdown, "the log was closed before it stored the statement")
        })?;
        let appended = answer?;
        core.tidy();
        Ok(appended)
    }

    /// Waits for the producer's turn; `true` when the statement turns out a duplicate.
    async fn enter_producer(&self) -> Result<bool> {
        let Some((producer, number)) = self.options.producer else { return Ok(false) };
        loop {
            let admission = self.core.producers.lock().enter(producer, number, &self.outcome);
            match admission {
                producers::Admission::New => return Ok(false),
                producers::Admission::Duplicate => return Ok(true),
                producers::Admission::Wait(other) => {
                    self.core.waits.wait(self.statement.0, &other).await?;
                }
            }
        }
    }
}

impl Append for OpenAppend {
    fn push<'a>(
        &'a mut self,
        chronicle: &'a Arc<ChronicleDefinition>,
        rows: RecordBatch,
        on_conflict: OnConflict,
    ) -> BoxFuture<'a, Result<Admitted>> {
        Box::pin(async move {
            if self.broken {
                return Err(Error::internal("push to an append after one of its pushes failed"));
            }
            // Stays so when the push fails, or is cancelled midway.
            self.broken = true;
            let admitted = self.take(chronicle, rows, on_conflict).await?;
            self.broken = false;
            Ok(admitted)
        })
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<Appended>> {
        Box::pin(self.finish())
    }
}

impl Drop for OpenAppend {
    fn drop(&mut self) {
        // Unless it went on into its commit, which says so itself.
        if self.ending.is_some() {
            self.flight.end(&self.core, self.statement);
        }
    }
}

impl Completed {
    /// `lsn` is that of the frame that commits.
    fn publish(self, lsn: Lsn) -> Result<Appended> {
        let Self { chunks, producer, ending, core, durability, flight, statement } = self;
        let rows: u64 = chunks.iter().map(|chunk| chunk.rows() as u64).sum();
        flight.end(&core, statement);
        let first = core.publish(chunks, producer, lsn)?;
        drop(ending);
        let stored = rows > 0;
        Ok(Appended {
            first_gsn: stored.then_some(Gsn(first)),
            last_gsn: stored.then_some(Gsn(first + rows.saturating_sub(1))),
            rows,
            durability,
            duplicate: false,
        })
    }
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

/// A producer's statement in flight; over when it drops.
struct Turn {
    core: Arc<Core>,
    outcome: Arc<Outcome>,
    producer: Option<(ProducerId, u64)>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((producer, _)) = self.producer {
            self.core.producers.lock().leave(producer, &self.outcome);
        }
    }
}

/// What an append that was committed before takes: no event.
fn nothing(definition: &ChronicleDefinition, rows: &RecordBatch) -> Admitted {
    Admitted {
        events: EventBatch {
            schema_version: definition.schema_version,
            ticks: Vec::new().into(),
            rows: rows.slice(0, 0),
            first_seq: 0,
        },
        skipped: 0,
    }
}
