//! Computes the rows about the bytes on disk, by kind of file.
//!
//! ```text
//!   journal:  full segments │ full segments │ segment in use          │ spare segment
//!             recyclable    │ live          │ live     │ preallocated │ preallocated
//!                           └ first needed frame       └ end of the log
//! ```

use stratalog_model::{
    Result, TierName,
    files::{FileKind, FileUsage},
    store::StoreStatus,
};

use crate::{CatalogContext, rows::Rows};

pub(super) fn storage(context: &CatalogContext, rows: &mut Rows<'_>) -> Result<()> {
    context.check_monitor()?;
    let Some(files) = &context.files else { return Ok(()) };
    let usage = files.usage()?;
    let of = |kind| usage.iter().find(|usage| usage.kind == kind);
    if let (Some(journal), Some(spare)) = (of(FileKind::Journal), of(FileKind::SpareSegment)) {
        for (kind, files, bytes) in split(journal, spare, &context.store.status()) {
            push(rows, (kind, "directory"), files, bytes)?;
        }
    }
    for FileUsage { kind, files, bytes } in &usage {
        if let Some(kind) = name(*kind) {
            push(rows, (kind, "directory"), *files, *bytes)?;
        }
    }
    if files.has_object_store() {
        let pieces = context.store.pieces();
        let stories = pieces.iter().filter(|piece| piece.tier == TierName::Story);
        let bytes: Vec<u64> = stories.map(|story| story.bytes).collect();
        push(rows, ("stories", "object store"), bytes.len() as u64, bytes.iter().sum())?;
    }
    Ok(())
}

fn push(rows: &mut Rows<'_>, of: (&str, &str), files: u64, bytes: u64) -> Result<()> {
    let (kind, place) = of;
    rows.push(&[
        ("kind", kind.into()),
        ("place", place.into()),
        ("files", files.into()),
        ("bytes", bytes.into()),
    ])
}

/// Splits the size of the journal into live, recyclable and preallocated bytes: for each kind, its
/// name, the number of files, and the number of bytes.
fn split(
    journal: &FileUsage,
    spare: &FileUsage,
    status: &StoreStatus,
) -> [(&'static str, u64, u64); 3] {
    let log = &status.log;
    let recyclable = log.releasable(status.journal_needed_from);
    let recyclable_files = (recyclable.len() as u64).min(journal.files);
    let recyclable_bytes = recyclable.iter().map(|segment| segment.bytes).sum::<u64>();
    // The journal may have changed since its files were counted, so the bytes are limited to the
    // counted size.
    let recyclable_bytes = recyclable_bytes.min(journal.bytes);
    let reserved_bytes = log.reserved_bytes.min(journal.bytes - recyclable_bytes);
    let live_bytes = journal.bytes - recyclable_bytes - reserved_bytes;
    [
        ("journal_live", journal.files - recyclable_files, live_bytes),
        ("journal_recyclable", recyclable_files, recyclable_bytes),
        ("journal_preallocated", spare.files, spare.bytes + reserved_bytes),
    ]
}

/// The name of a kind of file; `None` for the journal, whose bytes are split into several kinds.
fn name(kind: FileKind) -> Option<&'static str> {
    Some(match kind {
        FileKind::Journal | FileKind::SpareSegment => return None,
        FileKind::Tablets => "tablets",
        FileKind::Stories => "stories",
        FileKind::Spool => "spool",
        FileKind::Index => "index",
        FileKind::Manifest => "manifest",
        FileKind::Catalog => "catalog",
        FileKind::Clock => "clock",
        FileKind::Spill => "spill",
        FileKind::Backups => "backups",
        FileKind::Other => "other",
    })
}
