//! Distinguishes a torn tail, which recovery cuts, from damage, which recovery never cuts.
//!
//! ```text
//!   valid frames ───────────────────►│ X: the first invalid record
//!   … durable=8 │ lsn 9 │ lsn 10 ────┤ ? │ lsn 12, durable=10 │ zeros …
//! ```
//!
//! A power cut may keep or lose any sectors of unsynced writes; a lost sector reads as its earlier
//! zeros. The bytes at X count as a torn tail unless one of these rules makes them damage:
//! - A later header states that the frame at X, or a later frame, is durable.
//! - A sound record follows, but lost sectors cannot explain the bytes at X: a header that is
//!   neither sound nor zeros, or a payload with a wrong checksum and without a sector of zeros.
//! - No sound record follows, and the frame at X is complete except for a few wrong bits.
//!   Exception: a header that is followed only by zeros, and that no change of one byte makes
//!   valid, is the beginning of an interrupted write.
//!
//! When idle and at close, the writer writes marks. A mark states the durable position of the
//! journal, so the last two rules are seldom needed.

use std::{collections::VecDeque, io, path::Path};

use stratalog_model::{DiskFile, Error, ErrorKind, Lsn, Result, SegmentId, invariant};

use crate::{
    JournalSettings, aligned,
    defects::sabotaged,
    frame::{self, Header, ParsedRecord, Record},
    reader::{FrameReader, Step, Stop},
    segment::{self, Segment},
};

/// Smallest unit that a disk writes atomically.
const SECTOR_BYTES: u64 = 512;
/// Bytes per read in the search for sound headers after the tail.
const SEARCH_BYTES: usize = 4 << 20;
/// Minimum distance in the file between two remembered positions of frames that no record states as
/// durable yet.
const LANDMARK_BYTES: u64 = 1 << 20;

/// The end of the recovered frames in the last segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Offset of the next frame.
    pub(crate) offset: u64,
    /// Lsn of the last frame.
    pub(crate) last: Lsn,
    /// Checksum of the header of the last frame.
    pub(crate) last_checksum: u32,
    /// The highest lsn that a record on disk states as durable.
    pub(crate) attested: Lsn,
    /// A file offset at or before the first record that no later record states as durable; `offset`
    /// if all are stated. A mark does not state its own durability.
    pub(crate) unattested_offset: u64,
    /// End of the torn bytes; equal to `offset` without torn bytes.
    pub(crate) torn_end: u64,
}

/// The result of reading consecutive valid records of a segment.
pub(crate) struct Run {
    /// The lsn that the next frame must have.
    pub(crate) expected: Lsn,
    /// Checksum of the header of the last frame.
    pub(crate) checksum: u32,
    /// Offset of the continuation record, if the records end with this record.
    pub(crate) continued: Option<u64>,
    /// Why the valid records end.
    pub(crate) stop: Stop,
}

/// The callback for each record; its arguments are header, file offset and payload.
pub(crate) type VisitRecord<'a> = dyn FnMut(&Header, u64, bytes::Bytes) -> Result<()> + 'a;

/// Calls `visit` for the valid, consecutive records of a segment.
pub(crate) fn follow(
    reader: &mut FrameReader<'_>,
    segment: &Segment,
    visit: &mut VisitRecord<'_>,
) -> Result<Run> {
    let mut expected = segment.header.first_lsn;
    let mut checksum = segment.header.previous_checksum;
    let mut continued: Option<u64> = None;
    loop {
        match reader.step().map_err(|error| unreadable(&segment.path, error))? {
            Step::Stop(stop) => {
                debug_assert!(segment.header.first_lsn <= expected, "the run goes back");
                debug_assert!(
                    continued.is_none_or(|at| at < reader.offset()),
                    "the reader has not moved past the last record"
                );
                return Ok(Run { expected, checksum, continued, stop });
            }
            Step::Record { offset, header, checksum: own, payload } => {
                if header.lsn != expected || header.durable >= expected {
                    let what = format!("found frame {} instead", header.lsn);
                    return Err(damaged(&segment.path, offset, expected, None, &what));
                }
                if continued.is_some() {
                    let what = "a record follows the last record of the segment";
                    return Err(damaged(&segment.path, offset, expected, None, what));
                }
                visit(&header, offset, payload)?;
                match header.record {
                    Record::Frame(_) => {
                        expected = Lsn(expected.0 + 1);
                        checksum = own;
                    }
                    Record::Mark => {}
                    Record::Continued => continued = Some(offset),
                }
            }
        }
    }
}

