//! The manifest: a log of edits with the owner of each event (CL-2, CL-3).
//!
//! ```text
//!   edit ─► checked against the state ─► record ─► log ─► durable ─► new state
//!       one at a time ────────────────────────────────────────┘
//!
//!   log:  edit edit edit … │ snapshot │ edit edit …        the part before the last snapshot
//!                          └ one statement of frames       is given up, segment by segment
//! ```
//! The journal owns the events of a chronicle above [`OwnedEvents::through`]; pieces own the events up to
//! this gsn. One edit moves the border and names the pieces. Files without a record in the state do
//! not exist for the engine.

mod record;
mod state;

use std::sync::Arc;

use parking_lot::Mutex;
use stratalog_model::{
    ChronicleId, Durability, Error, ErrorKind, Frame, FrameKind, Log, Lsn, PartitionId, Result,
    SchemaVersion, StatementId, TickRange, invariant,
};
use tokio::sync::oneshot;

pub use state::{Edit, Floor, ManifestState, Move, OwnedEvents, PieceFile, PieceRecord};

/// Least number of edits before a snapshot is worth its bytes.
const EDITS_MIN: usize = 256;

/// Maximum bytes in a frame of a snapshot.
const SNAPSHOT_FRAME_BYTES: usize = 256 << 10;

/// The manifest; see the module's comment.
#[derive(Debug)]
pub struct Manifest {
    log: Arc<dyn Log>,
    current: Arc<Mutex<CurrentState>>,
    /// Held from the decision on an edit until the edit is durable.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct CurrentState {
    state: Arc<ManifestState>,
    /// Edits since the last snapshot.
    edits: usize,
    /// Statement of the last snapshot.
    snapshots: u64,
}

impl Manifest {
    /// Opens the manifest by a replay of its log.
    ///
    /// # Errors
    /// `DataCorrupted` when a record cannot be read or contradicts earlier records, or when earlier
    /// records are lost; the errors of the log.
    pub fn open(log: Arc<dyn Log>) -> Result<Self> {
        let mut replay = ManifestReplay::new(log.status().first <= Lsn(1));
        log.replay(&mut |lsn, frame| replay.frame(lsn, frame))?;
        let (edits, snapshots) = (replay.edits, replay.snapshots);
        let state = replay.finish()?;
        let current = CurrentState { state: Arc::new(state), edits, snapshots };
        Ok(Self { log, current: Arc::new(Mutex::new(current)), turn: Arc::default() })
    }

    /// The state now; a returned state never changes.
    pub fn state(&self) -> Arc<ManifestState> {
        Arc::clone(&self.current.lock().state)
    }

