//! The file that remembers how far time may have been issued.
//!
//! ```text
//!   offset 0     slot 0   magic "SLCLOCK3" │ sequence u64 │ lease i64 │ epoch u64 │ held u64 │
//!                         unconfirmed u64 │ CRC32C of these u32
//!   offset 4096  slot 1   the same; all little-endian
//! ```
//!
//! `held` is by how many nanoseconds the machine's clock jumped ahead and is not followed,
//! `unconfirmed` by how many it was ahead of the last run at starts that no operator has confirmed.
//! Slots of earlier versions lack numbers, which are read as 0: those with the magic "SLCLOCK2" have
//! no `unconfirmed`, those with "SLCLOCK1" no epoch and no `held` either. A version that is not known
//! is refused.
//!
//! Leases go to the slots in turn, so that a torn write damages only the one that was
//! never acknowledged; the sequence says which slot is newer.
//!
//! An operator who has lost the file writes the word `now` in its place: time then starts
//! at the machine's clock. Slot 1 is written first, so that a crash does not undo that.

use std::{fmt, io, path::Path};

use stratalog_model::{Disk, DiskFile, Error, ErrorKind, Result};

/// Name of the file within the directory of the clock.
const FILE: &str = "clock";
const MAGIC: &[u8; 8] = b"SLCLOCK3";
/// What the magic of each version begins with.
const MAGIC_STEM: &[u8] = b"SLCLOCK";
const SLOT_BYTES: u64 = 4096;
const SLOTS: u64 = 2;
const RECORD_BYTES: usize = 52;
/// Earlier versions, and the length of their records.
const EARLIER: [(&[u8; 8], usize); 2] = [(b"SLCLOCK1", 28), (b"SLCLOCK2", 44)];
/// What an operator writes instead of leases.
const ANEW: &[u8] = b"now";

/// The open file.
#[derive(Debug)]
pub(crate) struct Lease {
    file: Box<dyn DiskFile>,
    sequence: u64,
    /// What was written last.
    written_ns: i64,
    mark: Mark,
    /// Why nothing can be written any more, if so: what a failed sync left on disk is
    /// unknown (CL-7).
    failed: Option<String>,
}

/// What a start must know besides the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Mark {
    /// Counts starts and fences.
    pub(crate) epoch: u64,
    /// By how much the machine's clock jumped ahead and is not followed.
    pub(crate) held_ns: u64,
    /// By how much it was ahead of the last run at starts that no operator has confirmed.
    pub(crate) unconfirmed_ns: u64,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Never,
    Damaged,
    /// Of a version that is not known.
    Unknown([u8; 8]),
    /// An operator wants time to start at the machine's clock.
    Anew,
    Written {
        sequence: u64,
        lease_ns: i64,
        mark: Mark,
    },
}

/// What was found of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseFound {
    /// Nanoseconds since 1970 up to which time may have been issued; `None` where an operator
    /// lets time start at the machine's clock.
    pub lease_ns: Option<i64>,
    /// By how much the machine's clock jumped ahead and is not followed, in nanoseconds.
    pub held_ns: u64,
    /// By how much it was ahead of the last run at starts, unconfirmed, in nanoseconds.
    pub unconfirmed_ns: u64,
    /// One of the two copies is damaged: the next start goes by the other.
    pub copy_damaged: bool,
    /// Length of the file.
    pub bytes: u64,
}

