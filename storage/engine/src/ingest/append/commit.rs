//! The end of an append: the last frames, and the commit frame.
//!
//! ```text
//!   commit    Events … ─► Commit                              the commit frame's sync covers all
//!   prepare   Events … ─► (synced) ─► decision of another log ─► Commit        (RFC 0023)
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use stratalog_model::{
    BoxFuture, ChronicleId, Decision, Durability, Error, ErrorKind, Frame, Gsn, Lsn,
    PreparedAppend, ProducerId, Result, StatementId, invariant,
    log::Reservation,
    store::{AppendOptions, CommittedAppend},
};
use tokio::sync::oneshot;

use crate::ingest::{
    append_part::AppendPart,
    chronicle::Chronicle,
    chunk::commit_frame,
    delete,
    keeper::Keeper,
    outcome::{Outcome, OutcomeEnd},
    step::Step,
};

/// Shortest and longest pause between two attempts to write the commit frame of an append that
/// another log has decided to commit.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Bytes of streamed frames after which one frame is synced, so that the final sync of the commit
/// stays short.
const UNSYNCED_BYTES_MAX: usize = 8 << 20;

/// The durability of the next streamed frame, in an append with `durability`. `unsynced_bytes`
/// counts the bytes since the last synced frame.
pub fn streamed_at(unsynced_bytes: &mut usize, bytes: usize, durability: Durability) -> Durability {
    *unsynced_bytes += bytes;
    if *unsynced_bytes < UNSYNCED_BYTES_MAX {
        return Durability::Relaxed;
    }
    *unsynced_bytes = 0;
    durability
}

/// An append that accepts no more events.
pub enum ClosedAppend {
    /// There is nothing to commit.
    Nothing(CommittedAppend),
    /// There are events or deletes, or the number of a producer.
    Open(Box<ClosedParts>),
}

/// The parts of a closed append, and the data for its commit frame.
pub struct ClosedParts {
    // Fields drop in this order: the keys must be free before waiting appends wake.
    /// The parts, without empty parts. May have no entry if the append only has a producer's
    /// number.
    pub parts: Vec<AppendPart>,
    /// Ends the outcome of the append when dropped. Moves to the completion of the commit frame,
    /// which may outlive the caller.
    pub ending: Option<OutcomeEnd>,
    /// The attempt of a producer. Also moves to the completion of the commit frame, and ends there.
    pub turn: Option<ProducerTurn>,
    pub keeper: Arc<Keeper>,
    /// The statement id for a commit frame without parts.
    pub first: StatementId,
    pub producer: Option<(ProducerId, u64)>,
    pub durability: Durability,
    pub unsynced_bytes: usize,
}

/// A prepared append: everything but the commit frame is durable, and another log decides about the
/// commit.
pub enum PreparedCommit {
    /// There is nothing to commit.
    Nothing(CommittedAppend),
    /// All events and deletes are durable; the log has room for the commit frame.
    Open(Box<ClosedParts>, Frame, Reservation),
}

/// The work to do once the commit frame is durable. It runs even if the caller no longer waits.
struct CommitCompletion {
    parts: Vec<AppendPart>,
    producer: Option<(ProducerId, u64)>,
    ending: Option<OutcomeEnd>,
    _turn: Option<ProducerTurn>,
    keeper: Arc<Keeper>,
    durability: Durability,
}

/// A failed commit: the uncommitted append if another attempt is possible, and the error. The
/// append is `None` if the log dropped its frames, or if the frame is durable but publishing
/// failed.
type FailedCommit = (Option<Box<CommitCompletion>>, Error);

impl ClosedAppend {
    /// The result of an append that stores nothing. `duplicate` is true if an earlier append has
    /// the producer's number.
    pub fn nothing(durability: Durability, duplicate: bool) -> Self {
        Self::Nothing(CommittedAppend {
            first_gsn: None,
            last_gsn: None,
            rows: 0,
            durability,
            duplicate,
        })
    }

    /// Makes events and deletes durable on disk, and reserves room for the commit frame in the log.
    ///
    /// # Errors
    /// Errors of the log; `Internal` if the append has a producer's number.
    pub async fn prepare(self) -> Result<PreparedCommit> {
        let mut closing = match self {
            Self::Nothing(appended) => return Ok(PreparedCommit::Nothing(appended)),
            Self::Open(closing) => closing,
        };
        if closing.producer.is_some() {
            return Err(Error::internal("another log cannot decide about a producer's number"));
        }
        let unsynced = crate::sabotage::active("decision-before-sync");
        let last = if unsynced { Durability::Relaxed } else { Durability::Disk };
        closing.stream(last).await?;
        let frame = closing.frame();
        let reservation = closing.keeper.log.reserve(frame.payload.len()).await?;
        Ok(PreparedCommit::Open(closing, frame, reservation))
    }
}

