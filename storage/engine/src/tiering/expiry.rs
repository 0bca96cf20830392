//! Removes events for good: events older than the retention of their chronicle (F60), and pieces in
//! which a delete has left no event.
//!
//! ```text
//!   older than retention ─► DELETE of the oldest ticks ─► fence ─► pieces it fully covers ─► edit
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

/// A DELETE waits until the oldest event exceeds the retention by `1 / RETENTION_STEPS` of the
/// retention.
const RETENTION_STEPS: u64 = 64;

/// Removes the pieces of a chronicle that contain only deleted events.
///
/// # Errors
/// The errors of the manifest.
pub async fn drop_dead(mover: &Arc<Mover>, id: ChronicleId) -> Result<MoveCounts> {
    let files = mover.files()?;
    let _turn = mover.move_lock.lock().await;
    let Some(chronicle) = mover.publisher.chronicles.known(id) else {
        return Ok(MoveCounts::default());
    };
    // Read before the version below: every later snapshot of this version has at least this gsn.
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
        // A rewrite reads the pieces, and thus also finds and removes the marks of their replaced
        // events.
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

/// Deletes the events of a chronicle that are older than its retention, if there are enough to be
/// worth a DELETE. Returns the number of deleted events.
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
    // A wrong clock must not delete events: the retention uses only the time that has certainly
    // been reached.
    let confirmed_ns = match sabotage::active("clock-unconfirmed") {
        true => mover.clock.now_ns(),
        false => mover.clock.confirmed_ns(),
    };
    let before_ns = confirmed_ns.saturating_sub(ns_of_ms(retention_ms));
    // One DELETE for each sixty-fourth of the retention, and not for each event.
    let worth_ns = before_ns.saturating_sub(ns_of_ms(retention_ms / RETENTION_STEPS));
    let before = definition.scale.bound_at_or_after(i128::from(before_ns));
    if oldest >= definition.scale.bound_at_or_after(i128::from(worth_ns)) {
        return Ok(0);
    }
    drop(published);
    let range = TickRange::new(Tick::MIN, before);
    delete::expire(Arc::clone(&mover.keeper), definition, range).await
}
