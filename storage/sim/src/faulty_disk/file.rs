//! An open file of a [`FaultyDisk`].

use std::io;

use stratalog_model::DiskFile;

use super::{Failure, FaultyDisk, Operation, state::SECTOR_BYTES};

#[derive(Debug)]
pub(super) struct FaultyFile {
    pub(super) disk: FaultyDisk,
    pub(super) inode: u64,
}

impl FaultyFile {
    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.change(Operation::Sync)?;
        if state.halted {
            return Err(Failure::Device.error());
        }
        if let Some(failure) = state.take_failure(Operation::Sync) {
            state.inode(self.inode)?.lose_sync();
            return Err(failure.error());
        }
        state.inode(self.inode)?.sync();
        Ok(())
    }

    fn resize(&self, len: u64, shrink: bool) -> io::Result<()> {
        let mut state = self.disk.change(Operation::Resize)?;
        if let Some(failure) = state.take_failure(Operation::Resize) {
            return Err(failure.error());
        }
        let len = len as usize;
        state.check_room(self.inode, len)?;
        let inode = state.inode(self.inode)?;
        if shrink || len > inode.cached.len() {
            inode.set_len(len);
        }
        if state.halted { Err(Failure::Device.error()) } else { Ok(()) }
    }
}

impl DiskFile for FaultyFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.change(Operation::Write)?;
        let offset = offset as usize;
        let half = half_of(bytes, offset);
        if let Some(failure) = state.take_failure(Operation::Write) {
            if failure != Failure::ReadOnly {
                state.inode(self.inode)?.write(half, offset);
            }
            return Err(failure.error());
        }
        state.check_room(self.inode, offset + bytes.len())?;
        if state.halted {
            state.inode(self.inode)?.write(half, offset);
            return Err(Failure::Device.error());
        }
        let changed = state.passed_on(self.inode, bytes);
        state.inode(self.inode)?.write(changed.as_deref().unwrap_or(bytes), offset);
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.change(Operation::Read)?;
        if let Some(failure) = state.take_failure(Operation::Read) {
            return Err(failure.error());
        }
        let cached = &state.inode(self.inode)?.cached;
        let source = cached.get(offset as usize..).unwrap_or_default();
        let len = source.len().min(buffer.len());
        if let (Some(source), Some(place)) = (source.get(..len), buffer.get_mut(..len)) {
            place.copy_from_slice(source);
        }
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.alive()?.inode(self.inode)?.cached.len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.resize(len, true)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.resize(len, false)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }
}

/// The part of a failing write that reaches the page cache: about half, up to the end of a sector.
fn half_of(bytes: &[u8], offset: usize) -> &[u8] {
    let end = (offset + bytes.len() / 2) / SECTOR_BYTES * SECTOR_BYTES;
    bytes.get(..end.saturating_sub(offset)).unwrap_or_default()
}
