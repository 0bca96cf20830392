//! Recovery of a journal's directory: verifies the files, cuts a torn tail, and makes the recovered
//! frames durable before they count as committed.

use std::{collections::BTreeSet, io, path::Path};

use stratalog_model::{DiskFile, Error, ErrorKind, Lsn, Result, SegmentId};

use crate::{
    aligned,
    continuation::Continuation,
    defects::sabotaged,
    required_segments::RequiredSegments,
    rotation::{self, JournalPlace, WriterFailure},
    segment::{self, Segment, SegmentHeader},
    tail::{self, Tail, unreadable},
};

/// Bytes per write when the tail is rewritten or erased.
const PIECE_BYTES: u64 = 1 << 20;

/// A recovered directory for a writer.
#[derive(Debug)]
pub(crate) struct RecoveredJournal {
    /// Segments in order; the writer appends to the last segment.
    pub(crate) segments: Vec<Segment>,
    /// The open file of the last segment.
    pub(crate) file: Box<dyn DiskFile>,
    /// The end of the frames in the last segment; all earlier frames are durable.
    pub(crate) tail: Tail,
    /// The continuation record that the second-last segment needs, if a crash may have prevented
    /// its write.
    pub(crate) continuation: Option<Continuation>,
}

/// Makes the directory if missing, and locks the directory for this process.
pub(crate) fn lock(place: &JournalPlace) -> Result<Box<dyn Send + Sync>> {
    let directory = &place.directory;
    let failed = |error| Error::io(format_args!("cannot create {}", directory.display()), error);
    place.disk.create_dir_all(directory).map_err(failed)?;
    let path = place.path(segment::LOCK_NAME);
    place.disk.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => Error::new(
            ErrorKind::ObjectInUse,
            format!("the journal {} is in use by another process", directory.display()),
        )
        .with_hint("stop that process, or use another data directory"),
        _ => Error::io(format_args!("cannot lock {}", path.display()), error),
    })
}

/// Syncs all parent directories of the journal: a process that was killed may have created any of
/// them without a sync.
fn sync_path(place: &JournalPlace) -> Result<()> {
    for (above, parent) in place.directory.ancestors().skip(1).enumerate() {
        let here = parent.as_os_str().is_empty();
        match place.disk.sync_dir(if here { Path::new(".") } else { parent }) {
            // This server did not create a parent directory that it may not read: no sync is
            // needed.
            Err(error) if above > 0 && error.kind() == io::ErrorKind::PermissionDenied => {}
            outcome => outcome.map_err(|error| {
                Error::io(format_args!("cannot sync the directory {}", parent.display()), error)
            })?,
        }
    }
    Ok(())
}

/// Fails if the directory is missing; makes no file.
pub(crate) fn check_directory(place: &JournalPlace) -> Result<()> {
    let directory = &place.directory;
    match place.disk.exists(directory) {
        Ok(true) => Ok(()),
        Ok(false) => Err(lost(format!("the journal {} is missing", directory.display()))),
        Err(error) => Err(Error::io(format_args!("cannot find {}", directory.display()), error)),
    }
}

/// The error for a journal that existed before, but has no files any more.
pub(crate) fn lost(what: String) -> Error {
    Error::new(ErrorKind::DataCorrupted, what)
        .with_detail("the directory of the journal was created with the data directory, and has contained a segment since")
        .with_hint("restore the directory from a backup")
}

