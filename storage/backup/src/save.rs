//! Makes a backup: stores first the missing files, then the list.

use std::collections::BTreeMap;

use bytes::Bytes;
use chrono::{DateTime, SecondsFormat};
use sha2::{Digest as _, Sha256};
use stratalog_engine::{BackupHold, HeldPiece};
use stratalog_journal::{Extent, Journal};
use stratalog_model::{Error, ErrorKind, Result};
use stratalog_story::Content;

use crate::{
    Entry, List, Place, PlaceGuard, Source, Watch,
    capture::{CapturedState, capture},
    content::{BytesContent, ChecksummedContent, FileContent, StoryContent, chunks},
    place::{BACKUPS, FILES, damaged},
    retention,
};

/// Path of the manifest's state in a backup. A data directory has no file with this path.
pub(crate) const MANIFEST_PATH: &str = "manifest/state";

/// Number of lists of earlier backups to read, to find files already stored in the place.
const LISTS_READ: usize = 3;

/// The result of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedBackup {
    /// The name.
    pub name: String,
    /// Number of files in the backup.
    pub files: u64,
    /// Size of the files in the backup, in bytes.
    pub bytes: u64,
    /// Number of files that this backup added to the place.
    pub stored_files: u64,
    /// Size of the files that this backup added to the place, in bytes.
    pub stored_bytes: u64,
}

/// Makes a backup of all events acknowledged before this call. Between its await points, the
/// function blocks the thread. `time_ns` is the current time, in nanoseconds since 1970.
///
/// # Errors
/// `ObjectInUse` while another process changes the place; `DataCorrupted` for damage in the
/// database, or if bytes read back from the place differ from the stored bytes; `DiskFull`, `Io`,
/// `ConnectionFailure`; `QueryCanceled`. After an error, no new backup exists, and earlier backups
/// are unchanged.
pub async fn save(
    source: &Source,
    place: &Place,
    time_ns: i64,
    watch: &Watch,
) -> Result<SavedBackup> {
    let guard = place.guard().await?;
    let saved = save_guarded(source, place, &guard, time_ns, watch).await;
    guard.end().await;
    saved
}

async fn save_guarded(
    source: &Source,
    place: &Place,
    guard: &PlaceGuard,
    time_ns: i64,
    watch: &Watch,
) -> Result<SavedBackup> {
    let names = retention::names(place).await?;
    let mut earlier_files = BTreeMap::new();
    for (name, bytes) in names.iter().rev().take(LISTS_READ) {
        // If the list is unreadable, its files count as unknown, and are compared with the files in
        // the place.
        if let Ok(list) = retention::read(place, name, *bytes).await {
            earlier_files.extend(
                list.files.into_iter().map(|file| (file.object, (file.bytes, file.checksum))),
            );
        }
    }
    let newest = names.keys().next_back().cloned();
    let stored_files = place.list(FILES).await?;
    let captured = capture(source).await?;
    let mut store =
        Store { place, watch, earlier_files, stored_files, files: Vec::new(), stored: (0, 0) };
    store.add_all(source, captured).await?;
    let Store { files, stored, .. } = store;
    debug_assert!(stored.0 <= files.len() as u64, "more files are stored than listed");
    let name = name(time_ns, newest.as_deref())?;
    let list = List { name: name.clone(), time_ns, stored_bytes: stored.1, files };
    debug_assert!(list.stored_bytes <= list.bytes(), "more bytes are stored than listed");
    watch.check()?;
    guard.check().await?;
    put_list(place, &list).await?;
    Ok(SavedBackup {
        name,
        files: list.files.len() as u64,
        bytes: list.bytes(),
        stored_files: stored.0,
        stored_bytes: stored.1,
    })
}

/// Stores the list, which completes the backup. Then checks again that all files exist.
async fn put_list(place: &Place, list: &List) -> Result<()> {
    let text = Bytes::from(list.encode()?);
    if text.len() as u64 > retention::LIST_BYTES_MAX {
        let files = list.files.len();
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!(
                "a backup of {files} files is too large: the list of the backup would be unreadable"
            ),
        )
        .with_hint("CALL stratalog.compact brings tables into fewer files"));
    }
    let name = format!("{BACKUPS}/{}{}", list.name, retention::SUFFIX);
    if !place.put(&name, &BytesContent(text.clone())).await? {
        return Err(Error::new(
            ErrorKind::ObjectInUse,
            format!("the backup {} already exists", list.name),
        ));
    }
    let whole = async {
        if place.read(&name, 0..text.len() as u64).await? != text {
            return Err(unfaithful(&place.place(&name)));
        }
        let stored_files = place.list(FILES).await?;
        match list.files.iter().find(|file| stored_files.get(&file.object) != Some(&file.bytes)) {
            Some(file) => {
                let file = place.place(&format!("{FILES}/{}", file.object));
                Err(damaged(&file, "the file was removed or changed during the backup"))
            }
            None => Ok(()),
        }
    };
    let whole = whole.await;
    if whole.is_err() {
        place.remove(&name).await?;
        place.tidy(BACKUPS)?;
    }
    whole
}

