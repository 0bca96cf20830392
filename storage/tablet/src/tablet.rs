//! Reads the files of tablets.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use stratalog_model::{Disk, DiskFile, Error, ErrorKind, Result};

use crate::{
    block::{BlockHead, FIXED_BYTES},
    file::{BuiltTablet, END_BYTES, HEADER_BYTES, inspect},
    section,
};

/// A tablet that is open for reading.
#[derive(Debug)]
pub struct Tablet {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    built: BuiltTablet,
    seed: u32,
}

impl Tablet {
    /// Opens the file at `path`, and compares its header and end record with the manifest's
    /// description.
    pub(crate) fn open(disk: &dyn Disk, path: PathBuf, built: &BuiltTablet) -> Result<Self> {
        let failed = |error| Error::io(format!("cannot read {}", path.display()), error);
        if !disk.exists(&path).map_err(failed)? {
            return Err(missing(&path));
        }
        let file = disk.open(&path).map_err(failed)?;
        let len = file.len().map_err(failed)?;
        let mut header = [0; HEADER_BYTES];
        let mut end = [0; END_BYTES];
        let end_at = len.saturating_sub(END_BYTES as u64);
        let whole = read_full(file.as_ref(), &mut header, 0).map_err(failed)?
            && read_full(file.as_ref(), &mut end, end_at).map_err(failed)?;
        if !whole {
            return Err(damaged(&path, 0, "the file is cut off"));
        }
        let (found, seed) = inspect(&header, &end, len).map_err(|what| damaged(&path, 0, &what))?;
        if found != *built {
            return Err(damaged(&path, 0, "the file is not the tablet in the manifest"));
        }
        Ok(Tablet { path, file, built: *built, seed })
    }

    /// The manifest's description of the tablet.
    pub fn built(&self) -> &BuiltTablet {
        &self.built
    }

    /// Reads the sections with the numbers `wanted`, which must ascend, from a block. Verifies each
    /// section before decompressing it (CL-6).
    ///
    /// # Errors
    /// `DataCorrupted`, with file and offset; `Io`; `Internal` for a section that does not exist.
    pub fn read(&self, head: &BlockHead, wanted: &[usize]) -> Result<Vec<Bytes>> {
        let runs = section::runs(&head.sections, wanted);
        let runs = runs.ok_or_else(|| Error::internal("a block has no such section"))?;
        let mut found = Vec::with_capacity(wanted.len());
        for (start, end, sections) in runs {
            let at = head.offset + u64::from(head.head_bytes) + start;
            let mut stored = vec![0; (end - start) as usize];
            if !self.fill(&mut stored, at)? {
                return Err(damaged(&self.path, head.offset, "a block is cut off"));
            }
            let stored = Bytes::from(stored);
            for section in sections {
                debug_assert!(
                    start <= section.offset && section.end() <= end,
                    "a section lies outside of its run"
                );
                let from = (section.offset - start) as usize;
                let own = stored.slice(from..from + section.stored_bytes as usize);
                let unpacked = section.unpack(own);
                found.push(unpacked.map_err(|what| damaged(&self.path, head.offset, what))?);
            }
        }
        debug_assert_eq!(found.len(), wanted.len());
        Ok(found)
    }