impl ClosedParts {
    /// Commits the append. A single buffered chunk becomes one committing frame; otherwise a commit
    /// frame follows the other frames.
    ///
    /// # Errors
    /// Errors of the log; the events are then not stored.
    pub async fn commit(mut self) -> Result<CommittedAppend> {
        let producer = self.producer;
        let alone = match self.parts.as_mut_slice() {
            [part] => part.alone().map(|chunk| chunk.frame(StatementId(0), producer)),
            _ => None,
        };
        let frame = match alone {
            Some(frame) => frame,
            None => {
                self.stream(Durability::Relaxed).await?;
                self.frame()
            }
        };
        let reservation = self.keeper.log.reserve(frame.payload.len()).await?;
        let submitted = self.completed().submit(frame, reservation).await;
        submitted.map_err(|(_rolled_back, error)| error)
    }

    /// Commits an append after another log has recorded the decision to commit (RFC 0023). Retries
    /// until the journal accepts the commit frame.
    ///
    /// # Errors
    /// `Io`, `Shutdown` if the journal has stopped.
    async fn commit_decided(
        self,
        frame: Frame,
        reservation: Reservation,
    ) -> Result<CommittedAppend> {
        debug_assert!(frame.producer.is_none(), "another log decides about a producer's number");
        let keeper = Arc::clone(&self.keeper);
        let mut completed = self.completed();
        // The other log may overwrite its decision with the next decision: the commit frame must be
        // on disk before.
        completed.durability = Durability::Disk;
        let (mut reserved, mut pause) = (Ok(reservation), PAUSE_MIN);
        loop {
            let error = match reserved {
                Ok(reservation) => match completed.submit(frame.clone(), reservation).await {
                    Ok(appended) => return Ok(appended),
                    Err((None, error)) => return Err(unfinished(error)),
                    Err((Some(back), error)) => {
                        completed = back;
                        error
                    }
                },
                Err(error) => error,
            };
            if error.kind() == ErrorKind::Shutdown || keeper.log.status().poisoned.is_some() {
                completed.leave();
                return Err(unfinished(error));
            }
            tracing::warn!(%error, "a decided transaction waits until the journal accepts its commit frame");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            reserved = keeper.log.reserve(frame.payload.len()).await;
        }
    }

    fn completed(self) -> Box<CommitCompletion> {
        let Self { parts, ending, turn, keeper, producer, durability, .. } = self;
        Box::new(CommitCompletion { parts, producer, ending, _turn: turn, keeper, durability })
    }

    /// Sends all buffered chunks and deletes to the log, and waits until the log has written the
    /// frames. The last frame gets at least the durability `last`.
    async fn stream(&mut self, last: Durability) -> Result<()> {
        let Self { parts, unsynced_bytes, durability, .. } = self;
        let end = parts.len().saturating_sub(1);
        for (at, part) in parts.iter_mut().enumerate() {
            let chunks = part.release();
            let (count, deletes) = (chunks.len(), !part.deletes().is_empty());
            for (nth, chunk) in chunks.into_iter().enumerate() {
                let is_last = at == end && nth + 1 == count && !deletes;
                let streamed = streamed_at(unsynced_bytes, chunk.payload.len(), *durability);
                part.stream(chunk, if is_last { streamed.max(last) } else { streamed }).await?;
            }
            let deleted = if at == end { last } else { Durability::Relaxed };
            part.stream_deletes(deleted).await?;
        }
        for part in parts {
            part.landed().await?;
        }
        Ok(())
    }

    fn statements(&self) -> Vec<StatementId> {
        debug_assert!(
            self.parts.is_sorted_by(|before, after| before.statement() < after.statement()),
            "the statements are out of order"
        );
        self.parts.iter().map(AppendPart::statement).collect()
    }

    /// The frame that commits all parts.
    fn frame(&self) -> Frame {
        match self.statements().split_first() {
            Some((first, others)) => commit_frame(*first, others, self.producer),
            None => commit_frame(self.first, &[], self.producer),
        }
    }
}

impl PreparedAppend for PreparedCommit {
    fn decision(&self) -> Option<Decision> {
        match self {
            Self::Nothing(_) => None,
            Self::Open(closing, ..) => {
                debug_assert!(!closing.parts.is_empty(), "a decision about nothing");
                Some(Decision { statements: closing.statements(), rows: rows_of(&closing.parts) })
            }
        }
    }

