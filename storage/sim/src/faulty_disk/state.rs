//! The state of the simulated disk: page cache and platter.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
};

use super::{Crash, DiskCounts, Failure, Operation};
use crate::Random;

/// Smallest unit that a disk writes atomically.
pub(super) const SECTOR_BYTES: usize = 512;

/// A change of names in a directory that is not yet durable on the platter.
#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Directory(PathBuf),
    Link(PathBuf, u64),
    /// Old path, new path, and the inode. The inode is stored because the old path may belong to
    /// another file when this change becomes durable.
    Rename(PathBuf, PathBuf, u64),
    Unlink(PathBuf),
}

impl NameChange {
    fn parent(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) | Self::Link(path, _) | Self::Unlink(path) => path.parent(),
            Self::Rename(_, to, _) => to.parent(),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>, directories: &mut BTreeSet<PathBuf>) {
        match self {
            Self::Directory(path) => {
                directories.insert(path.clone());
            }
            Self::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Self::Unlink(path) => {
                names.remove(path);
            }
            Self::Rename(from, to, inode) => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
            }
        }
    }
}

/// A file: its bytes in the page cache and on the platter.
#[derive(Debug, Default, Clone)]
pub(super) struct Inode {
    pub(super) cached: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl Inode {
    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if self.cached.len() < end {
            self.cached.resize(end, 0);
        }
        if let Some(place) = self.cached.get_mut(offset..end) {
            place.copy_from_slice(bytes);
        }
        if !bytes.is_empty() {
            self.dirty.extend(offset / SECTOR_BYTES..=(end - 1) / SECTOR_BYTES);
        }
    }

    pub(super) fn set_len(&mut self, len: usize) {
        let old = self.cached.len();
        self.cached.resize(len, 0);
        if len < old {
            // After a cut and a later growth of the file, the cut bytes must read as zeros.
            self.dirty.retain(|sector| sector * SECTOR_BYTES < len);
            self.dirty.extend(len / SECTOR_BYTES..old.div_ceil(SECTOR_BYTES));
        }
    }

    pub(super) fn sync(&mut self) {
        for sector in std::mem::take(&mut self.dirty) {
            self.persist(sector);
        }
        self.durable.resize(self.cached.len(), 0);
    }

    /// Simulates a failed sync: the pages become clean, although they were never written to the
    /// platter.
    pub(super) fn lose_sync(&mut self) {
        self.dirty.clear();
    }

    fn persist(&mut self, sector: usize) {
        let start = sector * SECTOR_BYTES;
        let end = (start + SECTOR_BYTES).min(self.cached.len());
        if self.durable.len() < end {
            self.durable.resize(end, 0);
        }
        let source = self.cached.get(start..end);
        if let (Some(source), Some(place)) = (source, self.durable.get_mut(start..end)) {
            place.copy_from_slice(source);
        }
    }

    /// Simulates a power cut: each unsynced sector is kept or lost at random.
    fn cut(&mut self, random: &mut Random) {
        let survival = [0, 50, 90, 100];
        let percent = survival.get(random.below(4) as usize).copied().unwrap_or(0);
        let synced_len = self.durable.len();
        for sector in std::mem::take(&mut self.dirty) {
            if random.chance(percent) {
                self.persist(sector);
            }
        }
        let least = synced_len.min(self.cached.len()) as u64;
        let most = synced_len.max(self.cached.len()) as u64;
        let len = if random.chance(percent) {
            self.cached.len() as u64
        } else {
            random.between(least, most + 1)
        };
        self.durable.resize(len as usize, 0);
        self.cached = self.durable.clone();
    }
}

/// The state of the disk.
pub(super) struct State {
    pub(super) names: BTreeMap<PathBuf, u64>,
    pub(super) directories: BTreeSet<PathBuf>,
    durable_names: BTreeMap<PathBuf, u64>,
    durable_directories: BTreeSet<PathBuf>,
    pub(super) name_changes: Vec<NameChange>,
    inodes: HashMap<u64, Inode>,
    next_inode: u64,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) life: u64,
    pub(super) halt_after: Option<u64>,
    pub(super) halted: bool,
    pub(super) failures: Vec<(Operation, u64, Failure)>,
    pub(super) failing: Option<(u64, Failure)>,
    pub(super) read_only: bool,
    pub(super) flip: Option<(String, u64)>,
    pub(super) capacity: u64,
    pub(super) counts: DiskCounts,
    pub(super) held: bool,
    pub(super) waiting: bool,
    random: Random,
}

impl State {
    pub(super) fn new(random: Random) -> Self {
        let root = BTreeSet::from([PathBuf::from("/")]);
        Self {
            names: BTreeMap::new(),
            directories: root.clone(),
            durable_names: BTreeMap::new(),
            durable_directories: root,
            name_changes: Vec::new(),
            inodes: HashMap::new(),
            next_inode: 1,
            locks: BTreeSet::new(),
            life: 0,
            halt_after: None,
            halted: false,
            failures: Vec::new(),
            failing: None,
            read_only: false,
            flip: None,
            capacity: u64::MAX,
            counts: DiskCounts::default(),
            held: false,
            waiting: false,
            random,
        }
    }

