//! TRIM: deletes the beginning of a chronicle: all events below a gsn (F103).
//!
//! ```text
//!   events up to a gsn: their number and ticks ─► Trim frame durable ─► fence published
//!                                    fence: those ticks, up to that gsn
//! ```
//! Events committed later have a higher gsn: the fence hides exactly the counted events, no matter
//! when the frame becomes durable. The fence covers only the ticks of these events, and adds no
//! cost to reads of other ticks.

use std::sync::Arc;

use bytes::Bytes;
use stratalog_model::{
    BoxFuture, ChronicleDefinition, Error, ErrorKind, Frame, FrameKind, Gsn, GsnRange, Result,
    TickRange, store::PreparedDelete,
};

use super::{fence::frame, free, reserve, submit};
use crate::{
    ingest::{
        chronicle::{Chronicle, DeleteReservation},
        keeper::Keeper,
    },
    version::{
        fence::Fence, published_versions::PinnedVersion, publisher::Publisher, survey::SurveyArea,
    },
};

/// A prepared TRIM. The log has no frame of the TRIM yet. `None` if no event is below the gsn.
pub struct PreparedTrim(Option<TrimDelete>);

struct TrimDelete {
    keeper: Arc<Keeper>,
    definition: Arc<ChronicleDefinition>,
    chronicle: Arc<Chronicle>,
    ticks: TickRange,
    rows: u64,
    /// Highest gsn to delete.
    through: Gsn,
    reservation: Option<DeleteReservation>,
}

/// Prepares a delete of all events of a chronicle with a gsn below `before`. Waits for uncommitted
/// merges with these events.
///
/// # Errors
/// `InvalidParameterValue` if `before` is beyond the end of the log; `DeadlockDetected`;
/// `DataCorrupted`, `Io`, `ConnectionFailure` if a read of tablets or stories fails.
pub async fn prepare(
    keeper: Arc<Keeper>,
    definition: Arc<ChronicleDefinition>,
    before: Gsn,
) -> Result<PreparedTrim> {
    let published = keeper.publisher.published();
    let head = published.gsn;
    // A position beyond the end of the log would also delete events that are committed later.
    if before.0 > head.0.saturating_add(1) {
        return Err(Error::new(
            ErrorKind::InvalidParameterValue,
            format!("TRIM before gsn {before}: the log ends at gsn {head}"),
        )
        .with_hint(format!("TRIM … BEFORE GSN {} removes all events", head.0 + 1)));
    }
    let Some(pinned) = published.versions.get(&definition.id) else {
        return Ok(PreparedTrim(None));
    };
    let area = SurveyArea { ticks: TickRange::ALL, gsns: GsnRange::new(Gsn(0), before) };
    let found = pinned.version.survey(area, head).await?;
    let chronicle = Arc::clone(&pinned.chronicle);
    drop(published);
    if found.rows == 0 {
        return Ok(PreparedTrim(None));
    }
    let reservation = reserve(&keeper, &chronicle, found.ticks).await?;
    debug_assert!(before.0 > 0, "an event before every gsn");
    let (ticks, rows, through) = (found.ticks, found.rows, Gsn(before.0 - 1));
    debug_assert!(through <= head, "a TRIM behind the head");
    let delete = TrimDelete { keeper, definition, chronicle, ticks, rows, through, reservation };
    Ok(PreparedTrim(Some(delete)))
}

impl PreparedDelete for PreparedTrim {
    fn carry_out(self: Box<Self>) -> BoxFuture<'static, Result<u64>> {
        Box::pin(async move {
            match self.0 {
                Some(delete) => delete.carry_out().await,
                None => Ok(0),
            }
        })
    }
}

impl TrimDelete {
    async fn carry_out(self) -> Result<u64> {
        let Self { keeper, definition, chronicle, ticks, rows, through, reservation } = self;
        let payload = Bytes::copy_from_slice(&through.0.to_le_bytes());
        let kind = (FrameKind::Trim, definition.schema_version);
        let frame = Frame { payload, ticks, ..frame(definition.id, kind) };
        let raising = Arc::clone(&chronicle);
        let raise = move |publisher: &Publisher| {
            let _reservation = reservation;
            raise_fence(publisher, &raising, ticks, through);
        };
        submit(&keeper, &definition, frame, raise).await?;
        free(&keeper.publisher, &chronicle)?;
        Ok(rows)
    }
}

fn raise_fence(publisher: &Publisher, chronicle: &Arc<Chronicle>, ticks: TickRange, through: Gsn) {
    publisher.change(|gsn| {
        debug_assert!(through <= gsn, "a TRIM of events behind the head, gsn {gsn}");
        let fence = Fence { ticks, gsn: through, raised: Some(gsn) };
        let gone = GsnRange::between(Gsn(1), through);
        let (_, version) = chronicle.delete(fence, |_| gone);
        (Some(PinnedVersion { chronicle: Arc::clone(chronicle), version }), ())
    });
}

/// Applies a Trim frame found in the journal at a start.
///
/// # Errors
/// `DataCorrupted` for a frame without a gsn.
pub fn replay(publisher: &Publisher, chronicle: &Arc<Chronicle>, frame: &Frame) -> Result<()> {
    debug_assert_eq!(frame.kind, FrameKind::Trim, "the frame does not trim");
    raise_fence(publisher, chronicle, frame.ticks, frame.trims()?);
    Ok(())
}
