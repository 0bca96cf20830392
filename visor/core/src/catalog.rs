//! The catalog, stored as a log of commands (CL-9).
//!
//! ```text
//!   apply(commands) ─► plan: pure, on the current state ─► record ─► log ─► durable ─► new state
//!        one call at a time ─────────────────────────────────────────────────────┘
//! ```
//! A transaction may change definitions and events together (RFC 0023). First it prepares the
//! events: their frames are durable, but not yet valid. Then the catalog's record decides the
//! commit, and names the statements of the events. Finally the commit frame of the events is
//! written, and the events and the new catalog state become visible. If the transaction creates a
//! chronicle, the id of the chronicle is reserved durably before events are written under this id.
//! Events whose id has no chronicle are not valid.

mod command;
mod create;
pub(crate) mod name;
mod option;
mod plan;
mod record;
mod state;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use futures::{
    channel::oneshot,
    lock::{Mutex as TurnMutex, OwnedMutexGuard},
};
use parking_lot::RwLock;
use stratalog_model::{
    BoxFuture, ChronicleDefinition, ChronicleId, Clock, CommittedAppend, Durability, Error,
    ErrorKind, Frame, FrameKind, Log, Lsn, PartitionId, PreparedAppend, Result, SchemaVersion,
    StatementId, TickRange,
};

use record::Change;
pub(crate) use state::misfit;

use crate::access::Identity;

pub use command::{Command, NewChronicle, NewColumn, Outcome};
pub use name::{
    AUDIT_TABLE, DATABASE_ALIASES, DEFAULT_DATABASE, DEFAULT_SCHEMA, NAME_BYTES_MAX, OWN_SCHEMA,
    SYSTEM_SCHEMAS,
};
pub use option::{OPTIONS, OPTIONS_LATER, option_list};
pub use plan::CHRONICLES_MAX;
pub use state::{CatalogState, DatabaseDefinition, SchemaDefinition, oid_of};

/// The catalog of a data directory: all databases, schemas and chronicles.
#[derive(Debug)]
pub struct Catalog {
    log: Arc<dyn Log>,
    clock: Arc<dyn Clock>,
    state: Arc<RwLock<Arc<CatalogState>>>,
    /// Locked from the decision about a command until its record is durable and its change is
    /// visible.
    turn: Arc<TurnMutex<()>>,
    /// Chronicles that open transactions have created; other sessions do not see them.
    open: RwLock<BTreeMap<ChronicleId, Arc<ChronicleDefinition>>>,
    /// The number of previews made for open transactions so far.
    previews: AtomicU64,
    /// True if a record is durable, or may be durable, but its change is not visible.
    behind: Arc<AtomicBool>,
    /// Views of the state by identity and version: the state without hidden chronicles.
    visible: RwLock<HashMap<(Identity, u64), Arc<CatalogState>>>,
}

/// Maximum number of kept views of the state, one per identity.
const VISIBLE_MAX: usize = 256;

/// This bit marks the version of a state that only one open transaction sees.
const OPEN_VERSIONS: u64 = 1 << 63;

impl Catalog {
    /// Reads the log and rebuilds the catalog. `clock` supplies the creation times of chronicles.
    ///
    /// # Errors
    /// `DataCorrupted` if a record is unreadable or contradicts an earlier record;
    /// `ObjectNotInPrerequisiteState` if a newer version wrote a record; errors of the log.
    pub fn open(log: Arc<dyn Log>, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let mut replay = CatalogReplay::default();
        log.replay(&mut |lsn, frame| replay.frame(lsn, &frame))?;
        let state = replay.finish();
        debug_assert!(state.version() < OPEN_VERSIONS, "the version belongs to a transaction");
        tracing::info!(
            version = state.version(),
            chronicles = state.chronicle_count(),
            "catalog replayed"
        );
        let state = Arc::new(RwLock::new(Arc::new(state)));
        Ok(Arc::new(Self {
            log,
            clock,
            state,
            turn: Arc::default(),
            open: RwLock::default(),
            previews: AtomicU64::new(0),
            visible: RwLock::default(),
            behind: Arc::default(),
        }))
    }

    /// The current state of the catalog: an immutable snapshot.
    pub fn state(&self) -> Arc<CatalogState> {
        Arc::clone(&self.state.read())
    }

