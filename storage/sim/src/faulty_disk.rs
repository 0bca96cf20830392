//! A disk in memory for tests. It loses unsynced data in a power cut, and its operations fail on
//! request.
//!
//! ```text
//!   process ─► page cache (sees every write) ─ sync_data ─► platter (survives a power cut)
//!              names (see every rename)      ─ sync_dir ──► names on the platter
//! ```
//!
//! At a power cut, a random generator with a given seed decides for each unsynced sector (512
//! bytes) whether the sector survives. Of the unsynced changes of names, the first few survive. The
//! unsynced length of a file becomes any value between the old and the new length. A failed sync
//! leaves pages that are clean in the cache but were never written to the platter, as on Linux.

mod file;
mod state;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use stratalog_model::{Disk, DiskFile};

use crate::Random;
use state::{NameChange, State};

/// A disk operation that a test can let fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `write_all_at`. If it fails, about half of the sectors reach the page cache.
    Write,
    /// `sync_data` and `sync_all`.
    Sync,
    /// `sync_dir`.
    SyncDirectory,
    /// `create`.
    Create,
    /// `preallocate` and `set_len`.
    Resize,
    /// `rename`.
    Rename,
    /// `remove_file`.
    Remove,
    /// `open`.
    Open,
    /// `read_at`.
    Read,
}

impl Operation {
    /// Whether the operation leaves the disk unchanged. [`FaultyDisk::halt_after`] does not count
    /// it then.
    fn only_looks(self) -> bool {
        matches!(self, Operation::Open | Operation::Read)
    }

    /// Whether the operation needs disk space, so that it can fail for lack of space.
    fn takes_room(self) -> bool {
        use Operation::{Create, Rename, Resize, Sync, Write};
        matches!(self, Write | Sync | Create | Resize | Rename)
    }
}

/// The error with which an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// I/O error of the device (EIO).
    Device,
    /// No space left (ENOSPC).
    Full,
    /// The file system is read-only (EROFS).
    ReadOnly,
}

impl Failure {
    fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Failure::Device => 5,
            Failure::Full => 28,
            Failure::ReadOnly => 30,
        })
    }

    /// Whether `operation` can fail with this error.
    fn befalls(self, operation: Operation) -> bool {
        match self {
            Failure::Device => true,
            Failure::Full => operation.takes_room(),
            Failure::ReadOnly => !operation.only_looks(),
        }
    }
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// `kill -9`: the page cache survives.
    Kill,
    /// The machine stops: synced data survives, and a random part of the unsynced data.
    PowerCut,
}

/// The number of calls of each operation since the disk was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// `write_all_at`.
    pub writes: u64,
    /// `sync_data` and `sync_all`.
    pub syncs: u64,
    /// `sync_dir`.
    pub directory_syncs: u64,
    /// `create`.
    pub creates: u64,
    /// `preallocate` and `set_len`.
    pub resizes: u64,
    /// `rename`.
    pub renames: u64,
    /// `remove_file`.
    pub removes: u64,
    /// `open`.
    pub opens: u64,
    /// `read_at`.
    pub reads: u64,
}

/// The disk as one process sees it. See the comment of the module.
#[derive(Clone)]
pub struct FaultyDisk {
    shared: Arc<SharedDisk>,
    /// The number of the process that owns this view. After a crash, calls of earlier processes
    /// fail.
    life: u64,
}

struct SharedDisk {
    state: Mutex<State>,
    changed: Condvar,
}

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyDisk").field("life", &self.life).finish_non_exhaustive()
    }
}

impl FaultyDisk {
    /// An empty disk. `seed` determines all random decisions.
    pub fn new(seed: u64) -> Self {
        let state = State::new(Random::new(seed));
        let shared = SharedDisk { state: Mutex::new(state), changed: Condvar::new() };
        Self { shared: Arc::new(shared), life: 0 }
    }

    /// Simulates the crash of the process that owns this view. Returns the view for the next
    /// process. From now on, all calls of the old view and of its files fail.
    pub fn crash(&self, crash: Crash) -> Self {
        let mut state = self.shared.state.lock();
        state.end_life(crash);
        let life = state.life;
        self.shared.changed.notify_all();
        drop(state);
        Self { shared: Arc::clone(&self.shared), life }
    }

    /// Halts the disk at the `steps`-th change from now on (1 is the next change): only half of
    /// this change happens, and every later call fails, until [`FaultyDisk::crash`].
    pub fn halt_after(&self, steps: u64) {
        self.shared.state.lock().halt_after = Some(steps);
    }

    /// Whether the disk has halted.
    pub fn is_halted(&self) -> bool {
        self.shared.state.lock().halted
    }

    /// Lets the `nth` operation of this kind from now on (1 is the next) fail once.
    pub fn fail(&self, operation: Operation, nth: u64, failure: Failure) {
        self.shared.state.lock().failures.push((operation, nth.max(1), failure));
    }

    /// Lets the `nth` operation from now on (1 is the next) that can fail with this error fail
    /// once.
    pub fn fail_any(&self, nth: u64, failure: Failure) {
        self.shared.state.lock().failing = Some((nth.max(1), failure));
    }

    /// Whether a failure from [`FaultyDisk::fail_any`] is still pending.
    pub fn is_failing(&self) -> bool {
        self.shared.state.lock().failing.is_some()
    }

    /// Sets the disk read-only, as a file system does after a severe error: every change fails,
    /// reads succeed.
    pub fn set_read_only(&self, read_only: bool) {
        self.shared.state.lock().read_only = read_only;
    }

