//! Tells a torn tail, which is cut, from damage, which never is.
//!
//! ```text
//!   frames that hold ───────────────►│ X: the first record that does not hold
//!   … durable=8 │ lsn 9 │ lsn 10 ────┤ ? │ lsn 12, durable=10 │ zeros …
//! ```
//!
//! A power cut may keep any sectors of what was not synced and lose any others; a lost
//! one reads as the zeros that were there before. So what is found at X is a torn tail
//! only if nothing says otherwise:
//! - a header further on that says "durable up to X's frame or beyond" makes it damage;
//! - bytes in front of a sound record that lost sectors cannot explain (a header that is
//!   neither sound nor zeros, a payload that does not match and has no sector of zeros)
//!   make it damage;
//! - so does, with nothing sound behind it, a frame that is all there but for a few bits. A header
//!   with nothing but zeros behind it, which no single byte makes sound, is the beginning of a write
//!   that broke off instead.
//!
//! Marks, written when the writer has nothing to do and at close, say how far the journal
//! was durable, so that little is left to the last two rules.

use std::{collections::VecDeque, io, path::Path};

use stratalog_model::{DiskFile, Error, ErrorKind, Lsn, Result, SegmentId};

use crate::{
    JournalSettings, aligned,
    frame::{self, Header, Parsed, Record},
    reader::{FrameReader, Step, Stop},
    sabotaged,
    segment::{self, Segment},
};

/// Smallest piece that a disk writes whole.
const SECTOR_BYTES: u64 = 512;
/// Bytes of one read of the search behind the tail.
const SEARCH_BYTES: usize = 4 << 20;
/// Distance between remembered positions of frames that nothing attests.
const LANDMARK_BYTES: u64 = 1 << 20;

/// The end of the journal, as found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Where the next frame goes.
    pub(crate) offset: u64,
    /// Last lsn.
    pub(crate) last: Lsn,
    /// Checksum of the last record's header.
    pub(crate) last_checksum: u32,
    /// The last lsn that something on disk says is durable.
    pub(crate) attested: Lsn,
    /// At or before the first record that nothing says is durable; `offset` if there is
    /// none. A mark says nothing of itself.
    pub(crate) unattested_offset: u64,
    /// End of the torn bytes; `offset` if there are none.
    pub(crate) torn_end: u64,
}

/// The end of a run of records that hold and follow one another.
pub(crate) struct Run {
    /// Lsn that the next frame must have.
    pub(crate) expected: Lsn,
    /// Checksum of the last frame's header.
    pub(crate) checksum: u32,
    /// Where the record is that says that another segment follows; the run ends with it.
    pub(crate) continued: Option<u64>,
    /// Why the run ended.
    pub(crate) stop: Stop,
}

/// What a run hands to its visitor: the record, where it starts, and its payload.
pub(crate) type VisitRecord<'a> = dyn FnMut(&Header, u64, bytes::Bytes) -> Result<()> + 'a;

