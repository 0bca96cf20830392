//! The one writer of a journal: turns groups of frames into bytes on disk.
//!
//! ```text
//!   segment:  header │ frames, durable │ frames, written │ zeros … limit
//!                                                        ▲ position
//! ```
//! A group is written in pieces of about 1 MiB (one copy, from payloads into the buffer;
//! large payloads are written from where they are), then synced once; a large one that is
//! synced goes past the system's memory (`direct.rs`). A group never spans segments, and a
//! segment is only left when all of it is durable.
//!
//! Where small groups are synced, zeros are written ahead of them now and then: the first
//! write to a block that was only reserved makes the file system sync what it knows of the
//! file as well, which takes as long again as the sync itself.

use std::{collections::VecDeque, io, mem, path::PathBuf};

use stratalog_model::{DiskFile, Durability, Error, Lsn, SegmentId, invariant, log::LogStatus};

use crate::{
    aligned::zeros,
    continuation::Continuation,
    direct::{Direct, Staging},
    extent::Extent,
    frame::{self, Header},
    queue::Pending,
    recovery::{Recovered, erase},
    rotation::{self, Fault, Place, Preallocator, poisoned},
    sabotaged,
    segment::{self, Segment, SegmentHeader},
};

/// Bytes that are gathered before a write.
const WRITE_BYTES: usize = 1 << 20;
/// Payloads from this size on are not copied.
const DIRECT_BYTES: usize = 256 << 10;
/// Zeros that are written ahead of small groups that are synced.
const AHEAD_BYTES: u64 = 512 << 10;
/// Groups up to this size are small.
const SMALL_GROUP_BYTES: u64 = 64 << 10;

/// A segment that takes no more frames.
#[derive(Debug, Clone)]
pub(crate) struct Sealed {
    pub(crate) path: PathBuf,
    /// Its first lsn.
    pub(crate) first: Lsn,
    /// Length of its file.
    pub(crate) bytes: u64,
}

impl Sealed {
    fn of(segment: &Segment) -> Self {
        let (path, first) = (segment.path.clone(), segment.header.first_lsn);
        Self { path, first, bytes: segment.bytes }
    }
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct Writer {
    place: Place,
    file: Box<dyn DiskFile>,
    path: PathBuf,
    number: SegmentId,
    seed: u32,
    preallocated: bool,
    /// Frames must end here.
    limit: u64,
    position: u64,
    /// Blocks up to here were written before, if only with zeros.
    zeroed: u64,
    /// Checksum of the last frame's header.
    checksum: u32,
    written: Lsn,
    durable: Lsn,
    /// The highest lsn that something written says is durable.
    attested: Lsn,
    /// First lsn of the segment.
    first: Lsn,
    sealed: VecDeque<Sealed>,
    frames: u64,
    writes: u64,
    syncs: u64,
    torn_bytes: u64,
    buffer: Vec<u8>,
    staging: Staging,
    preallocator: Preallocator,
    /// What the segment before must say before a frame goes into this one.
    continuation: Option<Continuation>,
}

impl Writer {
    /// Goes on where recovery ended.
    pub(crate) fn new(place: Place, recovered: Recovered) -> Option<Self> {
        let Recovered { segments, file, tail, continuation } = recovered;
        let (last, sealed) = segments.split_last()?;
        let preallocated = last.header.preallocated > 0;
        Some(Self {
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
            sealed: sealed.iter().map(Sealed::of).collect(),
            frames: 0,
            writes: 0,
            syncs: 0,
            torn_bytes: tail.torn_end - tail.offset,
            buffer: Vec::with_capacity(WRITE_BYTES + DIRECT_BYTES),
            staging: Staging::default(),
            preallocator: Preallocator::default(),
            continuation,
            place,
        })
    }

    /// Bytes of frames that the segment still takes, before it says that it is continued.
    pub(crate) fn room(&self) -> u64 {
        self.limit.saturating_sub(self.position + frame::HEADER_BYTES)
    }

    /// Goes on in a new segment if this one has no room for `extent` bytes.
    pub(crate) fn make_room(&mut self, extent: u64) -> Result<(), Fault> {
        self.say_continued()?;
        if extent <= self.room() {
            return Ok(());
        }
        if self.written > self.durable && !sabotaged!(self.place.settings, RotationUnsynced) {
            self.sync()?;
        }
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
            .take(&self.place, segment::HEADER_BYTES + extent + frame::HEADER_BYTES)
            .map_err(|error| rotation::refused(&path, error))?;
        #[cfg(feature = "sabotage")]
        self.say_continued_too_early()?;
        let (file, segment) = rotation::adopt(&self.place, spare, header)?;
        let left = mem::replace(&mut self.file, file);
        let left_path = mem::replace(&mut self.path, segment.path);
        self.sealed.push_back(Sealed {
            path: left_path.clone(),
            first: mem::replace(&mut self.first, header.first_lsn),
            bytes: if self.preallocated { self.limit } else { self.position },
        });
        // A segment that an earlier version filled to the brim has no room for it.
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
        // A segment's being there says that all before it is durable.
        self.attested = self.written;
        self.say_continued()
    }

