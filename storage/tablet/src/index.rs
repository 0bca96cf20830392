//! An index of the blocks of all tablets, in the embedded database sled. All entries can be rebuilt
//! from the tablets.
//!
//! ```text
//!   (tablet u64, block u32, big-endian) ─► CRC32C of key and the rest │ offset u64 │ head
//! ```
//! sled may panic on damaged data, lose flushed entries in a power cut, or return fewer entries
//! than were stored. Therefore the index catches panics of sled and verifies each entry. It uses
//! the entries of a tablet only if all of them are present. After any failure, the index deletes
//! the database and starts an empty one.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use bytes::{BufMut, Bytes};
use parking_lot::Mutex;

use crate::{block::BlockHead, file::TabletId};

/// Maximum bytes of an entry. A tablet with a longer entry is not indexed.
const ENTRY_BYTES_MAX: usize = 64 << 10;

/// Size of sled's page cache, in bytes.
const CACHE_BYTES: u64 = 8 << 20;

/// An index of blocks. If sled cannot be opened, the index stays empty.
#[derive(Debug)]
pub(crate) struct Index {
    folder: Option<PathBuf>,
    database: Mutex<Option<sled::Db>>,
}

impl Index {
    /// Opens or creates the database in `folder`. With `None`, the index stays empty.
    pub(crate) fn open(folder: Option<&Path>) -> Self {
        let index = Self { folder: folder.map(Path::to_path_buf), database: Mutex::default() };
        *index.database.lock() = index.start();
        index
    }

    fn start(&self) -> Option<sled::Db> {
        let folder = self.folder.as_deref()?;
        begin(folder).or_else(|| {
            put_away(folder);
            begin(folder)
        })
    }

    /// Calls `work` with the database. After an error or a panic, returns `None` and starts a new
    /// database.
    fn guarded<T>(&self, work: impl FnOnce(&sled::Db) -> sled::Result<T>) -> Option<T> {
        let mut database = self.database.lock();
        let open = database.as_ref()?;
        match catch_unwind(AssertUnwindSafe(|| work(open))) {
            Ok(Ok(result)) => return Some(result),
            Ok(Err(error)) => tracing::warn!(%error, "the index of tablets failed, and is rebuilt"),
            Err(_) => tracing::warn!("the index of tablets panicked, and is rebuilt"),
        }
        // Dropping a broken database may panic, too.
        let broken = database.take();
        catch_unwind(AssertUnwindSafe(|| drop(broken))).ok();
        if let Some(folder) = &self.folder {
            put_away(folder);
            *database = begin(folder);
        }
        None
    }

    /// Whether all entries of a tablet's blocks are short enough for the index.
    pub(crate) fn takes(heads: &[BlockHead]) -> bool {
        heads.iter().all(|head| head.head_bytes as usize <= ENTRY_BYTES_MAX)
    }

    /// Stores the entries of all blocks of a tablet.
    pub(crate) fn put(&self, tablet: TabletId, heads: &[BlockHead], seed: u32) {
        debug_assert!(
            heads.iter().zip(0..).all(|(head, number)| head.number == number),
            "the blocks are not numbered from 0 on"
        );
        if !Self::takes(heads) {
            return;
        }
        self.guarded(|database| {
            let mut batch = sled::Batch::default();
            for head in heads {
                let key = key_of(tablet, head.number);
                batch.insert(&key, entry(&key, head, seed));
            }
            database.apply_batch(batch)
        });
    }

    /// The heads of all blocks of a tablet, whose number is `blocks`; `None` if any entry is
    /// missing or wrong.
    pub(crate) fn get(&self, tablet: TabletId, blocks: u32, seed: u32) -> Option<Vec<BlockHead>> {
        let found = self.guarded(|database| {
            let mut found = Vec::with_capacity(blocks as usize);
            for entry in database.scan_prefix(tablet.0.to_be_bytes()) {
                found.push(entry?);
            }
            Ok(found)
        })?;
        if found.len() != blocks as usize {
            return None;
        }
        let heads = found.iter().enumerate().map(|(number, (key, value))| {
            let number = u32::try_from(number).ok()?;
            if **key != key_of(tablet, number) {
                return None;
            }
            read(key, value, seed).filter(|head| head.number == number)
        });
        heads.collect()
    }

    /// Removes all entries of a tablet.
    pub(crate) fn remove(&self, tablet: TabletId) {
        self.guarded(|database| {
            let mut batch = sled::Batch::default();
            for key in database.scan_prefix(tablet.0.to_be_bytes()).keys() {
                batch.remove(key?);
            }
            database.apply_batch(batch)
        });
    }

    /// The tablets that have entries.
    pub(crate) fn tablets(&self) -> Vec<TabletId> {
        let found = self.guarded(|database| {
            let mut found: Vec<TabletId> = Vec::new();
            let mut next = Some(0_u64);
            while let Some(from) = next {
                let Some(entry) = database.range(from.to_be_bytes()..).next() else { break };
                let (key, _) = entry?;
                let Some(id) = key.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes))
                else {
                    break;
                };
                found.push(TabletId(id));
                next = id.checked_add(1);
            }
            Ok(found)
        });
        found.unwrap_or_default()
    }
}

fn begin(folder: &Path) -> Option<sled::Db> {
    let config = sled::Config::new()
        .path(folder)
        .cache_capacity(CACHE_BYTES)
        .flush_every_ms(Some(1000))
        .mode(sled::Mode::LowSpace);
    match catch_unwind(AssertUnwindSafe(|| config.open())) {
        Ok(Ok(database)) => return Some(database),
        Ok(Err(error)) => tracing::warn!(%error, "the index of tablets cannot be opened"),
        Err(_) => tracing::warn!("the index of tablets cannot be opened: sled panicked"),
    }
    None
}

fn put_away(folder: &Path) {
    if let Err(error) = std::fs::remove_dir_all(folder)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(folder = %folder.display(), %error, "the index of tablets cannot be removed");
    }
}

fn key_of(tablet: TabletId, number: u32) -> [u8; 12] {
    let mut key = [0; 12];
    let (id, block) = key.split_at_mut(8);
    id.copy_from_slice(&tablet.0.to_be_bytes());
    block.copy_from_slice(&number.to_be_bytes());
    key
}

fn entry(key: &[u8], head: &BlockHead, seed: u32) -> Vec<u8> {
    let (bytes, _) = head.encode(seed);
    let mut value = Vec::with_capacity(12 + bytes.len());
    value.put_u32_le(0);
    value.put_u64_le(head.offset);
    value.extend_from_slice(&bytes);
    debug_assert_eq!(value.len(), 12 + bytes.len());
    let checksum = checksum_of(key, &value);
    if let Some(slot) = value.get_mut(..4) {
        slot.copy_from_slice(&checksum.to_le_bytes());
    }
    value
}

fn checksum_of(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value.get(4..).unwrap_or(&[]))
}

fn read(key: &[u8], value: &[u8], seed: u32) -> Option<BlockHead> {
    let stored = value.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes))?;
    if stored != checksum_of(key, value) {
        return None;
    }
    let offset = value.get(4..12)?.try_into().map(u64::from_le_bytes).ok()?;
    let head = Bytes::copy_from_slice(value.get(12..)?);
    BlockHead::decode(&head, offset, seed).ok().map(|(head, _)| head)
}