impl Lease {
    /// Looks at the file of `directory`, which was made before, and changes nothing.
    pub(crate) fn look(disk: &dyn Disk, directory: &Path) -> Result<LeaseFound> {
        let path = directory.join(FILE);
        let failed = |action: &'static str| {
            move |error| Error::io(format_args!("{action} clock file"), error)
        };
        if !disk.exists(&path).map_err(failed("find"))? {
            return Err(lost(&path, "is missing"));
        }
        let file = disk.open(&path).map_err(failed("open"))?;
        let bytes = file.len().map_err(failed("measure"))?;
        let first = read_slot(file.as_ref(), 0).map_err(failed("read"))?;
        if bytes < SLOT_BYTES * SLOTS && first != Slot::Anew {
            let least = SLOT_BYTES * SLOTS;
            return Err(lost(&path, format_args!("is shorter than {least} bytes")));
        }
        let slots = [first, read_slot(file.as_ref(), 1).map_err(failed("read"))?];
        check_versions(&path, &slots)?;
        let newest = newest(&slots);
        let lease_ns = newest.map(|(_, lease_ns, _)| lease_ns);
        let mark = newest.map_or(Mark::default(), |(.., mark)| mark);
        let copy_damaged = slots.contains(&Slot::Damaged);
        if lease_ns.is_none() && copy_damaged {
            return Err(both_damaged(&path));
        }
        if lease_ns.is_none() && first != Slot::Anew {
            return Err(lost(&path, "holds zeros only"));
        }
        let Mark { held_ns, unconfirmed_ns, .. } = mark;
        Ok(LeaseFound { lease_ns, held_ns, unconfirmed_ns, copy_damaged, bytes })
    }

    /// Opens the file of `directory` and says which time was leased last. Makes it when
    /// there is none, but not if there must be one.
    pub(crate) fn open(
        disk: &dyn Disk,
        directory: &Path,
        existing: bool,
    ) -> Result<(Self, Option<i64>)> {
        let path = directory.join(FILE);
        let failed = |action: &'static str| {
            move |error| Error::io(format_args!("{action} clock file"), error)
        };
        let exists = disk.exists(&path).map_err(failed("find"))?;
        if existing && !exists {
            return Err(lost(&path, "is missing"));
        }
        let file = if exists { disk.open(&path) } else { disk.create(&path) };
        let file = file.map_err(failed("open"))?;
        let anew = read_slot(file.as_ref(), 0).map_err(failed("read"))? == Slot::Anew;
        if file.len().map_err(failed("measure"))? < SLOT_BYTES * SLOTS {
            if existing && !anew {
                return Err(lost(
                    &path,
                    format_args!("is shorter than {} bytes", SLOT_BYTES * SLOTS),
                ));
            }
            // New, or a crash while it was: nothing was leased by it yet.
            match file.preallocate(SLOT_BYTES * SLOTS) {
                // Not every file system reserves room; then the first leases may find none.
                Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                    file.set_len(SLOT_BYTES * SLOTS)
                }
                outcome => outcome,
            }
            .map_err(failed("make"))?;
            file.sync_all().map_err(failed("sync"))?;
            disk.sync_dir(directory).map_err(failed("sync the directory of"))?;
        }
        let mut slots = Vec::new();
        for slot in 0..SLOTS {
            slots.push(read_slot(file.as_ref(), slot).map_err(failed("read"))?);
        }
        check_versions(&path, &slots)?;
        let newest = newest(&slots);
        let damaged = slots.contains(&Slot::Damaged);
        match newest {
            Some((sequence, lease_ns, mut mark)) => {
                let mut floor_ns = lease_ns;
                if damaged {
                    // Most likely a lease whose write was cut, by which nothing was issued;
                    // were it a damaged one, time was issued up to one lease further, and
                    // perhaps in a new epoch.
                    floor_ns = floor_ns.saturating_add(super::AHEAD_NS);
                    mark.epoch = mark.epoch.saturating_add(1);
                    tracing::warn!(path = %path.display(), "one copy of the clock's lease is damaged; the other is used");
                }
                let lease = Self { file, sequence, written_ns: lease_ns, mark, failed: None };
                Ok((lease, Some(floor_ns)))
            }
            None if damaged => Err(both_damaged(&path)),
            None if existing && !anew => Err(lost(&path, "holds zeros only")),
            None => {
                let (written_ns, mark) = (i64::MIN, Mark::default());
                Ok((Self { file, sequence: 0, written_ns, mark, failed: None }, None))
            }
        }
    }

    /// What lies beside the lease.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// Makes a mark durable beside the lease as it is.
    pub(crate) fn write_mark(&mut self, mark: Mark) -> Result<()> {
        self.write_marked(self.written_ns, mark)
    }

    /// Makes a lease that goes to `lease_ns` at least durable; returns how far it goes.
    pub(crate) fn reach(&mut self, lease_ns: i64) -> Result<i64> {
        if self.written_ns < lease_ns {
            self.write(lease_ns)?;
        }
        Ok(self.written_ns)
    }

    /// Makes a lease durable. After a failure it is not tried again.
    pub(crate) fn write(&mut self, lease_ns: i64) -> Result<()> {
        self.write_marked(lease_ns, self.mark)
    }

    /// Makes a lease and a mark durable.
    pub(crate) fn write_marked(&mut self, lease_ns: i64, mark: Mark) -> Result<()> {
        if let Some(reason) = &self.failed {
            return Err(Error::new(ErrorKind::Io, reason.clone()));
        }
        let sequence = self.sequence.saturating_add(1);
        let mut record = Vec::with_capacity(RECORD_BYTES);
        record.extend_from_slice(MAGIC);
        record.extend_from_slice(&sequence.to_le_bytes());
        record.extend_from_slice(&lease_ns.to_le_bytes());
        record.extend_from_slice(&mark.epoch.to_le_bytes());
        record.extend_from_slice(&mark.held_ns.to_le_bytes());
        record.extend_from_slice(&mark.unconfirmed_ns.to_le_bytes());
        let checksum = crc32c::crc32c(&record);
        record.extend_from_slice(&checksum.to_le_bytes());
        let offset = sequence.rem_euclid(SLOTS) * SLOT_BYTES;
        self.file
            .write_all_at(&record, offset)
            .and_then(|()| self.file.sync_data())
            .map_err(|error| Error::io("write clock file", error))
            .inspect_err(|error| self.failed = Some(error.to_string()))?;
        self.sequence = sequence;
        self.written_ns = lease_ns;
        self.mark = mark;
        Ok(())
    }
}

