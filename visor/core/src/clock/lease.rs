//! The lease file: the upper limit of all issued times.
//!
//! ```text
//!   offset 0     slot 0   magic "SLCLOCK3" │ sequence u64 │ lease i64 │ epoch u64 │ held u64 │
//!                         unconfirmed u64 │ CRC32C of the slot u32
//!   offset 4096  slot 1   same layout; all little-endian
//! ```
//!
//! `held` is the total length of the jumps of the machine's clock that were not followed, in
//! nanoseconds. `unconfirmed` is the lead of the issued time over the confirmed time, in
//! nanoseconds. (The confirmed time is the last time at which the machine's clock was right, plus
//! the time passed since.) Slots of earlier versions lack some numbers, which are read as 0: slots
//! with the magic "SLCLOCK2" have no `unconfirmed`, and slots with "SLCLOCK1" also have no epoch
//! and no `held`. An unknown version is refused.
//!
//! Leases are written to the two slots alternately: a torn write damages only a lease that was not
//! acknowledged. The slot with the higher sequence is newer.
//!
//! An operator who has lost the file writes the word `now` in its place: time then starts at the
//! machine's clock. The first lease is written to slot 1, so that the word in slot 0 survives a
//! crash.

use std::{fmt, io, path::Path};

use stratalog_model::{Disk, DiskFile, Error, ErrorKind, Result, invariant};

/// Name of the lease file in the directory of the clock.
const FILE: &str = "clock";
const MAGIC: &[u8; 8] = b"SLCLOCK3";
/// The common beginning of the magics of all versions.
const MAGIC_STEM: &[u8] = b"SLCLOCK";
const SLOT_BYTES: u64 = 4096;
const SLOTS: u64 = 2;
const RECORD_BYTES: usize = 52;
/// The magics of earlier versions, with the length of their records in bytes.
const EARLIER: [(&[u8; 8], usize); 2] = [(b"SLCLOCK1", 28), (b"SLCLOCK2", 44)];
/// The text that an operator writes in place of leases.
const ANEW: &[u8] = b"now";

/// The open lease file.
#[derive(Debug)]
pub(crate) struct Lease {
    file: Box<dyn DiskFile>,
    sequence: u64,
    /// The last written lease, in nanoseconds since 1970.
    written_ns: i64,
    mark: Mark,
    /// The reason why writes are no longer possible; `None` before a failure. After a failed sync,
    /// the content on disk is unknown (CL-7).
    failed: Option<String>,
}

/// The values stored with the lease for the next start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Mark {
    /// The number of starts and fences.
    pub(crate) epoch: u64,
    /// Total length of the jumps of the machine's clock that were not followed, in nanoseconds.
    pub(crate) held_ns: u64,
    /// Lead of the issued time over the confirmed time, in nanoseconds.
    pub(crate) unconfirmed_ns: u64,
}

/// The content of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Never,
    Damaged,
    /// A slot of a version that this program does not know; contains the magic.
    Unknown([u8; 8]),
    /// An operator has requested that time starts at the machine's clock.
    Anew,
    Written {
        sequence: u64,
        lease_ns: i64,
        mark: Mark,
    },
}

/// The content of a lease file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseFound {
    /// Upper limit of the issued times, in nanoseconds since 1970; `None` if an operator has
    /// requested that time starts at the machine's clock.
    pub lease_ns: Option<i64>,
    /// Total length of the jumps of the machine's clock that were not followed, in nanoseconds.
    pub held_ns: u64,
    /// Lead of the issued time over the confirmed time, in nanoseconds.
    pub unconfirmed_ns: u64,
    /// True if one of the two slots is damaged: the next start uses the other slot.
    pub copy_damaged: bool,
    /// Length of the file in bytes.
    pub bytes: u64,
}

