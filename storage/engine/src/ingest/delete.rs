//! DELETE: removes events only from one end of a chronicle (F22).
//!
//! ```text
//!   check: nothing on one side ─► Delete frame durable ─► fence published ─► count
//!                                                          └► batches at the edge rewritten
//! ```
//! The frame holds the positions of the deleted events, as known before the write, for readers in
//! the order of commits (payload; empty in older journals):
//! ```text
//!   0  looked at up to this gsn    8  first gsn    16  gsn behind the last    little-endian
//! ```

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use stratalog_model::{
    BoxFuture, ChronicleDefinition, ChronicleId, Error, ErrorKind, Frame, FrameKind, Gsn, GsnRange,
    Lsn, PartitionId, Result, SchemaVersion, StatementId, Tick, TickRange, store::PreparedDelete,
};
use tokio::sync::oneshot;

use crate::{
    engine::Core,
    events::batch::MemoryBatch,
    ingest::{
        chronicle::{Chronicle, DeleteReservation},
        outcome::{Outcome, OutcomeEnd},
    },
    version::{
        Fence, Version, compact,
        published_versions::PinnedVersion,
        survey::{SurveyArea, VisibleEvents},
    },
};

pub mod deletion;
pub mod trim;

/// Bytes of the payload.
const PAYLOAD_BYTES: usize = 24;

/// A prepared delete of a range of ticks, without a frame in the log yet. `None` if no event is in
/// the range.
pub struct PreparedRange(Option<RangeDelete>);

struct RangeDelete {
    core: Arc<Core>,
    definition: Arc<ChronicleDefinition>,
    chronicle: Arc<Chronicle>,
    range: TickRange,
    positions: SurveyedPositions,
    visible_events: VisibleEvents,
    reservation: Option<DeleteReservation>,
}

/// Prepares a delete of the events with ticks in `range`. Waits for uncommitted merges with these
/// events.
///
/// # Errors
/// `FeatureNotSupported` with events on both sides of `range`; `DeadlockDetected`; `DataCorrupted`,
/// `Io`, `ConnectionFailure` when pieces cannot be read.
pub async fn prepare(
    core: Arc<Core>,
    definition: Arc<ChronicleDefinition>,
    range: TickRange,
) -> Result<PreparedRange> {
    let mut found = find(core, definition, range).await?;
    if let Some(delete) = &mut found {
        delete.reservation = reserve(&delete.core, &delete.chronicle, range).await?;
    }
    Ok(PreparedRange(found))
}

/// Deletes expired events: the events with ticks in `range`, which is older than the retention. Does
/// not wait for merges: an event that merges with an expired event has the same tick, and the next
/// call deletes the merged event. Returns the number of deleted events.
///
/// # Errors
/// The errors of [`prepare`] except `DeadlockDetected`; the errors of the log.
pub async fn expire(
    core: Arc<Core>,
    definition: Arc<ChronicleDefinition>,
    range: TickRange,
) -> Result<u64> {
    Box::new(PreparedRange(find(core, definition, range).await?)).carry_out().await
}

/// Reserves the ticks of a delete outside of an append.
async fn reserve(
    core: &Core,
    chronicle: &Arc<Chronicle>,
    ticks: TickRange,
) -> Result<Option<DeleteReservation>> {
    let outcome = Outcome::new(core.next_statement().0);
    let ending = OutcomeEnd(Arc::clone(&outcome));
    let reservation = chronicle.reserve_delete(ticks, &outcome, &core.wait_graph).await?;
    Ok(reservation.map(|reservation| reservation.ending(ending)))
}

/// The delete of `range`, without a reservation; `None` without an event to delete.
async fn find(
    core: Arc<Core>,
    definition: Arc<ChronicleDefinition>,
    range: TickRange,
) -> Result<Option<RangeDelete>> {
    let published = core.published();
    let Some(pinned) = published.versions.get(&definition.id) else { return Ok(None) };
    let found = |range: TickRange| survey(&pinned.version, range, published.gsn);
    let before = found(TickRange::new(Tick::MIN, range.start)).await?.rows;
    let after = found(TickRange::new(range.end, Tick::END)).await?.rows;
    if before > 0 && after > 0 {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!(
                "DELETE can only remove events from the beginning or the end of \"{}\"",
                definition.name
            ),
        )
        .with_detail(format!("{before} events are before the range and {after} events are after the range"))
        .with_hint("a chronicle is append-only: extend the range to the beginning or the end of the chronicle"));
    }
    let visible_events =
        if range.is_empty() { VisibleEvents::NOTHING } else { found(range).await? };
    if visible_events.rows == 0 {
        return Ok(None);
    }
    let chronicle = Arc::clone(&pinned.chronicle);
    let positions = SurveyedPositions { through: published.gsn, gsns: visible_events.gsns };
    drop(published);
    let reservation = None;
    Ok(Some(RangeDelete {
        core,
        definition,
        chronicle,
        range,
        positions,
        visible_events,
        reservation,
    }))
}

