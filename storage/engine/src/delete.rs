//! DELETE: events go from one end of a chronicle only (F22).
//!
//! ```text
//!   check: nothing on one side ─► Delete frame durable ─► fence published ─► count
//!                                                          └► batches at the edge rewritten
//! ```

use std::sync::Arc;

use bytes::Bytes;
use stratalog_model::{
    ChronicleDefinition, Error, ErrorKind, Frame, FrameKind, Gsn, Lsn, PartitionId, Result,
    StatementId, Tick, TickRange, TickRanges,
};
use tokio::sync::oneshot;

use crate::{
    engine::Core,
    keeper::chronicle::Chronicle,
    memtable::{batch::MemoryBatch, compact},
    version::{Fence, Version, published::Pinned},
};

/// Deletes the events with ticks in `range` that are committed when the frame is durable.
/// Returns how many that were.
///
/// # Errors
/// `FeatureNotSupported` when there are events on both sides of `range`; those of the log.
pub async fn delete(
    core: Arc<Core>,
    definition: Arc<ChronicleDefinition>,
    range: TickRange,
) -> Result<u64> {
    let published = core.published();
    let Some(pinned) = published.versions.get(&definition.id) else { return Ok(0) };
    let rows = |range: TickRange| count(&pinned.version, range, published.gsn);
    let before = rows(TickRange::new(Tick::MIN, range.start)).await?;
    let after = rows(TickRange::new(range.end, Tick::END)).await?;
    if before > 0 && after > 0 {
        return Err(Error::new(
            ErrorKind::FeatureNotSupported,
            format!(
                "DELETE can only remove events from the beginning or the end of \"{}\"",
                definition.name
            ),
        )
        .with_detail(format!("{before} events lie before the range and {after} behind it"))
        .with_hint("a chronicle is append-only: extend the range to one of its ends"));
    }
    let there = if range.is_empty() { 0 } else { rows(range).await? };
    if there == 0 {
        return Ok(0);
    }
    let chronicle = Arc::clone(&pinned.chronicle);
    drop(published);

    let reservation = core.log.reserve(0).await?;
    let (sender, receiver) = oneshot::channel();
    let frame = frame(&definition, range);
    if crate::sabotage::active("delete-unlogged") {
        let _ = sender.send(Ok(raise_fence(&core, &chronicle, range)));
    } else {
        let (raising, chronicle) = (Arc::clone(&core), Arc::clone(&chronicle));
        let done = Box::new(move |result: Result<Lsn>| {
            let _ = sender.send(result.map(|_| raise_fence(&raising, &chronicle, range)));
        });
        core.log.submit(frame, reservation, definition.durability, done);
    }
    let deleted = receiver.await.map_err(|_| {
        Error::new(ErrorKind::Shutdown, "the log was closed before it stored the DELETE")
    })??;
    let count = count(&deleted.version, range, deleted.fence.gsn).await;
    drop(deleted);
    free(&core, &chronicle)?;
    // They are deleted, whether or not those that came meanwhile can be counted.
    Ok(count.unwrap_or(there))
}

/// How many events with ticks in `range` a version has, those in pieces included.
async fn count(version: &Version, range: TickRange, visible: Gsn) -> Result<u64> {
    let ranges = TickRanges::from(range);
    let filed = version.pieces().count(&ranges, version.fences(), visible).await?;
    Ok(version.extent(&ranges, visible).rows + filed)
}

/// What a delete found.
struct Deleted {
    version: Arc<Version>,
    fence: Fence,
}

fn raise_fence(core: &Core, chronicle: &Arc<Chronicle>, ticks: TickRange) -> Deleted {
    core.change(|gsn| {
        let fence = Fence { ticks, gsn };
        let (before, version) = chronicle.delete(fence);
        let pinned = Pinned { chronicle: Arc::clone(chronicle), version };
        (Some(pinned), Deleted { version: before, fence })
    })
}

/// Applies a replayed Delete frame.
pub fn replay(core: &Core, chronicle: &Arc<Chronicle>, ticks: TickRange) {
    raise_fence(core, chronicle, ticks);
}

/// Rewrites the batches that a fence cuts, so that what was deleted is freed once no
/// snapshot needs it; then nobody needs the fence any more.
///
/// # Errors
/// Those of merging, which are defects.
pub fn free(core: &Core, chronicle: &Arc<Chronicle>) -> Result<()> {
    loop {
        // Read first: every snapshot of the version below has at least this gsn.
        let shown = core.published().gsn;
        let version = Arc::clone(&chronicle.state().version);
        // Those that are about to leave are not copied again.
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
        let merged = compact::merge(&old, version.fences(), shown, &core.budget)?;
        // Somebody else merged it meanwhile: look again.
        core.replace(chronicle, &old, merged);
    }
}

fn frame(definition: &ChronicleDefinition, ticks: TickRange) -> Frame {
    Frame {
        kind: FrameKind::Delete,
        partition: PartitionId(0),
        chronicle: definition.id,
        schema_version: definition.schema_version,
        statement: StatementId(0),
        ticks,
        count: 0,
        first_seq: 0,
        producer: None,
        payload: Bytes::new(),
    }
}