/// Sequence, time and mark of the newest lease.
fn newest(slots: &[Slot]) -> Option<(u64, i64, Mark)> {
    let written = slots.iter().filter_map(|slot| match slot {
        Slot::Written { sequence, lease_ns, mark } => Some((*sequence, *lease_ns, *mark)),
        _ => None,
    });
    written.max()
}

/// Refuses slots of a version that is not known: their lease may be later than that of the other.
fn check_versions(path: &Path, slots: &[Slot]) -> Result<()> {
    let unknown = slots.iter().find_map(|slot| match slot {
        Slot::Unknown(magic) => Some(*magic),
        _ => None,
    });
    let Some(magic) = unknown else { return Ok(()) };
    Err(Error::new(
        ErrorKind::DataCorrupted,
        format!(
            "clock file {} has a version that this release does not know: \"{}\"",
            path.display(),
            magic.escape_ascii()
        ),
    )
    .with_hint("start the release that wrote it, or a later one"))
}

fn both_damaged(path: &Path) -> Error {
    lost(
        path,
        format_args!(
            "is damaged in both of its copies (offsets 0 and {SLOT_BYTES}, {RECORD_BYTES} bytes each)"
        ),
    )
}

/// Nobody knows how far time was given out.
fn lost(path: &Path, what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::DataCorrupted, format!("clock file {} {what}", path.display()))
        .with_hint(format!(
            "restore it from a backup; or make sure that the machine's clock is right, and let time start there: echo now > {}",
            path.display()
        ))
}

fn read_slot(file: &dyn DiskFile, slot: u64) -> io::Result<Slot> {
    let mut record = [0_u8; RECORD_BYTES];
    let mut filled = 0;
    while let Some(rest) = record.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, slot * SLOT_BYTES + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    if record.iter().all(|byte| *byte == 0) {
        return Ok(Slot::Never);
    }
    let text = record.split(|byte| matches!(byte, 0 | b'\n')).next();
    if text == Some(ANEW) && record.iter().skip(ANEW.len() + 1).all(|byte| *byte == 0) {
        return Ok(Slot::Anew);
    }
    Ok(parse(&record).unwrap_or(Slot::Damaged))
}

/// The contents of a slot; `None` when they do not match their checksum.
fn parse(record: &[u8]) -> Option<Slot> {
    let magic: [u8; 8] = *record.first_chunk()?;
    let earlier = EARLIER.iter().find(|(earlier, _)| **earlier == magic);
    let length = match earlier {
        Some((_, length)) => *length,
        None if magic == *MAGIC => RECORD_BYTES,
        None if magic.starts_with(MAGIC_STEM) => return unknown(record, magic),
        None => return None,
    };
    let mut numbers = sound(record.get(..length)?)?;
    let (sequence, lease_ns) = (take(&mut numbers)?, take(&mut numbers)?.cast_signed());
    // Numbers that an earlier version lacks are 0.
    let mut next = || take(&mut numbers).unwrap_or(0);
    let mark = Mark { epoch: next(), held_ns: next(), unconfirmed_ns: next() };
    Some(Slot::Written { sequence, lease_ns, mark })
}

/// A slot of a version that is not known. A changed bit in a known magic is damage instead: with the
/// known magic, the checksum matches.
fn unknown(record: &[u8], magic: [u8; 8]) -> Option<Slot> {
    let known = EARLIER.iter().copied().chain([(MAGIC, RECORD_BYTES)]);
    for (known, length) in known {
        let rest = record.get(known.len()..length)?;
        if sound(&[known.as_slice(), rest].concat()).is_some() {
            return None;
        }
    }
    Some(Slot::Unknown(magic))
}

/// What is between the magic and the checksum of a record, if this is right.
fn sound(record: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = record.split_at_checked(record.len().checked_sub(4)?)?;
    let right = crc32c::crc32c(content) == u32::from_le_bytes(checksum.try_into().ok()?);
    content.get(MAGIC.len()..).filter(|_| right)
}

fn take(numbers: &mut &[u8]) -> Option<u64> {
    let (number, rest) = numbers.split_first_chunk()?;
    *numbers = rest;
    Some(u64::from_le_bytes(*number))
}
