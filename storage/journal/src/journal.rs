//! The journal's implementation of the [`Log`] interface.

use std::{fmt, path::PathBuf, sync::Arc, thread::JoinHandle};

use parking_lot::Mutex;
use stratalog_metrics::JournalMetrics;
use stratalog_model::{
    BoxFuture, Disk, Durability, Error, ErrorKind, Frame, Log, Lsn, Result,
    log::{Completion, LogStatus, Reservation},
};

use crate::{
    JournalSettings,
    defects::sabotaged,
    extent::{self, Extent},
    frame,
    queue::{FrameCompletion, PendingFrame, SharedQueue},
    reader::{FrameReader, frame_of},
    recovery,
    required_segments::RequiredSegments,
    rotation::JournalPlace,
    segment::Segment,
    tail::{self, Tail, unreadable},
    writer::Writer,
};

/// A [`Log`] in its own directory, with segments, group commit and one writer at a time.
///
/// Keeps CL-1 for both durability levels, CL-6 for its files, and CL-7.
pub struct Journal {
    shared: Arc<SharedQueue>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// The recovered segments, which `replay` reads.
    segments: Vec<Segment>,
    tail: Tail,
    /// Keeps other processes out until `close`.
    lock: Mutex<Option<Box<dyn Send + Sync>>>,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("place", &self.shared.place).finish_non_exhaustive()
    }
}

impl Journal {
    /// Opens the journal in `directory` (made if missing). Recovers the journal: cuts a torn tail,
    /// and makes all frames before the tail durable. Then starts the writer. [`Log::replay`] reads
    /// the recovered frames.
    ///
    /// # Errors
    /// - `ObjectInUse`: another process has the journal open.
    /// - `ObjectNotInPrerequisiteState`: a foreign file is in the directory, or a segment has a
    ///   newer format.
    /// - `DataCorrupted`: damage before the end; names file, offset and frames (CL-6).
    /// - `DiskFull`, `Io`: the disk has no room, or fails.
    /// - `InvalidParameterValue`: the settings contradict each other.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        settings: JournalSettings,
    ) -> Result<Self> {
        Self::open_measured(disk, directory, settings, None, JournalMetrics::default())
    }

    /// Like [`Self::open`], but fails if the journal does not exist. Removes segments that contain
    /// only frames before `beginning`.
    ///
    /// # Errors
    /// Like [`Self::open`]; also `DataCorrupted` if the directory, or a segment that `beginning`
    /// needs, is missing.
    pub fn open_existing(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        settings: JournalSettings,
        beginning: RequiredSegments,
    ) -> Result<Self> {
        Self::open_measured(disk, directory, settings, Some(beginning), JournalMetrics::default())
    }

    /// Like [`Self::open`], or, if `existing` is given, like [`Self::open_existing`]; also records
    /// metrics.
    ///
    /// # Errors
    /// Like [`Self::open`] and [`Self::open_existing`].
    pub fn open_measured(
        disk: Arc<dyn Disk>,
        directory: PathBuf,
        settings: JournalSettings,
        existing: Option<RequiredSegments>,
        metrics: JournalMetrics,
    ) -> Result<Self> {
        settings.validate()?;
        let place = JournalPlace { disk, directory, settings: Arc::new(settings), metrics };
        if existing.is_some() {
            recovery::check_directory(&place)?;
        }
        let lock = recovery::lock(&place)?;
        let recovered = recovery::recover(&place, existing)?;
        let segments = recovered.segments.clone();
        let tail = recovered.tail;
        let writer = Writer::new(place.clone(), recovered)
            .ok_or_else(|| Error::internal("a journal without a segment"))?;
        let shared = Arc::new(SharedQueue::new(place, writer));
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("journal-writer".to_string())
            .spawn(move || serving.serve())
            .map_err(|error| Error::io("cannot start the journal's writer thread", error))?;
        Ok(Self {
            shared,
            writer: Mutex::new(Some(thread)),
            segments,
            tail,
            lock: Mutex::new(Some(lock)),
        })
    }

    /// All segments up to the current end, durable or not, for a copy of the journal. The list is
    /// valid until the next [release](Log::release).
    ///
    /// # Errors
    /// `Io` for a poisoned journal.
    pub fn extents(&self) -> Result<Vec<Extent>> {
        self.shared.extents()
    }

    /// Reads all frames of an extent from [`Self::extents`] and verifies their checksums.
    ///
    /// # Errors
    /// `DataCorrupted`, with file and offset; `Io`.
    pub fn verify(&self, extent: &Extent) -> Result<()> {
        extent::verify(&self.shared.place, extent)
    }

    /// Visits the frames of one segment during replay; `next` is the following segment.
    fn replay_segment(
        &self,
        segment: &Segment,
        next: Option<&Segment>,
        visit: &mut dyn FnMut(Lsn, Frame) -> Result<()>,
    ) -> Result<()> {
        let JournalPlace { disk, settings, .. } = &self.shared.place;
        let failed = |error| unreadable(&segment.path, error);
        let file = disk.open(&segment.path).map_err(failed)?;
        let mut reader = FrameReader::new(file.as_ref(), segment);
        reader.checksums_ignored = sabotaged!(settings, ChecksumIgnored);
        let run = tail::follow(&mut reader, segment, &mut |header, _, payload| match frame_of(
            header, payload,
        ) {
            Some(frame) => visit(header.lsn, frame),
            None => Ok(()),
        })?;
        let offset = reader.offset();
        let Some(next) = next else {
            // Since the open, the writer may have added marks at this place, but no frames.
            if run.expected.0 == self.tail.last.0 + 1 && offset >= self.tail.offset {
                return Ok(());
            }
            let what = "the segment was readable when the journal was opened";
            let last = Some(self.tail.last);
            return Err(tail::damaged(&segment.path, offset, run.expected, last, what));
        };
        debug_assert_eq!(
            segment.header.number.0.checked_add(1),
            Some(next.header.number.0),
            "a segment lies between both"
        );
        debug_assert!(
            segment.header.first_lsn <= next.header.first_lsn,
            "the segments are not in order"
        );
        if run.expected != next.header.first_lsn {
            let what = "the next segment follows later frames";
            let last = Some(Lsn(next.header.first_lsn.0.saturating_sub(1)));
            return Err(tail::damaged(&segment.path, offset, run.expected, last, what));
        }
        if run.checksum != next.header.previous_checksum {
            let what = "the segment was written after another segment than the previous segment";
            return Err(tail::damaged(&next.path, 0, run.expected, None, what));
        }
        Ok(())
    }
}