    /// Makes an edit durable, then part of the state, and then calls `publish` before any other
    /// edit. `publish` runs on the log's thread and must not wait. A drop of the returned future
    /// cancels the edit as a whole or not at all.
    ///
    /// # Errors
    /// `Internal` for an edit in contradiction to the state; the errors of the log. After an error
    /// nothing has changed, unless the log was closed.
    pub async fn apply<T: Send + 'static>(
        &self,
        edit: Edit,
        publish: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let before = self.state();
        let after = Arc::new(before.after(&edit)?);
        let frame = frame(FrameKind::Manifest, StatementId(0), 0, record::of_edit(&edit)?);
        let reservation = self.log.reserve(frame.payload.len()).await?;
        let (sender, written) = oneshot::channel();
        let current = Arc::clone(&self.current);
        let done = Box::new(move |result: Result<Lsn>| {
            let published = result.map(|_| {
                {
                    let mut current = current.lock();
                    invariant!(
                        MovesPreserve,
                        Arc::ptr_eq(&current.state, &before),
                        "an edit of the manifest was decided on another state"
                    );
                    current.state = after;
                    current.edits += 1;
                }
                publish()
            });
            drop(sender.send((published, turn)));
        });
        self.log.submit(frame, reservation, Durability::Disk, done);
        let (published, turn) = written.await.map_err(|_| closed())?;
        let published = published?;
        self.snapshot_if_due().await;
        drop(turn);
        Ok(published)
    }

    /// Writes a snapshot of the state after many edits, and releases the log before the snapshot.
    /// Only with the turn.
    async fn snapshot_if_due(&self) {
        let (state, statement) = {
            let mut current = self.current.lock();
            if current.edits < EDITS_MIN.max(current.state.records()) {
                return;
            }
            current.snapshots += 1;
            (Arc::clone(&current.state), StatementId(current.snapshots))
        };
        match self.write_snapshot(&state, statement).await {
            Ok(first) => {
                self.current.lock().edits = 0;
                if let Err(error) = self.log.release(first) {
                    tracing::warn!(%error, "cannot remove old edits of the manifest; the server tries again later");
                }
            }
            // The edits hold the same state.
            Err(error) => tracing::warn!(%error, "cannot write a snapshot of the manifest"),
        }
    }

    /// Writes a snapshot. Returns its first lsn.
    async fn write_snapshot(&self, state: &ManifestState, statement: StatementId) -> Result<Lsn> {
        debug_assert!(statement != StatementId(0), "a snapshot looks like an edit");
        let whole = record::of_snapshot(state)?;
        let mut first = None;
        for (number, part) in (0..).zip(whole.chunks(SNAPSHOT_FRAME_BYTES)) {
            let payload = bytes::Bytes::copy_from_slice(part);
            let lsn = self.write(frame(FrameKind::Manifest, statement, number, payload)).await?;
            first = first.or(Some(lsn));
        }
        let commit = frame(FrameKind::Commit, statement, 0, bytes::Bytes::new());
        let lsn = self.write(commit).await?;
        debug_assert!(first.is_none_or(|first| first < lsn), "a snapshot ends before its start");
        Ok(first.unwrap_or(lsn))
    }

    async fn write(&self, frame: Frame) -> Result<Lsn> {
        let reservation = self.log.reserve(frame.payload.len()).await?;
        let (sender, written) = oneshot::channel();
        let done = Box::new(move |result| drop(sender.send(result)));
        self.log.submit(frame, reservation, Durability::Disk, done);
        written.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// Replays the records of a manifest's log.
#[derive(Debug)]
pub struct ManifestReplay {
    /// The state; `None` before the first snapshot of a log without its beginning.
    state: Option<ManifestState>,
    /// Edits since the last snapshot.
    edits: usize,
    /// Statement of the last snapshot.
    snapshots: u64,
    /// Frames of an incomplete snapshot.
    parts: Vec<bytes::Bytes>,
}

impl ManifestReplay {
    /// Starts at the beginning of a log; `whole` is true if the log still has its first record.
    pub fn new(whole: bool) -> Self {
        let state = whole.then(ManifestState::default);
        Self { state, edits: 0, snapshots: 0, parts: Vec::new() }
    }

    /// Takes the next frame.
    ///
    /// # Errors
    /// `DataCorrupted` for an unreadable record, and for a record in contradiction to earlier
    /// records.
    pub fn frame(&mut self, lsn: Lsn, frame: Frame) -> Result<()> {
        if frame.statement == StatementId(0) {
            let edit = record::edit(&frame.payload).map_err(|error| at(lsn, error))?;
            // The first kept snapshot contains all earlier edits.
            if let Some(before) = self.state.take() {
                let after = before.after(&edit);
                self.state = Some(after.map_err(|error| contradicts(lsn, &error))?);
                self.edits += 1;
            }
            return Ok(());
        }
        self.snapshots = self.snapshots.max(frame.statement.0);
        match frame.kind {
            FrameKind::Commit => {
                let whole: Vec<u8> = std::mem::take(&mut self.parts).concat();
                self.state = Some(record::snapshot(&whole).map_err(|error| at(lsn, error))?);
                self.edits = 0;
            }
            _ => {
                // Drops the frames of an incomplete snapshot.
                if frame.first_seq == 0 {
                    self.parts.clear();
                }
                self.parts.push(frame.payload);
            }
        }
        Ok(())
    }

    /// The state after all records.
    ///
    /// # Errors
    /// `DataCorrupted` when the log has lost its beginning and has no snapshot.
    pub fn finish(self) -> Result<ManifestState> {
        self.state.ok_or_else(lost)
    }
}

/// Encodes a state in the form of a snapshot.
///
/// # Errors
/// `Internal`.
pub fn encode(state: &ManifestState) -> Result<Vec<u8>> {
    record::of_snapshot(state)
}

/// Writes a state as the first snapshot of an empty log.
///
/// # Errors
/// `DataCorrupted` for an unreadable state; the errors of the log.
pub async fn write(log: Arc<dyn Log>, state: &[u8]) -> Result<()> {
    let manifest = Manifest::open(log)?;
    let state = record::snapshot(state)?;
    manifest.write_snapshot(&state, StatementId(1)).await.map(drop)
}

fn frame(kind: FrameKind, statement: StatementId, number: u64, payload: bytes::Bytes) -> Frame {
    debug_assert!(
        matches!(kind, FrameKind::Manifest | FrameKind::Commit),
        "the manifest has no frames of this kind"
    );
    debug_assert!(statement != StatementId(0) || number == 0, "an edit has several frames");
    Frame {
        kind,
        partition: PartitionId(0),
        chronicle: ChronicleId(0),
        schema_version: SchemaVersion(0),
        statement,
        ticks: TickRange::EMPTY,
        count: 0,
        first_seq: number,
        producer: None,
        payload,
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Shutdown, "the manifest's log was closed")
}

fn lost() -> Error {
    Error::new(ErrorKind::DataCorrupted, "the manifest has lost its beginning")
        .with_hint("restore the directory of the manifest from a backup")
}

/// A written edit must fit its state: a contradiction means damaged data.
fn contradicts(lsn: Lsn, error: &Error) -> Error {
    at(lsn, Error::new(ErrorKind::DataCorrupted, error.message().to_string()))
}

fn at(lsn: Lsn, error: Error) -> Error {
    let located = Error::new(error.kind(), format!("manifest, lsn {lsn}: {}", error.message()));
    match error.hint() {
        Some(hint) => located.with_hint(hint.to_string()),
        None => located.with_hint("restore the directory of the manifest from a backup"),
    }
}

#[cfg(test)]
mod tests;
