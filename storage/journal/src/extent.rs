//! Extents: the parts of a journal's files that a copy (backup) must contain. The list of extents
//! is made between two groups of frames.
//!
//! ```text
//!   segment 1: frames │ continuation │ zeros     segment 2: frames ─┤ used_bytes    zeros … bytes
//! ```
//! The writer never changes the bytes of the last segment before `used_bytes`. An earlier segment
//! changes only when it gets its continuation record.

use std::path::PathBuf;

use stratalog_model::{Lsn, Result};

use crate::{
    reader::FrameReader,
    recovery,
    rotation::JournalPlace,
    segment,
    tail::{self, damaged},
};

/// A full segment, or the used beginning of the last segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// The file.
    pub path: PathBuf,
    /// Lsn of the first frame.
    pub first: Lsn,
    /// Lsn of the last frame; lower than `first` for an empty segment.
    pub last: Lsn,
    /// Bytes in use. In a copy, all bytes after `used_bytes` must be zeros.
    pub used_bytes: u64,
    /// Length that the file must have in a copy.
    pub bytes: u64,
}

/// Reads all frames of an extent and verifies their checksums.
pub(crate) fn verify(place: &JournalPlace, extent: &Extent) -> Result<()> {
    debug_assert!(extent.used_bytes <= extent.bytes, "the extent is longer than its segment");
    debug_assert!(
        extent.first.0.saturating_sub(1) <= extent.last.0,
        "the extent ends before its segment"
    );
    let name = extent.path.file_name().unwrap_or_default().to_string_lossy();
    let wrong = |what| Err(damaged(&extent.path, 0, extent.first, None, what));
    let Some(number) = segment::parse_name(&name) else {
        return wrong("the name is not the name of a segment");
    };
    let segment = recovery::read_header(place, number)?;
    let failed = |error| tail::unreadable(&extent.path, error);
    let file = place.disk.open(&extent.path).map_err(failed)?;
    let mut reader = FrameReader::new(file.as_ref(), &segment);
    let run = tail::follow(&mut reader, &segment, &mut |_, _, _| Ok(()))?;
    // Since the list was made, the writer may have added frames: more frames are no error.
    if segment.header.first_lsn != extent.first || run.expected.0 <= extent.last.0 {
        let what = "frames that were written cannot be read";
        return Err(damaged(&extent.path, reader.offset(), run.expected, Some(extent.last), what));
    }
    Ok(())
}