impl PreparedDelete for PreparedRange {
    fn carry_out(self: Box<Self>) -> BoxFuture<'static, Result<u64>> {
        Box::pin(async move {
            match self.0 {
                Some(delete) => delete.carry_out().await,
                None => Ok(0),
            }
        })
    }
}

impl RangeDelete {
    async fn carry_out(self) -> Result<u64> {
        let Self { core, definition, chronicle, range, positions, visible_events, reservation } =
            self;
        let kind = (FrameKind::Delete, definition.schema_version);
        let frame =
            Frame { payload: positions.encode(), ticks: range, ..frame(definition.id, kind) };
        let raising = Arc::clone(&chronicle);
        let raise = move |core: &Core| {
            let _reservation = reservation;
            raise_fence(core, &raising, range, Some(positions))
        };
        let deleted = submit(&core, &definition, frame, raise).await?;
        let found = survey(&deleted.version, range, deleted.fence.gsn).await;
        drop(deleted);
        free(&core, &chronicle)?;
        // The events are deleted, even if the second count fails.
        Ok(found.unwrap_or(visible_events).rows)
    }
}

async fn survey(version: &Version, ticks: TickRange, visible: Gsn) -> Result<VisibleEvents> {
    version.survey(SurveyArea { ticks, gsns: GsnRange::ALL }, visible).await
}

/// Writes the frame of a delete, and carries out the delete after the frame is durable.
async fn submit<T: Send + 'static>(
    core: &Arc<Core>,
    definition: &ChronicleDefinition,
    frame: Frame,
    raise: impl FnOnce(&Core) -> T + Send + 'static,
) -> Result<T> {
    let reservation = core.log.reserve(frame.payload.len()).await?;
    let (sender, receiver) = oneshot::channel();
    if crate::sabotage::active("delete-unlogged") {
        let _ = sender.send(Ok(raise(core)));
    } else {
        let raising = Arc::clone(core);
        let done = Box::new(move |result: Result<Lsn>| {
            let _ = sender.send(result.map(|_| raise(&raising)));
        });
        core.log.submit(frame, reservation, definition.durability, done);
    }
    receiver.await.map_err(|_| {
        Error::new(ErrorKind::Shutdown, "the log was closed before it stored the DELETE")
    })?
}

/// The positions of the events of a DELETE, in the form of its frame.
#[derive(Debug, Clone, Copy)]
pub struct SurveyedPositions {
    /// Highest gsn of the survey: later events were not counted.
    through: Gsn,
    gsns: GsnRange,
}

impl SurveyedPositions {
    /// The positions of the visible events of `ticks`.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure` when pieces cannot be read.
    pub async fn now(core: &Core, chronicle: ChronicleId, ticks: TickRange) -> Result<Self> {
        let published = core.published();
        let through = published.gsn;
        let gsns = match published.versions.get(&chronicle) {
            Some(pinned) => survey(&pinned.version, ticks, through).await?.gsns,
            None => GsnRange::EMPTY,
        };
        Ok(Self { through, gsns })
    }

    /// The payload of the frame.
    pub fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(PAYLOAD_BYTES);
        out.put_u64_le(self.through.0);
        out.put_u64_le(self.gsns.start.0);
        out.put_u64_le(self.gsns.end.0);
        out.freeze()
    }

    /// The positions in a frame; `None` for a frame of an older version without positions.
    ///
    /// # Errors
    /// `DataCorrupted`.
    fn of(frame: &Frame) -> Result<Option<Self>> {
        let mut bytes = frame.payload.clone();
        match bytes.len() {
            0 => Ok(None),
            PAYLOAD_BYTES => {
                let through = Gsn(bytes.get_u64_le());
                let gsns = GsnRange::new(Gsn(bytes.get_u64_le()), Gsn(bytes.get_u64_le()));
                Ok(Some(Self { through, gsns }))
            }
            other => Err(Error::new(
                ErrorKind::DataCorrupted,
                format!("what a DELETE says of its events has {other} bytes"),
            )),
        }
    }
}