    /// `state` without the chronicles that an identity may not know of. The state's version stays.
    ///
    /// # Errors
    /// `InvalidAuthorization` if the identity is no longer valid.
    pub fn visible(
        &self,
        state: Arc<CatalogState>,
        identity: &Identity,
    ) -> Result<Arc<CatalogState>> {
        // The system and trusted clients see everything; their rights need no reading of the clock.
        if *identity == Identity::System {
            return Ok(state);
        }
        let rights = state.access().rights(identity, self.clock.now_ns())?;
        if rights.sees_everything() {
            return Ok(state);
        }
        let key = (*identity, state.version());
        if let Some(known) = self.visible.read().get(&key) {
            return Ok(Arc::clone(known));
        }
        let visible = Arc::new(state.visible_to(&rights));
        let mut known = self.visible.write();
        known.retain(|(_, version), _| *version == key.1);
        if known.len() < VISIBLE_MAX {
            known.insert(key, Arc::clone(&visible));
        }
        Ok(visible)
    }

    /// The time of the catalog's clock, in nanoseconds since 1970.
    pub fn now_ns(&self) -> i64 {
        self.clock.now_ns()
    }

    /// The state that a transaction sees after its commands, starting from `state`, and the notices
    /// of the commands. The state is `None` if the commands change nothing. Other sessions see no
    /// change.
    ///
    /// # Errors
    /// The errors of a command, as for [`Self::apply`].
    pub fn preview(
        &self,
        state: &CatalogState,
        actor: &Identity,
        commands: &[Command],
    ) -> Result<(Option<Arc<CatalogState>>, Vec<String>)> {
        let plan = plan::plan_all(state, actor, commands, self.clock.as_ref())?;
        debug_assert_eq!(
            plan.change.is_some(),
            plan.outcome.changed,
            "the outcome contradicts the change"
        );
        let Some(change) = &plan.change else { return Ok((None, plan.outcome.notices)) };
        let mut seen = state.clone();
        seen.apply(change)?;
        let version = OPEN_VERSIONS | self.previews.fetch_add(1, Ordering::Relaxed);
        Ok((Some(Arc::new(seen.under(version))), plan.outcome.notices))
    }

    /// Checks that an actor may run the commands in `state`, and that the commands are valid there.
    ///
    /// # Errors
    /// The errors of a command, as for [`Self::apply`].
    pub fn check(
        &self,
        state: &CatalogState,
        actor: &Identity,
        commands: &[Command],
    ) -> Result<()> {
        plan::plan_all(state, actor, commands, self.clock.as_ref()).map(drop)
    }