/// Makes a name that sorts after all existing names.
fn name(time_ns: i64, newest: Option<&str>) -> Result<String> {
    let mut ms = time_ns.div_euclid(1_000_000);
    loop {
        let time = DateTime::from_timestamp_millis(ms);
        let time = time.ok_or_else(|| Error::internal("the time has no name"))?;
        let text = time.to_rfc3339_opts(SecondsFormat::Millis, true).replace(['-', ':'], "");
        let Some(newest) = newest.filter(|newest| *newest >= text.as_str()) else {
            debug_assert_eq!(retention::time_ms(&text), Some(ms), "the name has another time");
            return Ok(text);
        };
        // The clock of the process that made the newest backup was ahead of our clock.
        ms = retention::time_ms(newest).unwrap_or(ms).max(ms) + 1;
    }
}

/// The state of a running backup.
struct Store<'a> {
    place: &'a Place,
    watch: &'a Watch,
    /// Length and checksum of each file that an earlier backup lists.
    earlier_files: BTreeMap<String, (u64, u32)>,
    /// Length of each file that is in the place.
    stored_files: BTreeMap<String, u64>,
    files: Vec<Entry>,
    /// Number and bytes of the files that this backup has added.
    stored: (u64, u64),
}

impl Store<'_> {
    async fn add_all(&mut self, source: &Source, captured: CapturedState) -> Result<()> {
        let CapturedState { mut hold, manifest, events, commands, clock, format } = captured;
        let pieces = hold.pieces();
        let segments = events.iter().chain(&commands).map(|extent| extent.used_bytes);
        let bytes = pieces.iter().map(HeldPiece::bytes).chain(segments).sum::<u64>();
        self.watch.begin(bytes + (manifest.len() + clock.len() + format.len()) as u64);
        self.add_bytes("FORMAT", format).await?;
        self.add_bytes("clock/clock", clock).await?;
        self.add_bytes(MANIFEST_PATH, manifest).await?;
        // Copies the journal first: then the database must keep its old segments only for a short
        // time.
        for extent in &events {
            hold.check_room().await?;
            self.add_segment(source, &source.events, "journal", extent).await?;
        }
        hold.let_journal_go();
        for extent in &commands {
            self.add_segment(source, &source.commands, "catalog", extent).await?;
        }
        for piece in &pieces {
            hold.check_room().await?;
            self.add_piece(&hold, piece).await?;
        }
        debug_assert_eq!(self.watch.done(), self.watch.bytes(), "the progress is not complete");
        Ok(())
    }

    async fn add_bytes(&mut self, path: &str, bytes: Bytes) -> Result<()> {
        let object = format!("{}-{}", path.replace('/', "-"), hash(&bytes));
        let length = bytes.len() as u64;
        self.add(path.to_string(), object, length, &BytesContent(bytes)).await
    }

    /// Adds a segment of a journal, without the zeros after its last frame.
    async fn add_segment(
        &mut self,
        source: &Source,
        journal: &Journal,
        folder: &str,
        extent: &Extent,
    ) -> Result<()> {
        journal.verify(extent)?;
        let (disk, path) = (std::sync::Arc::clone(&source.disk), extent.path.clone());
        let mut content = FileContent { disk, path, bytes: extent.used_bytes };
        let (hash, bytes) = self.hash_without_zeros(&content).await?;
        debug_assert!(bytes <= extent.used_bytes, "the file is longer than its segment");
        content.bytes = bytes;
        let name = extent.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let object = format!("{folder}-{}-{hash}", name.trim_end_matches(".journal"));
        self.add(format!("{folder}/{name}"), object, extent.bytes, &content).await?;
        self.watch.advance(extent.used_bytes - bytes);
        Ok(())
    }

    async fn hash_without_zeros(&self, content: &dyn Content) -> Result<(String, u64)> {
        let (mut hasher, mut end, mut zeros) = (Sha256::new(), 0, 0_u64);
        for range in chunks(content.bytes()) {
            self.watch.check()?;
            let bytes = content.read(range.clone()).await?;
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            if used > 0 {
                for part in chunks(zeros) {
                    hasher.update(vec![0; (part.end - part.start) as usize]);
                }
                hasher.update(bytes.get(..used).unwrap_or_default());
                (end, zeros) = (range.start + used as u64, 0);
            }
            zeros += (bytes.len() - used) as u64;
        }
        debug_assert_eq!(end + zeros, content.bytes(), "bytes are left out of the hash");
        Ok((short(&hasher.finalize()), end))
    }

    /// Adds a tablet or story. Its name in the place is a hash of the manifest's description, which
    /// includes the checksum of the file's checksums.
    async fn add_piece(&mut self, hold: &BackupHold, piece: &HeldPiece) -> Result<()> {
        let hash = hash(&piece.described()?);
        let (path, object, content): (_, _, Box<dyn Content>) = match piece.story() {
            Some(built) => {
                let name = built.name();
                let stories = std::sync::Arc::clone(hold.stories());
                let story = StoryContent { stories, name, bytes: piece.bytes() };
                (format!("stories/{name}"), format!("story-{}-{hash}", piece.id()), Box::new(story))
            }
            None => {
                let (disk, path) = piece.tablet_path(hold);
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let file = FileContent { disk, path, bytes: piece.bytes() };
                (format!("tablets/{name}"), format!("tablet-{}-{hash}", piece.id()), Box::new(file))
            }
        };
        if !self.has(&object, piece.bytes()) {
            hold.verify(piece).await?;
        }
        self.add(path, object, piece.bytes(), content.as_ref()).await
    }

    /// Whether an earlier backup lists the file, and the place has it.
    fn has(&self, object: &str, bytes: u64) -> bool {
        let earlier_files =
            self.earlier_files.get(object).is_some_and(|earlier_files| earlier_files.0 == bytes);
        earlier_files && self.stored_files.get(object) == Some(&bytes)
    }

    async fn add(
        &mut self,
        path: String,
        object: String,
        restored_bytes: u64,
        content: &dyn Content,
    ) -> Result<()> {
        self.watch.check()?;
        let bytes = content.bytes();
        debug_assert!(bytes <= restored_bytes, "the file is longer than its restored form");
        let checksum = match self.earlier_files.get(&object) {
            Some((_, checksum)) if self.has(&object, bytes) => *checksum,
            _ => self.store(&object, content).await?,
        };
        self.earlier_files.insert(object.clone(), (bytes, checksum));
        self.stored_files.insert(object.clone(), bytes);
        self.watch.advance(bytes);
        self.files.push(Entry { path, object, bytes, checksum, restored_bytes });
        Ok(())
    }

    /// Stores a file missing from the lists of earlier backups, and reads the file back.
    async fn store(&mut self, object: &str, content: &dyn Content) -> Result<u32> {
        let name = format!("{FILES}/{object}");
        let bytes = content.bytes();
        debug_assert!(!self.has(object, bytes), "an earlier backup has the file");
        if let Some(length) = self.stored_files.get(object) {
            if *length == bytes {
                let summed = ChecksummedContent::new(content, self.watch);
                for range in chunks(bytes) {
                    summed.read(range).await?;
                }
                let checksum = summed.checksum()?;
                // An interrupted backup has stored the file already.
                if self.place.checksum(&name, bytes).await? == checksum {
                    return Ok(checksum);
                }
            }
            self.place.remove(&name).await?;
        }
        let summed = ChecksummedContent::new(content, self.watch);
        if !self.place.put(&name, &summed).await? {
            return Err(damaged(&self.place.place(&name), "the file is from another source"));
        }
        let checksum = summed.checksum()?;
        let found = self.place.checksum(&name, bytes).await;
        if !matches!(found, Ok(found) if found == checksum) {
            self.place.remove(&name).await?;
            found?;
            return Err(unfaithful(&self.place.place(&name)));
        }
        self.stored = (self.stored.0 + 1, self.stored.1 + bytes);
        Ok(checksum)
    }
}

fn unfaithful(place: &str) -> Error {
    damaged(place, "the bytes read back differ from the written bytes")
        .with_hint("check the disk and the memory of the machine, or the object store")
}

/// A 128-bit hash of the content; different contents have different hashes.
fn hash(bytes: &[u8]) -> String {
    short(&Sha256::digest(bytes))
}

fn short(hash: &[u8]) -> String {
    debug_assert!(hash.len() >= 16, "the hash has fewer than 128 bits");
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time_and_never_go_back() {
        let first = name(1_795_309_323_004_000_000, None).unwrap();
        assert_eq!(first, "20261122T010203.004Z");
        let next = name(1_795_309_323_004_000_000, Some(&first)).unwrap();
        assert_eq!(next, "20261122T010203.005Z");
        // The clock was set back by a year: the new name must still sort after the existing name.
        assert_eq!(name(1_763_773_323_004_000_000, Some(&next)).unwrap(), "20261122T010203.006Z");
    }
}
