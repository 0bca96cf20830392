//! TRIM: deletes the beginning of a chronicle, by position in the log (F103).
//!
//! ```text
//!   events up to a gsn: how many, and their ticks ─► Trim frame durable ─► fence published
//!                                    fence: those ticks, up to that gsn
//! ```
//! Later events have a higher gsn: the fence hides exactly the counted events, at any time of
//! durability of the frame. A fence with narrow ticks adds no cost to reads of other ticks.

use std::sync::Arc;

use bytes::Bytes;
use stratalog_model::{
    ChronicleDefinition, Error, ErrorKind, Frame, FrameKind, Gsn, GsnRange, Result, TickRange,
};

use super::{frame, free, reserve, submit};
use crate::{
    engine::Core,
    keeper::chronicle::Chronicle,
    version::{Fence, published_versions::PinnedVersion, survey::SurveyArea},
};

/// Deletes the events of a chronicle with a gsn below `before`. Returns the number of deleted
/// events.
///
/// # Errors
/// `InvalidParameterValue` for a position beyond the end of the log; the errors of the log.
pub async fn trim(
    core: Arc<Core>,
    definition: Arc<ChronicleDefinition>,
    before: Gsn,
) -> Result<u64> {
    let published = core.published();
    let head = published.gsn;
    // TRIM cannot tell events committed later from events to keep.
    if before.0 > head.0.saturating_add(1) {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("TRIM before gsn {before}: the log ends at gsn {head}"),
        )
        .with_hint(format!("TRIM … BEFORE GSN {} removes all events", head.0 + 1)));
    }
    let Some(pinned) = published.versions.get(&definition.id) else { return Ok(0) };
    let area = SurveyArea { ticks: TickRange::ALL, gsns: GsnRange::new(Gsn(0), before) };
    let found = pinned.version.survey(area, head).await?;
    let chronicle = Arc::clone(&pinned.chronicle);
    drop(published);
    if found.rows == 0 {
        return Ok(0);
    }
    let reservation = reserve(&core, &chronicle, found.ticks).await?;
    let through = Gsn(before.0 - 1);
    let payload = Bytes::copy_from_slice(&through.0.to_le_bytes());
    let kind = (FrameKind::Trim, definition.schema_version);
    let frame = Frame { payload, ticks: found.ticks, ..frame(definition.id, kind) };
    let raising = Arc::clone(&chronicle);
    let raise = move |core: &Core| {
        let _reservation = reservation;
        raise_fence(core, &raising, found.ticks, through);
    };
    submit(&core, &definition, frame, raise).await?;
    free(&core, &chronicle)?;
    Ok(found.rows)
}

fn raise_fence(core: &Core, chronicle: &Arc<Chronicle>, ticks: TickRange, through: Gsn) {
    core.change(|gsn| {
        let fence = Fence { ticks, gsn: through, raised: Some(gsn) };
        let gone = GsnRange::between(Gsn(1), through);
        let (_, version) = chronicle.delete(fence, |_| gone);
        (Some(PinnedVersion { chronicle: Arc::clone(chronicle), version }), ())
    });
}

/// Applies a replayed Trim frame.
///
/// # Errors
/// `DataCorrupted` for a frame without a gsn.
pub fn replay(core: &Core, chronicle: &Arc<Chronicle>, frame: &Frame) -> Result<()> {
    raise_fence(core, chronicle, frame.ticks, frame.trims()?);
    Ok(())
}