impl Lease {
    /// Reads the lease file in `directory`, which must exist, without a change.
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
            return Err(lost(&path, "contains only zeros"));
        }
        let Mark { held_ns, unconfirmed_ns, .. } = mark;
        Ok(LeaseFound { lease_ns, held_ns, unconfirmed_ns, copy_damaged, bytes })
    }

    /// Opens the lease file in `directory`; returns it with the end of the last lease. Creates a
    /// missing file, unless `existing` is true.
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
            // The file is new, or a crash interrupted its creation: no time was issued under a
            // lease yet.
            match file.preallocate(SLOT_BYTES * SLOTS) {
                // Some file systems cannot reserve space. On these, a full disk may fail the first
                // leases.
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
                    // Most likely the write of a lease was interrupted, and no time was issued
                    // under this lease. But if a complete lease was damaged later, times up to its
                    // end may have been issued, perhaps in a new epoch.
                    floor_ns = floor_ns.saturating_add(super::AHEAD_NS);
                    mark.epoch = mark.epoch.saturating_add(1);
                    tracing::warn!(path = %path.display(), "one copy of the clock's lease is damaged; the other copy is used");
                }
                debug_assert!(lease_ns <= floor_ns, "time starts before the end of the lease");
                let lease = Self { file, sequence, written_ns: lease_ns, mark, failed: None };
                Ok((lease, Some(floor_ns)))
            }
            None if damaged => Err(both_damaged(&path)),
            None if existing && !anew => Err(lost(&path, "contains only zeros")),
            None => {
                let (written_ns, mark) = (i64::MIN, Mark::default());
                Ok((Self { file, sequence: 0, written_ns, mark, failed: None }, None))
            }
        }
    }

    /// The mark stored with the lease.
    pub(crate) fn mark(&self) -> Mark {
        self.mark
    }

    /// Makes a mark durable; the lease stays unchanged.
    pub(crate) fn write_mark(&mut self, mark: Mark) -> Result<()> {
        debug_assert!(self.sequence > 0, "a mark is written before the first lease");
        self.write_marked(self.written_ns, mark)
    }

    /// Ensures that the durable lease ends at `lease_ns` or later; returns its end.
    pub(crate) fn reach(&mut self, lease_ns: i64) -> Result<i64> {
        if self.written_ns < lease_ns {
            self.write(lease_ns)?;
        }
        invariant!(
            TimeForward,
            lease_ns <= self.written_ns,
            "a lease up to {lease_ns} is on disk up to {}",
            self.written_ns
        );
        Ok(self.written_ns)
    }

    /// Makes a lease durable. After a failure, all later writes fail too.
    pub(crate) fn write(&mut self, lease_ns: i64) -> Result<()> {
        self.write_marked(lease_ns, self.mark)
    }

    /// Makes a lease and a mark durable.
    pub(crate) fn write_marked(&mut self, lease_ns: i64, mark: Mark) -> Result<()> {
        if let Some(reason) = &self.failed {
            return Err(Error::new(ErrorKind::Io, reason.clone()));
        }
        debug_assert!(self.mark.epoch <= mark.epoch, "the epoch goes back");
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
        debug_assert_eq!(record.len(), RECORD_BYTES);
        let offset = sequence.rem_euclid(SLOTS) * SLOT_BYTES;
        debug_assert!(offset < SLOT_BYTES * SLOTS, "a lease lies outside of the file");
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

/// The newest lease in the slots: sequence, end and mark.
fn newest(slots: &[Slot]) -> Option<(u64, i64, Mark)> {
    debug_assert!(
        !slots.iter().any(|slot| matches!(slot, Slot::Unknown(_))),
        "a slot of an unknown version may be newer"
    );
    let written = slots.iter().filter_map(|slot| match slot {
        Slot::Written { sequence, lease_ns, mark } => Some((*sequence, *lease_ns, *mark)),
        _ => None,
    });
    written.max()
}

/// Returns an error if a slot has an unknown version, because its lease may be later than the lease
/// in the other slot.
fn check_versions(path: &Path, slots: &[Slot]) -> Result<()> {
    let unknown = slots.iter().find_map(|slot| match slot {
        Slot::Unknown(magic) => Some(*magic),
        _ => None,
    });
    let Some(magic) = unknown else { return Ok(()) };
    Err(Error::new(
        ErrorKind::DataCorrupted,
        format!(
            "clock file {} has a version unknown to this release: \"{}\"",
            path.display(),
            magic.escape_ascii()
        ),
    )
    .with_hint("start the release that wrote the file, or a later release"))
}

fn both_damaged(path: &Path) -> Error {
    lost(
        path,
        format_args!(
            "is damaged in both copies (offsets 0 and {SLOT_BYTES}, {RECORD_BYTES} bytes each)"
        ),
    )
}

/// The error if the upper limit of the issued times is unknown.
fn lost(path: &Path, what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::DataCorrupted, format!("clock file {} {what}", path.display()))
        .with_hint(format!(
            "restore the file from a backup; or check that the machine's clock is right, and let time start at the machine's clock: echo now > {}",
            path.display()
        ))
}