/// Recovers the journal of a locked directory. Without `existing`, makes a new journal if the
/// directory has none.
pub(crate) fn recover(
    place: &JournalPlace,
    existing: Option<RequiredSegments>,
) -> Result<RecoveredJournal> {
    let numbers = list(place)?;
    let mut segments = Vec::with_capacity(numbers.len());
    for number in &numbers {
        segments.push(read_header(place, *number)?);
    }
    let beginning = existing.unwrap_or(RequiredSegments::First);
    if let RequiredSegments::At(lsn) = beginning {
        remove_released(place, &mut segments, lsn)?;
    }
    check_order(&segments, place, beginning)?;
    debug_assert!(
        segments.is_sorted_by(|a, b| a.header.number < b.header.number),
        "the segments are not in order"
    );
    debug_assert!(
        segments.is_sorted_by_key(|segment| segment.header.first_lsn),
        "the frames of the segments are not in order"
    );
    let Some(last) = segments.last() else {
        if existing.is_some() {
            let directory = place.directory.display();
            return Err(lost(format!("the journal {directory} has lost all of its segments")));
        }
        return create(place);
    };
    let file = place.disk.open(&last.path).map_err(|error| unreadable(&last.path, error))?;
    let tail = tail::examine(file.as_ref(), last, &place.settings)?;
    settle(place, last, file.as_ref(), &tail).map_err(|error| {
        Error::io(format_args!("cannot recover {}", last.path.display()), error)
    })?;
    if tail.torn_end > tail.offset {
        tracing::warn!(
            segment = %last.path.display(),
            offset = tail.offset,
            bytes = tail.torn_end - tail.offset,
            last_lsn = tail.last.0,
            "cut a torn tail without acknowledged durable frames"
        );
    }
    let continuation = match segments.as_slice() {
        // A segment gets frames only after the previous segment has its continuation record.
        [.., before, last] if tail.offset == segment::HEADER_BYTES => {
            Continuation::unsettled(place.disk.as_ref(), before, last)?
        }
        _ => None,
    };
    Ok(RecoveredJournal { file, tail, segments, continuation })
}

/// Lists the numbers of the segments. Removes a spare segment; fails for any other file except the
/// lock.
fn list(place: &JournalPlace) -> Result<BTreeSet<SegmentId>> {
    let names = names(place)?;
    if let Some(name) = names.foreign.first() {
        return Err(foreign(&place.directory, name));
    }
    if names.spare {
        place.disk.remove_file(&place.path(segment::SPARE_NAME)).map_err(|error| {
            Error::io(format_args!("cannot read {}", place.directory.display()), error)
        })?;
    }
    Ok(names.numbers)
}

/// The files of a journal's directory, except the lock file.
pub(crate) struct Names {
    pub(crate) numbers: BTreeSet<SegmentId>,
    pub(crate) spare: bool,
    /// Names of files that do not belong to a journal.
    pub(crate) foreign: Vec<String>,
}

/// Lists the files of the directory without changing them.
pub(crate) fn names(place: &JournalPlace) -> Result<Names> {
    let directory = &place.directory;
    let failed = |error| Error::io(format_args!("cannot read {}", directory.display()), error);
    let mut names = Names { numbers: BTreeSet::new(), spare: false, foreign: Vec::new() };
    for name in place.disk.list(directory).map_err(failed)? {
        match (name.as_str(), segment::parse_name(&name)) {
            (segment::LOCK_NAME, _) => {}
            (segment::SPARE_NAME, _) => names.spare = true,
            (_, Some(number)) => drop(names.numbers.insert(number)),
            (_, None) => names.foreign.push(name),
        }
    }
    Ok(names)
}

pub(crate) fn foreign(directory: &Path, name: &str) -> Error {
    Error::new(
        ErrorKind::ObjectNotInPrerequisiteState,
        format!(
            "the journal directory {} contains \"{name}\", which is not a file of Stratalog",
            directory.display()
        ),
    )
    .with_hint("check that the data directory is correct, then move the file elsewhere")
}

