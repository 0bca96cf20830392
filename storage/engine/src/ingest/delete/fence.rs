//! The fence that carries out a DELETE, and the gsn's of the events that the fence hides.
//!
//! The payload of the frame has the gsn's of the deleted events, as counted before the write.
//! Readers in commit order (subscriptions) need these gsn's. The payload is empty in older
//! journals:
//! ```text
//!   0  counted up to this gsn    8  first gsn    16  last gsn + 1    little-endian
//! ```

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use stratalog_model::{
    ChronicleId, Error, ErrorKind, Frame, FrameKind, Gsn, GsnRange, PartitionId, Result,
    SchemaVersion, StatementId, TickRange,
};

use crate::{
    ingest::chronicle::Chronicle,
    version::{
        Version,
        fence::Fence,
        published_versions::{PinnedVersion, PublishedVersions},
        survey::{SurveyArea, VisibleEvents},
    },
};

/// Size of the payload in bytes.
const PAYLOAD_BYTES: usize = 24;

/// The gsn's of the events that a DELETE removes, in the form of its frame.
#[derive(Debug, Clone, Copy)]
pub struct SurveyedPositions {
    /// Highest gsn at the time of the count: later events were not counted.
    pub through: Gsn,
    /// The smallest range that contains the gsn's of the events.
    pub gsns: GsnRange,
}

impl SurveyedPositions {
    /// Determines the gsn's of the events with `ticks` that are visible now.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure` if a read of tablets or stories fails.
    pub async fn now(
        published: Arc<PublishedVersions>,
        chronicle: ChronicleId,
        ticks: TickRange,
    ) -> Result<Self> {
        let through = published.gsn;
        let gsns = match published.versions.get(&chronicle) {
            Some(pinned) => survey(&pinned.version, ticks, through).await?.gsns,
            None => GsnRange::EMPTY,
        };
        Ok(Self { through, gsns })
    }

    /// Encodes the payload of the frame.
    pub fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(PAYLOAD_BYTES);
        out.put_u64_le(self.through.0);
        out.put_u64_le(self.gsns.start.0);
        out.put_u64_le(self.gsns.end.0);
        debug_assert_eq!(out.len(), PAYLOAD_BYTES, "a payload of another length");
        out.freeze()
    }

    /// Decodes the payload of a frame; `None` for a frame without a payload, from an older version.
    ///
    /// # Errors
    /// `DataCorrupted`.
    pub fn of(frame: &Frame) -> Result<Option<Self>> {
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

/// Counts the visible events with `ticks` and a gsn up to `visible`, and determines the range of
/// their gsn's.
///
/// # Errors
/// `DataCorrupted`, `Io`, `ConnectionFailure` if a read of tablets or stories fails.
pub async fn survey(version: &Version, ticks: TickRange, visible: Gsn) -> Result<VisibleEvents> {
    version.survey(SurveyArea { ticks, gsns: GsnRange::ALL }, visible).await
}

/// The result of a delete: the version before, and the new fence.
pub struct DeletedVersion {
    /// The version before the delete.
    pub version: Arc<Version>,
    /// The fence of the delete.
    pub fence: Fence,
}

/// Raises a fence: hides the events with `ticks` and a gsn up to `gsn`, the highest committed gsn.
/// Call only under the publisher's lock.
pub fn fence_off(
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

/// The gsn's of the events that a fence hides: the gsn's counted before, those of events in memory,
/// and those of events in later tablets and stories that overlap the fence.
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

/// A frame of a chronicle without payload.
pub fn frame(chronicle: ChronicleId, (kind, schema_version): (FrameKind, SchemaVersion)) -> Frame {
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