    /// Makes durable in the segment before that this one follows, if that is not said yet.
    fn say_continued(&mut self) -> Result<(), Fault> {
        let Some(continuation) = &self.continuation else { return Ok(()) };
        if !sabotaged!(self.place.settings, SuccessorUnnamed) {
            self.writes += 1;
            // Tried again by the next group: nothing goes into this segment before.
            continuation.write().map_err(|error| refused(&continuation.path, error))?;
            self.syncs += 1;
            if !sabotaged!(self.place.settings, NoSync) {
                let synced = continuation.file.sync_data();
                synced.map_err(|error| poisoned("fdatasync of", &continuation.path, &error))?;
            }
        }
        self.continuation = None;
        Ok(())
    }

    /// Sabotage: says it when the segment that follows is not there yet.
    #[cfg(feature = "sabotage")]
    fn say_continued_too_early(&mut self) -> Result<(), Fault> {
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

    /// Writes a group that fits, and syncs it if one of its frames asks for that. Its
    /// frames get the lsn's that follow the last written one.
    pub(crate) fn write(&mut self, group: &[Pending]) -> Result<(), Fault> {
        let start = self.position;
        let end = start + group.iter().map(Pending::extent).sum::<u64>();
        let large = end - start >= self.place.settings.direct_bytes_min;
        let direct = large && self.preallocated && syncs(group);
        let written =
            if direct { self.write_frames_directly(group) } else { self.write_frames(group) };
        let checksum = match written {
            Ok(checksum) => checksum,
            Err(error) => return Err(self.undo(start, end, error)),
        };
        invariant!(
            AcknowledgedIsRecovered,
            end <= self.limit,
            "a group ends at {end}, after its segment's {}",
            self.limit
        );
        let before = self.written;
        self.written = Lsn(before.0 + group.len() as u64);
        self.checksum = checksum;
        self.position = end;
        self.attested = self.attested.max(self.durable);
        if syncs(group)
            && let Err(fault) = self.sync()
        {
            // These frames are reported as failed: they must not be found later. The best
            // that can be done without another sync, which must not be tried (CL-7).
            drop(erase(self.file.as_ref(), self.preallocated, start, end));
            self.written = before;
            return Err(fault);
        }
        self.frames += group.len() as u64;
        self.preallocator.consider(&self.place, self.position, self.limit);
        Ok(())
    }

    /// The checksum of the last header; so does [`Self::write_frames`].
    fn write_frames_directly(&mut self, group: &[Pending]) -> io::Result<u32> {
        let (mut lsn, mut checksum) = (self.written, self.checksum);
        let mut header = Vec::with_capacity(frame::HEADER_BYTES as usize);
        let mut direct = Direct::begin(self.file.as_ref(), &mut self.staging, self.position);
        for Pending { frame, checksum: payload_checksum, .. } in group {
            lsn = Lsn(lsn.0 + 1);
            header.clear();
            checksum = Header::of(frame, *payload_checksum, lsn, self.durable)
                .encode(self.seed, &mut header);
            direct.push(&header)?;
            direct.push(&frame.payload)?;
            direct.push(zeros(frame::padding_bytes(frame.payload.len())))?;
        }
        let (end, writes) = direct.finish()?;
        self.writes += writes;
        self.zeroed = self.zeroed.max(end);
        Ok(checksum)
    }

    fn write_frames(&mut self, group: &[Pending]) -> io::Result<u32> {
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
        for Pending { frame, checksum: payload_checksum, .. } in group {
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
            // A small group is all in the buffer: they follow it at once.
            buffer.resize(buffer.len() + zeros, 0);
        }
        if !buffer.is_empty() {
            write(&buffer)?;
        }
        self.zeroed = self.zeroed.max(at);
        self.buffer = buffer;
        Ok(checksum)
    }

    /// How many zeros to write behind a group, so that the next ones find their blocks
    /// written. Nothing is read differently by that: what is reserved reads as zeros.
    fn zeros_behind(&self, group: &[Pending]) -> usize {
        let bytes: u64 = group.iter().map(Pending::extent).sum();
        let end = self.position + bytes;
        let small = bytes <= SMALL_GROUP_BYTES && syncs(group);
        if !self.preallocated || !small || end <= self.zeroed {
            return 0;
        }
        (end.next_multiple_of(4096) + AHEAD_BYTES).min(self.limit).saturating_sub(end) as usize
    }

    /// After a write that failed: leaves no trace of the group, or poisons.
    fn undo(&mut self, start: u64, end: u64, error: io::Error) -> Fault {
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

    fn sync(&mut self) -> Result<(), Fault> {
        self.syncs += 1;
        if !sabotaged!(self.place.settings, NoSync)
            && let Err(error) = self.file.sync_data()
            && !sabotaged!(self.place.settings, SyncFailureIgnored)
        {
            return Err(poisoned("fdatasync of", &self.path, &error));
        }
        self.durable = self.written;
        Ok(())
    }

    /// Whether it pays to say how far the journal is durable.
    pub(crate) fn wants_mark(&self) -> bool {
        self.durable > self.attested && self.room() >= frame::HEADER_BYTES
    }

    /// Writes, without a sync, how far the journal is durable.
    pub(crate) fn mark(&mut self) -> Result<(), Fault> {
        if !self.wants_mark() {
            return Ok(());
        }
        let next = Lsn(self.written.0 + 1);
        let start = self.position;
        let end = start + frame::HEADER_BYTES;
        self.buffer.clear();
        Header::mark(self.place.settings.partition, next, self.durable)
            .encode(self.seed, &mut self.buffer);
        self.attested = self.durable;
        self.writes += 1;
        match self.file.write_all_at(&self.buffer, start) {
            Ok(()) => self.position = end,
            Err(error) => match self.undo(start, end, error) {
                // Marks are of use, not of need: the next group says the same.
                Fault::Refused(error) => tracing::warn!(%error, "a journal mark was not written"),
                fault => return Err(fault),
            },
        }
        Ok(())
    }

    /// Makes everything durable and says so.
    pub(crate) fn finish(&mut self) -> Result<(), Fault> {
        self.preallocator.discard(&self.place);
        if self.written > self.durable {
            self.sync()?;
        }
        if self.wants_mark() {
            self.mark()?;
            self.sync()?;
        }
        Ok(())
    }

    /// Numbers that only the writer knows.
    pub(crate) fn report(&self, status: &mut LogStatus) {
        status.written = self.written;
        status.durable = self.durable;
        let sealed: u64 = self.sealed.iter().map(|segment| segment.bytes).sum();
        status.stored_bytes = sealed + self.position;
        status.segments = self.sealed.len() as u64 + 1;
        status.first = self.sealed.front().map_or(self.first, |segment| segment.first);
        status.frames = self.frames;
        status.writes = self.writes;
        status.syncs = self.syncs;
        status.torn_bytes = self.torn_bytes;
    }

    /// Takes the segments that hold frames below `before` only out of the log. Their files
    /// are the caller's to remove.
    pub(crate) fn release(&mut self, before: Lsn) -> Vec<Sealed> {
        let mut released = Vec::new();
        loop {
            let next = self.sealed.get(1).map_or(self.first, |segment| segment.first);
            // The last one must say that this one follows before it may go.
            let last = self.sealed.len() == 1 && self.continuation.is_some();
            if next > before || last {
                return released;
            }
            let Some(segment) = self.sealed.pop_front() else { return released };
            released.push(segment);
        }
    }

    /// Takes segments that were released, and whose files are still there, back into the log.
    pub(crate) fn take_back(&mut self, segments: impl DoubleEndedIterator<Item = Sealed>) {
        segments.rev().for_each(|segment| self.sealed.push_front(segment));
    }

    /// The segments, up to what is written.
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
        extents
    }

    /// Last lsn written.
    pub(crate) fn written(&self) -> Lsn {
        self.written
    }
}

/// A write that failed, and left nothing that counts.
fn refused(path: &std::path::Path, error: io::Error) -> Fault {
    let full = error.kind() == io::ErrorKind::StorageFull;
    let error =
        Error::io(format_args!("cannot write to journal segment {}", path.display()), error);
    Fault::Refused(if full {
        error.with_hint("free space on the disk; nothing else is needed")
    } else {
        error
    })
}

/// Whether a frame of the group asks for a sync.
fn syncs(group: &[Pending]) -> bool {
    group.iter().any(|pending| pending.durability >= Durability::Disk)
}
