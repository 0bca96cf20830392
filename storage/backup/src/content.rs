//! The sources of the bytes uploaded by a backup.

use std::{io, ops::Range, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use stratalog_model::{Disk, Error, ErrorKind, Result};
use stratalog_story::{Content, Stories, StoryName};

use crate::Watch;

/// Number of bytes per read.
pub const CHUNK_BYTES: u64 = 4 << 20;

/// The first bytes of a file on a disk; the number is fixed when the content is made.
pub struct FileContent {
    pub disk: Arc<dyn Disk>,
    pub path: PathBuf,
    pub bytes: u64,
}

#[async_trait]
impl Content for FileContent {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        read_file(self.disk.as_ref(), &self.path, range)
    }
}

/// Reads all bytes of a range of a file. Blocks.
pub fn read_file(disk: &dyn Disk, path: &std::path::Path, range: Range<u64>) -> Result<Bytes> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => lost(&path.display().to_string(), "is missing"),
        io::ErrorKind::UnexpectedEof => lost(&path.display().to_string(), "is cut off"),
        _ => Error::io(format!("cannot read {}", path.display()), error),
    };
    debug_assert!(range.start <= range.end, "the range begins behind its end");
    let file = disk.open(path).map_err(failed)?;
    let mut bytes = vec![0; range.end.saturating_sub(range.start) as usize];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, range.start + done as u64).map_err(failed)? {
            0 => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
            read => done += read,
        }
    }
    debug_assert_eq!(done, bytes.len(), "the file gave more bytes than wanted");
    Ok(bytes.into())
}

/// The error for a file that is missing or too short.
pub fn lost(place: &str, what: &str) -> Error {
    Error::new(ErrorKind::DataCorrupted, format!("{place} {what}"))
}

/// The file of a story, on any shelf.
pub struct StoryContent {
    pub stories: Arc<Stories>,
    pub name: StoryName,
    pub bytes: u64,
}

#[async_trait]
impl Content for StoryContent {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.stories.read_raw(self.name, range).await
    }
}

/// Content that is in memory.
pub struct BytesContent(pub Bytes);

#[async_trait]
impl Content for BytesContent {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let range = range.start as usize..range.end as usize;
        if self.0.get(range.clone()).is_none() {
            return Err(Error::internal("a missing part was requested"));
        }
        Ok(self.0.slice(range))
    }
}

/// Computes the checksum of a content while a caller reads it once, in order. After a cancellation,
/// reads fail.
pub struct ChecksummedContent<'a> {
    content: &'a dyn Content,
    watch: &'a Watch,
    /// The number of bytes read so far, and the checksum of these bytes.
    sum: Mutex<(u64, u32)>,
}

impl<'a> ChecksummedContent<'a> {
    pub fn new(content: &'a dyn Content, watch: &'a Watch) -> Self {
        Self { content, watch, sum: Mutex::new((0, 0)) }
    }

    /// The checksum of the complete content.
    ///
    /// # Errors
    /// `Internal` if the content was not read completely.
    pub fn checksum(&self) -> Result<u32> {
        let (at, checksum) = *self.sum.lock();
        if at != self.content.bytes() {
            return Err(Error::internal("a file was not read to its end"));
        }
        Ok(checksum)
    }
}

#[async_trait]
impl Content for ChecksummedContent<'_> {
    fn bytes(&self) -> u64 {
        self.content.bytes()
    }

    async fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.watch.check()?;
        let bytes = self.content.read(range.clone()).await?;
        let mut sum = self.sum.lock();
        if sum.0 == range.start && bytes.len() as u64 == range.end - range.start {
            *sum = (range.end, crc32c::crc32c_append(sum.1, &bytes));
            debug_assert!(sum.0 <= self.content.bytes(), "the content is longer than it says");
        }
        Ok(bytes)
    }
}

/// The consecutive ranges of [`CHUNK_BYTES`] into which `bytes` bytes are divided.
pub fn chunks(bytes: u64) -> impl Iterator<Item = Range<u64>> {
    (0..bytes).step_by(CHUNK_BYTES as usize).map(move |start| {
        let end = (start + CHUNK_BYTES).min(bytes);
        debug_assert!(start < end, "a chunk without bytes");
        start..end
    })
}
