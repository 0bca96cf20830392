//! Repairs damage from second copies. Damage without a second copy remains.
//!
//! | what | from |
//! |---|---|
//! | a tablet | the journal, if it still has the tablet's events and every rebuilt byte is equal |
//! | a torn tail | recovery: bytes without proof of durability are cut |
//! | the index | the tablets: the index is removed, and the next start rebuilds it |
//! | files without a reference | removed, like at the next start; only without damage |

use std::{io, path::Path, sync::Arc};

use stratalog_engine::check::{PartKind, Rebuild, Repair, Severity, Subject};
use stratalog_journal::{
    CheckEvent, Journal, JournalSettings, RequiredSegments, Scope, check as check_journal,
};
use stratalog_model::{ChronicleId, Disk, Error, Log as _, Lsn, Result};
use stratalog_tablet::TabletId;

use super::offline::OfflineFindings;
use crate::directory::DataDirectory;

/// The folder in which tablets are rebuilt; otherwise empty.
const REPAIR: &str = "repair";

/// Makes the repairs that the report of a check allows. Returns one text for each repair.
pub(super) fn repair(
    disk: &Arc<dyn Disk>,
    directory: &DataDirectory,
    found: &OfflineFindings,
) -> Result<Vec<String>> {
    let mut done = Vec::new();
    let mut damaged =
        found.report.lines.iter().filter(|line| line.state == Severity::Damaged).count();
    let mut tablets: Vec<(ChronicleId, u64)> = Vec::new();
    for line in &found.report.lines {
        if let Repair::Tablet(chronicle, id) = line.cure
            && !tablets.contains(&(chronicle, id))
        {
            tablets.push((chronicle, id));
        }
    }
    if let Some(subject) = &found.subject
        && !found.report.is_damaged(PartKind::Journal)
    {
        for (chronicle, id) in tablets {
            if tablet(disk, directory, subject, chronicle, id, &mut done)? {
                let cured = |cure| cure == Repair::Tablet(chronicle, id);
                damaged -= found.report.lines.iter().filter(|line| cured(line.cure)).count();
            }
        }
    }
    for line in &found.report.lines {
        match line.cure {
            Repair::Tail => tail(disk, directory, found, line.part, &mut done)?,
            Repair::Index if damaged == 0 => index(directory, &mut done)?,
            Repair::Remove if damaged == 0 => remove(directory.path(), &line.path, &mut done)?,
            Repair::Index | Repair::Remove | Repair::Tablet(..) | Repair::None => {}
        }
    }
    Ok(done)
}

/// Rebuilds a tablet from the journal. Returns false if the journal no longer has the tablet's
/// events.
fn tablet(
    disk: &Arc<dyn Disk>,
    directory: &DataDirectory,
    subject: &Subject,
    chronicle: ChronicleId,
    id: u64,
    done: &mut Vec<String>,
) -> Result<bool> {
    let Some(mut rebuild) = Rebuild::new(subject, chronicle, id) else { return Ok(false) };
    let scope = Scope::Closed(RequiredSegments::At(subject.floor()));
    let settings = JournalSettings::default();
    check_journal(disk, &directory.journal(), &settings, scope, &mut |sight| match sight {
        CheckEvent::Frame { lsn, frame, .. } => rebuild.frame(lsn, frame),
        CheckEvent::Fault(fault) => Err(fault.error),
    })?;
    let folder = directory.path().join(REPAIR);
    clear(&folder)?;
    let made = rebuild.finish(disk, &folder);
    let moved = made.and_then(|same| {
        if same {
            put(disk, &folder, subject, TabletId(id), done).map(|()| true)
        } else {
            Ok(false)
        }
    });
    clear(&folder)?;
    moved
}

/// Moves a rebuilt tablet to the path of the damaged tablet.
fn put(
    disk: &Arc<dyn Disk>,
    folder: &Path,
    subject: &Subject,
    id: TabletId,
    done: &mut Vec<String>,
) -> Result<()> {
    let tablets = &subject.shelves().tablets;
    let to = tablets.path(id);
    let failed = |error| Error::io(format!("cannot write {}", to.display()), error);
    let name = tablets.file_name(id);
    if disk.exists(&to).map_err(failed)? {
        let aside = tablets.put_aside(id)?;
        done.push(format!("the damaged {name} is kept as {}", aside.display()));
    }
    let made = folder.join(to.file_name().unwrap_or_default());
    disk.rename(&made, &to)
        .and_then(|()| disk.sync_dir(to.parent().unwrap_or(folder)))
        .map_err(failed)?;
    done.push(format!("{name} was rebuilt from the journal, with identical bytes"));
    Ok(())
}

/// Cuts the torn tail of a journal, as a start does.
fn tail(
    disk: &Arc<dyn Disk>,
    directory: &DataDirectory,
    found: &OfflineFindings,
    part: PartKind,
    done: &mut Vec<String>,
) -> Result<()> {
    let floor = found.subject.as_ref().map(Subject::floor);
    let (folder, beginning) = match (part, floor) {
        (PartKind::Catalog, _) => (directory.catalog(), RequiredSegments::First),
        (PartKind::Manifest, _) => (directory.manifest(), RequiredSegments::Any),
        (PartKind::Journal, Some(floor)) if !found.report.is_damaged(PartKind::Journal) => {
            (directory.journal(), RequiredSegments::At(floor.max(Lsn(1))))
        }
        _ => return Ok(()),
    };
    let settings = JournalSettings::default();
    let journal = Journal::open_existing(Arc::clone(disk), folder, settings, beginning)?;
    let cut = journal.status().torn_bytes;
    journal.close()?;
    done.push(format!("cut the torn tail of the {part}, {cut} bytes"));
    Ok(())
}

/// Removes the index of the tablets; the next start rebuilds it.
fn index(directory: &DataDirectory, done: &mut Vec<String>) -> Result<()> {
    clear(&directory.index())?;
    done.push("removed the index; the next start rebuilds the index from the tablets".to_string());
    Ok(())
}

/// Removes a file without a reference in catalog or manifest.
fn remove(root: &Path, path: &str, done: &mut Vec<String>) -> Result<()> {
    let file = root.join(path);
    // A path in an object store is not a local file; the next start removes the object.
    let Ok(metadata) = std::fs::symlink_metadata(&file) else { return Ok(()) };
    let removed = match metadata.is_dir() {
        true => std::fs::remove_dir_all(&file),
        false => std::fs::remove_file(&file),
    };
    removed.map_err(|error| Error::io(format!("cannot remove {}", file.display()), error))?;
    done.push(format!("removed {path}"));
    Ok(())
}

fn clear(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(format!("cannot remove {}", folder.display()), error))
        }
        _ => Ok(()),
    }
}
