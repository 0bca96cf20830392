//! A segment's last word: that another one follows it.
//!
//! ```text
//!   segment n     … frames, durable │ continued │ zeros
//!   segment n+1   header │ frames …
//!                        ▲ none before "continued" is durable
//! ```
//! The successor is durable, and empty, before this is written: a crash in between leaves
//! an empty last segment, and the next writer writes it then. So a segment that says that
//! it is continued, and is the last one, has lost its successor.

use std::{io, path::PathBuf};

use stratalog_model::{Disk, DiskFile, Lsn, PartitionId, Result};

use crate::{
    frame::{self, Header},
    reader::FrameReader,
    segment::Segment,
    tail::{self, unreadable},
};

/// What is still to be written.
#[derive(Debug)]
pub(crate) struct Continuation {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) path: PathBuf,
    /// Where the segment's records end.
    pub(crate) offset: u64,
    record: Vec<u8>,
}

impl Continuation {
    /// For the segment of `file` and `seed`, whose records end at `offset` with the frame
    /// `last`, all of them durable.
    pub(crate) fn new(
        file: Box<dyn DiskFile>,
        path: PathBuf,
        seed: u32,
        offset: u64,
        partition: PartitionId,
        last: Lsn,
    ) -> Self {
        let mut record = Vec::with_capacity(frame::HEADER_BYTES as usize);
        Header::continued(partition, Lsn(last.0 + 1), last).encode(seed, &mut record);
        Self { file, path, offset, record }
    }

    /// The one of `before` when `last`, which follows it, has no frames: a crash may have
    /// left it out. Also when it is there: after a failed fsync the page cache may call a
    /// page clean that never reached the disk.
    ///
    /// # Errors
    /// What the disk says, and damage on the way to the end of `before`.
    pub(crate) fn unsettled(
        disk: &dyn Disk,
        before: &Segment,
        last: &Segment,
    ) -> Result<Option<Self>> {
        let file = disk.open(&before.path).map_err(|error| unreadable(&before.path, error))?;
        let mut reader = FrameReader::new(file.as_ref(), before);
        let run = tail::follow(&mut reader, before, &mut |_, _, _| Ok(()))?;
        let offset = run.continued.unwrap_or(reader.offset());
        let whole =
            run.expected == last.header.first_lsn && run.checksum == last.header.previous_checksum;
        let fits = before.header.preallocated == 0 || offset + frame::HEADER_BYTES <= before.bytes;
        // What does not end as its successor says is damage, which the replay reports.
        if !whole || !fits {
            return Ok(None);
        }
        let last = Lsn(run.expected.0 - 1);
        let (path, partition) = (before.path.clone(), before.header.partition);
        Ok(Some(Self::new(file, path, before.seed, offset, partition, last)))
    }

    /// Writes it, without a sync.
    pub(crate) fn write(&self) -> io::Result<()> {
        self.file.write_all_at(&self.record, self.offset)
    }
}