/// Finds the end of the frames in the last segment.
///
/// # Errors
/// `DataCorrupted` for damage before the end.
pub(crate) fn examine(
    file: &dyn DiskFile,
    segment: &Segment,
    settings: &JournalSettings,
) -> Result<Tail> {
    debug_assert_ne!(segment.header.first_lsn, Lsn(0), "frames count from 1");
    let before = Lsn(segment.header.first_lsn.0 - 1);
    // The writer makes a new segment only when all earlier frames are durable.
    let mut attested = before;
    let mut landmarks: VecDeque<(Lsn, u64)> = VecDeque::new();
    // Offset of the first mark after the last frame.
    let mut last_marks = None;
    let mut reader = FrameReader::new(file, segment);
    reader.checksums_ignored = sabotaged!(settings, ChecksumIgnored);
    let run = follow(&mut reader, segment, &mut |header, offset, _| {
        debug_assert!(header.durable < header.lsn, "a frame attests itself");
        attested = attested.max(header.durable);
        while landmarks.get(1).is_some_and(|(lsn, _)| *lsn <= attested) {
            landmarks.pop_front();
        }
        if landmarks.back().is_none_or(|(_, last)| offset - last >= LANDMARK_BYTES) {
            landmarks.push_back((header.lsn, offset));
        }
        last_marks = match header.record {
            Record::Mark | Record::Continued => last_marks.or(Some(offset)),
            Record::Frame(_) => None,
        };
        Ok(())
    })?;
    let offset = reader.offset();
    debug_assert!(
        landmarks.iter().is_sorted_by_key(|(_, at)| *at),
        "the remembered positions are not in order"
    );
    let beyond = search(file, segment, offset, &run.stop, settings)
        .map_err(|error| unreadable(&segment.path, error))?;
    if beyond.used_end > offset {
        judge(file, segment, offset, &run, &beyond, settings)?;
    }
    if let Some(at) = run.continued {
        return Err(successor_missing(segment, at, run.expected));
    }
    let last = Lsn(run.expected.0 - 1);
    let attested = attested.min(last);
    let unattested_offset = match landmarks.front() {
        Some((_, at)) if attested < last => *at,
        _ => last_marks.unwrap_or(offset),
    };
    debug_assert!(unattested_offset <= offset && offset <= beyond.used_end);
    invariant!(
        AcknowledgedIsRecovered,
        before <= attested && attested <= last,
        "frame {attested} is attested in a segment from {before} to {last}"
    );
    Ok(Tail {
        offset,
        last,
        last_checksum: run.checksum,
        attested,
        unattested_offset,
        torn_end: beyond.used_end,
    })
}

/// What the file contains from the first invalid record on.
struct TailRemainder {
    /// End of the last nonzero byte; the record's offset if all bytes are zeros.
    used_end: u64,
    /// The highest lsn that a sound header in this range attests as durable.
    durable: Lsn,
    /// The lsn of the first sound header in this range.
    first: Option<Lsn>,
}

/// Searches for sound headers from offset `from` on, at every offset where a frame can start. If
/// the length of the frame at `from` is known, skips its payload, because a payload may contain any
/// bytes.
fn search(
    file: &dyn DiskFile,
    segment: &Segment,
    from: u64,
    stop: &Stop,
    settings: &JournalSettings,
) -> io::Result<TailRemainder> {
    let sound_from = match stop {
        Stop::DamagedPayload(header) | Stop::Overrun(header) => from + header.extent(),
        _ => from,
    };
    let mut beyond = TailRemainder { used_end: from, durable: Lsn(0), first: None };
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut at = from;
    loop {
        let wanted = segment.bytes.saturating_sub(at).min(SEARCH_BYTES as u64) as usize;
        let filled = read_up_to(file, buffer.get_mut(..wanted).unwrap_or_default(), at)?;
        let chunk = buffer.get(..filled).unwrap_or_default();
        if chunk.is_empty() || sabotaged!(settings, DamageCut) && at > from {
            debug_assert!(
                from <= beyond.used_end && beyond.used_end <= at,
                "the used bytes end outside of the searched bytes"
            );
            return Ok(beyond);
        }
        let used = aligned::used_len(chunk);
        if used > 0 {
            beyond.used_end = at + used as u64;
        }
        let skipped = sound_from.saturating_sub(at).min(used as u64) as usize;
        let last = used.next_multiple_of(frame::ALIGNMENT as usize).min(filled);
        debug_assert!(skipped <= last, "the searched bytes begin behind their end");
        let places = chunk.get(skipped..last).unwrap_or_default();
        for place in places.chunks(frame::ALIGNMENT as usize) {
            if let ParsedRecord::Header(header, _) = Header::parse(place, segment.seed) {
                beyond.durable = beyond.durable.max(header.durable);
                beyond.first = beyond.first.or(Some(header.lsn));
            }
        }
        at += filled as u64;
    }
}