    /// Counts an operation; returns `true` if the disk halts at this operation.
    pub(super) fn step(&mut self, operation: Operation) -> bool {
        let counts = &mut self.counts;
        *match operation {
            Operation::Write => &mut counts.writes,
            Operation::Sync => &mut counts.syncs,
            Operation::SyncDirectory => &mut counts.directory_syncs,
            Operation::Create => &mut counts.creates,
            Operation::Resize => &mut counts.resizes,
            Operation::Rename => &mut counts.renames,
            Operation::Remove => &mut counts.removes,
            Operation::Open => &mut counts.opens,
            Operation::Read => &mut counts.reads,
        } += 1;
        if !operation.only_looks()
            && let Some(steps) = &mut self.halt_after
        {
            *steps = steps.saturating_sub(1);
            if *steps == 0 {
                self.halt_after = None;
                self.halted = true;
                return true;
            }
        }
        false
    }

    /// The error of an operation after a halt, or the failure that a test has requested for it.
    pub(super) fn outcome(&mut self, operation: Operation) -> io::Result<()> {
        if self.halted {
            return Err(Failure::Device.error());
        }
        self.take_failure(operation).map_or(Ok(()), |failure| Err(failure.error()))
    }

    /// Takes the failure that a test has requested for this operation, if any.
    pub(super) fn take_failure(&mut self, operation: Operation) -> Option<Failure> {
        if self.read_only && Failure::ReadOnly.befalls(operation) {
            return Some(Failure::ReadOnly);
        }
        if let Some((nth, failure)) = &mut self.failing
            && failure.befalls(operation)
        {
            let failure = *failure;
            *nth -= 1;
            if *nth == 0 {
                self.failing = None;
                return Some(failure);
            }
        }
        for (wanted, nth, _) in &mut self.failures {
            if *wanted == operation {
                *nth = nth.saturating_sub(1);
            }
        }
        let due = |(wanted, nth, _): &(Operation, u64, Failure)| *wanted == operation && *nth == 0;
        let at = self.failures.iter().position(due)?;
        Some(self.failures.swap_remove(at).2)
    }

    /// The bytes with one bit flipped, if a test has requested a flip for this write; otherwise
    /// `None`.
    pub(super) fn passed_on(&mut self, inode: u64, bytes: &[u8]) -> Option<Vec<u8>> {
        let (end, nth) = self.flip.as_mut()?;
        let named = self
            .names
            .iter()
            .any(|(path, named)| *named == inode && path.to_string_lossy().ends_with(end.as_str()));
        *nth -= u64::from(named);
        if *nth > 0 || bytes.is_empty() {
            return None;
        }
        self.flip = None;
        let (at, bit) = (self.random.below(bytes.len() as u64), self.random.below(8));
        let mut changed = bytes.to_vec();
        if let Some(byte) = changed.get_mut(at as usize) {
            *byte ^= 1 << bit;
        }
        Some(changed)
    }

    pub(super) fn add_inode(&mut self) -> u64 {
        let inode = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(inode, Inode::default());
        inode
    }

    pub(super) fn inode(&mut self, inode: u64) -> io::Result<&mut Inode> {
        self.inodes.get_mut(&inode).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn inode_at(&self, path: &Path) -> Option<&Inode> {
        self.inodes.get(self.names.get(path)?)
    }

    pub(super) fn overwrite(&mut self, path: &Path, bytes: Vec<u8>) {
        let inode = self.names.get(path).and_then(|inode| self.inodes.get_mut(inode));
        if let Some(inode) = inode {
            *inode = Inode { durable: bytes.clone(), cached: bytes, dirty: BTreeSet::new() };
        }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let lens = self.names.values().filter_map(|inode| self.inodes.get(inode));
        lens.map(|inode| inode.cached.len() as u64).sum()
    }

    /// Fails if the disk lacks space for the file `inode` to grow to `len` bytes.
    pub(super) fn check_room(&mut self, inode: u64, len: usize) -> io::Result<()> {
        let grown = (len as u64).saturating_sub(self.inode(inode)?.cached.len() as u64);
        if grown > 0 && self.used_bytes().saturating_add(grown) > self.capacity {
            return Err(Failure::Full.error());
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, change: NameChange) {
        change.apply(&mut self.names, &mut self.directories);
        self.name_changes.push(change);
    }

    pub(super) fn sync_names(&mut self, directory: &Path) {
        for change in std::mem::take(&mut self.name_changes) {
            if change.parent() == Some(directory) {
                change.apply(&mut self.durable_names, &mut self.durable_directories);
            } else {
                self.name_changes.push(change);
            }
        }
    }

    pub(super) fn end_life(&mut self, crash: Crash) {
        self.life += 1;
        self.halted = false;
        self.halt_after = None;
        self.failures.clear();
        self.failing = None;
        self.read_only = false;
        self.flip = None;
        self.locks.clear();
        self.held = false;
        self.waiting = false;
        if crash == Crash::Kill {
            return;
        }
        let survivors = self.random.below(self.name_changes.len() as u64 + 1) as usize;
        for change in self.name_changes.drain(..).take(survivors) {
            change.apply(&mut self.durable_names, &mut self.durable_directories);
        }
        self.names = self.durable_names.clone();
        // If a directory is lost, the files in it are lost too.
        let directories = &self.durable_directories;
        let lost = |path: &Path| !path.ancestors().skip(1).all(|up| directories.contains(up));
        self.names.retain(|path, _| !lost(path));
        self.durable_names = self.names.clone();
        self.directories = directories.iter().filter(|path| !lost(path)).cloned().collect();
        self.durable_directories = self.directories.clone();
        let mut inodes: Vec<u64> = self.inodes.keys().copied().collect();
        inodes.sort_unstable();
        for inode in inodes {
            if let Some(inode) = self.inodes.get_mut(&inode) {
                inode.cut(&mut self.random);
            }
        }
        let kept: BTreeSet<u64> = self.names.values().copied().collect();
        self.inodes.retain(|inode, _| kept.contains(inode));
    }
}
