//! The fence of a DELETE, and the positions of the events behind the fence.
//!
//! The frame holds the positions of the deleted events, as known before the write, for readers in
//! the order of commits (payload; empty in older journals):
//! ```text
//!   0  looked at up to this gsn    8  first gsn    16  gsn behind the last    little-endian
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

/// Bytes of the payload.
const PAYLOAD_BYTES: usize = 24;

/// The positions of the events of a DELETE, in the form of its frame.
#[derive(Debug, Clone, Copy)]
pub struct SurveyedPositions {
    /// Highest gsn of the survey: later events were not counted.
    pub through: Gsn,
    /// The positions.
    pub gsns: GsnRange,
}

impl SurveyedPositions {
    /// The positions of the visible events of `ticks`.
    ///
    /// # Errors
    /// `DataCorrupted`, `Io`, `ConnectionFailure` when pieces cannot be read.
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

    /// The payload of the frame.
    pub fn encode(self) -> Bytes {
        let mut out = BytesMut::with_capacity(PAYLOAD_BYTES);
        out.put_u64_le(self.through.0);
        out.put_u64_le(self.gsns.start.0);
        out.put_u64_le(self.gsns.end.0);
        debug_assert_eq!(out.len(), PAYLOAD_BYTES, "a payload of another length");
        out.freeze()
    }

    /// The positions in a frame; `None` for a frame of an older version without positions.
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

/// The visible events of `ticks`, committed at or before `visible`.
///
/// # Errors
/// `DataCorrupted`, `Io`, `ConnectionFailure` when pieces cannot be read.
pub async fn survey(version: &Version, ticks: TickRange, visible: Gsn) -> Result<VisibleEvents> {
    version.survey(SurveyArea { ticks, gsns: GsnRange::ALL }, visible).await
}

/// The version before a delete, and the fence of the delete.
pub struct DeletedVersion {
    /// The version before the delete.
    pub version: Arc<Version>,
    /// The fence of the delete.
    pub fence: Fence,
}

/// Hides the events of `ticks` committed at or before `gsn`, the highest committed gsn. Only under
/// the publisher's lock.
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

/// A frame of a chronicle, without content.
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
