//! The manifest: a log of edits that records the owner of each event (CL-2, CL-3).
//!
//! ```text
//!   edit ─► checked against the state ─► record ─► log ─► durable ─► new state
//!       one at a time ────────────────────────────────────────┘
//!
//!   log:  edit edit edit … │ snapshot │ edit edit …        segments before the last snapshot
//!                          └ one statement of frames       are released
//! ```
//! The journal owns the events of a chronicle with a gsn above [`OwnedEvents::through`], and pieces
//! (tablets and stories) own the events up to this gsn. One edit moves this border and names the
//! new pieces. For the engine, a file that the state does not name does not exist.

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

/// Minimum number of edits after which a snapshot of the state is written.
const EDITS_MIN: usize = 256;

/// Maximum bytes of one frame of a snapshot.
const SNAPSHOT_FRAME_BYTES: usize = 256 << 10;

/// The manifest; see the module's comment.
#[derive(Debug)]
pub struct Manifest {
    log: Arc<dyn Log>,
    current: Arc<Mutex<CurrentState>>,
    /// The lock of edits, held from the check of an edit until the edit is durable.
    turn: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Debug)]
struct CurrentState {
    state: Arc<ManifestState>,
    /// Number of edits since the last snapshot.
    edits: usize,
    /// Statement id of the last snapshot; counts the snapshots.
    snapshots: u64,
}

impl Manifest {
    /// Opens the manifest: replays its log.
    ///
    /// # Errors
    /// `DataCorrupted` if a record cannot be decoded, contradicts earlier records, or is missing;
    /// the errors of the log.
    pub fn open(log: Arc<dyn Log>) -> Result<Self> {
        let mut replay = ManifestReplay::new(log.status().first <= Lsn(1));
        log.replay(&mut |lsn, frame| replay.frame(lsn, frame))?;
        let (edits, snapshots) = (replay.edits, replay.snapshots);
        let state = replay.finish()?;
        let current = CurrentState { state: Arc::new(state), edits, snapshots };
        Ok(Self { log, current: Arc::new(Mutex::new(current)), turn: Arc::default() })
    }

    /// The current state. A returned state never changes.
    pub fn state(&self) -> Arc<ManifestState> {
        Arc::clone(&self.current.lock().state)
    }

    /// Makes an edit durable, applies it to the state, and then calls `publish`, all before the
    /// next edit. `publish` runs on the log's thread and must not block. If the returned future is
    /// dropped, the edit is either fully applied or not at all.
    ///
    /// # Errors
    /// `Internal` if the edit contradicts the state; the errors of the log. After an error nothing
    /// has changed, unless the log was closed.
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

    /// After many edits, writes a snapshot of the state, and releases the log before the snapshot.
    /// The caller must hold `turn`.
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
            // Not fatal: the edits in the log have the same content.
            Err(error) => tracing::warn!(%error, "cannot write a snapshot of the manifest"),
        }
    }

    /// Writes a snapshot; returns the lsn of its first frame.
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

/// Builds the state by a replay of the records of a manifest's log.
#[derive(Debug)]
pub struct ManifestReplay {
    /// The state so far; `None` if the log has lost its beginning and no snapshot was read yet.
    state: Option<ManifestState>,
    /// Number of edits since the last snapshot.
    edits: usize,
    /// Statement id of the last snapshot; counts the snapshots.
    snapshots: u64,
    /// Payloads of the snapshot that is being read.
    parts: Vec<bytes::Bytes>,
}

impl ManifestReplay {
    /// Starts a replay. `whole` is true if the log still has its first record.
    pub fn new(whole: bool) -> Self {
        let state = whole.then(ManifestState::default);
        Self { state, edits: 0, snapshots: 0, parts: Vec::new() }
    }

    /// Applies the next frame of the log.
    ///
    /// # Errors
    /// `DataCorrupted` if the record cannot be decoded, or contradicts earlier records.
    pub fn frame(&mut self, lsn: Lsn, frame: Frame) -> Result<()> {
        if frame.statement == StatementId(0) {
            let edit = record::edit(&frame.payload).map_err(|error| at(lsn, error))?;
            // Without a state, the edit is skipped: the first snapshot contains it.
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
                // The first frame of a snapshot: drops the frames of an earlier, incomplete
                // snapshot.
                if frame.first_seq == 0 {
                    self.parts.clear();
                }
                self.parts.push(frame.payload);
            }
        }
        Ok(())
    }

    /// Ends the replay, and returns the state.
    ///
    /// # Errors
    /// `DataCorrupted` if the log has lost its beginning and has no snapshot.
    pub fn finish(self) -> Result<ManifestState> {
        self.state.ok_or_else(lost)
    }
}

/// Encodes a state as the payload of a snapshot.
///
/// # Errors
/// `Internal`.
pub fn encode(state: &ManifestState) -> Result<Vec<u8>> {
    record::of_snapshot(state)
}

/// Writes an encoded state as the first snapshot of an empty log.
///
/// # Errors
/// `DataCorrupted` if the state cannot be decoded; the errors of the log.
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

/// The error for an edit in the log that contradicts the state: the data is damaged.
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
