//! The catalog as a log of commands (CL-9).
//!
//! ```text
//!   apply(commands) ─► plan: pure, on the state now ─► record ─► log ─► durable ─► new state
//!        one call at a time ─────────────────────────────────────────────────┘
//! ```

mod command;
mod create;
mod name;
mod option;
mod plan;
mod record;
mod state;

use std::sync::Arc;

use futures::{channel::oneshot, lock::Mutex as TurnMutex};
use parking_lot::RwLock;
use stratalog_model::{
    BoxFuture, ChronicleId, Clock, Durability, Error, ErrorKind, Frame, FrameKind, Log, Lsn,
    PartitionId, Result, SchemaVersion, StatementId, TickRange,
};

pub use command::{Command, NewChronicle, NewColumn, Outcome};
pub use name::{DEFAULT_DATABASE, DEFAULT_SCHEMA, NAME_BYTES_MAX, SYSTEM_SCHEMAS};
pub use option::{OPTIONS, OPTIONS_LATER};
pub use plan::CHRONICLES_MAX;
pub use state::{CatalogState, DatabaseDefinition, SchemaDefinition, oid_of};

/// The databases, schemas and chronicles of a data directory.
#[derive(Debug)]
pub struct Catalog {
    log: Arc<dyn Log>,
    clock: Arc<dyn Clock>,
    state: Arc<RwLock<Arc<CatalogState>>>,
    /// Held from the decision on a command until its record is durable and visible.
    turn: Arc<TurnMutex<()>>,
}

impl Catalog {
    /// Replays the log. `clock` gives chronicles their creation time.
    ///
    /// # Errors
    /// `DataCorrupted` when a record cannot be read or contradicts those before it;
    /// `ObjectNotInPrerequisiteState` when a newer version wrote it; what the log says.
    pub fn open(log: Arc<dyn Log>, clock: Arc<dyn Clock>) -> Result<Arc<Self>> {
        let mut replay = CatalogReplay::default();
        log.replay(&mut |lsn, frame| replay.frame(lsn, &frame))?;
        let state = replay.finish();
        tracing::info!(
            version = state.version(),
            chronicles = state.chronicle_count(),
            "catalog replayed"
        );
        let state = Arc::new(RwLock::new(Arc::new(state)));
        Ok(Arc::new(Self { log, clock, state, turn: Arc::default() }))
    }

    /// The catalog now; never changes once taken.
    pub fn state(&self) -> Arc<CatalogState> {
        Arc::clone(&self.state.read())
    }

    /// Checks that commands could be carried out now, one after another; returns what
    /// each would have to tell. Nothing changes.
    ///
    /// # Errors
    /// What is wrong with a command, as [`Self::apply`] says it.
    pub fn check(&self, commands: &[Command]) -> Result<Vec<String>> {
        let plan = plan::plan_all(&self.state(), commands, self.clock.as_ref())?;
        Ok(plan.outcome.notices)
    }

    /// Carries out a command, as [`Self::apply_all`] does several.
    ///
    /// # Errors
    /// As [`Self::apply_all`].
    pub fn apply(&self, command: Command) -> BoxFuture<'_, Result<Outcome>> {
        self.apply_all(vec![command])
    }

    /// Carries out commands, all or none, as one record of the log: durable first, then
    /// visible, then this returns. When the returned future is dropped midway, they are
    /// either carried out or not, and the state in memory agrees with the log either way.
    ///
    /// # Errors
    /// What is wrong with a command, in PostgreSQL's words where it has some; what the
    /// log says when it cannot write: then nothing changed.
    pub fn apply_all(&self, commands: Vec<Command>) -> BoxFuture<'_, Result<Outcome>> {
        Box::pin(async move {
            let turn = Arc::clone(&self.turn).lock_owned().await;
            let before = self.state();
            let plan = plan::plan_all(&before, &commands, self.clock.as_ref())?;
            let Some(change) = plan.change else {
                let chronicle = plan.shows.and_then(|id| before.chronicle_by_id(id)).cloned();
                return Ok(Outcome { chronicle, ..plan.outcome });
            };
            let after = Arc::new(before.after(&change)?);
            let chronicle = plan.shows.and_then(|id| after.chronicle_by_id(id)).cloned();
            let payload = record::encode(&change)?;
            let reservation = self.log.reserve(payload.len()).await?;

            // From here on the record may become durable, whether or not anybody still
            // waits for it: so the log's thread publishes the state and ends the turn.
            let (report, written) = oneshot::channel();
            let published = Arc::clone(&self.state);
            self.log.submit(
                frame_of(payload),
                reservation,
                Durability::Disk,
                Box::new(move |result| {
                    if result.is_ok() {
                        *published.write() = after;
                    }
                    drop(turn);
                    // Nobody waits any more: the command was carried out all the same.
                    let _ = report.send(result);
                }),
            );
            match written.await {
                Ok(Ok(lsn)) => {
                    tracing::debug!(%lsn, ?commands, "catalog changed");
                    Ok(Outcome { chronicle, ..plan.outcome })
                }
                Ok(Err(error)) => Err(error),
                Err(oneshot::Canceled) => Err(Error::new(
                    ErrorKind::Shutdown,
                    "the catalog's log was closed; the statement may or may not be carried out",
                )),
            }
        })
    }
}

/// The records of a catalog's log, on their way to the state that they tell.
#[derive(Debug)]
pub struct CatalogReplay(CatalogState);

impl Default for CatalogReplay {
    fn default() -> Self {
        Self(CatalogState::genesis())
    }
}

impl CatalogReplay {
    /// Takes the next frame.
    ///
    /// # Errors
    /// `DataCorrupted` for a record that cannot be read, or contradicts those before it;
    /// `ObjectNotInPrerequisiteState` when a newer version wrote it.
    pub fn frame(&mut self, lsn: Lsn, frame: &Frame) -> Result<()> {
        if frame.kind == FrameKind::Catalog {
            let change = record::decode(&frame.payload);
            let after = change.and_then(|change| self.0.after(&change));
            self.0 = after.map_err(|error| at_lsn(lsn, error))?;
        }
        Ok(())
    }

    /// The state so far.
    pub fn finish(self) -> CatalogState {
        self.0
    }
}

fn frame_of(payload: bytes::Bytes) -> Frame {
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