    /// Flips one bit of the `nth` write from now on (1 is the next) to a file whose name ends with
    /// `name_end`. The write still reports success.
    pub fn flip_write(&self, name_end: &str, nth: u64) {
        self.shared.state.lock().flip = Some((name_end.to_string(), nth.max(1)));
    }

    /// Whether a bit flip from [`FaultyDisk::flip_write`] is still pending.
    pub fn is_flipping(&self) -> bool {
        self.shared.state.lock().flip.is_some()
    }

    /// Limits the total size of all files; `u64::MAX` (the initial value) means no limit.
    pub fn set_capacity(&self, bytes: u64) {
        self.shared.state.lock().capacity = bytes;
    }

    /// Total size of all files, in bytes.
    pub fn used_bytes(&self) -> u64 {
        self.shared.state.lock().used_bytes()
    }

    /// The number of calls of each operation since the disk was made.
    pub fn counts(&self) -> DiskCounts {
        self.shared.state.lock().counts
    }

    /// Makes the next write wait until [`FaultyDisk::release`].
    pub fn hold(&self) {
        self.shared.state.lock().held = true;
    }

    /// Whether a write is waiting.
    pub fn is_holding(&self) -> bool {
        self.shared.state.lock().waiting
    }

    /// Releases the waiting writes.
    pub fn release(&self) {
        self.shared.state.lock().held = false;
        self.shared.changed.notify_all();
    }

    /// The content of a file, as processes see it (page cache).
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.shared.state.lock();
        Some(state.inode_at(path)?.cached.clone())
    }

    /// Replaces the content of a file in the page cache and on the platter, to simulate damage.
    pub fn overwrite(&self, path: &Path, bytes: Vec<u8>) {
        self.shared.state.lock().overwrite(path, bytes);
    }

    /// The paths of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.shared.state.lock().names.keys().cloned().collect()
    }

    /// Locks the state; fails if the process that owns this view has crashed.
    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.shared.state.lock();
        if state.life != self.life || state.halted {
            return Err(Failure::Device.error());
        }
        Ok(state)
    }

    /// Locks the state for an operation and counts the operation; waits first while
    /// [`FaultyDisk::hold`] blocks writes.
    fn change(&self, operation: Operation) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.alive()?;
        if operation == Operation::Write {
            while state.held && state.life == self.life && !state.halted {
                state.waiting = true;
                self.shared.changed.notify_all();
                self.shared.changed.wait(&mut state);
            }
            state.waiting = false;
            if state.life != self.life || state.halted {
                return Err(Failure::Device.error());
            }
        }
        if state.step(operation) {
            self.shared.changed.notify_all();
        }
        Ok(state)
    }

    fn file(&self, inode: u64) -> Box<dyn DiskFile> {
        Box::new(file::FaultyFile { disk: self.clone(), inode })
    }
}

impl Disk for FaultyDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        let ancestors: Vec<&Path> = path.ancestors().collect();
        for ancestor in ancestors.into_iter().rev() {
            if state.directories.insert(ancestor.to_path_buf()) {
                state.name_changes.push(NameChange::Directory(ancestor.to_path_buf()));
            }
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let state = self.alive()?;
        if !state.directories.contains(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let children = state.names.keys().chain(&state.directories);
        let children = children.filter(|child| child.parent() == Some(path));
        let names = children.filter_map(|child| child.file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
        names.sort();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.alive()?;
        Ok(state.names.contains_key(path) || state.directories.contains(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.change(Operation::Open)?;
        state.outcome(Operation::Open)?;
        let inode = state.names.get(path).copied();
        drop(state);
        Ok(self.file(inode.ok_or(io::ErrorKind::NotFound)?))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.change(Operation::Create)?;
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        if !state.directories.contains(parent) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if state.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let outcome = state.outcome(Operation::Create);
        if outcome.is_err() && !state.halted {
            return outcome.map(|()| self.file(0));
        }
        let inode = state.add_inode();
        state.apply(NameChange::Link(path.to_path_buf(), inode));
        drop(state);
        outcome.map(|()| self.file(inode))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.change(Operation::Rename)?;
        let Some(inode) = state.names.get(from).copied() else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let outcome = state.outcome(Operation::Rename);
        if outcome.is_ok() || state.halted {
            state.apply(NameChange::Rename(from.to_path_buf(), to.to_path_buf(), inode));
        }
        outcome
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.change(Operation::Remove)?;
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let outcome = state.outcome(Operation::Remove);
        if outcome.is_ok() || state.halted {
            state.apply(NameChange::Unlink(path.to_path_buf()));
        }
        outcome
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.change(Operation::SyncDirectory)?;
        state.outcome(Operation::SyncDirectory)?;
        state.sync_names(path);
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        let state = self.alive()?;
        Ok(state.capacity.saturating_sub(state.used_bytes()))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut state = self.alive()?;
        if !state.locks.insert(path.to_path_buf()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !state.names.contains_key(path) {
            let inode = state.add_inode();
            state.apply(NameChange::Link(path.to_path_buf(), inode));
        }
        drop(state);
        Ok(Box::new(HeldLock { disk: self.clone(), path: path.to_path_buf() }))
    }
}

struct HeldLock {
    disk: FaultyDisk,
    path: PathBuf,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let mut state = self.disk.shared.state.lock();
        if state.life == self.disk.life {
            state.locks.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
