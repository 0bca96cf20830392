//! The single writer of a journal: writes groups of frames to the current segment.
//!
//! ```text
//!   segment:  header │ frames, durable │ frames, written │ zeros … limit
//!                                                        ▲ position
//! ```
//! The writer collects a group in writes of about 1 MiB, then syncs once. Small payloads are copied
//! once, into the write buffer; large payloads are written without a copy. A large synced group
//! bypasses the page cache (`direct.rs`). A group never spans two segments. The writer starts a new
//! segment only when the complete current segment is durable.
//!
//! After a small synced group, the writer sometimes also writes zeros into the blocks that follow.
//! The first write to a preallocated block makes the file system sync metadata of the file too,
//! which doubles the time of the sync. The zeros keep this cost away from the next groups.

use std::{collections::VecDeque, io, mem, path::PathBuf};

use stratalog_metrics::Stopwatch;
use stratalog_model::{DiskFile, Durability, Error, Lsn, SegmentId, invariant};

use crate::{
    aligned::zeros,
    continuation::Continuation,
    defects::sabotaged,
    direct::{Direct, Staging},
    frame::{self, Header},
    queue::PendingFrame,
    recovery::{RecoveredJournal, erase},
    rotation::{self, JournalPlace, Preallocator, WriterFailure, poisoned},
    segment::{self, Segment, SegmentHeader},
};

mod status;

/// Buffered bytes that trigger a write.
const WRITE_BYTES: usize = 1 << 20;
/// A payload of at least this many bytes is written directly, without a copy into the buffer.
const DIRECT_BYTES: usize = 256 << 10;
/// Number of zeros written after a small synced group.
const AHEAD_BYTES: u64 = 512 << 10;
/// A group of at most this many bytes counts as small.
const SMALL_GROUP_BYTES: u64 = 64 << 10;

/// A segment that receives no more frames.
#[derive(Debug, Clone)]
pub(crate) struct SealedSegment {
    pub(crate) path: PathBuf,
    /// First lsn of the segment.
    pub(crate) first: Lsn,
    /// Length of the file.
    pub(crate) bytes: u64,
}

impl SealedSegment {
    fn of(segment: &Segment) -> Self {
        let (path, first) = (segment.path.clone(), segment.header.first_lsn);
        Self { path, first, bytes: segment.bytes }
    }
}

/// The state of the writer.
#[derive(Debug)]
pub(crate) struct Writer {
    place: JournalPlace,
    file: Box<dyn DiskFile>,
    path: PathBuf,
    number: SegmentId,
    seed: u32,
    preallocated: bool,
    /// The end of the last frame must not exceed this file offset.
    limit: u64,
    position: u64,
    /// The writer has written all blocks before this file offset, at least with zeros.
    zeroed: u64,
    /// Checksum of the last frame's header.
    checksum: u32,
    written: Lsn,
    durable: Lsn,
    /// The highest lsn that a record on disk states as durable.
    attested: Lsn,
    /// First lsn of the current segment.
    first: Lsn,
    sealed: VecDeque<SealedSegment>,
    frames: u64,
    writes: u64,
    syncs: u64,
    torn_bytes: u64,
    buffer: Vec<u8>,
    staging: Staging,
    preallocator: Preallocator,
    /// The record that the previous segment needs at its end before a frame goes into the current
    /// segment; `None` once the record is durable.
    continuation: Option<Continuation>,
}

impl Writer {
    /// Continues at the end of the recovered journal.
    pub(crate) fn new(place: JournalPlace, recovered: RecoveredJournal) -> Option<Self> {
        let RecoveredJournal { segments, file, tail, continuation } = recovered;
        let (last, sealed) = segments.split_last()?;
        debug_assert!(segment::HEADER_BYTES <= tail.offset && tail.offset <= tail.torn_end);
        debug_assert!(tail.offset <= last.bytes, "the tail is behind the end of its segment");
        debug_assert!(
            last.header.first_lsn.0.saturating_sub(1) <= tail.last.0,
            "the last segment begins behind the end of the journal"
        );
        invariant!(
            AcknowledgedIsRecovered,
            tail.attested <= tail.last,
            "frame {} is durable, and the journal ends at {}",
            tail.attested,
            tail.last
        );
        let preallocated = last.header.preallocated > 0;
        let writer = Self {
            file,
            path: last.path.clone(),
            number: last.header.number,
            seed: last.seed,
            preallocated,
            limit: if preallocated { last.bytes } else { place.settings.segment_bytes_max },
            position: tail.offset,
            zeroed: tail.offset,
            checksum: tail.last_checksum,
            written: tail.last,
            durable: tail.last,
            attested: tail.attested,
            first: last.header.first_lsn,
            sealed: sealed.iter().map(SealedSegment::of).collect(),
            frames: 0,
            writes: 0,
            syncs: 0,
            torn_bytes: tail.torn_end - tail.offset,
            buffer: Vec::with_capacity(WRITE_BYTES + DIRECT_BYTES),
            staging: Staging::default(),
            preallocator: Preallocator::default(),
            continuation,
            place,
        };
        writer.assert_consistent();
        Some(writer)
    }