/// The version before a delete, and the fence of the delete.
struct DeletedVersion {
    version: Arc<Version>,
    fence: Fence,
}

fn raise_fence(
    core: &Core,
    chronicle: &Arc<Chronicle>,
    ticks: TickRange,
    positions: Option<SurveyedPositions>,
) -> DeletedVersion {
    core.change(|gsn| {
        let (pinned, deleted) = fence_off(chronicle, ticks, positions, gsn);
        (Some(pinned), deleted)
    })
}

/// Hides the events of `ticks` committed at or before `gsn`, the highest committed gsn. Only under
/// the publisher's lock.
fn fence_off(
    chronicle: &Arc<Chronicle>,
    ticks: TickRange,
    positions: Option<SurveyedPositions>,
    gsn: Gsn,
) -> (PinnedVersion, DeletedVersion) {
    let fence = Fence { ticks, gsn, raised: None };
    let (before, version) =
        chronicle.delete(fence, |version| fenced_positions(version, fence, positions));
    let pinned = PinnedVersion { chronicle: Arc::clone(chronicle), version };
    (pinned, DeletedVersion { version: before, fence })
}

/// The positions of the events deleted by a fence: the known positions, the positions in memory,
/// and the later positions of the pieces that overlap the fence.
fn fenced_positions(
    version: &Version,
    fence: Fence,
    positions: Option<SurveyedPositions>,
) -> GsnRange {
    let looked_at = positions.map_or(Gsn(0), |positions| positions.through);
    let in_memory =
        version.survey_memory(SurveyArea { ticks: fence.ticks, gsns: GsnRange::ALL }, fence.gsn);
    let later = GsnRange::between(Gsn(looked_at.0 + 1), fence.gsn);
    let filed = version.pieces().iter().filter(|piece| fence.ticks.overlaps(&piece.record().ticks));
    let filed = filed.map(|piece| piece.gsns().intersect(&later));
    let positions = positions.map_or(GsnRange::EMPTY, |positions| positions.gsns);
    filed.fold(positions.hull(&in_memory.gsns), |hull, gsns| hull.hull(&gsns))
}

/// Applies a replayed Delete frame.
///
/// # Errors
/// `DataCorrupted`.
pub fn replay(core: &Core, chronicle: &Arc<Chronicle>, frame: &Frame) -> Result<()> {
    raise_fence(core, chronicle, frame.ticks, SurveyedPositions::of(frame)?);
    Ok(())
}

/// Rewrites the batches cut by a fence. The memory of the deleted events becomes free when no
/// snapshot needs the events; the fence becomes idle.
///
/// # Errors
/// The errors of a merge: defects of the engine.
pub fn free(core: &Core, chronicle: &Arc<Chronicle>) -> Result<()> {
    loop {
        // Read first: every snapshot of the version below has at least this gsn.
        let snapshot_gsn = core.published().gsn;
        let version = Arc::clone(&chronicle.state().version);
        // Batches moving into pieces are not copied again.
        let stays = |batch: &&Arc<MemoryBatch>| batch.first_gsn() > chronicle.leaving();
        let cut = version.batches().filter(stays).find(|batch| {
            version.fences().iter().any(|fence| {
                let behind = batch.rows_through(fence.gsn.0);
                batch.hull().overlaps(&fence.ticks)
                    && batch.ticks().iter().take(behind).any(|t| fence.ticks.contains(Tick(*t)))
            })
        });
        let Some(cut) = cut else { return Ok(()) };
        let old = [Arc::clone(cut)];
        let merged = compact::merge(&old, version.fences(), snapshot_gsn, &core.budget)?;
        // Another thread may have merged the batch meanwhile: look again.
        core.replace(chronicle, &old, merged);
    }
}

/// A frame of a chronicle, without content.
fn frame(chronicle: ChronicleId, (kind, schema_version): (FrameKind, SchemaVersion)) -> Frame {
    Frame {
        kind,
        partition: PartitionId(0),
        chronicle,
        schema_version,
        statement: StatementId(0),
        ticks: TickRange::EMPTY,
        count: 0,
        first_seq: 0,
        producer: None,
        payload: Bytes::new(),
    }
}
