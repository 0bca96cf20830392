//! What backups there are, and which of them stay.

use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDateTime;
use stratalog_model::{Error, ErrorKind, Result};

use crate::{
    List, Place, PlaceGuard,
    place::{BACKUPS, FILES},
};

/// Ending of the name of a list.
pub(crate) const SUFFIX: &str = ".backup";

/// Bytes that a list may have: about a million files.
const LIST_BYTES_MAX: u64 = 1 << 28;

/// A backup that is there.
#[derive(Debug)]
pub struct Backup {
    /// Its name.
    pub name: String,
    /// What belongs to it, or why that cannot be told.
    pub list: Result<List>,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Backups.
    pub backups: u64,
    /// Files that no other backup has.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The backups of a place, oldest first.
///
/// # Errors
/// `Io`, `ConnectionFailure`.
pub async fn backups(place: &Place) -> Result<Vec<Backup>> {
    let lists = lists(place).await?.into_iter();
    Ok(lists.map(|(name, list)| Backup { name, list }).collect())
}

/// The lists by name.
pub(crate) async fn lists(place: &Place) -> Result<BTreeMap<String, Result<List>>> {
    let mut lists = BTreeMap::new();
    for (file, bytes) in place.list(BACKUPS).await? {
        let Some(name) = file.strip_suffix(SUFFIX).filter(|name| time_ms(name).is_some()) else {
            continue;
        };
        let at = format!("{BACKUPS}/{file}");
        let list = match place.read(&at, 0..bytes.min(LIST_BYTES_MAX)).await {
            Ok(text) => {
                List::decode(&text, &place.place(&at)).and_then(|list| match list.name == name {
                    true => Ok(list),
                    false => Err(Error::new(
                        ErrorKind::DataCorrupted,
                        format!("the list {} is that of {}", place.place(&at), list.name),
                    )),
                })
            }
            Err(error) if error.kind() == ErrorKind::DataCorrupted => Err(error),
            Err(error) => return Err(error),
        };
        lists.insert(name.to_string(), list);
    }
    Ok(lists)
}

/// The time that a name of a backup tells, in milliseconds since 1970.
pub(crate) fn time_ms(name: &str) -> Option<i64> {
    let time = NaiveDateTime::parse_from_str(name.strip_suffix('Z')?, "%Y%m%dT%H%M%S%.3f").ok()?;
    Some(time.and_utc().timestamp_millis())
}

/// Removes all backups but the newest `newest`, at least one, and all files that none of those
/// needs, also what interrupted backups left.
///
/// # Errors
/// `ObjectInUse` while somebody else changes the place; `DataCorrupted` when the list of a backup
/// that stays cannot be read: then nothing is removed; `Io`, `ConnectionFailure`: what was not
/// removed is removed the next time.
pub async fn keep(place: &Place, newest: usize) -> Result<Kept> {
    let guard = place.guard().await?;
    let kept = keep_guarded(place, &guard, newest.max(1)).await;
    guard.end().await;
    kept
}

async fn keep_guarded(place: &Place, guard: &PlaceGuard, newest: usize) -> Result<Kept> {
    let lists = lists(place).await?;
    let old = lists.len().saturating_sub(newest);
    let mut needed = BTreeSet::new();
    let mut gone = Vec::new();
    for (number, (name, list)) in lists.into_iter().enumerate() {
        if number < old {
            gone.push(name);
        } else {
            // Whatever it has must stay.
            needed.extend(list?.files.into_iter().map(|file| file.object));
        }
    }
    let mut kept = Kept::default();
    guard.check().await?;
    // Lists first, durably: a backup that is there has its files.
    for name in gone {
        place.remove(&format!("{BACKUPS}/{name}{SUFFIX}")).await?;
        kept.backups += 1;
    }
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