    /// Reserves an id for a chronicle that an open transaction creates. Events can be stored under
    /// this id before the chronicle exists; they become valid when the chronicle is created.
    ///
    /// # Errors
    /// Errors of the log.
    pub fn reserve(&self) -> BoxFuture<'_, Result<ChronicleId>> {
        Box::pin(async move {
            let turn = self.turn().await?;
            let before = self.state();
            let id = before.next_chronicle();
            debug_assert!(!before.is_reserved(id), "an id is given twice");
            let change = Change::ReserveChronicle { id };
            let after = Arc::new(before.after(&change)?);
            debug_assert!(after.is_reserved(id), "a given id is not reserved");
            self.record(turn, &change, after).await?;
            Ok(id)
        })
    }

    /// Registers a chronicle that an open transaction has created, until [`Self::close`].
    pub fn open_for(&self, chronicle: Arc<ChronicleDefinition>) {
        self.open.write().insert(chronicle.id, chronicle);
    }

    /// Removes the registration of a chronicle after its transaction. Returns true if the chronicle
    /// exists, or may exist after the next start.
    pub fn close(&self, id: ChronicleId) -> bool {
        if self.is_behind() {
            return true;
        }
        self.open.write().remove(&id);
        self.state().chronicle_by_id(id).is_some()
    }

    /// The chronicle with the id `id`, including chronicles that open transactions have created.
    pub fn definition(&self, id: ChronicleId) -> Option<Arc<ChronicleDefinition>> {
        let open = self.open.read().get(&id).cloned();
        let found = open.or_else(|| self.state().chronicle_by_id(id).cloned());
        debug_assert!(
            found.as_ref().is_none_or(|found| found.id == id),
            "the chronicle has another id"
        );
        found
    }

    /// Executes one command like [`Self::apply_all`].
    ///
    /// # Errors
    /// The same as [`Self::apply_all`].
    pub fn apply(&self, actor: Identity, command: Command) -> BoxFuture<'_, Result<Outcome>> {
        self.apply_all(actor, vec![command])
    }

    /// Executes all commands or none, as one record of the log. The change becomes durable, then
    /// visible; then the call returns. If the caller drops the returned future early, either all
    /// commands or none are executed. In both cases, the state in memory agrees with the log.
    /// # Errors
    /// The error of a command, with PostgreSQL's message where PostgreSQL has the same error;
    /// errors of the log if a write fails. After an error, nothing has changed.
    pub fn apply_all(
        &self,
        actor: Identity,
        commands: Vec<Command>,
    ) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move { Ok(self.apply_with(actor, commands, None).await?.0) })
    }

    /// Like [`Self::apply_all`], but also commits prepared events: one record decides about both.
    ///
    /// # Errors
    /// The same as [`Self::apply_all`]. `UndefinedTable` if a chronicle of the events no longer
    /// exists: then nothing has changed, and the events are rolled back. `Io`, `Shutdown` if a log
    /// stops after the record and before the commit frame: then the next start of the server
    /// completes the transaction.
    pub fn apply_with(
        &self,
        actor: Identity,
        commands: Vec<Command>,
        events: Option<Box<dyn PreparedAppend>>,
    ) -> BoxFuture<'_, Result<(Outcome, Option<CommittedAppend>)>> {
        Box::pin(async move {
            let turn = self.turn().await?;
            let before = self.state();
            let version = before.version();
            let mut plan = plan::plan_all(&before, &actor, &commands, self.clock.as_ref())?;
            debug_assert_eq!(
                plan.change.is_some(),
                plan.outcome.changed,
                "the outcome contradicts the change"
            );
            let (after, appended) = match (plan.change.take(), events) {
                (change, Some(events)) => {
                    let (after, appended) = self.decide(turn, before, change, events).await?;
                    (after, Some(appended))
                }
                (Some(change), None) => {
                    let after = Arc::new(before.after(&change)?);
                    self.record(turn, &change, Arc::clone(&after)).await?;
                    (after, None)
                }
                (None, None) => (before, None),
            };
            debug_assert!(version <= after.version(), "definitions go back");
            tracing::debug!(?commands, "catalog changed");
            let chronicle = plan.shows.and_then(|id| after.chronicle_by_id(id)).cloned();
            Ok((Outcome { chronicle, ..plan.outcome }, appended))
        })
    }

    /// Writes a change that includes a decision about prepared events, completes the commit of the
    /// events, and publishes the new state.
    async fn decide(
        &self,
        turn: OwnedMutexGuard<()>,
        before: Arc<CatalogState>,
        change: Option<Change>,
        events: Box<dyn PreparedAppend>,
    ) -> Result<(Arc<CatalogState>, CommittedAppend)> {
        let change = match (change, events.decision().map(Change::Decide)) {
            (Some(change), Some(decision)) => Change::Several(vec![change, decision]),
            (Some(change), None) | (None, Some(change)) => change,
            (None, None) => return Ok((before, events.commit().await?)),
        };
        let after = Arc::new(before.after(&change)?);
        debug_assert!(before.version() < after.version(), "a decision keeps the version");
        // Another session may have dropped a chronicle since its events arrived; from now on, no
        // session can. The transaction may also have replaced a chronicle that it created itself.
        let gone =
            |id: &ChronicleId| after.chronicle_by_id(*id).is_none() && !before.is_reserved(*id);
        if events.chronicles().iter().any(gone) {
            let message = "a table of the transaction was dropped before COMMIT";
            return Err(Error::new(ErrorKind::UndefinedTable, message)
                .with_detail("nothing of the transaction was kept")
                .with_hint("run the transaction again without the dropped table"));
        }
        let written = match self.write(turn, &change).await {
            Ok(written) => written,
            Err(error) => {
                if error.kind() == ErrorKind::Shutdown || self.log.status().poisoned.is_some() {
                    // The record may be durable although the log reported an error.
                    self.behind.store(true, Ordering::Release);
                    events.abandon();
                }
                return Err(error);
            }
        };
        let appended = events.commit().await?;
        written.show(Arc::clone(&after));
        Ok((after, appended))
    }

    /// True if a record is durable, or may be durable, but its change is not visible. If the record
    /// is durable, the change becomes visible at the next start.
    pub fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    /// Waits for the exclusive right to change the catalog.
    async fn turn(&self) -> Result<OwnedMutexGuard<()>> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if self.is_behind() {
            let message = "the catalog accepts no changes: the record of an incomplete transaction is durable, or may be durable";
            return Err(Error::new(ErrorKind::Io, message).with_hint(
                "restart the server: the start completes the transaction if its record is durable",
            ));
        }
        Ok(turn)
    }

    /// Writes a change that was checked against the current state, and publishes the new state.
    async fn record(
        &self,
        turn: OwnedMutexGuard<()>,
        change: &Change,
        after: Arc<CatalogState>,
    ) -> Result<()> {
        // The record may become durable even if the caller has dropped the future. Therefore the
        // log's thread publishes the state and unlocks the turn.
        let published = Arc::clone(&self.state);
        self.submit(change, move || {
            debug_assert!(published.read().version() <= after.version(), "definitions go back");
            *published.write() = after;
            drop(turn);
        })
        .await
    }

    /// Writes a change without publishing the new state.
    async fn write(&self, turn: OwnedMutexGuard<()>, change: &Change) -> Result<DurableRecord> {
        let (state, behind) = (Arc::clone(&self.state), Arc::clone(&self.behind));
        self.submit(change, move || DurableRecord { _turn: turn, state, behind, is_shown: false })
            .await
    }

    /// Submits the record of a change. `done` runs on the log's thread once the record is durable.
    async fn submit<T: Send + 'static>(
        &self,
        change: &Change,
        done: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let payload = record::encode(change)?;
        let reservation = self.log.reserve(payload.len()).await?;
        let (report, written) = oneshot::channel();
        self.log.submit(
            frame_of(payload),
            reservation,
            Durability::Disk,
            Box::new(move |result| {
                // If the caller has dropped the receiver, a plain change is still published here. A
                // decision about events is completed at the next start.
                let _ = report.send(result.map(|_| done()));
            }),
        );
        written.await.unwrap_or_else(|oneshot::Canceled| {
            Err(Error::new(
                ErrorKind::Shutdown,
                "the catalog's log was closed; the statement may or may not be carried out",
            ))
        })
    }
}

