//! Checks a journal without changing it, and continues after damage.
//!
//! ```text
//!   sound frames ─► visit │ X ─► Fault: lsn 9 to 11 ─► next sound header ─► visit │ …
//! ```
//! X is the first invalid byte. When a server opens a journal, it stops there. The check continues
//! at the next header with a valid checksum, to find all faults.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use stratalog_metrics::JournalMetrics;
use stratalog_model::{Disk, DiskFile, Error, Frame, Lsn, Result, SegmentId};

use crate::{
    JournalSettings,
    frame::{self, Header, ParsedRecord, Record},
    reader::{FrameReader, Step, Stop, frame_of},
    recovery,
    required_segments::RequiredSegments,
    rotation::JournalPlace,
    segment::{self, Segment},
    tail::{self, unreadable},
};

/// Bytes per read in the search for the next header with a valid checksum.
const SEARCH_BYTES: usize = 1 << 20;

/// The text of a fault where zeros are in the place of a frame.
const ZEROS: &str = "found zeros instead";

/// The part of a journal to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The whole journal. No process may have the journal open.
    Closed(RequiredSegments),
    /// The durable frames between two lsn's, both included. During the check, a writer may append
    /// frames, and may release segments before the first lsn.
    Durable(Lsn, Lsn),
}

/// A finding of the check; findings come in lsn order.
#[derive(Debug)]
pub enum CheckEvent<'a> {
    /// A frame with valid checksums.
    Frame {
        /// The segment's file.
        path: &'a Path,
        /// Offset of the frame in the file.
        offset: u64,
        /// Position of the frame.
        lsn: Lsn,
        /// The complete frame.
        frame: Frame,
    },
    /// A fault: damaged or missing data.
    Fault(JournalFault),
}

/// A fault of the journal.
#[derive(Debug)]
pub struct JournalFault {
    /// The file.
    pub path: PathBuf,
    /// The error that a start of the server reports, or may report.
    pub error: Error,
    /// The frames that the fault makes unreadable, if any.
    pub lost: Option<LostFrames>,
}

/// Unreadable frames.
#[derive(Debug)]
pub struct LostFrames {
    /// The first.
    pub first: Lsn,
    /// The last, if known.
    pub last: Option<Lsn>,
    /// The frame without its payload, if only one frame is lost and its header is sound.
    pub frame: Option<Frame>,
}

/// Summary of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Segments checked.
    pub segments: u64,
    /// Bytes of the segment files.
    pub bytes: u64,
    /// Sound frames.
    pub frames: u64,
    /// The last readable lsn; 0 for none.
    pub last: Lsn,
    /// A torn tail that the next start cuts: file, offset of the torn bytes, number of bytes.
    pub torn: Option<(PathBuf, u64, u64)>,
    /// Files that the next start removes: released segments, and the spare segment.
    pub leftover: Vec<PathBuf>,
}

/// Checks the part `scope` of a journal, and hands each finding to `visit`. An error of `visit`
/// ends the check.
///
/// # Errors
/// The error of `visit`, and `Io` if the directory cannot be listed. Faults of the journal go to
/// `visit`.
pub fn check(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    settings: &JournalSettings,
    scope: Scope,
    visit: &mut dyn FnMut(CheckEvent<'_>) -> Result<()>,
) -> Result<Summary> {
    let place = JournalPlace {
        disk: Arc::clone(disk),
        directory: directory.to_path_buf(),
        settings: Arc::new(settings.clone()),
        metrics: JournalMetrics::default(),
    };
    let mut check = Check { place, scope, visit, summary: Summary::default() };
    if matches!(scope, Scope::Durable(from, through) if through < from) {
        return Ok(check.summary);
    }
    check.run()?;
    Ok(check.summary)
}

struct Check<'a> {
    place: JournalPlace,
    scope: Scope,
    visit: &'a mut dyn FnMut(CheckEvent<'_>) -> Result<()>,
    summary: Summary,
}