    fn chronicles(&self) -> Vec<ChronicleId> {
        match self {
            Self::Nothing(_) => Vec::new(),
            Self::Open(closing, ..) => {
                let steps = closing.parts.iter().flat_map(AppendPart::steps);
                let ids: BTreeSet<ChronicleId> = steps.map(|step| step.chronicle().id()).collect();
                ids.into_iter().collect()
            }
        }
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<CommittedAppend>> {
        Box::pin(async move {
            match *self {
                Self::Nothing(appended) => Ok(appended),
                Self::Open(closing, frame, reservation) => {
                    closing.commit_decided(frame, reservation).await
                }
            }
        })
    }

    fn abandon(self: Box<Self>) {
        if let Self::Open(closing, ..) = *self {
            closing.completed().leave();
        }
    }
}

impl CommitCompletion {
    /// Sends the committing frame to the log, and waits. Once the frame is durable, all events and
    /// deletes become visible.
    async fn submit(
        self: Box<Self>,
        frame: Frame,
        reservation: Reservation,
    ) -> std::result::Result<CommittedAppend, FailedCommit> {
        debug_assert!(frame.commits(), "the last frame does not commit");
        let (keeper, durability) = (Arc::clone(&self.keeper), self.durability);
        let deletes = self.parts.iter().flat_map(AppendPart::deletes);
        let deleted: BTreeMap<ChronicleId, Arc<Chronicle>> = deletes
            .map(|deletion| (deletion.chronicle.id(), Arc::clone(&deletion.chronicle)))
            .collect();
        let (sender, receiver) = oneshot::channel();
        if crate::sabotage::active("ack-before-durable") {
            let _ = sender.send(self.publish(Lsn(0)).map_err(|error| (None, error)));
            keeper.log.submit(frame, reservation, durability, Box::new(|_| {}));
        } else {
            let done = Box::new(move |result: Result<Lsn>| {
                let answer = match result {
                    Ok(lsn) => self.publish(lsn).map_err(|error| (None, error)),
                    Err(error) => Err((Some(self), error)),
                };
                // If nobody waits, the answer is dropped, together with the uncommitted parts in
                // it.
                let _ = sender.send(answer);
            });
            keeper.log.submit(frame, reservation, durability, done);
        }
        let appended = receiver.await.unwrap_or_else(|_| {
            let message = "the log was closed before it stored the statement";
            Err((None, Error::new(ErrorKind::Shutdown, message)))
        })?;
        for (id, chronicle) in &deleted {
            // The statement is committed: an error here only means that memory stays in use.
            if let Err(error) = delete::free(&keeper.publisher, chronicle) {
                tracing::error!(chronicle = %id, %error, "cannot free the memory of deleted events");
            }
        }
        keeper.publisher.tidy();
        Ok(appended)
    }

    /// Makes the events and deletes of all parts visible. `lsn` is the position of the commit
    /// frame.
    fn publish(self, lsn: Lsn) -> Result<CommittedAppend> {
        let Self { mut parts, producer, ending, _turn, keeper, durability } = self;
        invariant!(
            AcknowledgedIsRecovered,
            parts.iter().all(AppendPart::has_landed),
            "the commit at {lsn} comes before frames of its statement"
        );
        parts.iter().for_each(AppendPart::end);
        let rows = rows_of(&parts);
        let steps: Vec<Step> = parts.iter_mut().flat_map(AppendPart::take).collect();
        let first = keeper.publish(steps, producer, lsn)?;
        debug_assert!(first > 0, "an event has the gsn 0");
        drop((parts, ending));
        let stored = rows > 0;
        Ok(CommittedAppend {
            first_gsn: stored.then_some(Gsn(first)),
            last_gsn: stored.then_some(Gsn(first + rows.saturating_sub(1))),
            rows,
            durability,
            duplicate: false,
        })
    }

    /// Keeps the keys reserved, and the frames in the journal, until the process ends. The next
    /// start may commit these events: until then, no other event may take their keys.
    fn leave(self: Box<Self>) {
        Box::leak(self);
    }
}

fn rows_of(parts: &[AppendPart]) -> u64 {
    parts.iter().flat_map(AppendPart::chunks).map(|chunk| chunk.rows() as u64).sum()
}

/// The error for the client of a transaction that another log has decided to commit, but whose
/// commit frame is not yet written.
fn unfinished(cause: Error) -> Error {
    let message = "the transaction is committed, but its rows and definitions are not visible yet";
    Error::new(cause.kind(), message).with_detail(cause.to_string()).with_hint(
        "do not send the transaction again: restart the server to complete the transaction",
    )
}

/// One attempt at a producer's statement, or at several of its statements. The attempt ends when
/// this value drops.
#[derive(Debug)]
pub struct ProducerTurn {
    keeper: Arc<Keeper>,
    outcome: Arc<Outcome>,
    pub producer: ProducerId,
    /// Number of the first statement of the attempt.
    pub from: u64,
    /// Number of the last statement of the attempt.
    pub number: u64,
}

impl ProducerTurn {
    /// Registers the attempt; `None` if the append has no producer's number.
    pub fn begin(
        keeper: &Arc<Keeper>,
        options: &AppendOptions,
        outcome: &Arc<Outcome>,
    ) -> Option<Self> {
        let (producer, number) = options.producer?;
        let from = options.producer_from.unwrap_or(number);
        keeper.producers.lock().begin(producer, from, number, outcome);
        let (keeper, outcome) = (Arc::clone(keeper), Arc::clone(outcome));
        Some(Self { keeper, outcome, producer, from, number })
    }
}

impl Drop for ProducerTurn {
    fn drop(&mut self) {
        self.keeper.producers.lock().leave(self.producer, &self.outcome);
    }
}