impl Log for Journal {
    fn reserve(&self, payload_bytes: usize) -> BoxFuture<'_, Result<Reservation>> {
        Box::pin(async move {
            let settings = &self.shared.place.settings;
            let bytes = payload_bytes as u64;
            check_size(bytes, settings)?;
            self.shared.check_free(bytes)?;
            let permits = u32::try_from(frame::extent_bytes(bytes)).unwrap_or(u32::MAX);
            debug_assert_eq!(
                u64::from(permits),
                frame::extent_bytes(bytes),
                "a reservation is smaller than its frame"
            );
            debug_assert!(
                u64::from(permits) <= settings.queue_bytes_max,
                "the queue never has room for the frame"
            );
            let room = Arc::clone(&self.shared.room);
            let _waiting = self.shared.place.metrics.wait();
            match room.acquire_many_owned(permits).await {
                Ok(permit) => Ok(Box::new(permit) as Reservation),
                Err(_) => Err(self
                    .shared
                    .refusal()
                    .unwrap_or_else(|| Error::new(ErrorKind::Shutdown, "the journal is closed"))),
            }
        })
    }

    fn submit(
        &self,
        frame: Frame,
        reservation: Reservation,
        durability: Durability,
        done: Completion,
    ) {
        if let Err(error) = check_size(frame.payload.len() as u64, &self.shared.place.settings) {
            return done(Err(error));
        }
        let checksum = frame::payload_checksum(&frame.payload);
        let completion = FrameCompletion::new(done);
        self.shared.push(PendingFrame { frame, checksum, durability, completion, reservation });
    }

    fn replay(&self, visit: &mut dyn FnMut(Lsn, Frame) -> Result<()>) -> Result<()> {
        if self.shared.has_started() {
            return Err(Error::new(
                ErrorKind::ObjectNotInPrerequisiteState,
                "a journal can only be replayed before frames are submitted",
            ));
        }
        for (at, segment) in self.segments.iter().enumerate() {
            self.replay_segment(segment, self.segments.get(at + 1), visit)?;
        }
        Ok(())
    }

    fn release(&self, before: Lsn) -> Result<u64> {
        self.shared.release(before)
    }

    fn status(&self) -> LogStatus {
        self.shared.status()
    }

    fn close(&self) -> Result<()> {
        self.shared.start_closing();
        if let Some(thread) = self.writer.lock().take() {
            // The writer thread catches its panics and poisons the journal; `join` returns no other
            // error.
            drop(thread.join());
        }
        drop(self.lock.lock().take());
        match self.shared.refusal() {
            Some(error) if error.kind() == ErrorKind::Io => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // A caller that needs the result calls `close` itself. A poisoned writer has already logged
        // its reason.
        drop(self.close());
    }
}

fn check_size(payload_bytes: u64, settings: &JournalSettings) -> Result<()> {
    if payload_bytes <= settings.frame_bytes_max {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::LimitExceeded,
        format!(
            "a row of {payload_bytes} bytes is larger than the maximum of {} bytes",
            settings.frame_bytes_max
        ),
    )
    .with_hint("store large values elsewhere, and store their location in the row"))
}
