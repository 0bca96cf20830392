//! What a copy of a journal needs: its segments, as they are between two groups of frames.
//!
//! ```text
//!   1: frames │ continued │ zeros      2: frames ─────┤ used_bytes    zeros … bytes
//! ```
//! Nothing before `used_bytes` of the last segment is ever written again, and nothing of those
//! before it but the word that they are continued.

use std::path::PathBuf;

use stratalog_model::{Lsn, Result};

use crate::{
    reader::FrameReader,
    recovery,
    rotation::Place,
    segment,
    tail::{self, damaged},
};

/// A segment, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Its file.
    pub path: PathBuf,
    /// Lsn of the first frame in it.
    pub first: Lsn,
    /// Lsn of the last one; before `first` when there is none.
    pub last: Lsn,
    /// Bytes that count. What a copy has behind them must be zeros.
    pub used_bytes: u64,
    /// Length that the file of a copy must have.
    pub bytes: u64,
}

/// Reads all frames of an extent and compares their checksums.
pub(crate) fn verify(place: &Place, extent: &Extent) -> Result<()> {
    let name = extent.path.file_name().unwrap_or_default().to_string_lossy();
    let wrong = |what| Err(damaged(&extent.path, 0, extent.first, None, what));
    let Some(number) = segment::parse_name(&name) else {
        return wrong("its name is no segment's");
    };
    let segment = recovery::read_header(place, number)?;
    let failed = |error| tail::unreadable(&extent.path, error);
    let file = place.disk.open(&extent.path).map_err(failed)?;
    let mut reader = FrameReader::new(file.as_ref(), &segment);
    let run = tail::follow(&mut reader, &segment, &mut |_, _, _| Ok(()))?;
    // Frames may have been written since.
    if segment.header.first_lsn != extent.first || run.expected.0 <= extent.last.0 {
        let what = "frames that were written cannot be read";
        return Err(damaged(&extent.path, reader.offset(), run.expected, Some(extent.last), what));
    }
    Ok(())
}
