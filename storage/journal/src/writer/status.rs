//! The status of the writer, and the release of segments.

use stratalog_model::{
    Lsn, invariant,
    log::{FullSegment, LogStatus},
};

use super::{SealedSegment, Writer};
use crate::{extent::Extent, frame, segment};

impl Writer {
    /// Fills in the writer's part of the status.
    pub(crate) fn report(&self, status: &mut LogStatus) {
        debug_assert!(status.written <= self.written, "the written position goes back");
        debug_assert!(status.durable <= self.durable, "the durable position goes back");
        debug_assert!(status.frames <= self.frames, "the number of frames shrinks");
        debug_assert!(status.writes <= self.writes, "the number of writes shrinks");
        debug_assert!(status.syncs <= self.syncs, "the number of syncs shrinks");
        status.written = self.written;
        invariant!(
            AcknowledgedIsRecovered,
            self.durable <= self.written && self.first.0 <= self.written.0 + 1,
            "durable up to {}, written up to {}, from {} on",
            self.durable,
            self.written,
            self.first
        );
        debug_assert!(self.sealed.iter().is_sorted_by_key(|segment| segment.first));
        status.durable = self.durable;
        let sealed: u64 = self.sealed.iter().map(|segment| segment.bytes).sum();
        status.stored_bytes = sealed + self.position;
        status.segments = self.sealed.len() as u64 + 1;
        self.report_full_segments(status);
        status.reserved_bytes =
            if self.preallocated { self.limit.saturating_sub(self.position) } else { 0 };
        status.releases_from = self.releases_from();
        status.first = self.sealed.front().map_or(self.first, |segment| segment.first);
        status.frames = self.frames;
        status.writes = self.writes;
        status.syncs = self.syncs;
        status.torn_bytes = self.torn_bytes;
    }

    /// Rebuilds the list of full segments if it has changed: segments are added at the end, and
    /// released at the beginning.
    fn report_full_segments(&self, status: &mut LogStatus) {
        let ends = self.sealed.iter().skip(1).map(|segment| segment.first);
        let full = self.sealed.iter().zip(ends.chain(std::iter::once(self.first)));
        let full = full.map(|(segment, end)| FullSegment { end, bytes: segment.bytes });
        let known = &status.full_segments;
        if known.len() != self.sealed.len() || known.first().copied() != full.clone().next() {
            status.full_segments = full.collect();
        }
        debug_assert_eq!(
            status.full_segments.len(),
            self.sealed.len(),
            "the list of full segments is not complete"
        );
    }

    /// Removes the segments that contain only frames below `before` from the writer's list, and
    /// returns them. The caller removes the files.
    pub(crate) fn release(&mut self, before: Lsn) -> Vec<SealedSegment> {
        let mut released = Vec::new();
        while self.releases_from().is_some_and(|next| next <= before) {
            released.extend(self.sealed.pop_front());
        }
        let kept = self.sealed.front().map_or(self.first, |segment| segment.first);
        invariant!(
            AcknowledgedIsRecovered,
            released.is_empty() || kept <= before,
            "frames from {before} on are needed, and the log begins at {kept}"
        );
        released
    }

    /// The lowest argument of [`Self::release`] that releases a segment; `None` if no segment can
    /// be released.
    fn releases_from(&self) -> Option<Lsn> {
        // The last full segment stays until its continuation record is on disk.
        if self.sealed.is_empty() || self.sealed.len() == 1 && self.continuation.is_some() {
            return None;
        }
        Some(self.sealed.get(1).map_or(self.first, |segment| segment.first))
    }

    /// Puts released segments back into the list, because their files still exist.
    pub(crate) fn take_back(&mut self, segments: impl DoubleEndedIterator<Item = SealedSegment>) {
        segments.rev().for_each(|segment| self.sealed.push_front(segment));
    }

    /// All segments up to the current end of the journal.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let next = self.sealed.iter().skip(1).map(|segment| segment.first);
        let ends = next.chain([self.first]).map(|next| Lsn(next.0.saturating_sub(1)));
        let mut extents: Vec<Extent> = self
            .sealed
            .iter()
            .zip(ends)
            .map(|(segment, last)| Extent {
                path: segment.path.clone(),
                first: segment.first,
                last,
                used_bytes: segment.bytes,
                bytes: segment.bytes,
            })
            .collect();
        extents.push(Extent {
            path: self.path.clone(),
            first: self.first,
            last: self.written,
            used_bytes: self.position,
            bytes: if self.preallocated { self.limit } else { self.position },
        });
        debug_assert!(extents.is_sorted_by_key(|extent| extent.first));
        debug_assert!(
            extents.iter().all(|extent| extent.used_bytes <= extent.bytes),
            "more bytes are in use than the segment has"
        );
        extents
    }

    /// Asserts the relations between the fields; called after each change.
    pub(super) fn assert_consistent(&self) {
        debug_assert!(self.position >= segment::HEADER_BYTES, "the writer is in the header");
        debug_assert!(
            self.position.is_multiple_of(frame::ALIGNMENT),
            "the writer is between two places of frames"
        );
        debug_assert!(
            !self.preallocated || self.position <= self.limit,
            "the writer is behind the end of its segment"
        );
        debug_assert!(
            !self.preallocated || self.zeroed <= self.limit,
            "zeros were written behind the end of the segment"
        );
        debug_assert!(self.durable <= self.written, "a frame is durable before it is written");
        debug_assert!(
            self.attested <= self.written,
            "a record attests a frame that is not written"
        );
        debug_assert!(
            self.first.0.saturating_sub(1) <= self.written.0,
            "the segment begins behind the next frame"
        );
        debug_assert!(
            self.sealed.back().is_none_or(|before| before.first <= self.first),
            "the segment begins before the segment before"
        );
    }
}
