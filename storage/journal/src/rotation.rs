//! Makes new segments: large segments in advance, and each segment durable before its first frame.
//!
//! ```text
//!   spare.journal: create, fallocate, fsync ─► header, fdatasync ─► rename ─► fsync directory
//!   (in a separate thread)                     (when the previous segment is full and durable)
//! ```
//! Afterwards the previous segment gets its continuation record: see `continuation`.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
};

use stratalog_metrics::JournalMetrics;
use stratalog_model::{Disk, DiskFile, Error};

use crate::{
    JournalSettings,
    defects::sabotaged,
    segment::{self, Segment, SegmentHeader},
};

/// Segments of at least this size are made in advance, as spares.
const AHEAD_BYTES_MIN: u64 = 8 << 20;
/// Size of the first segment, and minimum size of segments on a nearly full disk.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// The kinds of failures of the writer.
#[derive(Debug)]
pub(crate) enum WriterFailure {
    /// The failed work left no trace; later work may succeed.
    Refused(Error),
    /// The state of the disk is unknown: the writer must stop for good (CL-7).
    Poisoned(String),
}

/// Where a journal is stored, and how: disk, directory, settings and metrics.
#[derive(Debug, Clone)]
pub(crate) struct JournalPlace {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) directory: PathBuf,
    pub(crate) settings: Arc<JournalSettings>,
    pub(crate) metrics: JournalMetrics,
}

impl JournalPlace {
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The minimum size of a new segment.
    pub(crate) fn segment_bytes_min(&self) -> u64 {
        SEGMENT_BYTES_MIN.min(self.settings.segment_bytes_max)
    }
}

/// A preallocated file for a later segment, under a name that recovery does not treat as a segment.
#[derive(Debug)]
pub(crate) struct SpareFile {
    file: Box<dyn DiskFile>,
    preallocated: u64,
}

/// Makes a spare with room for at least `needed` bytes. Each segment has twice the size of the
/// previous segment (`previous` bytes), up to the maximum of the settings: a seldom used journal
/// takes little space.
pub(crate) fn make_spare(
    place: &JournalPlace,
    needed: u64,
    previous: u64,
) -> io::Result<SpareFile> {
    let path = place.path(segment::SPARE_NAME);
    if place.disk.exists(&path)? {
        place.disk.remove_file(&path)?;
    }
    let settings = &place.settings;
    let grown = previous.saturating_mul(2).max(place.segment_bytes_min());
    let wanted = grown.min(settings.segment_bytes_max).max(needed);
    let all = place.disk.free_bytes(&place.directory)?;
    let free = all.saturating_sub(settings.free_bytes_min);
    let least = needed.max(place.segment_bytes_min());
    if free < least {
        let reason = format!(
            "{all} bytes are free; a segment needs {least}, and free_bytes_min keeps {} free",
            settings.free_bytes_min
        );
        return Err(io::Error::new(io::ErrorKind::StorageFull, reason));
    }
    let file = place.disk.create(&path)?;
    if !settings.preallocate {
        return Ok(SpareFile { file, preallocated: 0 });
    }
    // On a nearly full disk, leaves half of the free space to tablets and stories.
    let preallocated = wanted.min((free / 2).max(least));
    debug_assert!(needed <= preallocated, "{preallocated} bytes for {needed}");
    debug_assert!(least <= preallocated, "the segment is smaller than the smallest segment");
    debug_assert!(preallocated <= free, "the segment takes bytes that must stay free");
    let made = file.preallocate(preallocated).and_then(|()| file.sync_all());
    if let Err(error) = made {
        if error.kind() == io::ErrorKind::Unsupported {
            return Ok(SpareFile { file, preallocated: 0 });
        }
        drop(file);
        place.disk.remove_file(&path)?;
        return Err(error);
    }
    Ok(SpareFile { file, preallocated })
}

/// Turns a spare into the segment described by `header`: writes the header, and renames the file.
pub(crate) fn adopt(
    place: &JournalPlace,
    spare: SpareFile,
    header: SegmentHeader,
) -> Result<(Box<dyn DiskFile>, Segment), WriterFailure> {
    debug_assert_eq!(header.preallocated, 0, "the spare decides the length");
    let SpareFile { file, preallocated } = spare;
    let header = SegmentHeader { preallocated, ..header };
    let from = place.path(segment::SPARE_NAME);
    let path = place.path(&segment::file_name(header.number));
    let (bytes, seed) = header.encode();
    file.write_all_at(&bytes, 0).map_err(|error| refused(&path, error))?;
    if !sabotaged!(place.settings, NoSync) {
        file.sync_data().map_err(|error| poisoned("fdatasync of", &path, &error))?;
    }
    place.disk.rename(&from, &path).map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => refused(&path, error),
        _ => poisoned("rename to", &path, &error),
    })?;
    if !sabotaged!(place.settings, NoDirectorySync) {
        place
            .disk
            .sync_dir(&place.directory)
            .map_err(|error| poisoned("fsync of", &place.directory, &error))?;
    }
    let bytes = if preallocated > 0 { preallocated } else { bytes.len() as u64 };
    Ok((file, Segment { path, header, seed, bytes }))
}

/// The error for a segment that could not be made; the journal remains usable.
pub(crate) fn refused(path: &Path, error: io::Error) -> WriterFailure {
    let full = error.kind() == io::ErrorKind::StorageFull;
    let error = Error::io(format_args!("cannot create journal segment {}", path.display()), error);
    WriterFailure::Refused(if full {
        error.with_hint("free space on the disk; nothing else is needed")
    } else {
        error
    })
}

/// The failure after which the state of the disk is unknown: poisons the journal.
pub(crate) fn poisoned(action: &str, path: &Path, error: &io::Error) -> WriterFailure {
    WriterFailure::Poisoned(format!("{action} {} failed: {error}", path.display()))
}

/// Makes the next spare in a separate thread, so that the change to a new segment does not wait for
/// the file system.
#[derive(Debug, Default)]
pub(crate) struct Preallocator {
    thread: Option<JoinHandle<io::Result<SpareFile>>>,
}

impl Preallocator {
    /// Starts the thread if more than half of the current segment is used: `position` of `limit`
    /// bytes.
    pub(crate) fn consider(&mut self, place: &JournalPlace, position: u64, limit: u64) {
        debug_assert!(position <= limit, "the writer is behind the end of its segment");
        let due = place.settings.preallocate && limit >= AHEAD_BYTES_MIN && position > limit / 2;
        if !due || self.thread.is_some() {
            return;
        }
        let place = place.clone();
        let make = move || make_spare(&place, 0, limit);
        self.thread =
            std::thread::Builder::new().name("journal-spare".to_string()).spawn(make).ok();
    }

    /// Returns a spare with room for `needed` bytes, to follow a segment of `previous` bytes: the
    /// spare made in advance if it is large enough, otherwise a new spare.
    pub(crate) fn take(
        &mut self,
        place: &JournalPlace,
        needed: u64,
        previous: u64,
    ) -> io::Result<SpareFile> {
        if let Some(Ok(Ok(spare))) = self.thread.take().map(JoinHandle::join)
            && spare.preallocated >= needed
        {
            return Ok(spare);
        }
        make_spare(place, needed, previous)
    }

    /// Removes the spare made in advance, if any.
    pub(crate) fn discard(&mut self, place: &JournalPlace) {
        if let Some(thread) = self.thread.take() {
            // If the removal fails, the next open of the journal removes the file.
            drop(thread.join());
            drop(place.disk.remove_file(&place.path(segment::SPARE_NAME)));
        }
    }
}