    /// Reads all sections of a block.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub fn read_all(&self, head: &BlockHead) -> Result<Vec<Bytes>> {
        self.read(head, &(0..head.sections()).collect::<Vec<_>>())
    }

    /// Reads the whole file and verifies all checksums.
    ///
    /// # Errors
    /// `DataCorrupted`, with file and offset; `Io`.
    pub fn verify(&self) -> Result<()> {
        self.heads()?.iter().try_for_each(|head| self.read_all(head).map(drop))
    }

    /// Reads the heads of all blocks from the file: see [`Self::heads_on_disk`].
    ///
    /// # Errors
    /// `DataCorrupted`, with file and offset; `Io`.
    pub fn heads(&self) -> Result<Vec<BlockHead>> {
        match self.heads_on_disk() {
            (heads, None) => Ok(heads),
            (_, Some(error)) => Err(error),
        }
    }

    /// Reads the heads of the blocks from the file, without the index. After a failure, returns the
    /// heads before the failure, and the error: `DataCorrupted` with file and offset, or `Io`.
    pub fn heads_on_disk(&self) -> (Vec<BlockHead>, Option<Error>) {
        let mut heads: Vec<BlockHead> = Vec::new();
        let built = &self.built;
        debug_assert!(built.bytes >= END_BYTES as u64, "the file has no room for its end");
        let end = built.bytes - END_BYTES as u64;
        let (mut at, mut checksum, mut rows) = (HEADER_BYTES as u64, 0, 0);
        while at < end {
            match self.head_at(at, heads.len()) {
                Ok((head, own)) => {
                    checksum = crc32c::crc32c_append(checksum, &own.to_le_bytes());
                    rows += u64::from(head.summary.rows);
                    debug_assert!(head.bytes() >= FIXED_BYTES as u64, "a block without a head");
                    at += head.bytes();
                    heads.push(head);
                }
                Err(error) => return (heads, Some(error)),
            }
        }
        let same = at == end && heads.len() == built.blocks as usize && rows == built.rows;
        let wrong = !same || checksum != built.checksum;
        let what = "the blocks differ from the counts in the end";
        (heads, wrong.then(|| damaged(&self.path, at, what)))
    }

    /// Whether `heads` have the checksum that the manifest states.
    pub(crate) fn has(&self, heads: &[BlockHead]) -> bool {
        let own = heads.iter().map(|head| head.encode(self.seed).1);
        let sum = own.fold(0, |sum, own| crc32c::crc32c_append(sum, &own.to_le_bytes()));
        sum == self.built.checksum
    }

    /// Reads the head of block `number` at file offset `at`; returns it with its checksum.
    fn head_at(&self, at: u64, number: usize) -> Result<(BlockHead, u32)> {
        let damage = |what: &str| Err(damaged(&self.path, at, what));
        let mut bytes = vec![0; FIXED_BYTES];
        if !self.fill(&mut bytes, at)? {
            return damage("a block is cut off");
        }
        let Some(len) = BlockHead::head_bytes_in(&bytes) else {
            return damage("the block is missing");
        };
        bytes.resize(len, 0);
        if let Some(rest) = bytes.get_mut(FIXED_BYTES..)
            && !self.fill(rest, at + FIXED_BYTES as u64)?
        {
            return damage("a block is cut off");
        }
        match BlockHead::decode(&bytes, at, self.seed) {
            Ok((head, _)) if head.number as usize != number => {
                damage("blocks are missing before the block")
            }
            Ok(read) => Ok(read),
            Err(what) => damage(what),
        }
    }

    fn fill(&self, buffer: &mut [u8], at: u64) -> Result<bool> {
        read_full(self.file.as_ref(), buffer, at)
            .map_err(|error| Error::io(format!("cannot read {}", self.path.display()), error))
    }
}

/// Reads until `buffer` is full; returns `false` if the file ends before.
fn read_full(file: &dyn DiskFile, buffer: &mut [u8], at: u64) -> std::io::Result<bool> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + done as u64)? {
            0 => return Ok(false),
            read => done += read,
        }
    }
    debug_assert_eq!(done, buffer.len(), "the file gave more bytes than wanted");
    Ok(true)
}

pub(crate) fn missing(path: &Path) -> Error {
    let what = format!("tablet {} is missing", path.display());
    Error::new(ErrorKind::DataCorrupted, what).with_hint("restore the file from a backup")
}

pub(crate) fn damaged(path: &Path, offset: u64, what: &str) -> Error {
    Error::new(
        ErrorKind::DataCorrupted,
        format!("tablet {} is damaged at offset {offset}: {what}", path.display()),
    )
    .with_hint("restore the file from a backup")
}
