//! DELETE of a range of ticks. The range must be at one end of the chronicle (F22).
//!
//! ```text
//!   check: no event on one side ─► Delete frame durable ─► fence published ─► count
//!                                                          └► partly deleted batches rewritten
//! ```

pub mod deletion;
mod fence;
pub mod trim;

use std::sync::Arc;

use stratalog_model::{
    BoxFuture, ChronicleDefinition, Error, ErrorKind, Frame, FrameKind, Lsn, Result, Tick,
    TickRange, store::PreparedDelete,
};
use tokio::sync::oneshot;

use self::{
    deletion::Deletion,
    fence::{DeletedVersion, SurveyedPositions, fence_off, frame, survey},
};
use super::{
    chronicle::{Chronicle, DeleteReservation},
    keeper::Keeper,
    outcome::{Outcome, OutcomeEnd},
};
use crate::{
    events::batch::MemoryBatch,
    version::{compact, publisher::Publisher, survey::VisibleEvents},
};

/// A prepared delete of a range of ticks. The log has no frame of the delete yet. `None` if the
/// range contains no event.
pub struct PreparedRange(Option<RangeDelete>);

struct RangeDelete {
    keeper: Arc<Keeper>,
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
/// `FeatureNotSupported` if events exist both before and after `range`; `DeadlockDetected`;
/// `DataCorrupted`, `Io`, `ConnectionFailure` if a read of tablets or stories fails.
pub async fn prepare(
    keeper: Arc<Keeper>,
    definition: Arc<ChronicleDefinition>,
    range: TickRange,
) -> Result<PreparedRange> {
    let mut found = find(keeper, definition, range).await?;
    if let Some(delete) = &mut found {
        delete.reservation = reserve(&delete.keeper, &delete.chronicle, range).await?;
    }
    Ok(PreparedRange(found))
}

/// Deletes expired events: all events with ticks in `range`, which ends where the retention begins.
/// Does not wait for merges: an event that merges with an expired event has the same tick, and the
/// next call deletes the merged event. Returns the number of deleted events.
///
/// # Errors
/// The errors of [`prepare`] except `DeadlockDetected`; the errors of the log.
pub async fn expire(
    keeper: Arc<Keeper>,
    definition: Arc<ChronicleDefinition>,
    range: TickRange,
) -> Result<u64> {
    Box::new(PreparedRange(find(keeper, definition, range).await?)).carry_out().await
}

/// Prepares a delete of `ticks` as a step of an append. Also determines the gsn's of the events to
/// delete.
///
/// # Errors
/// `UndefinedTable` if the chronicle was dropped; `DataCorrupted`, `Io`, `ConnectionFailure` if a
/// read of tablets or stories fails; `DeadlockDetected` if a merge in these ticks waits for the
/// append.
pub async fn within_append(
    keeper: &Keeper,
    definition: &ChronicleDefinition,
    ticks: TickRange,
    outcome: &Arc<Outcome>,
) -> Result<Deletion> {
    debug_assert!(!ticks.is_empty(), "a delete without a tick");
    let chronicle = keeper.publisher.chronicles.chronicle(definition)?;
    let reservation = chronicle.reserve_delete(ticks, outcome, &keeper.wait_graph).await?;
    let published = keeper.publisher.published();
    let positions = SurveyedPositions::now(published, definition.id, ticks).await?;
    Ok(Deletion::new(chronicle, ticks, definition.schema_version, positions, reservation))
}

/// Reserves the ticks of a delete that is not part of an append.
async fn reserve(
    keeper: &Keeper,
    chronicle: &Arc<Chronicle>,
    ticks: TickRange,
) -> Result<Option<DeleteReservation>> {
    let outcome = Outcome::new(keeper.next_statement().0);
    let ending = OutcomeEnd(Arc::clone(&outcome));
    let reservation = chronicle.reserve_delete(ticks, &outcome, &keeper.wait_graph).await?;
    Ok(reservation.map(|reservation| reservation.ending(ending)))
}

/// Determines the events to delete in `range`, without a reservation; `None` if there are none.
async fn find(
    keeper: Arc<Keeper>,
    definition: Arc<ChronicleDefinition>,
    range: TickRange,
) -> Result<Option<RangeDelete>> {
    let published = keeper.publisher.published();
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
    debug_assert!(range.covers(&visible_events.ticks), "an event outside of the range");
    let chronicle = Arc::clone(&pinned.chronicle);
    let positions = SurveyedPositions { through: published.gsn, gsns: visible_events.gsns };
    drop(published);
    let reservation = None;
    Ok(Some(RangeDelete {
        keeper,
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
        let Self { keeper, definition, chronicle, range, positions, visible_events, reservation } =
            self;
        debug_assert!(!range.is_empty(), "a delete without a tick");
        let kind = (FrameKind::Delete, definition.schema_version);
        let frame =
            Frame { payload: positions.encode(), ticks: range, ..frame(definition.id, kind) };
        let raising = Arc::clone(&chronicle);
        let raise = move |publisher: &Publisher| {
            let _reservation = reservation;
            raise_fence(publisher, &raising, range, Some(positions))
        };
        let deleted = submit(&keeper, &definition, frame, raise).await?;
        let found = survey(&deleted.version, range, deleted.fence.gsn).await;
        drop(deleted);
        free(&keeper.publisher, &chronicle)?;
        // The events are deleted even if this second count fails: the first count is then the
        // answer.
        Ok(found.unwrap_or(visible_events).rows)
    }
}

/// Writes the frame of a delete to the log. Once the frame is durable, carries out the delete.
async fn submit<T: Send + 'static>(
    keeper: &Arc<Keeper>,
    definition: &ChronicleDefinition,
    frame: Frame,
    raise: impl FnOnce(&Publisher) -> T + Send + 'static,
) -> Result<T> {
    debug_assert_eq!(frame.chronicle, definition.id, "the frame of another chronicle");
    debug_assert!(frame.commits(), "the frame waits for a commit");
    let reservation = keeper.log.reserve(frame.payload.len()).await?;
    let (sender, receiver) = oneshot::channel();
    if crate::sabotage::active("delete-unlogged") {
        let _ = sender.send(Ok(raise(&keeper.publisher)));
    } else {
        let raising = Arc::clone(&keeper.publisher);
        let done = Box::new(move |result: Result<Lsn>| {
            let _ = sender.send(result.map(|_| raise(&raising)));
        });
        keeper.log.submit(frame, reservation, definition.durability, done);
    }
    receiver.await.map_err(|_| {
        Error::new(ErrorKind::Shutdown, "the log was closed before it stored the DELETE")
    })?
}

fn raise_fence(
    publisher: &Publisher,
    chronicle: &Arc<Chronicle>,
    ticks: TickRange,
    positions: Option<SurveyedPositions>,
) -> DeletedVersion {
    publisher.change(|gsn| {
        let (pinned, deleted) = fence_off(chronicle, ticks, positions, gsn);
        (Some(pinned), deleted)
    })
}

/// Applies a Delete frame found in the journal at a start.
///
/// # Errors
/// `DataCorrupted`.
pub fn replay(publisher: &Publisher, chronicle: &Arc<Chronicle>, frame: &Frame) -> Result<()> {
    debug_assert!(
        matches!(frame.kind, FrameKind::Delete | FrameKind::StatementDelete),
        "the frame does not delete"
    );
    raise_fence(publisher, chronicle, frame.ticks, SurveyedPositions::of(frame)?);
    Ok(())
}

/// Rewrites the batches in memory that a fence partly covers, without their deleted events. The
/// memory of deleted events becomes free when no snapshot needs the events any more. A fence that
/// covers nothing any more is removed.
///
/// # Errors
/// The errors of a merge of batches, which are defects of the engine.
pub fn free(publisher: &Publisher, chronicle: &Arc<Chronicle>) -> Result<()> {
    loop {
        // Read before the version below: every later snapshot of this version has at least this
        // gsn.
        let snapshot_gsn = publisher.published().gsn;
        let version = Arc::clone(&chronicle.state().version);
        // Skips the batches that are moving into tablets: they are not copied again.
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
        let merged = compact::merge(&old, version.fences(), snapshot_gsn, &publisher.budget)?;
        // Another thread may have replaced the batch meanwhile: the loop looks again.
        publisher.replace(chronicle, &old, merged);
    }
}
