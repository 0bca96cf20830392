//! Moves the floor, the beginning of the journal. Events before the floor are in pieces, or no
//! longer needed.

use std::sync::Arc;

use stratalog_model::{ChronicleId, Gsn, Lsn, Result};

use super::{PieceChange, apply, floor_candidates::FloorCandidate, lasting, news, sync};
use crate::{
    sabotage,
    tiering::{files::EngineFiles, mover::Mover},
    version::{
        manifest::{Edit, Floor, PieceRecord},
        piece::OpenPiece,
        published_versions::PublishedVersions,
    },
};

/// Removes the pieces of dropped chronicles, and moves the floor to the first frame that an event
/// or a delete needs. Returns the number of bytes freed in the journal.
///
/// # Errors
/// `Io`.
pub async fn raise_floor(mover: &Arc<Mover>) -> Result<u64> {
    let Some(files) = &mover.files else { return Ok(0) };
    let _turn = mover.move_lock.lock().await;
    forget(mover, files).await?;
    raise(mover, files).await
}

/// Moves the floor like [`raise`], but only if the move frees a segment. Returns the number of
/// bytes freed.
///
/// # Errors
/// `Io`.
pub async fn free_segments(mover: &Arc<Mover>) -> Result<u64> {
    let Some(files) = &mover.files else { return Ok(0) };
    let Some(lowest) = mover.log.status().releases_from else { return Ok(0) };
    let _turn = mover.move_lock.lock().await;
    raise_from(mover, files, lowest).await
}

/// Moves the floor to the first needed frame. The caller must hold `move_lock`.
///
/// # Errors
/// `Io`.
pub async fn raise(mover: &Arc<Mover>, files: &EngineFiles) -> Result<u64> {
    raise_from(mover, files, Lsn(0)).await
}

/// Moves the floor, unless the first needed frame is before `lowest`.
async fn raise_from(mover: &Arc<Mover>, files: &EngineFiles, lowest: Lsn) -> Result<u64> {
    let Some((candidate, published)) = last_candidate(mover) else { return Ok(0) };
    let state = files.manifest.state();
    if candidate.lsn <= state.floor.lsn || candidate.lsn < lowest {
        return Ok(0);
    }
    let producers = mover.keeper.producers.lock().list();
    debug_assert!(state.floor.gsn.0 <= candidate.gsn, "the floor goes back");
    // Sync first: an edit must not become durable before the frames on which it depends.
    sync(mover.log.as_ref()).await?;
    // Sorted, so that the order of the edits is the same in every run.
    let mut versions: Vec<_> = published.versions.iter().collect();
    versions.sort_unstable_by_key(|(id, _)| **id);
    // Writes deletes and replacements that only the journal knows into the manifest.
    for (id, pinned) in versions {
        let version = &pinned.version;
        let (through, is_recorded) = match state.chronicles.get(id) {
            Some(owned) => {
                let is_recorded = news(files, *id, version, owned.through).is_empty()
                    && lasting(version) == owned.fences
                    && *version.lost() == owned.lost;
                (owned.through, is_recorded)
            }
            // The manifest does not know the chronicle, because it never had a piece.
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
        mover.log.release(lsn)?;
    }
    files.manifest.apply(Edit::Raise(floor), || ()).await?;
    mover.keeper.floor_candidates.forget_before(lsn);
    mover.journal_release.release(mover.log.as_ref(), lsn)
}

/// The last possible floor, and the published versions. The versions have no batch with an event
/// before the floor.
fn last_candidate(mover: &Mover) -> Option<(FloorCandidate, Arc<PublishedVersions>)> {
    // Read before the versions, so that the versions are at least as new.
    let candidates = mover.keeper.floor_candidates.list();
    let published = mover.publisher.published();
    let oldest = published
        .versions
        .values()
        .filter_map(|pinned| pinned.version.batches().next().map(|batch| batch.first_gsn()));
    let oldest = oldest.min().unwrap_or(u64::MAX);
    let candidate = candidates.into_iter().rev().find(|candidate| candidate.gsn < oldest)?;
    Some((candidate, published))
}

/// The first frame of the journal with an event or a delete that no piece contains.
pub fn needed_from(mover: &Mover) -> Lsn {
    let Some(files) = &mover.files else { return Lsn(0) };
    let floor = files.manifest.state().floor.lsn;
    last_candidate(mover).map_or(floor, |(candidate, _)| candidate.lsn.max(floor))
}

/// Removes the pieces of dropped chronicles. A piece that is still open is removed after its last
/// reader; all other pieces are given up at once.
async fn forget(mover: &Arc<Mover>, files: &EngineFiles) -> Result<()> {
    let state = files.manifest.state();
    let dropped = std::mem::take(&mut *mover.publisher.chronicles.dropped.lock());
    let named: Vec<ChronicleId> =
        dropped.keys().filter(|id| state.chronicles.contains_key(id)).copied().collect();
    if named.is_empty() {
        return Ok(());
    }
    if let Err(error) = files.manifest.apply(Edit::Forget(named.clone()), || ()).await {
        mover.publisher.chronicles.dropped.lock().extend(dropped);
        return Err(error);
    }
    for (id, owned) in named.iter().filter_map(|id| Some((id, state.chronicles.get(id)?))) {
        let read: &[Arc<OpenPiece>] = dropped.get(id).map_or(&[], Vec::as_slice);
        read.iter().for_each(|piece| piece.doom());
        let unread = |record: &&PieceRecord| read.iter().all(|p| p.record().id != record.id);
        for record in owned.pieces.values().filter(unread) {
            files.shelves.give_up(*id, record);
        }
    }
    Ok(())
}