/// Visits the records of a segment as long as they hold and follow one another.
pub(crate) fn follow(
    reader: &mut FrameReader<'_>,
    segment: &Segment,
    visit: &mut VisitRecord<'_>,
) -> Result<Run> {
    let mut expected = segment.header.first_lsn;
    let mut checksum = segment.header.previous_checksum;
    let mut continued = None;
    loop {
        match reader.step().map_err(|error| unreadable(&segment.path, error))? {
            Step::Stop(stop) => return Ok(Run { expected, checksum, continued, stop }),
            Step::Record { offset, header, checksum: own, payload } => {
                if header.lsn != expected || header.durable >= expected {
                    let what = format!("found frame {} instead", header.lsn);
                    return Err(damaged(&segment.path, offset, expected, None, &what));
                }
                if continued.is_some() {
                    let what = "a record follows the one that ends the segment";
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

/// Finds the end of the last segment.
///
/// # Errors
/// `DataCorrupted` for damage before the end.
pub(crate) fn examine(
    file: &dyn DiskFile,
    segment: &Segment,
    settings: &JournalSettings,
) -> Result<Tail> {
    let before = Lsn(segment.header.first_lsn.0 - 1);
    // A segment is made when all before it is durable.
    let mut attested = before;
    let mut landmarks: VecDeque<(Lsn, u64)> = VecDeque::new();
    // The first of the marks that no frame follows.
    let mut last_marks = None;
    let mut reader = FrameReader::new(file, segment);
    reader.checksums_ignored = sabotaged!(settings, ChecksumIgnored);
    let run = follow(&mut reader, segment, &mut |header, offset, _| {
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
    Ok(Tail {
        offset,
        last,
        last_checksum: run.checksum,
        attested,
        unattested_offset,
        torn_end: beyond.used_end,
    })
}

/// What lies behind the first record that does not hold.
struct Beyond {
    /// End of the last byte that is not 0; the record's offset if all are.
    used_end: u64,
    /// The highest lsn that a sound header there says is durable.
    durable: Lsn,
    /// The first sound header there.
    first: Option<Lsn>,
}

/// Looks for sound headers at every possible place from `from` on, but not inside of the
/// frame there if its length is known: payloads may hold anything.
fn search(
    file: &dyn DiskFile,
    segment: &Segment,
    from: u64,
    stop: &Stop,
    settings: &JournalSettings,
) -> io::Result<Beyond> {
    let sound_from = match stop {
        Stop::DamagedPayload(header) | Stop::Overrun(header) => from + header.extent(),
        _ => from,
    };
    let mut beyond = Beyond { used_end: from, durable: Lsn(0), first: None };
    let mut buffer = vec![0; SEARCH_BYTES];
    let mut at = from;
    loop {
        let wanted = segment.bytes.saturating_sub(at).min(SEARCH_BYTES as u64) as usize;
        let filled = read_up_to(file, buffer.get_mut(..wanted).unwrap_or_default(), at)?;
        let chunk = buffer.get(..filled).unwrap_or_default();
        if chunk.is_empty() || sabotaged!(settings, DamageCut) && at > from {
            return Ok(beyond);
        }
        let used = aligned::used_len(chunk);
        if used > 0 {
            beyond.used_end = at + used as u64;
        }
        let skipped = sound_from.saturating_sub(at).min(used as u64) as usize;
        let last = used.next_multiple_of(frame::ALIGNMENT as usize).min(filled);
        let places = chunk.get(skipped..last).unwrap_or_default();
        for place in places.chunks(frame::ALIGNMENT as usize) {
            if let Parsed::Header(header, _) = Header::parse(place, segment.seed) {
                beyond.durable = beyond.durable.max(header.durable);
                beyond.first = beyond.first.or(Some(header.lsn));
            }
        }
        at += filled as u64;
    }
}

/// Fails if what lies at `offset` is damage; see the module's comment.
fn judge(
    file: &dyn DiskFile,
    segment: &Segment,
    offset: u64,
    run: &Run,
    beyond: &Beyond,
    settings: &JournalSettings,
) -> Result<()> {
    if sabotaged!(settings, DamageCut) {
        return Ok(());
    }
    let damaged = |what: &str| {
        let last = beyond.first.map(|lsn| Lsn(lsn.0.saturating_sub(1).max(run.expected.0)));
        let error = damaged(&segment.path, offset, run.expected, last, what);
        Err(error.with_hint(format!(
            "restore the file from a backup; or give up frame {} and all that follow: truncate -s {offset} FILE && truncate -s {} FILE",
            run.expected, segment.bytes
        )))
    };
    if beyond.durable >= run.expected {
        return damaged("a later record says that it was durable");
    }
    let followed = beyond.first.is_some();
    let torn = match &run.stop {
        Stop::Unknown => return damaged("a record of a kind that this version does not know"),
        Stop::Overrun(_) if segment.header.preallocated > 0 => {
            return damaged("a frame that is longer than its segment");
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
            has_blank_sector(file, start, end) || !followed && has_blank_sector(file, end - 1, end)
        }
    };
    if torn { Ok(()) } else { damaged("its checksum does not match, and it is not torn") }
}

/// The last segment says at `offset` that another one follows, which holds `first`.
fn successor_missing(segment: &Segment, offset: u64, first: Lsn) -> Error {
    let name = segment::file_name(SegmentId(segment.header.number.0 + 1));
    Error::new(
        ErrorKind::DataCorrupted,
        format!(
            "journal segment {} is missing: frame {first} and what follows cannot be read",
            segment.path.with_file_name(name).display()
        ),
    )
    .with_detail(format!(
        "segment {} says at offset {offset} that another one follows it",
        segment.path.display()
    ))
    .with_hint(format!(
        "restore the file from a backup; or give up frame {first} and all that follow: truncate -s {offset} FILE && truncate -s {} FILE, where FILE is {}",
        segment.bytes,
        segment.path.display()
    ))
}

/// Whether the bytes at `offset` were the header of frame `expected` but for a few bits.
fn resembles_header(file: &dyn DiskFile, offset: u64, expected: Lsn) -> bool {
    let mut bytes = [0; frame::HEADER_BYTES as usize];
    let whole = read_up_to(file, &mut bytes, offset).is_ok_and(|filled| filled == bytes.len());
    whole && frame::resembles(&bytes, expected)
}

/// Whether the bytes at `offset`, behind which there are only zeros, are the beginning of a frame: no
/// single wrong byte explains them, or the frame's payload is gone as well.
fn is_torn_header(file: &dyn DiskFile, segment: &Segment, offset: u64) -> bool {
    let mut bytes = [0; frame::HEADER_BYTES as usize];
    let whole = read_up_to(file, &mut bytes, offset).is_ok_and(|filled| filled == bytes.len());
    whole && frame::mended(&bytes, segment.seed).is_none_or(|payload_bytes| payload_bytes > 0)
}

/// Whether a sector's share of `[start, end)` is all zeros: what a lost sector leaves.
/// A read that fails counts as damage.
fn has_blank_sector(file: &dyn DiskFile, start: u64, end: u64) -> bool {
    let mut at = start;
    let mut sector = [0; SECTOR_BYTES as usize];
    while at < end {
        let next = (at + 1).next_multiple_of(SECTOR_BYTES).min(end);
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
    Ok(filled)
}

/// Damage that must not be cut (CL-6): where, and which frames cannot be read.
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
        None => format!("frame {first} and what follows"),
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

/// A read that the operating system refused.
pub(crate) fn unreadable(path: &Path, error: io::Error) -> Error {
    Error::io(format_args!("cannot read journal segment {}", path.display()), error)
}
