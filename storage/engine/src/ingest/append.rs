//! An append: a statement or transaction with events to store and ranges to delete.
//!
//! ```text
//!   push          one small push:  [chunk buffered] ──────────────► Events frame, statement 0
//!   push, push …  more:            Events, Events … (of statement n) ─► Commit n
//!   savepoints    between them:    Events … (n), Events … (n + 3) ─► Transaction n, n + 3
//!   delete        after events:    Events … (n), StatementDelete (n) ─► Commit n
//!
//!   frame durable ─► gsn's ─► version published ─► waiters woken ─► commit returns
//! ```
//!
//! Streamed frames need no separate sync: the log writes the commit frame after all other frames,
//! and the sync of the commit frame covers them.

mod commit;

use std::{
    any::Any,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::array::RecordBatch;
use stratalog_model::{
    Acceptance, Append, BoxFuture, ChronicleDefinition, ChronicleId, Durability, Error, ErrorKind,
    PreparedAppend, Result, TickRange,
    batch::EventBatch,
    store::{AppendOptions, CommittedAppend, OnConflict, PushResult, Snapshot},
};

use self::commit::{ClosedAppend, ClosedParts, ProducerTurn};
use super::{
    admission::{Push, PushTally},
    append_part::AppendPart,
    chronicle::Chronicle,
    chunk::Chunk,
    outcome::{Outcome, OutcomeEnd},
    producers::{self, EarlierAttempt},
    vacated_ticks::VacatedTicks,
};
use crate::{
    ingest::{delete, keeper::Keeper},
    read::snapshot::PinnedSnapshot,
};

/// Maximum number of parts of an append (see [`AppendPart`]). The commit frame names one statement
/// id for each part.
const PARTS_MAX: usize = 1 << 16;

/// Maximum number of deletes of an append: each delete adds a fence to the version of its
/// chronicle.
const DELETES_MAX: usize = 1024;

/// An append before its commit.
#[derive(Debug)]
pub struct OpenAppend {
    // Fields drop in this order: the keys must be free before waiting appends wake.
    /// The events and deletes so far, in parts. A new part begins at a savepoint, and at the first
    /// event after a delete. At least one part.
    parts: Vec<AppendPart>,
    /// Ends the outcome of the whole append when dropped, and wakes appends of the same producer
    /// that wait for this append. Each part has the same id in the wait graph. At the commit, this
    /// field moves to the completion of the commit frame, which may outlive the append.
    ending: Option<OutcomeEnd>,
    /// The attempt at a producer's numbered statement; `None` without a producer.
    turn: Option<ProducerTurn>,
    outcome: Arc<Outcome>,
    keeper: Arc<Keeper>,
    options: AppendOptions,
    /// Time at which the session acquired each chronicle, in nanoseconds since 1970.
    acquired: BTreeMap<ChronicleId, i64>,
    /// Chronicles whose events keep their given times, as when a dump is restored.
    restored: BTreeSet<ChronicleId>,
    strictest: Option<Durability>,
    /// Number of deletes, including deletes that were rolled back.
    deletes: usize,
    unsynced_bytes: usize,
    broken: bool,
    duplicate: bool,
}

impl OpenAppend {
    /// A new append without events.
    pub fn new(keeper: Arc<Keeper>, options: AppendOptions) -> Self {
        let statement = keeper.next_statement();
        let duplicate = options.producer.is_some_and(|(producer, number)| {
            keeper.producers.lock().is_duplicate(producer, number)
        });
        let outcome = Outcome::new(statement.0);
        Self {
            parts: vec![AppendPart::new(Arc::clone(&keeper), statement, statement.0)],
            ending: Some(OutcomeEnd(Arc::clone(&outcome))),
            turn: ProducerTurn::begin(&keeper, &options, &outcome),
            outcome,
            keeper,
            options,
            acquired: BTreeMap::new(),
            restored: BTreeSet::new(),
            strictest: None,
            deletes: 0,
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
    ) -> Result<PushResult> {
        if self.duplicate {
            return Ok(nothing(definition, &rows));
        }
        let chronicle = self.keeper.publisher.chronicles.chronicle(definition)?;
        let acceptance = self.acceptance(definition.id);
        let vacated = self.vacated(&chronicle);
        let push = Push::new(definition, chronicle, rows, on_conflict, acceptance, vacated)?;
        if self.parts.last().is_some_and(|part| !part.deletes().is_empty()) {
            self.extend_parts()?;
        }
        self.strictest = self.strictest.max(Some(definition.durability));
        let total = push.ticks.len();
        let first_seq = push.chronicle.take_seqs(total as u64);
        let mut next_seq = first_seq;
        let mut tally = PushTally::default();
        let (mut start, mut rows_max) = (0, usize::MAX);
        while start < total {
            let columns = push.store(start, rows_max, self.keeper.settings.frame_bytes_max)?;
            let rows = columns.first().map_or(1, |column| column.len()).max(1);
            let outcome = Arc::clone(self.parts.last().ok_or_else(no_part)?.outcome());
            let own = self.chunks_of(&push.chronicle);
            let admitted = push.admit(start, columns, next_seq, &outcome, &self.keeper, own).await;
            let mut kept = match admitted {
                Ok(Some(kept)) => kept,
                Ok(None) => {
                    rows_max = (rows / 2).max(1);
                    continue;
                }
                Err(error) if may_be_retry(error.kind()) => {
                    if !self.retried().await? {
                        return Err(error);
                    }
                    self.parts.iter_mut().for_each(AppendPart::clear);
                    self.duplicate = true;
                    return Ok(nothing(definition, &push.rows));
                }
                Err(error) => return Err(error),
            };
            tally.add(&mut kept);
            if let Some(chunk) = kept.chunk.take() {
                next_seq += chunk.rows() as u64;
                let part = self.parts.last_mut().ok_or_else(no_part)?;
                for earlier in part.keep(chunk, self.keeper.settings.frame_bytes_max) {
                    let durability = self.streamed_at(earlier.payload.len());
                    let part = self.parts.last_mut().ok_or_else(no_part)?;
                    part.stream(earlier, durability).await?;
                }
            }
            start += rows;
        }
        debug_assert_eq!(start, total, "rows are left out");
        debug_assert!(next_seq - first_seq <= total as u64, "more arrival numbers than rows");
        push.admitted(first_seq, tally)
    }

    /// The chunks of this append for one chronicle, in order.
    fn chunks_of<'a>(&'a self, chronicle: &'a Arc<Chronicle>) -> impl Iterator<Item = &'a Chunk> {
        let chunks = self.parts.iter().flat_map(AppendPart::chunks);
        chunks.filter(|chunk| Arc::ptr_eq(&chunk.reserved.chronicle, chronicle))
    }

    /// The rule for acceptable times of events of a chronicle.
    fn acceptance(&self, chronicle: ChronicleId) -> Acceptance {
        let session = self.options.acceptance;
        let acquired_ns = self.acquired.get(&chronicle).copied().unwrap_or(i64::MIN);
        let restores = self.restored.contains(&chronicle);
        Acceptance { since_ns: session.since_ns.max(acquired_ns), restores, ..session }
    }

    /// Called after a refusal. Returns true if another attempt at the same producer's statement has
    /// stored the events. Waits for attempts that are still running, because their outcome decides.
    ///
    /// # Errors
    /// `ObjectNotInPrerequisiteState` if the append combines several statements of which only some
    /// are stored. `DeadlockDetected` if the other attempt waits for this append. `Io` if the log
    /// has stopped: the next start may find the other attempt in the log, and its outcome is
    /// unknown until then.
    async fn retried(&self) -> Result<bool> {
        let Some(turn) = &self.turn else { return Ok(false) };
        let ProducerTurn { producer, from, number, .. } = *turn;
        loop {
            let earlier =
                self.keeper.producers.lock().refused(producer, from, number, &self.outcome);
            match earlier {
                EarlierAttempt::Nothing => return self.check_log().map(|()| false),
                EarlierAttempt::Committed => return Ok(true),
                EarlierAttempt::Overlap => return Err(overlap(from, number)),
                EarlierAttempt::UnderWay(other) => {
                    self.keeper.wait_graph.wait(self.outcome.id(), &other).await?;
                }
            }
        }
    }

    fn check_log(&self) -> Result<()> {
        let Some(reason) = self.keeper.log.status().poisoned else { return Ok(()) };
        let message = format!("the log has stopped for good: {reason}");
        Err(Error::new(ErrorKind::Io, message)
            .with_hint("restart the server, and send the statement again with the same number"))
    }

    /// The ranges of ticks of a chronicle that this append has deleted.
    fn vacated(&self, chronicle: &Arc<Chronicle>) -> Vec<VacatedTicks> {
        if self.deletes == 0 {
            return Vec::new();
        }
        let deletes = self.parts.iter().flat_map(AppendPart::deletes);
        let ours = deletes.filter(|deletion| Arc::ptr_eq(&deletion.chronicle, chronicle));
        ours.map(|deletion| VacatedTicks { ticks: deletion.ticks, before_seq: deletion.before_seq })
            .collect()
    }

    async fn take_delete(
        &mut self,
        definition: &ChronicleDefinition,
        ticks: TickRange,
    ) -> Result<()> {
        if self.duplicate || ticks.is_empty() {
            return Ok(());
        }
        if self.deletes >= DELETES_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!("a transaction has at most {DELETES_MAX} statements that delete"),
            )
            .with_hint("commit more often"));
        }
        let outcome = Arc::clone(self.parts.last().ok_or_else(no_part)?.outcome());
        let deletion = delete::within_append(&self.keeper, definition, ticks, &outcome).await?;
        self.strictest = self.strictest.max(Some(definition.durability));
        self.parts.last_mut().ok_or_else(no_part)?.delete(deletion);
        self.deletes += 1;
        debug_assert!(self.deletes <= DELETES_MAX, "too many deletes");
        Ok(())
    }

    /// Begins a new part, at a savepoint or at the first event after a delete.
    fn extend_parts(&mut self) -> Result<()> {
        if self.parts.len() >= PARTS_MAX {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "a transaction has at most {PARTS_MAX} savepoints and deletes with rows between"
                ),
            )
            .with_hint("commit more often"));
        }
        self.begin_part();
        Ok(())
    }

    fn begin_part(&mut self) {
        let (keeper, statement) = (Arc::clone(&self.keeper), self.keeper.next_statement());
        debug_assert!(
            self.parts.last().is_none_or(|last| last.statement() < statement),
            "the statement ids do not ascend"
        );
        self.parts.push(AppendPart::new(keeper, statement, self.outcome.id()));
    }

    /// The durability of the next streamed frame, with `bytes` of payload.
    fn streamed_at(&mut self, bytes: usize) -> Durability {
        let durability = self.durability();
        commit::streamed_at(&mut self.unsynced_bytes, bytes, durability)
    }

    fn durability(&self) -> Durability {
        self.options.durability.or(self.strictest).unwrap_or_default()
    }

    /// Ends the intake of events, and checks that the append can commit. The caller commits or
    /// prepares the result.
    async fn close(mut self) -> Result<ClosedAppend> {
        if self.broken {
            return Err(Error::internal("commit of an append after one of its pushes failed"));
        }
        let durability = self.durability();
        if self.duplicate || self.enter_producer().await? {
            return Ok(ClosedAppend::nothing(durability, true));
        }
        let first = self.parts.first().map(AppendPart::statement).unwrap_or_default();
        let mut parts = std::mem::take(&mut self.parts);
        parts.retain(|part| !part.is_empty());
        if parts.is_empty() && self.options.producer.is_none() {
            return Ok(ClosedAppend::nothing(durability, false));
        }
        self.keeper.publisher.chronicles.check_known(parts.iter().flat_map(AppendPart::steps))?;
        Ok(ClosedAppend::Open(Box::new(ClosedParts {
            parts,
            ending: self.ending.take(),
            turn: self.turn.take(),
            keeper: Arc::clone(&self.keeper),
            first,
            producer: self.options.producer,
            durability,
            unsynced_bytes: self.unsynced_bytes,
        })))
    }

    /// Waits until no other statement of the producer is committing. Returns `true` if the
    /// statement is a duplicate.
    async fn enter_producer(&self) -> Result<bool> {
        let Some(turn) = &self.turn else { return Ok(false) };
        let ProducerTurn { producer, from, number, .. } = *turn;
        loop {
            let admission =
                self.keeper.producers.lock().enter(producer, from, number, &self.outcome);
            match admission {
                producers::ProducerDecision::New => return Ok(false),
                producers::ProducerDecision::Duplicate => return Ok(true),
                producers::ProducerDecision::Overlap => return Err(overlap(from, number)),
                producers::ProducerDecision::Wait(other) => {
                    self.keeper.wait_graph.wait(self.outcome.id(), &other).await?;
                }
            }
        }
    }
}

