//! The last step of recovery: applies the frames in log order, and makes the committed events
//! visible.

use std::sync::{Arc, mpsc::Receiver};

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use stratalog_model::{
    Decision, Durability, Error, ErrorKind, Frame, FrameKind, Log, Lsn, Result, StatementId,
};
use tokio::sync::oneshot;

use super::{DecodedFrame, RecoveryTarget, stopped, wait};
use crate::{
    events::batch::{MemoryBatch, Run},
    ingest::{
        chronicle::Chronicle,
        chunk::commit_frame,
        delete::{self, trim},
    },
    version::{compact::batch_bytes, published_versions::PinnedVersion},
};

/// Frames without a commit frame so far may use `1 / OPEN_SHARE` of the memory budget. Beyond this,
/// a second pass over the log finds the committed statements.
const OPEN_SHARE: u64 = 16;

/// The state of the last step of recovery.
struct Applier<'a> {
    target: RecoveryTarget<'a>,
    gsn: u64,
    /// Frames of statements that have no commit frame so far.
    open: HashMap<StatementId, Vec<DecodedFrame>, RandomState>,
    /// Bytes of the payloads in `open`.
    open_bytes: usize,
    /// The statements that have a commit frame or that the decision names; `None` before the second
    /// pass over the log.
    committed: Option<HashSet<StatementId, RandomState>>,
    /// The catalog's last decision.
    decision: Option<&'a Decision>,
    /// Number of dropped events, whose statements have no commit frame.
    dropped_rows: u64,
    /// Chronicles whose new versions are not published yet, and the number of their new batches.
    unpublished: Vec<Arc<Chronicle>>,
    unpublished_batches: usize,
}

/// Applies all frames. Returns the commit frame to write for a decided append, if it is missing in
/// the log.
pub fn apply_all(
    target: RecoveryTarget<'_>,
    parcels: Receiver<Vec<DecodedFrame>>,
    gsn: u64,
    decision: Option<&Decision>,
) -> Result<Option<Frame>> {
    let mut applier = Applier {
        target,
        gsn,
        open: HashMap::default(),
        open_bytes: 0,
        committed: None,
        decision,
        dropped_rows: 0,
        unpublished: Vec::new(),
        unpublished_batches: 0,
    };
    for decoded in parcels.into_iter().flatten() {
        applier.apply(decoded)?;
    }
    let unwritten = applier.complete()?;
    if crate::sabotage::active("visible-before-commit") {
        for (_, frames) in std::mem::take(&mut applier.open) {
            frames.into_iter().try_for_each(|decoded| applier.commit(decoded))?;
        }
    }
    applier.publish();
    applier.dropped_rows += rows_of(applier.open.values().flatten());
    if applier.dropped_rows > 0 {
        tracing::info!(
            rows = applier.dropped_rows,
            "events of rolled back or unfinished statements are dropped"
        );
    }
    Ok(unwritten)
}

