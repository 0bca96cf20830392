//! The last record of a segment that has a successor (a following segment).
//!
//! ```text
//!   segment n     … frames, durable │ continuation record │ zeros
//!   segment n+1   header │ frames …
//!                        ▲ no frame before the continuation record is durable
//! ```
//! Before the writer writes this record, the successor is durable and empty. After a crash between
//! these two steps, the last segment is empty, and the next writer writes the record. Therefore, if
//! the last existing segment has this record, its successor was lost.

use std::{io, path::PathBuf};

use stratalog_model::{Disk, DiskFile, Lsn, PartitionId, Result};

use crate::{
    frame::{self, Header},
    reader::FrameReader,
    segment::{self, Segment},
    tail::{self, unreadable},
};

/// A continuation record, ready to be written.
#[derive(Debug)]
pub(crate) struct Continuation {
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) path: PathBuf,
    /// File offset of the record: the end of the segment's records.
    pub(crate) offset: u64,
    record: Vec<u8>,
}

impl Continuation {
    /// A continuation record for the segment in `file`; `seed` is the seed of its checksums. The
    /// records of the segment end at `offset`, and `last` is its last frame. All of its frames are
    /// durable.
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
        debug_assert_eq!(record.len() as u64, frame::HEADER_BYTES);
        debug_assert!(offset.is_multiple_of(frame::ALIGNMENT), "a record at offset {offset}");
        debug_assert!(offset >= segment::HEADER_BYTES, "a record in the header of its segment");
        Self { file, path, offset, record }
    }

    /// The continuation record of the segment `before`, if its successor `last` has no frames: a
    /// crash may have prevented the write. An existing record is written again: after a failed
    /// fsync, the page cache may mark a page as clean that never reached the disk.
    ///
    /// # Errors
    /// Errors of the disk; `DataCorrupted` for damage before the end of `before`.
    pub(crate) fn unsettled(
        disk: &dyn Disk,
        before: &Segment,
        last: &Segment,
    ) -> Result<Option<Self>> {
        debug_assert_eq!(
            before.header.number.0.checked_add(1),
            Some(last.header.number.0),
            "a segment lies between both"
        );
        debug_assert!(
            before.header.first_lsn <= last.header.first_lsn,
            "the segments are not in order"
        );
        let file = disk.open(&before.path).map_err(|error| unreadable(&before.path, error))?;
        let mut reader = FrameReader::new(file.as_ref(), before);
        let run = tail::follow(&mut reader, before, &mut |_, _, _| Ok(()))?;
        let offset = run.continued.unwrap_or(reader.offset());
        let whole =
            run.expected == last.header.first_lsn && run.checksum == last.header.previous_checksum;
        let fits = before.header.preallocated == 0 || offset + frame::HEADER_BYTES <= before.bytes;
        // If the records of `before` do not lead to the first lsn of `last`, the replay reports the
        // damage.
        if !whole || !fits {
            return Ok(None);
        }
        let last = Lsn(run.expected.0 - 1);
        let (path, partition) = (before.path.clone(), before.header.partition);
        Ok(Some(Self::new(file, path, before.seed, offset, partition, last)))
    }

    /// Writes the record, without a sync.
    pub(crate) fn write(&self) -> io::Result<()> {
        self.file.write_all_at(&self.record, self.offset)
    }
}