/// Returns an error if the bytes at `offset` are damage, by the rules in the comment of the module.
fn judge(
    file: &dyn DiskFile,
    segment: &Segment,
    offset: u64,
    run: &Run,
    beyond: &TailRemainder,
    settings: &JournalSettings,
) -> Result<()> {
    debug_assert!(beyond.used_end > offset, "nothing is behind the last record");
    if sabotaged!(settings, DamageCut) {
        return Ok(());
    }
    let damaged = |what: &str| {
        let last = beyond.first.map(|lsn| Lsn(lsn.0.saturating_sub(1).max(run.expected.0)));
        let error = damaged(&segment.path, offset, run.expected, last, what);
        Err(error.with_hint(format!(
            "restore the file from a backup; or give up frame {} and all following frames: truncate -s {offset} FILE && truncate -s {} FILE",
            run.expected, segment.bytes
        )))
    };
    if beyond.durable >= run.expected {
        return damaged("a later record proves that the frame was durable");
    }
    let followed = beyond.first.is_some();
    let torn = match &run.stop {
        Stop::Unknown => return damaged("a record of a kind unknown to this version"),
        Stop::Overrun(_) if segment.header.preallocated > 0 => {
            return damaged("a frame longer than its segment");
        }
        Stop::Overrun(_) => true,
        Stop::Blank => !followed || has_blank_sector(file, offset, offset + SECTOR_BYTES),
        Stop::DamagedHeader => {
            let alone = beyond.used_end <= offset + frame::HEADER_BYTES;
            !followed
                && (!resembles_header(file, offset, run.expected)
                    || alone && is_torn_header(file, segment, offset))
        }
        Stop::DamagedPayload(header) => {
            let start = offset + frame::HEADER_BYTES;
            let end = start + u64::from(header.payload_bytes);
            debug_assert!(end <= segment.bytes, "the payload ends behind its segment");
            has_blank_sector(file, start, end) || !followed && has_blank_sector(file, end - 1, end)
        }
    };
    if torn { Ok(()) } else { damaged("the checksum does not match, and the frame is not torn") }
}

/// The error for a missing last segment: the segment before has a continuation record at `offset`,
/// and the missing segment contains the frames from `first` on.
fn successor_missing(segment: &Segment, offset: u64, first: Lsn) -> Error {
    debug_assert!(offset < segment.bytes, "the record is behind the end of its segment");
    let name = segment::file_name(SegmentId(segment.header.number.0 + 1));
    Error::new(
        ErrorKind::DataCorrupted,
        format!(
            "journal segment {} is missing: frame {first} and the following frames cannot be read",
            segment.path.with_file_name(name).display()
        ),
    )
    .with_detail(format!(
        "segment {} has a record of a next segment at offset {offset}",
        segment.path.display()
    ))
    .with_hint(format!(
        "restore the file from a backup; or give up frame {first} and all following frames: truncate -s {offset} FILE && truncate -s {} FILE, where FILE is {}",
        segment.bytes,
        segment.path.display()
    ))
}

/// Whether the bytes at `offset` are the header of frame `expected` with a few wrong bits.
fn resembles_header(file: &dyn DiskFile, offset: u64, expected: Lsn) -> bool {
    let mut bytes = [0; frame::HEADER_BYTES as usize];
    let whole = read_up_to(file, &mut bytes, offset).is_ok_and(|filled| filled == bytes.len());
    whole && frame::resembles(&bytes, expected)
}

/// Whether the bytes at `offset`, followed only by zeros, are the beginning of an interrupted
/// write. This is so if no change of one byte makes the header valid, or if the frame's payload is
/// missing too.
fn is_torn_header(file: &dyn DiskFile, segment: &Segment, offset: u64) -> bool {
    let mut bytes = [0; frame::HEADER_BYTES as usize];
    let whole = read_up_to(file, &mut bytes, offset).is_ok_and(|filled| filled == bytes.len());
    whole && frame::mended(&bytes, segment.seed).is_none_or(|payload_bytes| payload_bytes > 0)
}

/// Whether any sector of `[start, end)` contains only zeros, as a lost sector does. A failed read
/// returns `false`.
fn has_blank_sector(file: &dyn DiskFile, start: u64, end: u64) -> bool {
    debug_assert!(start <= end, "the range begins behind its end");
    let mut at = start;
    let mut sector = [0; SECTOR_BYTES as usize];
    while at < end {
        let next = (at + 1).next_multiple_of(SECTOR_BYTES).min(end);
        debug_assert!(at < next && next - at <= SECTOR_BYTES, "a step is no part of a sector");
        let Some(share) = sector.get_mut(..(next - at) as usize) else { return false };
        let Ok(filled) = read_up_to(file, share, at) else { return false };
        if share.get(..filled).is_some_and(aligned::is_zero) {
            return true;
        }
        at = next;
    }
    false
}

pub(crate) fn read_up_to(file: &dyn DiskFile, buffer: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    debug_assert!(filled <= buffer.len(), "the file gave more bytes than wanted");
    Ok(filled)
}

/// The error for damage that recovery must not cut (CL-6); names the place and the unreadable
/// frames.
pub(crate) fn damaged(
    path: &Path,
    offset: u64,
    first: Lsn,
    last: Option<Lsn>,
    what: &str,
) -> Error {
    let frames = match last {
        Some(last) if last > first => format!("frames {first} to {last}"),
        Some(_) => format!("frame {first}"),
        None => format!("frame {first} and the following frames"),
    };
    Error::new(
        ErrorKind::DataCorrupted,
        format!(
            "journal segment {} is damaged at offset {offset}: {frames} cannot be read: {what}",
            path.display()
        ),
    )
    .with_hint("restore the file from a backup")
}

/// The error for a failed read of a file.
pub(crate) fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::io(format_args!("cannot read journal segment {}", path.display()), error)
}