impl Applier<'_> {
    fn apply(&mut self, decoded: DecodedFrame) -> Result<()> {
        let frame = &decoded.frame;
        self.target.keeper.seen_statement(frame.statement);
        if let Some(chronicle) = &decoded.chronicle {
            chronicle.seen_seq(frame.first_seq + u64::from(frame.count));
        }
        let producer = frame.producer.filter(|_| frame.commits());
        match frame.kind {
            FrameKind::Events if frame.commits() => self.commit(decoded)?,
            FrameKind::Events => self.buffer_frame(decoded)?,
            FrameKind::Commit | FrameKind::Transaction => {
                self.commit_statements(frame.completes()?)?;
            }
            FrameKind::StatementDelete if !crate::sabotage::active("delete-uncommitted") => {
                self.buffer_frame(decoded)?;
            }
            FrameKind::Delete | FrameKind::StatementDelete => self.delete(&decoded)?,
            FrameKind::Trim => {
                self.publish();
                if let Some(chronicle) = &decoded.chronicle {
                    trim::replay(&self.target.keeper.publisher, chronicle, frame)?;
                }
            }
            FrameKind::Catalog | FrameKind::Manifest => {}
        }
        if let Some((producer, number)) = producer {
            self.target.keeper.producers.lock().committed(producer, number);
        }
        Ok(())
    }

    fn commit_statements(&mut self, statements: Vec<StatementId>) -> Result<()> {
        for statement in statements {
            for decoded in self.open.remove(&statement).unwrap_or_default() {
                debug_assert!(
                    decoded.frame.payload.len() <= self.open_bytes,
                    "the payload is larger than all open frames"
                );
                self.open_bytes -= decoded.frame.payload.len();
                self.commit(decoded)?;
            }
        }
        self.assert_consistent();
        Ok(())
    }

    /// Commits the statements of the catalog's decision, if the log has no commit frame for them.
    /// Returns the missing frame.
    ///
    /// # Errors
    /// `DataCorrupted` if the log has only some of these statements.
    fn complete(&mut self) -> Result<Option<Frame>> {
        let decision = self.decision.filter(|_| !crate::sabotage::active("decision-ignored"));
        let Some(Decision { statements, rows }) = decision else { return Ok(None) };
        let Some((first, others)) = statements.split_first() else { return Ok(None) };
        let held = || statements.iter().filter_map(|statement| self.open.get(statement));
        if held().next().is_none() {
            return Ok(None);
        }
        let (found, found_rows) = (held().count(), rows_of(held().flatten()));
        if found < statements.len() || found_rows != *rows {
            return Err(Error::new(
                ErrorKind::DataCorrupted,
                format!(
                    "the journal has {found_rows} of {rows} rows, and {found} of {} statements from \
                     number {first} on, of a transaction with a decision in the catalog",
                    statements.len()
                ),
            )
            .with_hint("restore the directories of journal and catalog from one backup"));
        }
        tracing::info!(
            statements = statements.len(),
            rows,
            "recovery commits a transaction that was decided in the catalog before the crash"
        );
        self.commit_statements(statements.clone())?;
        Ok(Some(commit_frame(*first, others, None)))
    }

    /// Keeps a frame in memory until the commit frame of its statement.
    fn buffer_frame(&mut self, decoded: DecodedFrame) -> Result<()> {
        let statement = decoded.frame.statement;
        if self.committed.as_ref().is_some_and(|committed| !committed.contains(&statement)) {
            self.dropped_rows += rows_of([&decoded]);
            return Ok(());
        }
        self.open_bytes += decoded.frame.payload.len();
        self.open.entry(statement).or_default().push(decoded);
        let bytes_max = self.target.keeper.budget.bytes_max() / OPEN_SHARE;
        let enough = self.open_bytes as u64 > bytes_max;
        if self.committed.is_none() && enough && !crate::sabotage::active("visible-before-commit") {
            let mut committed = committed_statements(self.target.keeper.log.as_ref())?;
            let decided = self.decision.into_iter().flat_map(|decision| &decision.statements);
            committed.extend(decided.copied());
            let without = self.open.extract_if(|statement, _| !committed.contains(statement));
            let without: Vec<DecodedFrame> = without.flat_map(|(_, frames)| frames).collect();
            self.dropped_rows += rows_of(&without);
            self.open_bytes -= without.iter().map(|d| d.frame.payload.len()).sum::<usize>();
            self.committed = Some(committed);
        }
        self.assert_consistent();
        Ok(())
    }

    fn assert_consistent(&self) {
        debug_assert!(
            !self.open.is_empty() || self.open_bytes == 0,
            "bytes of frames that are gone"
        );
    }

    /// Applies a delete: raises a fence over the committed events that the frame names.
    fn delete(&mut self, decoded: &DecodedFrame) -> Result<()> {
        self.publish();
        match &decoded.chronicle {
            Some(chronicle) => {
                delete::replay(&self.target.keeper.publisher, chronicle, &decoded.frame)
            }
            None => Ok(()),
        }
    }

    fn commit(&mut self, decoded: DecodedFrame) -> Result<()> {
        if decoded.frame.kind == FrameKind::StatementDelete {
            return self.delete(&decoded);
        }
        let DecodedFrame { frame, chronicle, events } = decoded;
        debug_assert_eq!(frame.kind, FrameKind::Events, "a commit of no events");
        let first_gsn = self.gsn + 1;
        self.gsn += u64::from(frame.count);
        let (Some(chronicle), Some(events)) = (chronicle, events) else { return Ok(()) };
        if self.gsn <= chronicle.leaving() {
            // Pieces own these events already.
            return Ok(());
        }
        let events = events?;
        let bytes = batch_bytes(frame.payload.len(), events.ticks.len(), events.columns.len());
        let run = Run { row: 0, seq: frame.first_seq, gsn: first_gsn };
        let batch = MemoryBatch::new(
            events.shape,
            events.columns,
            events.ticks,
            vec![run],
            self.target.keeper.budget.claim_anyway(bytes),
        );
        let sealed = self.target.keeper.settings.compaction_rows_max;
        let blocking_pool = self.target.blocking_pool;
        chronicle.replay(batch, &events.groups, frame.first_seq, sealed, blocking_pool)?;
        if !self.unpublished.iter().any(|known| Arc::ptr_eq(known, &chronicle)) {
            self.unpublished.push(chronicle);
        }
        self.unpublished_batches += 1;
        if self.unpublished_batches >= self.target.keeper.settings.compaction_fan_in {
            self.publish();
        }
        Ok(())
    }

    /// Makes the applied events visible, and merges small batches before there are too many.
    fn publish(&mut self) {
        self.unpublished_batches = 0;
        self.target.keeper.publisher.set_committed(self.gsn);
        let versions = self.unpublished.drain(..).map(|chronicle| {
            let version = Arc::clone(&chronicle.state().version);
            PinnedVersion { chronicle, version }
        });
        self.target.keeper.publisher.show(self.gsn, versions.collect::<Vec<_>>());
        self.target.keeper.publisher.tidy();
    }
}

fn rows_of<'a>(frames: impl IntoIterator<Item = &'a DecodedFrame>) -> u64 {
    frames.into_iter().map(|decoded| u64::from(decoded.frame.count)).sum()
}

/// Reads the log, and returns all statements that have a commit frame.
fn committed_statements(log: &dyn Log) -> Result<HashSet<StatementId, RandomState>> {
    let mut statements = HashSet::default();
    log.replay(&mut |_, frame| {
        statements.extend(frame.completes()?);
        Ok(())
    })?;
    Ok(statements)
}

/// Writes a frame, and waits until the frame is on disk.
pub fn write(target: RecoveryTarget<'_>, frame: Frame) -> Result<()> {
    debug_assert!(frame.commits(), "the frame commits nothing");
    wait(target.blocking_pool, async {
        let log = &target.keeper.log;
        let reservation = log.reserve(frame.payload.len()).await?;
        let (sender, receiver) = oneshot::channel();
        let done = Box::new(move |result: Result<Lsn>| drop(sender.send(result)));
        log.submit(frame, reservation, Durability::Disk, done);
        receiver.await.unwrap_or_else(|_| Err(stopped())).map(drop)
    })
}
