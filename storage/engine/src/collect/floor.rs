//! The beginning of the journal: events before the floor are in pieces, or no longer needed.

use std::sync::Arc;

use stratalog_model::{ChronicleId, Gsn, Lsn, Result, TierName};
use stratalog_story::{StoryId, StoryName};
use stratalog_tablet::TabletId;

use super::{
    EngineFiles, PieceChange, apply, floor_candidates::FloorCandidate, lasting, news, sync,
};
use crate::{
    engine::Core,
    manifest::{Edit, Floor, PieceRecord},
    pieces::piece::OpenPiece,
    sabotage,
    version::published_versions::PublishedVersions,
};

/// Gives up the pieces of dropped chronicles, and moves the beginning of the journal to the first
/// frame needed by an event or a delete. Returns the bytes freed.
///
/// # Errors
/// `Io`.
pub async fn raise_floor(core: &Arc<Core>) -> Result<u64> {
    let Some(files) = &core.files else { return Ok(0) };
    let _turn = core.move_lock.lock().await;
    forget(core, files).await?;
    raise(core, files).await
}

/// Moves the beginning of the journal like [`raise`], if the move frees a segment. Returns the bytes
/// freed.
///
/// # Errors
/// `Io`.
pub async fn free_segments(core: &Arc<Core>) -> Result<u64> {
    let Some(files) = &core.files else { return Ok(0) };
    let Some(lowest) = core.log.status().releases_from else { return Ok(0) };
    let _turn = core.move_lock.lock().await;
    raise_from(core, files, lowest).await
}

/// Moves the beginning of the journal. Only for the holder of the lock `move_lock`.
///
/// # Errors
/// `Io`.
pub async fn raise(core: &Arc<Core>, files: &EngineFiles) -> Result<u64> {
    raise_from(core, files, Lsn(0)).await
}

/// Moves the beginning of the journal to `lowest` or further.
async fn raise_from(core: &Arc<Core>, files: &EngineFiles, lowest: Lsn) -> Result<u64> {
    let Some((candidate, published)) = last_candidate(core) else { return Ok(0) };
    let state = files.manifest.state();
    if candidate.lsn <= state.floor.lsn || candidate.lsn < lowest {
        return Ok(0);
    }
    let producers = core.producers.lock().list();
    // The edits must not be more durable than the frames behind these edits.
    sync(core).await?;
    // The same order in every run.
    let mut versions: Vec<_> = published.versions.iter().collect();
    versions.sort_unstable_by_key(|(id, _)| **id);
    // Records deletes and replacements known only to the journal.
    for (id, pinned) in versions {
        let version = &pinned.version;
        let (through, is_recorded) = match state.chronicles.get(id) {
            Some(owned) => {
                let is_recorded = news(files, *id, version, owned.through).is_empty()
                    && lasting(version) == owned.fences
                    && *version.lost() == owned.lost;
                (owned.through, is_recorded)
            }
            // The chronicle never had a piece.
            None => (Gsn(0), version.lost().is_empty()),
        };
        if !is_recorded {
            let (removed, forgotten) = (Vec::new(), Vec::new());
            let change = PieceChange { through, written: &[], removed, forgotten, version };
            apply(files, &pinned.chronicle, change, || ()).await?;
        }
    }
    drop(published);
    let floor = Floor {
        lsn: candidate.lsn,
        gsn: Gsn(candidate.gsn),
        statement: candidate.statement,
        producers,
    };
    let lsn = floor.lsn;
    if sabotage::active("release-before-edit") {
        core.log.release(lsn)?;
    }
    files.manifest.apply(Edit::Raise(floor), || ()).await?;
    core.floor_candidates.forget_before(lsn);
    core.journal_release.release(core.log.as_ref(), lsn)
}

/// The last possible beginning of the journal, and the versions without an event before it.
fn last_candidate(core: &Core) -> Option<(FloorCandidate, Arc<PublishedVersions>)> {
    // Read before the versions: the versions are then at least as new.
    let candidates = core.floor_candidates.list();
    let published = core.published();
    let oldest = published
        .versions
        .values()
        .filter_map(|pinned| pinned.version.batches().next().map(|batch| batch.first_gsn()));
    let oldest = oldest.min().unwrap_or(u64::MAX);
    let candidate = candidates.into_iter().rev().find(|candidate| candidate.gsn < oldest)?;
    Some((candidate, published))
}

/// The first frame of the journal with an event or a delete that no piece has.
pub fn needed_from(core: &Core) -> Lsn {
    let Some(files) = &core.files else { return Lsn(0) };
    let floor = files.manifest.state().floor.lsn;
    last_candidate(core).map_or(floor, |(candidate, _)| candidate.lsn.max(floor))
}

/// Gives up the pieces of dropped chronicles. A piece with a reader is doomed; a tablet without a
/// reader is removed at once.
async fn forget(core: &Arc<Core>, files: &EngineFiles) -> Result<()> {
    let state = files.manifest.state();
    let dropped = std::mem::take(&mut *core.dropped.lock());
    let named: Vec<ChronicleId> =
        dropped.keys().filter(|id| state.chronicles.contains_key(id)).copied().collect();
    if named.is_empty() {
        return Ok(());
    }
    if let Err(error) = files.manifest.apply(Edit::Forget(named.clone()), || ()).await {
        core.dropped.lock().extend(dropped);
        return Err(error);
    }
    for (id, owned) in named.iter().filter_map(|id| Some((id, state.chronicles.get(id)?))) {
        let read: &[Arc<OpenPiece>] = dropped.get(id).map_or(&[], Vec::as_slice);
        read.iter().for_each(|piece| piece.doom());
        let unread = |record: &&PieceRecord| read.iter().all(|p| p.record().id != record.id);
        for record in owned.pieces.values().filter(unread) {
            match record.tier() {
                TierName::Story => {
                    let name = StoryName { chronicle: *id, id: StoryId(record.id) };
                    files.shelves.stories.doom(name);
                }
                _ => {
                    if let Err(error) = files.shelves.tablets.remove(TabletId(record.id)) {
                        tracing::warn!(%error, "cannot remove an unused tablet; the next start removes the tablet");
                    }
                }
            }
        }
    }
    Ok(())
}