pub(crate) fn read_header(place: &JournalPlace, number: SegmentId) -> Result<Segment> {
    let path = place.path(&segment::file_name(number));
    let failed = |error| unreadable(&path, error);
    let file = place.disk.open(&path).map_err(failed)?;
    let mut bytes = vec![0; segment::HEADER_BYTES as usize];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, filled as u64).map_err(failed)? {
            0 => break,
            read => filled += read,
        }
    }
    bytes.truncate(filled);
    let (header, seed) = SegmentHeader::decode(&bytes, &path)?;
    let len = file.len().map_err(failed)?;
    let damaged = |what: String| {
        Err(Error::new(
            ErrorKind::DataCorrupted,
            format!("journal segment {} is damaged: {what}", path.display()),
        )
        .with_hint("restore the file from a backup"))
    };
    if header.number != number {
        return damaged(format!("the header has segment number {}", header.number));
    }
    if header.partition != place.settings.partition {
        return damaged(format!(
            "the segment belongs to partition {}, not {}",
            header.partition, place.settings.partition
        ));
    }
    if header.preallocated > len {
        return damaged(format!(
            "the segment has {len} bytes instead of {}, so frames from offset {len} on may be lost",
            header.preallocated
        ));
    }
    if header.first_lsn == Lsn(0) {
        return damaged("the first lsn is 0".to_string());
    }
    // The writer never writes after the preallocated part of a file.
    let bytes = if header.preallocated > 0 { header.preallocated } else { len };
    debug_assert!(bytes <= len, "the segment is longer than its file");
    Ok(Segment { path, header, seed, bytes })
}

/// Removes the segments that contain only frames below `before`: a crash interrupted their removal.
fn remove_released(place: &JournalPlace, segments: &mut Vec<Segment>, before: Lsn) -> Result<()> {
    let needed = segments.partition_point(|segment| segment.header.first_lsn <= before);
    let released = needed.saturating_sub(1);
    debug_assert!(
        released < segments.len() || segments.is_empty(),
        "the segment in use would be removed"
    );
    for segment in segments.drain(..released) {
        place.disk.remove_file(&segment.path).map_err(|error| {
            Error::io(format_args!("cannot remove {}", segment.path.display()), error)
        })?;
    }
    Ok(())
}

/// Checks that no segment is missing, from the first needed segment on.
fn check_order(
    segments: &[Segment],
    place: &JournalPlace,
    beginning: RequiredSegments,
) -> Result<()> {
    let Some(oldest) = segments.first().map(|segment| segment.header) else { return Ok(()) };
    let first = match beginning {
        RequiredSegments::First => 1,
        RequiredSegments::At(lsn) if oldest.first_lsn > lsn => (oldest.number.0 - 1).max(1),
        RequiredSegments::At(_) | RequiredSegments::Any => oldest.number.0,
    };
    let mut previous_lsn = Lsn(1);
    for (number, found) in (first..).map(SegmentId).zip(segments) {
        if found.header.number != number {
            let error = missing(&place.path(&segment::file_name(number)));
            let there = format!("segment {} exists", found.path.display());
            return Err(error.with_detail(match beginning {
                RequiredSegments::At(lsn) if oldest.first_lsn > lsn => format!(
                    "{there}, and begins at frame {}; the manifest needs frame {lsn}: a segment is lost, or an older copy of the manifest replaced the newest copy",
                    oldest.first_lsn
                ),
                _ => there,
            }));
        }
        let first = found.header.first_lsn;
        if first < previous_lsn || number == SegmentId(1) && first != Lsn(1) {
            let what = "the header does not follow the previous segment";
            return Err(tail::damaged(&found.path, 0, first, None, what));
        }
        previous_lsn = first;
    }
    Ok(())
}

/// The error for a missing segment.
pub(crate) fn missing(path: &Path) -> Error {
    let what = format!("journal segment {} is missing", path.display());
    Error::new(ErrorKind::DataCorrupted, what).with_hint("restore the file from a backup")
}

