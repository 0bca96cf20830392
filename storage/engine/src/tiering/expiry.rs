//! Final removal of events: events beyond the retention of a table (F60), and pieces without
//! remaining events after a delete.
//!
//! ```text
//!   older than retention ─► DELETE from the beginning ─► fence ─► pieces wholly behind it ─► edit
//! ```

use std::sync::Arc;

use stratalog_model::{
    ChronicleId, Result, Tick, TickRange,
    store::{MoveCounts, MoveKind},
};

use crate::{
    ingest::{chronicle::Chronicle, delete},
    sabotage,
    tiering::{
        choose::ns_of_ms, collect, files::EngineFiles, mover::Mover, rewrite, target::TABLETS,
    },
    version::{Version, piece::OpenPiece, published_versions::PinnedVersion},
};

/// Parts of the retention: a DELETE waits until the oldest event exceeds the retention by one part.
const RETENTION_STEPS: u64 = 64;

/// Removes the pieces of a chronicle with only deleted events.
///
/// # Errors
/// The errors of the manifest.
pub async fn drop_dead(mover: &Arc<Mover>, id: ChronicleId) -> Result<MoveCounts> {
    let files = mover.files()?;
    let _turn = mover.move_lock.lock().await;
    let Some(chronicle) = mover.publisher.chronicles.known(id) else {
        return Ok(MoveCounts::default());
    };
    // Read first: every snapshot of the version below has at least this gsn.
    let snapshot_gsn = mover.publisher.published().gsn;
    let version = Arc::clone(&chronicle.state().version);
    let pieces = version.pieces();
    let dead = |piece: &&Arc<OpenPiece>| {
        let record = piece.record();
        let mut fences = version.fences().iter().filter(|fence| fence.raised() <= snapshot_gsn);
        fences.any(|fence| fence.ticks.covers(&record.ticks) && record.gsns.1 <= fence.gsn)
    };
    let dead: Vec<Arc<OpenPiece>> = pieces.iter().filter(dead).cloned().collect();
    if dead.is_empty() {
        return Ok(MoveCounts::default());
    }
    let number = mover.move_history.begin(mover.clock.as_ref(), id, MoveKind::Retention);
    let result = if pieces.has_replaced() {
        // Reads the pieces: the records of their replaced events go together with the pieces.
        rewrite::rewrite(mover, files, &chronicle, &dead, TABLETS).await
    } else {
        give_up(mover, files, &chronicle, &version, &dead).await
    };
    mover.move_history.end(mover.clock.as_ref(), number, &result);
    result
}

async fn give_up(
    mover: &Arc<Mover>,
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
    version: &Version,
    dead: &[Arc<OpenPiece>],
) -> Result<MoveCounts> {
    debug_assert!(!dead.is_empty(), "there is no piece to give up");
    debug_assert!(!version.pieces().has_replaced(), "marks of removed events stay");
    collect::sync(mover.log.as_ref()).await?;
    let removed: Vec<u64> = dead.iter().map(|piece| piece.record().id).collect();
    let (publishing, moving, gone) =
        (Arc::clone(&mover.publisher), Arc::clone(chronicle), removed.clone());
    let publish = move || {
        publishing.change(|_| {
            let version = moving.swap_pieces(Vec::new(), &gone, &[]);
            (Some(PinnedVersion { chronicle: Arc::clone(&moving), version }), ())
        });
    };
    let moved = MoveCounts { pieces_removed: removed.len() as u64, ..MoveCounts::default() };
    let (through, forgotten) = (version.pieces().through, Vec::new());
    let change = collect::PieceChange { through, written: &[], removed, forgotten, version };
    collect::apply(files, chronicle, change, publish).await?;
    dead.iter().for_each(|piece| piece.doom());
    Ok(moved)
}

/// Deletes a chronicle's events beyond the retention, if the delete is worth its cost; returns the
/// number of deleted events.
///
/// # Errors
/// The errors of a DELETE.
pub async fn expire(mover: &Arc<Mover>, id: ChronicleId) -> Result<u64> {
    let definition = mover.files.as_ref().and_then(|files| files.definitions.of(id));
    let Some(definition) = definition else { return Ok(0) };
    let Some(retention_ms) = definition.tiering.retention_ms else { return Ok(0) };
    let published = mover.publisher.published();
    let Some(pinned) = published.versions.get(&id) else { return Ok(0) };
    let pieces = pinned.version.pieces().iter().map(|piece| piece.record().ticks.start);
    let batches = pinned.version.batches().map(|batch| batch.hull().start);
    let Some(oldest) = pieces.chain(batches).min() else { return Ok(0) };
    // A wrong clock must not delete events: retention counts only time certainly reached.
    let confirmed_ns = match sabotage::active("clock-unconfirmed") {
        true => mover.clock.now_ns(),
        false => mover.clock.confirmed_ns(),
    };
    let before_ns = confirmed_ns.saturating_sub(ns_of_ms(retention_ms));
    // One DELETE for each sixty-fourth of the time, not for each event.
    let worth_ns = before_ns.saturating_sub(ns_of_ms(retention_ms / RETENTION_STEPS));
    let before = definition.scale.bound_at_or_after(i128::from(before_ns));
    if oldest >= definition.scale.bound_at_or_after(i128::from(worth_ns)) {
        return Ok(0);
    }
    drop(published);
    let range = TickRange::new(Tick::MIN, before);
    delete::expire(Arc::clone(&mover.keeper), definition, range).await
}