fn read_slot(file: &dyn DiskFile, slot: u64) -> io::Result<Slot> {
    debug_assert!(slot < SLOTS, "the file has no such slot");
    let mut record = [0_u8; RECORD_BYTES];
    let mut filled = 0;
    while let Some(rest) = record.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, slot * SLOT_BYTES + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    debug_assert!(filled <= RECORD_BYTES, "the disk has read more than the record");
    if record.iter().all(|byte| *byte == 0) {
        return Ok(Slot::Never);
    }
    let text = record.split(|byte| matches!(byte, 0 | b'\n')).next();
    if text == Some(ANEW) && record.iter().skip(ANEW.len() + 1).all(|byte| *byte == 0) {
        return Ok(Slot::Anew);
    }
    Ok(parse(&record).unwrap_or(Slot::Damaged))
}

/// Parses a slot; `None` if the checksum does not match.
fn parse(record: &[u8]) -> Option<Slot> {
    debug_assert_eq!(record.len(), RECORD_BYTES, "the record has another length");
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
    // Numbers that an earlier version did not store are 0.
    let mut next = || take(&mut numbers).unwrap_or(0);
    let mark = Mark { epoch: next(), held_ns: next(), unconfirmed_ns: next() };
    debug_assert!(numbers.is_empty(), "the record has more numbers than its version");
    Some(Slot::Written { sequence, lease_ns, mark })
}

/// Recognizes a slot of an unknown version. A known magic with a flipped bit is damage instead:
/// with the known magic in its place, the checksum matches.
fn unknown(record: &[u8], magic: [u8; 8]) -> Option<Slot> {
    debug_assert!(magic.starts_with(MAGIC_STEM), "the record is not a lease of any version");
    debug_assert_ne!(magic, *MAGIC, "the current version counts as unknown");
    let known = EARLIER.iter().copied().chain([(MAGIC, RECORD_BYTES)]);
    for (known, length) in known {
        let rest = record.get(known.len()..length)?;
        if sound(&[known.as_slice(), rest].concat()).is_some() {
            return None;
        }
    }
    Some(Slot::Unknown(magic))
}

/// The part of a record between the magic and the checksum; `None` if the checksum does not match.
fn sound(record: &[u8]) -> Option<&[u8]> {
    debug_assert!(record.len() >= MAGIC.len() + 4, "the record has no room for a checksum");
    let (content, checksum) = record.split_at_checked(record.len().checked_sub(4)?)?;
    let right = crc32c::crc32c(content) == u32::from_le_bytes(checksum.try_into().ok()?);
    content.get(MAGIC.len()..).filter(|_| right)
}

fn take(numbers: &mut &[u8]) -> Option<u64> {
    let (number, rest) = numbers.split_first_chunk()?;
    *numbers = rest;
    Some(u64::from_le_bytes(*number))
}