    /// Bytes left for frames in the current segment; space for the continuation record is excluded.
    pub(crate) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.position + frame::HEADER_BYTES)
    }

    /// Starts a new segment if the current segment has no room for `extent` bytes.
    pub(crate) fn make_room(&mut self, extent: u64) -> Result<(), WriterFailure> {
        debug_assert!(extent.is_multiple_of(frame::ALIGNMENT), "no length of a frame");
        self.write_continuation()?;
        if extent <= self.room() {
            return Ok(());
        }
        if self.written > self.durable && !sabotaged!(self.place.settings, RotationUnsynced) {
            self.sync()?;
        }
        invariant!(
            halt AcknowledgedIsRecovered,
            self.written == self.durable || sabotaged!(self.place.settings, RotationUnsynced),
            "segment {} is left at frame {}, durable up to {}",
            self.number,
            self.written,
            self.durable
        );
        let header = SegmentHeader {
            partition: self.place.settings.partition,
            number: SegmentId(self.number.0 + 1),
            first_lsn: Lsn(self.written.0 + 1),
            preallocated: 0,
            previous_checksum: self.checksum,
        };
        let path = self.place.path(&segment::file_name(header.number));
        let spare = self
            .preallocator
            .take(&self.place, segment::HEADER_BYTES + extent + frame::HEADER_BYTES, self.limit)
            .map_err(|error| rotation::refused(&path, error))?;
        #[cfg(feature = "sabotage")]
        self.write_continuation_too_early()?;
        let (file, segment) = rotation::adopt(&self.place, spare, header)?;
        let left = mem::replace(&mut self.file, file);
        let left_path = mem::replace(&mut self.path, segment.path);
        self.sealed.push_back(SealedSegment {
            path: left_path.clone(),
            first: mem::replace(&mut self.first, header.first_lsn),
            bytes: if self.preallocated { self.limit } else { self.position },
        });
        debug_assert!(self.continuation.is_none(), "two continuation records are missing");
        // Only a segment written by an earlier version can lack the room for the continuation
        // record.
        if !self.preallocated || self.position + frame::HEADER_BYTES <= self.limit {
            let (seed, partition) = (self.seed, header.partition);
            self.continuation = Some(Continuation::new(
                left,
                left_path,
                seed,
                self.position,
                partition,
                self.written,
            ));
        }
        self.number = header.number;
        self.seed = segment.seed;
        self.preallocated = segment.header.preallocated > 0;
        self.limit =
            if self.preallocated { segment.bytes } else { self.place.settings.segment_bytes_max };
        self.position = segment::HEADER_BYTES;
        self.zeroed = self.position;
        // The existence of a segment proves that all frames of earlier segments are durable.
        self.attested = self.written;
        debug_assert!(extent <= self.room(), "a new segment has no room for {extent} bytes");
        self.assert_consistent();
        self.write_continuation()
    }

    /// Makes the continuation record of the previous segment durable, if this is not done yet.
    fn write_continuation(&mut self) -> Result<(), WriterFailure> {
        let Some(continuation) = &self.continuation else { return Ok(()) };
        if !sabotaged!(self.place.settings, SuccessorUnnamed) {
            self.writes += 1;
            // If the write fails, the next group tries again; until then, no frame goes into this
            // segment.
            continuation.write().map_err(|error| refused(&continuation.path, error))?;
            self.syncs += 1;
            let stopwatch = Stopwatch::start();
            if !sabotaged!(self.place.settings, NoSync) {
                let synced = continuation.file.sync_data();
                synced.map_err(|error| poisoned("fdatasync of", &continuation.path, &error))?;
            }
            self.place.metrics.synced(stopwatch);
        }
        self.continuation = None;
        Ok(())
    }

    /// Sabotage: writes the continuation record before the next segment exists.
    #[cfg(feature = "sabotage")]
    fn write_continuation_too_early(&mut self) -> Result<(), WriterFailure> {
        if sabotaged!(self.place.settings, SuccessorNamedEarly) {
            let mut record = Vec::new();
            let next = Lsn(self.written.0 + 1);
            Header::continued(self.place.settings.partition, next, self.durable)
                .encode(self.seed, &mut record);
            let failed = |error| poisoned("write of", &self.path, &error);
            self.file.write_all_at(&record, self.position).map_err(failed)?;
            self.file.sync_data().map_err(failed)?;
        }
        Ok(())
    }

    /// Writes a group that fits into the current segment, and syncs if a frame requests a sync. The
    /// frames get the lsn's after the last written lsn.
    pub(crate) fn write(&mut self, group: &[PendingFrame]) -> Result<(), WriterFailure> {
        debug_assert!(!group.is_empty(), "a group has no frame");
        debug_assert!(
            self.continuation.is_none(),
            "a frame comes before the continuation record of the segment before"
        );
        let start = self.position;
        let end = start + group.iter().map(PendingFrame::extent).sum::<u64>();
        // Recovery ignores bytes after the end of a segment.
        invariant!(
            halt AcknowledgedIsRecovered,
            end <= self.limit,
            "a group ends at {end}, after its segment's {}",
            self.limit
        );
        let large = end - start >= self.place.settings.direct_bytes_min;
        let direct = large && self.preallocated && syncs(group);
        let written =
            if direct { self.write_frames_directly(group) } else { self.write_frames(group) };
        let checksum = match written {
            Ok(checksum) => checksum,
            Err(error) => return Err(self.undo(start, end, error)),
        };
        let before = self.written;
        self.written = Lsn(before.0 + group.len() as u64);
        self.checksum = checksum;
        self.position = end;
        self.attested = self.attested.max(self.durable);
        self.assert_consistent();
        if syncs(group)
            && let Err(fault) = self.sync()
        {
            // The callers learn that these frames failed: recovery must not find them. The erase is
            // only a best effort without a sync, because another sync is forbidden (CL-7).
            drop(erase(self.file.as_ref(), self.preallocated, start, end));
            self.written = before;
            return Err(fault);
        }
        self.frames += group.len() as u64;
        let events = group.iter().map(|pending| u64::from(pending.frame.count)).sum();
        self.place.metrics.wrote_group(events, end - start);
        self.preallocator.consider(&self.place, self.position, self.limit);
        Ok(())
    }

    /// Writes a group that bypasses the page cache. Returns the checksum of the last header, like
    /// [`Self::write_frames`].
    fn write_frames_directly(&mut self, group: &[PendingFrame]) -> io::Result<u32> {
        debug_assert!(self.preallocated, "a direct write into blocks that are not reserved");
        let (mut lsn, mut checksum) = (self.written, self.checksum);
        let mut header = Vec::with_capacity(frame::HEADER_BYTES as usize);
        let mut direct = Direct::begin(self.file.as_ref(), &mut self.staging, self.position);
        for PendingFrame { frame, checksum: payload_checksum, .. } in group {
            lsn = Lsn(lsn.0 + 1);
            header.clear();
            checksum = Header::of(frame, *payload_checksum, lsn, self.durable)
                .encode(self.seed, &mut header);
            direct.push(&header)?;
            direct.push(&frame.payload)?;
            direct.push(zeros(frame::padding_bytes(frame.payload.len())))?;
        }
        let (end, writes) = direct.finish()?;
        debug_assert_eq!(end, self.position + group.iter().map(PendingFrame::extent).sum::<u64>());
        debug_assert_eq!(lsn.0 - self.written.0, group.len() as u64, "a frame has no lsn");
        self.writes += writes;
        self.zeroed = self.zeroed.max(end);
        Ok(checksum)
    }

    fn write_frames(&mut self, group: &[PendingFrame]) -> io::Result<u32> {
        let zeros = self.zeros_behind(group);
        let mut buffer = mem::take(&mut self.buffer);
        buffer.clear();
        let mut at = self.position;
        let mut lsn = self.written;
        let mut checksum = self.checksum;
        let mut write = |bytes: &[u8]| {
            self.writes += 1;
            self.file.write_all_at(bytes, at)?;
            at += bytes.len() as u64;
            io::Result::Ok(())
        };
        for PendingFrame { frame, checksum: payload_checksum, .. } in group {
            lsn = Lsn(lsn.0 + 1);
            let header = Header::of(frame, *payload_checksum, lsn, self.durable);
            checksum = header.encode(self.seed, &mut buffer);
            if frame.payload.len() >= DIRECT_BYTES {
                write(&buffer)?;
                buffer.clear();
                write(&frame.payload)?;
            } else {
                buffer.extend_from_slice(&frame.payload);
            }
            buffer.resize(buffer.len() + frame::padding_bytes(frame.payload.len()), 0);
            if buffer.len() >= WRITE_BYTES {
                write(&buffer)?;
                buffer.clear();
            }
        }
        if zeros > 0 {
            // A small group is completely in the buffer: the zeros are appended to the same write.
            buffer.resize(buffer.len() + zeros, 0);
        }
        if !buffer.is_empty() {
            write(&buffer)?;
        }
        let extents = group.iter().map(PendingFrame::extent).sum::<u64>();
        debug_assert_eq!(
            at,
            self.position + extents + zeros as u64,
            "bytes of a group are missing"
        );
        debug_assert_eq!(lsn.0 - self.written.0, group.len() as u64, "a frame has no lsn");
        self.zeroed = self.zeroed.max(at);
        self.buffer = buffer;
        Ok(checksum)
    }

    /// The number of zeros to write after a group, so that later groups find their blocks already
    /// written. Readers see no difference, because preallocated blocks read as zeros.
    fn zeros_behind(&self, group: &[PendingFrame]) -> usize {
        let bytes: u64 = group.iter().map(PendingFrame::extent).sum();
        let end = self.position + bytes;
        let small = bytes <= SMALL_GROUP_BYTES && syncs(group);
        if !self.preallocated || !small || end <= self.zeroed {
            return 0;
        }
        (end.next_multiple_of(4096) + AHEAD_BYTES).min(self.limit).saturating_sub(end) as usize
    }

    /// Handles a failed write of a group: erases the group's bytes. If this fails too, the journal
    /// must be poisoned.
    fn undo(&mut self, start: u64, end: u64, error: io::Error) -> WriterFailure {
        debug_assert_eq!(start, self.position, "the writer has moved behind a failed write");
        if sabotaged!(self.place.settings, FailedGroupKept) {
            self.position = end;
        } else {
            let erased = erase(self.file.as_ref(), self.preallocated, start, end)
                .and_then(|()| self.file.sync_data());
            if let Err(second) = erased {
                return poisoned("write, and undoing it, of", &self.path, &second);
            }
        }
        refused(&self.path, error)
    }

    fn sync(&mut self) -> Result<(), WriterFailure> {
        self.syncs += 1;
        let stopwatch = Stopwatch::start();
        if !sabotaged!(self.place.settings, NoSync)
            && let Err(error) = self.file.sync_data()
            && !sabotaged!(self.place.settings, SyncFailureIgnored)
        {
            return Err(poisoned("fdatasync of", &self.path, &error));
        }
        self.place.metrics.synced(stopwatch);
        debug_assert!(self.durable <= self.written, "the durable position would go back");
        self.durable = self.written;
        Ok(())
    }

    /// Whether a mark on disk would be useful: more frames are durable than records on disk state.
    pub(crate) fn wants_mark(&self) -> bool {
        self.durable > self.attested && self.room() >= frame::HEADER_BYTES
    }

    /// Writes a mark, which states the durable position, without a sync.
    pub(crate) fn mark(&mut self) -> Result<(), WriterFailure> {
        if !self.wants_mark() {
            return Ok(());
        }
        let next = Lsn(self.written.0 + 1);
        let start = self.position;
        let end = start + frame::HEADER_BYTES;
        debug_assert!(end <= self.limit, "a mark goes behind the end of its segment");
        self.buffer.clear();
        Header::mark(self.place.settings.partition, next, self.durable)
            .encode(self.seed, &mut self.buffer);
        debug_assert_eq!(self.buffer.len() as u64, end - start, "a mark has another length");
        self.attested = self.durable;
        self.writes += 1;
        match self.file.write_all_at(&self.buffer, start) {
            Ok(()) => self.position = end,
            Err(error) => match self.undo(start, end, error) {
                // Marks are optional: the next group states the same position.
                WriterFailure::Refused(error) => {
                    tracing::warn!(%error, "a journal mark was not written")
                }
                fault => return Err(fault),
            },
        }
        self.assert_consistent();
        Ok(())
    }

    /// Makes all written frames durable, then writes a mark.
    pub(crate) fn finish(&mut self) -> Result<(), WriterFailure> {
        self.preallocator.discard(&self.place);
        if self.written > self.durable {
            self.sync()?;
        }
        if self.wants_mark() {
            self.mark()?;
            self.sync()?;
        }
        debug_assert_eq!(self.durable, self.written, "frames are left without a sync");
        Ok(())
    }

    /// Last durable lsn.
    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    /// Last lsn written.
    pub(crate) fn written(&self) -> Lsn {
        self.written
    }
}

/// The error for a failed write whose bytes were erased completely.
fn refused(path: &std::path::Path, error: io::Error) -> WriterFailure {
    let full = error.kind() == io::ErrorKind::StorageFull;
    let error =
        Error::io(format_args!("cannot write to journal segment {}", path.display()), error);
    WriterFailure::Refused(if full {
        error.with_hint("free space on the disk; nothing else is needed")
    } else {
        error
    })
}

/// Whether a frame of the group requests a sync.
fn syncs(group: &[PendingFrame]) -> bool {
    group.iter().any(|pending| pending.durability >= Durability::Disk)
}
