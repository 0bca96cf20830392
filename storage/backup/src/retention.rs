//! Lists the backups of a place, and removes old backups.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDateTime;
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    List, Place, PlaceGuard,
    place::{BACKUPS, FILES},
};

/// Suffix of the file name of a list.
pub(crate) const SUFFIX: &str = ".backup";

/// Maximum size of a list in bytes: enough for about a million files.
pub(crate) const LIST_BYTES_MAX: u64 = 1 << 28;

/// A backup that is stored in a place.
#[derive(Debug)]
pub struct Backup {
    /// The name.
    pub name: String,
    /// The summary of the backup, or the error if its list cannot be read.
    pub summary: Result<Summary>,
}

/// The summary of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The start of the backup, in nanoseconds since 1970.
    pub time_ns: i64,
    /// Number of files.
    pub files: u64,
    /// Size of the files, in bytes.
    pub bytes: u64,
    /// Bytes of the files that this backup added to the place.
    pub stored_bytes: u64,
}

/// What a removal has removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemovalResult {
    /// Number of removed backups.
    pub backups: u64,
    /// Number of removed files, which no remaining backup uses.
    pub files: u64,
    /// Bytes of the removed files.
    pub bytes: u64,
}

/// The backups of a place, oldest first.
///
/// # Errors
/// `Io`, `ConnectionFailure`.
pub async fn backups(place: &Place) -> Result<Vec<Backup>> {
    let mut found = Vec::new();
    for (name, bytes) in names(place).await? {
        let summary = match read(place, &name, bytes).await {
            Err(error) if !is_of_the_list(&error) => return Err(error),
            list => list.map(|list| Summary {
                time_ns: list.time_ns,
                files: list.files.len() as u64,
                bytes: list.bytes(),
                stored_bytes: list.stored_bytes,
            }),
        };
        found.push(Backup { name, summary });
    }
    debug_assert!(found.is_sorted_by(|a, b| a.name < b.name), "the backups are not in order");
    Ok(found)
}

/// Whether the error concerns only this list, and further lists may be readable.
fn is_of_the_list(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::DataCorrupted | ErrorKind::ObjectNotInPrerequisiteState)
}

/// The names of all backups, with the lengths of their lists.
pub(crate) async fn names(place: &Place) -> Result<BTreeMap<String, u64>> {
    let files = place.list(BACKUPS).await?.into_iter();
    let name = |file: String| {
        let name = file.strip_suffix(SUFFIX)?;
        time_ms(name).map(|_| name.to_string())
    };
    Ok(files.filter_map(|(file, bytes)| Some((name(file)?, bytes))).collect())
}

/// Reads the list of a backup.
pub(crate) async fn read(place: &Place, name: &str, bytes: u64) -> Result<List> {
    debug_assert!(time_ms(name).is_some(), "a backup has no such name");
    let at = format!("{BACKUPS}/{name}{SUFFIX}");
    let text = place.read(&at, 0..bytes.min(LIST_BYTES_MAX)).await?;
    let list = List::decode(&text, &place.place(&at))?;
    if list.name != name {
        return Err(Error::new(
            ErrorKind::DataCorrupted,
            format!("the list {} belongs to {}", place.place(&at), list.name),
        ));
    }
    Ok(list)
}

/// The time in the name of a backup, in milliseconds since 1970.
pub(crate) fn time_ms(name: &str) -> Option<i64> {
    let time = NaiveDateTime::parse_from_str(name.strip_suffix('Z')?, "%Y%m%dT%H%M%S%.3f").ok()?;
    Some(time.and_utc().timestamp_millis())
}

/// Removes all backups except the `newest` newest, but always keeps at least one. Also removes all
/// files that no remaining backup uses, including files of interrupted backups.
///
/// # Errors
/// `ObjectInUse` while another process changes the place; `DataCorrupted` if the list of a
/// remaining backup is unreadable, in which case nothing is removed; `Io`, `ConnectionFailure`,
/// after which the next call removes the rest.
pub async fn keep(place: &Place, newest: usize) -> Result<RemovalResult> {
    let guard = place.guard().await?;
    let kept = keep_guarded(place, &guard, newest.max(1)).await;
    guard.end().await;
    kept
}

async fn keep_guarded(place: &Place, guard: &PlaceGuard, newest: usize) -> Result<RemovalResult> {
    let names = names(place).await?;
    let old = names.len().saturating_sub(newest);
    let mut needed = BTreeSet::new();
    let mut gone = Vec::new();
    for (number, (name, bytes)) in names.into_iter().enumerate() {
        if number < old {
            gone.push(name);
        } else {
            // All files of a remaining backup must stay.
            let list = read(place, &name, bytes).await?;
            needed.extend(list.files.into_iter().map(|file| file.object));
        }
    }
    debug_assert!(gone.len() == old && newest > 0, "every backup is removed");
    let mut kept = RemovalResult::default();
    guard.check().await?;
    // Removes the lists first, durably: an existing backup always has all files.
    for name in gone {
        place.remove(&format!("{BACKUPS}/{name}{SUFFIX}")).await?;
        kept.backups += 1;
    }
    debug_assert_eq!(kept.backups, old as u64, "another number of backups is removed");
    place.tidy(BACKUPS)?;
    for (file, bytes) in place.list(FILES).await? {
        if !needed.contains(&file) {
            guard.check().await?;
            place.remove(&format!("{FILES}/{file}")).await?;
            kept.files += 1;
            kept.bytes += bytes;
        }
    }
    place.tidy(FILES)?;
    Ok(kept)
}