fn create(place: &JournalPlace) -> Result<RecoveredJournal> {
    if !sabotaged!(place.settings, NoDirectorySync) {
        sync_path(place)?;
    }
    let header = SegmentHeader {
        partition: place.settings.partition,
        number: SegmentId(1),
        first_lsn: Lsn(1),
        preallocated: 0,
        previous_checksum: 0,
    };
    let path = place.path(&segment::file_name(header.number));
    let made = rotation::make_spare(place, segment::HEADER_BYTES, 0)
        .map_err(|error| rotation::refused(&path, error))
        .and_then(|spare| rotation::adopt(place, spare, header));
    let (file, segment) = made.map_err(|fault| match fault {
        WriterFailure::Refused(error) => error,
        WriterFailure::Poisoned(reason) => Error::new(ErrorKind::Io, reason),
    })?;
    let tail = Tail {
        offset: segment::HEADER_BYTES,
        last: Lsn(0),
        last_checksum: 0,
        attested: Lsn(0),
        unattested_offset: segment::HEADER_BYTES,
        torn_end: segment::HEADER_BYTES,
    };
    Ok(RecoveredJournal { segments: vec![segment], file, tail, continuation: None })
}

/// Erases the torn tail, and makes all records before the tail durable.
///
/// Records without a later record that states them as durable are written again: after a failed
/// fsync, the page cache may mark pages as clean that never reached the disk, and then another
/// fsync does nothing. Marks are written again too, because recovery stops at a lost mark.
fn settle(
    place: &JournalPlace,
    last: &Segment,
    file: &dyn DiskFile,
    tail: &Tail,
) -> io::Result<()> {
    debug_assert!(tail.unattested_offset <= tail.offset && tail.offset <= tail.torn_end);
    let rewrite =
        tail.unattested_offset < tail.offset && !sabotaged!(place.settings, RecoveredUnsynced);
    if rewrite {
        let mut at = tail.unattested_offset;
        let mut piece = vec![0; PIECE_BYTES as usize];
        while at < tail.offset {
            let len = (tail.offset - at).min(PIECE_BYTES);
            let Some(bytes) = piece.get_mut(..len as usize) else { break };
            match file.read_at(bytes, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => {
                    file.write_all_at(bytes.get(..read).unwrap_or_default(), at)?;
                    at += read as u64;
                }
            }
        }
        debug_assert_eq!(at, tail.offset, "records were not written again");
    }
    let cut = tail.torn_end > tail.offset && !sabotaged!(place.settings, TornTailKept);
    let len = file.len()?;
    if len > last.bytes {
        tracing::warn!(segment = %last.path.display(), bytes = len - last.bytes, "cut bytes that were appended to a segment");
        file.set_len(last.bytes)?;
    }
    if cut {
        erase(file, last.header.preallocated > 0, tail.offset, tail.torn_end)?;
    }
    if sabotaged!(place.settings, RecoveredUnsynced) {
        return Ok(());
    }
    // Needed even without a torn tail: before this process was killed, it may have cut the tail or
    // named a new segment only in the page cache.
    if let Err(error) = file.sync_data() {
        if cut {
            // The page cache may mark these zeros as clean now, although they are not on disk. The
            // next recovery would find nothing to erase. Therefore the zeros are written again.
            drop(erase(file, last.header.preallocated > 0, tail.offset, tail.torn_end));
        }
        return Err(error);
    }
    place.disk.sync_dir(&place.directory)
}

/// Restores `[start, end)` to the state of unwritten bytes (zeros, or cut off). No record may
/// follow the range.
pub(crate) fn erase(
    file: &dyn DiskFile,
    preallocated: bool,
    start: u64,
    end: u64,
) -> io::Result<()> {
    debug_assert!(start <= end, "nothing to erase from {start} to {end}");
    debug_assert!(start >= segment::HEADER_BYTES, "the header would be erased");
    if !preallocated {
        return file.set_len(start);
    }
    let mut at = start;
    while at < end {
        let zeros = aligned::zeros((end - at).min(4096) as usize);
        file.write_all_at(zeros, at)?;
        at += zeros.len() as u64;
    }
    debug_assert_eq!(at, end, "bytes behind the range were erased");
    Ok(())
}