impl Append for OpenAppend {
    fn acquired(&mut self, chronicle: ChronicleId, since_ns: Option<i64>) {
        match since_ns {
            Some(since_ns) => self.acquired.insert(chronicle, since_ns),
            None => self.acquired.remove(&chronicle),
        };
    }

    fn restores(&mut self, chronicle: ChronicleId, restores: bool) {
        match restores {
            true => self.restored.insert(chronicle),
            false => self.restored.remove(&chronicle),
        };
    }

    fn push<'a>(
        &'a mut self,
        chronicle: &'a Arc<ChronicleDefinition>,
        rows: RecordBatch,
        on_conflict: OnConflict,
    ) -> BoxFuture<'a, Result<PushResult>> {
        Box::pin(async move {
            if self.broken {
                return Err(Error::internal("push to an append after one of its pushes failed"));
            }
            // `broken` stays set if the push fails or is cancelled.
            self.broken = true;
            let admitted = self.take(chronicle, rows, on_conflict).await?;
            self.broken = false;
            Ok(admitted)
        })
    }

    fn delete<'a>(
        &'a mut self,
        chronicle: &'a Arc<ChronicleDefinition>,
        range: TickRange,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if self.broken {
                return Err(Error::internal("delete of an append after one of its pushes failed"));
            }
            self.take_delete(chronicle, range).await
        })
    }

    fn over<'a>(&'a self, base: &'a Arc<dyn Snapshot>) -> BoxFuture<'a, Result<Arc<dyn Snapshot>>> {
        Box::pin(async move {
            let base: &dyn Any = base.as_ref();
            let base = base.downcast_ref::<PinnedSnapshot>();
            let base = base.ok_or_else(|| Error::internal("a snapshot of another store"))?;
            let steps = self.parts.iter().flat_map(AppendPart::steps);
            let seen = base.with(steps, &self.keeper.budget).await?;
            Ok(Arc::new(seen) as Arc<dyn Snapshot>)
        })
    }

    fn savepoint(&mut self) -> Result<usize> {
        if self.parts.last().is_none_or(|part| !part.is_empty()) {
            self.extend_parts()?;
        }
        debug_assert!(
            self.parts.last().is_some_and(AppendPart::is_empty),
            "events after the savepoint"
        );
        Ok(self.parts.len() - 1)
    }

    fn release(&mut self, savepoint: usize) {
        let bytes_max = self.keeper.settings.frame_bytes_max;
        let later = self.parts.split_off(self.parts.len().min(savepoint + 1));
        for part in later {
            let part = match self.parts.last_mut() {
                Some(last) => last.join(part, bytes_max),
                None => Some(part),
            };
            self.parts.extend(part);
        }
        debug_assert!(!self.parts.is_empty(), "an append without a part");
    }

    fn roll_back_to(&mut self, savepoint: usize) {
        // The last part is dropped first, because it may have replaced keys that an earlier part
        // reserved.
        while self.parts.len() > savepoint && !crate::sabotage::active("savepoint-ignored") {
            self.parts.pop();
        }
        self.begin_part();
        debug_assert!(
            self.parts.len() <= savepoint + 1 || crate::sabotage::active("savepoint-ignored")
        );
        self.broken = false;
    }

    fn commit(self: Box<Self>) -> BoxFuture<'static, Result<CommittedAppend>> {
        Box::pin(async move {
            match self.close().await? {
                ClosedAppend::Nothing(appended) => Ok(appended),
                ClosedAppend::Open(closing) => closing.commit().await,
            }
        })
    }

    fn prepare(self: Box<Self>) -> BoxFuture<'static, Result<Box<dyn PreparedAppend>>> {
        Box::pin(async move { Ok(Box::new(self.close().await?.prepare().await?) as _) })
    }
}

/// True if an error of this kind may come from another attempt at the same statement that has
/// stored the events: the keys are then taken, or the times of this attempt are too old.
fn may_be_retry(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::UniqueViolation
            | ErrorKind::TickTaken
            | ErrorKind::OutsideWindow
            | ErrorKind::LateEvent
    )
}

/// The error of an append whose statements `from..=number` are partly stored already.
fn overlap(from: u64, number: u64) -> Error {
    debug_assert!(from < number, "a single statement is partly committed");
    Error::new(
        ErrorKind::ObjectNotInPrerequisiteState,
        format!("some of the producer's statements {from} to {number} were committed before"),
    )
    .with_hint("send each statement separately")
}

fn no_part() -> Error {
    Error::internal("an append has no part")
}

/// The result of a push to a duplicate append, a repetition of a committed statement: nothing is
/// stored.
fn nothing(definition: &ChronicleDefinition, rows: &RecordBatch) -> PushResult {
    PushResult {
        events: EventBatch {
            schema_version: definition.schema_version,
            ticks: Vec::new().into(),
            rows: rows.slice(0, 0),
            first_seq: 0,
        },
        skipped: 0,
    }
}