impl Check<'_> {
    fn run(&mut self) -> Result<()> {
        let directory = self.place.directory.clone();
        if let Err(error) = recovery::check_directory(&self.place) {
            return self.fault(directory, error, None);
        }
        let names = recovery::names(&self.place)?;
        for name in &names.foreign {
            let error = recovery::foreign(&directory, name);
            self.fault(directory.join(name), error, None)?;
        }
        if names.spare && matches!(self.scope, Scope::Closed(_)) {
            self.summary.leftover.push(self.place.path(segment::SPARE_NAME));
        }
        let mut segments = Vec::with_capacity(names.numbers.len());
        for number in &names.numbers {
            match recovery::read_header(&self.place, *number) {
                Ok(segment) => segments.push((*number, Some(segment))),
                Err(_) if self.was_released(*number) => {}
                Err(error) => {
                    let path = self.place.path(&segment::file_name(*number));
                    self.fault(path, error, None)?;
                    segments.push((*number, None));
                }
            }
        }
        self.leave_out_released(&mut segments);
        self.check_order(&segments)?;
        if segments.is_empty() {
            let path = directory.display();
            let lost = recovery::lost(format!("the journal {path} has lost all of its segments"));
            return self.fault(directory.clone(), lost, None);
        }
        for (at, (number, segment)) in segments.iter().enumerate() {
            let Some(segment) = segment else { continue };
            self.summary.segments += 1;
            self.summary.bytes += segment.bytes;
            // After a gap in the segment numbers, the first lsn of the next segment is unknown.
            let next = segments
                .get(at + 1)
                .map(|(other, next)| next.as_ref().filter(|_| other.0 == number.0 + 1));
            self.segment(segment, next)?;
        }
        Ok(())
    }

    fn fault(&mut self, path: PathBuf, error: Error, lost: Option<LostFrames>) -> Result<()> {
        (self.visit)(CheckEvent::Fault(JournalFault { path, error, lost }))
    }

    /// Whether the writer has released and removed the segment during the check.
    fn was_released(&self, number: SegmentId) -> bool {
        let path = self.place.path(&segment::file_name(number));
        matches!(self.scope, Scope::Durable(..)) && !self.place.disk.exists(&path).unwrap_or(true)
    }

    /// Drops segments that contain only released frames from the list: the next start removes their
    /// files.
    fn leave_out_released(&mut self, segments: &mut Vec<(SegmentId, Option<Segment>)>) {
        let (from, closed) = match self.scope {
            Scope::Closed(RequiredSegments::At(from)) => (from, true),
            Scope::Durable(from, _) => (from, false),
            Scope::Closed(_) => return,
        };
        let needed = segments.iter().rposition(|(_, segment)| {
            segment.as_ref().is_some_and(|segment| segment.header.first_lsn <= from)
        });
        for (number, _) in segments.drain(..needed.unwrap_or(0)) {
            if closed {
                self.summary.leftover.push(self.place.path(&segment::file_name(number)));
            }
        }
        if let Scope::Durable(_, through) = self.scope {
            segments.retain(|(_, segment)| {
                segment.as_ref().is_none_or(|segment| segment.header.first_lsn <= through)
            });
        }
    }

    fn check_order(&mut self, segments: &[(SegmentId, Option<Segment>)]) -> Result<()> {
        debug_assert!(segments.is_sorted_by(|a, b| a.0 < b.0), "the segments are not in order");
        let Some((oldest, header)) = segments.first() else { return Ok(()) };
        let late = |from: Lsn| header.as_ref().is_some_and(|found| found.header.first_lsn > from);
        let mut expected = match self.scope {
            Scope::Closed(RequiredSegments::First) => SegmentId(1),
            Scope::Closed(RequiredSegments::At(from)) if late(from) => {
                SegmentId((oldest.0 - 1).max(1))
            }
            _ => *oldest,
        };
        let mut previous = Lsn(1);
        for (number, segment) in segments {
            debug_assert!(expected <= *number, "a segment comes twice");
            while expected < *number && !self.was_released(expected) {
                let path = self.place.path(&segment::file_name(expected));
                let error = recovery::missing(&path);
                self.fault(path, error, None)?;
                expected = SegmentId(expected.0 + 1);
            }
            expected = SegmentId(number.0 + 1);
            let Some(segment) = segment else { continue };
            let first = segment.header.first_lsn;
            if first < previous || *number == SegmentId(1) && first != Lsn(1) {
                let what = "the header does not follow the previous segment";
                let error = tail::damaged(&segment.path, 0, first, None, what);
                self.fault(segment.path.clone(), error, None)?;
            }
            previous = first;
        }
        Ok(())
    }

    /// Reads one segment. `next` is the following segment: `None` without a following segment,
    /// `Some(None)` if its header is unreadable.
    fn segment(&mut self, segment: &Segment, next: Option<Option<&Segment>>) -> Result<()> {
        debug_assert!(
            next.flatten().is_none_or(|next| segment.header.number < next.header.number),
            "the next segment comes before the segment"
        );
        let file = match self.place.disk.open(&segment.path) {
            Ok(file) => file,
            Err(_) if self.was_released(segment.header.number) => return Ok(()),
            Err(error) => {
                return self.fault(segment.path.clone(), unreadable(&segment.path, error), None);
            }
        };
        let mut end = None;
        let mut refused = None;
        if next.is_none() && matches!(self.scope, Scope::Closed(_)) {
            match tail::examine(file.as_ref(), segment, &self.place.settings) {
                Ok(tail) => {
                    end = Some(tail.offset);
                    if tail.torn_end > tail.offset {
                        let bytes = tail.torn_end - tail.offset;
                        self.summary.torn = Some((segment.path.clone(), tail.offset, bytes));
                    }
                }
                Err(error) => refused = Some(error),
            }
        }
        let mut walk = SegmentWalk {
            reader: FrameReader::new(file.as_ref(), segment),
            file: file.as_ref(),
            segment,
            next: next.flatten().map(|next| next.header.first_lsn),
            next_unread: matches!(next, Some(None)),
            expected: segment.header.first_lsn,
            checksum: Some(segment.header.previous_checksum),
            refused,
        };
        match self.walk(&mut walk, end) {
            Err(StopReason::Disk(error)) => {
                self.fault(segment.path.clone(), unreadable(&segment.path, error), None)?;
            }
            Err(StopReason::Visitor(error)) => return Err(error),
            Ok(()) => {}
        }
        if let Some(error) = walk.refused.take() {
            self.fault(segment.path.clone(), error, None)?;
        }
        debug_assert!(segment.header.first_lsn <= walk.expected, "the walk goes back");
        let Some(Some(next)) = next else { return Ok(()) };
        if walk.expected != next.header.first_lsn && walk.checksum.is_some() {
            let what = "the next segment follows other frames";
            let (first, last) = (walk.expected, Lsn(next.header.first_lsn.0.saturating_sub(1)));
            let error = tail::damaged(&segment.path, walk.reader.offset(), first, Some(last), what);
            let lost = LostFrames { first, last: Some(last), frame: None };
            return self.fault(segment.path.clone(), error, Some(lost));
        }
        if walk.checksum.is_some_and(|checksum| checksum != next.header.previous_checksum) {
            let what = "the segment was written after another segment than the previous segment";
            let error = tail::damaged(&next.path, 0, walk.expected, None, what);
            self.fault(next.path.clone(), error, None)?;
        }
        Ok(())
    }

    /// Hands the frames of a segment to `visit`, up to the file offset `end`, or up to the last
    /// sound frame.
    fn walk(&mut self, walk: &mut SegmentWalk<'_>, end: Option<u64>) -> Result<(), StopReason> {
        loop {
            if end.is_some_and(|end| walk.reader.offset() >= end) {
                return Ok(());
            }
            if let Scope::Durable(_, through) = self.scope
                && walk.expected > through
            {
                walk.checksum = None;
                return Ok(());
            }
            match walk.reader.step()? {
                Step::Record { offset, header, checksum, payload } => {
                    if header.lsn != walk.expected || header.durable >= header.lsn {
                        let what = format!("found frame {} instead", header.lsn);
                        self.lose(walk, offset, Some(header.lsn), None, &what)?;
                        if header.lsn < walk.expected {
                            return Ok(());
                        }
                    }
                    walk.expected = header.lsn;
                    if let Record::Frame(_) = header.record {
                        walk.expected = Lsn(header.lsn.0 + 1);
                        walk.checksum = walk.checksum.and(Some(checksum));
                        self.summary.last = header.lsn;
                    }
                    let Some(frame) = frame_of(&header, payload) else { continue };
                    self.summary.frames += 1;
                    let path = walk.segment.path.as_path();
                    (self.visit)(CheckEvent::Frame { path, offset, lsn: header.lsn, frame })
                        .map_err(StopReason::Visitor)?;
                }
                Step::Stop(stop) => {
                    // No frame is missing: the next segment begins with the expected lsn.
                    if walk.next == Some(walk.expected) && walk.refused.is_none() {
                        return Ok(());
                    }
                    if !self.skip(walk, stop)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Reports damage, and moves to the next header with a valid checksum. Returns `false` if the
    /// segment has no such header.
    fn skip(&mut self, walk: &mut SegmentWalk<'_>, stop: Stop) -> Result<bool, StopReason> {
        let offset = walk.reader.offset();
        if let Stop::DamagedPayload(header) = &stop
            && header.lsn == walk.expected
        {
            let frame = frame_of(header, Bytes::new());
            let what = "the checksum of the payload does not match";
            self.lose(walk, offset, Some(Lsn(header.lsn.0 + 1)), frame, what)?;
            walk.reader.resume_at(offset + header.extent());
            return Ok(true);
        }
        let what = match stop {
            Stop::Blank => ZEROS,
            Stop::Unknown => "a record of a kind unknown to this version",
            Stop::Overrun(_) => "a frame longer than its segment",
            _ => "the checksum of the header does not match",
        };
        let found = walk.next_header(offset + frame::ALIGNMENT)?;
        match found {
            Some((at, header)) => {
                self.lose(walk, offset, Some(header.lsn), None, what)?;
                walk.reader.resume_at(at);
                Ok(true)
            }
            None if walk.next_unread && what == ZEROS => Ok(false),
            None => {
                self.lose(walk, offset, walk.next, None, what)?;
                Ok(false)
            }
        }
    }

    /// Reports the frames from `walk.expected` (included) to `until` (excluded) as unreadable.
    fn lose(
        &mut self,
        walk: &mut SegmentWalk<'_>,
        offset: u64,
        until: Option<Lsn>,
        frame: Option<Frame>,
        what: &str,
    ) -> Result<(), StopReason> {
        let first = walk.expected;
        let last = until.map(|until| Lsn(until.0.saturating_sub(1).max(first.0)));
        let path = walk.segment.path.clone();
        let own = || tail::damaged(&path, offset, first, last, what);
        let error = walk.refused.take().unwrap_or_else(own);
        walk.expected = until.map_or(first, |until| until.max(first));
        walk.checksum = None;
        let lost = Some(LostFrames { first, last, frame });
        self.fault(walk.segment.path.clone(), error, lost).map_err(StopReason::Visitor)
    }
}

/// The state of the check of one segment.
struct SegmentWalk<'a> {
    reader: FrameReader<'a>,
    file: &'a dyn DiskFile,
    segment: &'a Segment,
    /// First lsn of the next segment, if readable.
    next: Option<Lsn>,
    /// The next segment exists, but is unreadable: the end of this segment is unknown.
    next_unread: bool,
    expected: Lsn,
    /// Checksum of the last frame's header; `None` after lost frames.
    checksum: Option<u32>,
    /// The error that a start of the server reports at the first damage.
    refused: Option<Error>,
}

impl SegmentWalk<'_> {
    /// The first header from offset `from` on with a valid checksum and an lsn that can follow the
    /// frames so far.
    fn next_header(&self, from: u64) -> io::Result<Option<(u64, Header)>> {
        let mut buffer = vec![0; SEARCH_BYTES];
        let mut at = from;
        loop {
            let wanted = self.segment.bytes.saturating_sub(at).min(SEARCH_BYTES as u64) as usize;
            let filled =
                tail::read_up_to(self.file, buffer.get_mut(..wanted).unwrap_or_default(), at)?;
            let chunk = buffer.get(..filled).unwrap_or_default();
            if chunk.is_empty() {
                return Ok(None);
            }
            for (place, offset) in chunk
                .chunks(frame::ALIGNMENT as usize)
                .zip((at..).step_by(frame::ALIGNMENT as usize))
            {
                if let ParsedRecord::Header(header, _) = Header::parse(place, self.segment.seed)
                    && header.lsn >= self.expected
                {
                    return Ok(Some((offset, header)));
                }
            }
            at += filled as u64;
        }
    }
}

/// Why the check of a segment ends early.
enum StopReason {
    Disk(io::Error),
    Visitor(Error),
}

impl From<io::Error> for StopReason {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}