/// A durable record whose change is not visible yet. If the value is dropped before `show`, the
/// catalog refuses further changes, because its state in memory is older than the log.
struct DurableRecord {
    state: Arc<RwLock<Arc<CatalogState>>>,
    behind: Arc<AtomicBool>,
    is_shown: bool,
    // This field is dropped last, so that the next change sees `behind` set.
    _turn: OwnedMutexGuard<()>,
}

impl DurableRecord {
    fn show(mut self, after: Arc<CatalogState>) {
        let mut state = self.state.write();
        debug_assert!(state.version() <= after.version(), "definitions go back");
        *state = after;
        drop(state);
        self.is_shown = true;
    }
}

impl Drop for DurableRecord {
    fn drop(&mut self) {
        if !self.is_shown {
            self.behind.store(true, Ordering::Release);
        }
    }
}

/// Rebuilds the state of the catalog from the records of its log.
#[derive(Debug)]
pub struct CatalogReplay(CatalogState);

impl Default for CatalogReplay {
    fn default() -> Self {
        Self(CatalogState::genesis())
    }
}

impl CatalogReplay {
    /// Applies the next frame.
    ///
    /// # Errors
    /// `DataCorrupted` for a record that is unreadable or contradicts an earlier record;
    /// `ObjectNotInPrerequisiteState` when a newer version wrote the record.
    pub fn frame(&mut self, lsn: Lsn, frame: &Frame) -> Result<()> {
        if frame.kind == FrameKind::Catalog {
            let change = record::decode(&frame.payload);
            let after = change.and_then(|change| self.0.after(&change));
            let after = after.map_err(|error| at_lsn(lsn, error))?;
            debug_assert!(self.0.version() <= after.version(), "definitions go back");
            self.0 = after;
        }
        Ok(())
    }

    /// The state so far.
    pub fn finish(self) -> CatalogState {
        self.0
    }
}

fn frame_of(payload: bytes::Bytes) -> Frame {
    debug_assert!(!payload.is_empty(), "a record has no content");
    Frame {
        kind: FrameKind::Catalog,
        partition: PartitionId(0),
        chronicle: ChronicleId(0),
        schema_version: SchemaVersion(0),
        statement: StatementId(0),
        ticks: TickRange::EMPTY,
        count: 0,
        first_seq: 0,
        producer: None,
        payload,
    }
}

fn at_lsn(lsn: Lsn, error: Error) -> Error {
    let located = Error::new(error.kind(), format!("catalog, lsn {lsn}: {}", error.message()));
    match error.hint() {
        Some(hint) => located.with_hint(hint.to_string()),
        None => located.with_hint("restore the catalog's log from a backup"),
    }
}

#[cfg(test)]
mod tests;
