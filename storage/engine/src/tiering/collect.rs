//! Moves events from the journal into tablets (F29–F33). One edit of the manifest changes the owner
//! of the events.
//!
//! ```text
//!   batches up to a gsn ─► tablets, durable, read back ─► edit: through, pieces ─► new version
//!        (pinned)              (not visible yet)            (durable)            (journal frees
//!                                                                                 its first segments)
//! ```

use std::sync::Arc;

use bytes::Bytes;
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Durability, Error, ErrorKind, Frame, FrameKind, Gsn, Log,
    Lsn, PartitionId, Result, SchemaVersion, StatementId, Tick, TickRange, TierName, invariant,
    store::{MoveCounts, MoveKind},
};
use tokio::sync::oneshot;

use crate::{
    events::batch::MemoryBatch,
    ingest::chronicle::Chronicle,
    sabotage,
    tiering::{
        build::{self, EventSource, Sizes, WrittenPiece},
        choose::{self, ns_of_ms},
        files::EngineFiles,
        mover::Mover,
        piece_numbers::PieceNumbers,
        rewrite,
    },
    version::{
        Version,
        fence::Fence,
        manifest::{Edit, Move},
        piece::OpenPiece,
        published_versions::PinnedVersion,
    },
};

pub mod floor;
pub mod floor_candidates;

/// Maximum number of marks of replaced events in one edit.
const MARKS_MAX: usize = 200_000;

/// Moves all committed events of a chronicle into tablets.
///
/// # Errors
/// `DiskFull`, `Io`: moves completed before the error keep their effect. `FeatureNotSupported` for
/// an engine without files.
pub async fn collect(mover: &Arc<Mover>, id: ChronicleId) -> Result<MoveCounts> {
    let _turn = mover.move_lock.lock().await;
    collect_now(mover, id).await
}

/// Like [`collect`]. The caller must hold `move_lock`.
///
/// # Errors
/// Like [`collect`].
pub async fn collect_now(mover: &Arc<Mover>, id: ChronicleId) -> Result<MoveCounts> {
    let files = mover.files()?;
    let Some(chronicle) = mover.publisher.chronicles.known(id) else {
        return Ok(MoveCounts::default());
    };
    let number = mover.move_history.begin(mover.clock.as_ref(), id, MoveKind::Flush);
    let result = collect_all(mover, files, &chronicle).await;
    mover.move_history.end(mover.clock.as_ref(), number, &result);
    result
}

/// Moves the committed events of a chronicle that are not pinned into tablets, if they complete the
/// epoch of the next story by number, bytes or age (see [`choose::descend`]).
///
/// # Errors
/// Like [`collect`].
pub async fn collect_due(mover: &Arc<Mover>, id: ChronicleId) -> Result<MoveCounts> {
    let Some(files) = &mover.files else { return Ok(MoveCounts::default()) };
    let _turn = mover.move_lock.lock().await;
    let Some(chronicle) = mover.publisher.chronicles.known(id) else {
        return Ok(MoveCounts::default());
    };
    let Some(definition) = files.definitions.of(id) else { return Ok(MoveCounts::default()) };
    let Some((upper, until)) = upper_of(mover, &chronicle, &definition) else {
        return Ok(MoveCounts::default());
    };
    if !choose::descend(&upper, &mover.settings.for_chronicle(&definition.tiering)) {
        return Ok(MoveCounts::default());
    }
    let number = mover.move_history.begin(mover.clock.as_ref(), id, MoveKind::Flush);
    let result = collect_until(mover, files, &chronicle, until).await;
    mover.move_history.end(mover.clock.as_ref(), number, &result);
    result
}

/// The events of a chronicle that are not in stories, and the highest gsn that may leave the
/// journal now; `None` if the chronicle has no batch in memory.
fn upper_of(
    mover: &Mover,
    chronicle: &Chronicle,
    definition: &ChronicleDefinition,
) -> Option<(choose::UpperTiers, Gsn)> {
    let published = mover.publisher.published();
    let version = Arc::clone(&chronicle.state().version);
    let oldest_gsn = version.batches().next()?.first_gsn();
    let now_ns = mover.clock.now_ns();
    let until = match choose::stay_ns(definition) {
        0 => published.gsn,
        stay_ns => mover.commit_times.until(now_ns.saturating_sub(stay_ns)).min(published.gsn),
    };
    let free = version.batches().take_while(|batch| batch.last_gsn() <= until.0);
    let (rows, bytes) = free
        .fold((0, 0), |(rows, bytes), batch| (rows + batch.rows() as u64, bytes + batch.bytes()));
    let tablets = version
        .pieces()
        .iter()
        .filter(|piece| piece.tier() == TierName::Tablet)
        .map(|p| p.record());
    let (tablet_rows, tablet_bytes) =
        tablets.fold((0, 0), |(rows, bytes), record| (rows + record.rows, bytes + record.bytes));
    let upper = choose::UpperTiers {
        rows,
        bytes,
        age_ns: choose::age_ns(mover.commit_times.of(oldest_gsn, now_ns), now_ns),
        tablet_rows,
        tablet_bytes,
        has_age: definition.tiering.story_age_max_ms.is_some(),
        acquirers: mover.acquirers_of(chronicle.id()),
    };
    Some((upper, until))
}

async fn collect_all(
    mover: &Arc<Mover>,
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
) -> Result<MoveCounts> {
    // Later commits wait for the next collection.
    let until = mover.publisher.published().gsn;
    collect_until(mover, files, chronicle, until).await
}

async fn collect_until(
    mover: &Arc<Mover>,
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
    until: Gsn,
) -> Result<MoveCounts> {
    let mut moved = MoveCounts::default();
    loop {
        // Read before the version below: every later snapshot of this version has at least this
        // gsn.
        let snapshot_gsn = mover.publisher.published().gsn;
        // From here on, compaction in memory does not touch these batches.
        let (version, batches, through) = mover.publisher.change(|_| {
            let version = Arc::clone(&chronicle.state().version);
            let batches = oldest(&version, until, mover.settings.move_bytes);
            let through = border(&version, batches.len(), until);
            chronicle.set_leaving(through.0);
            (None, (version, batches, through))
        });
        if batches.is_empty() {
            return Ok(moved);
        }
        let done =
            move_out(mover, files, chronicle, &version, batches, through, snapshot_gsn).await;
        // After an error, the batches stay in memory. If the move was cancelled instead, it may
        // still complete: its batches stay marked as leaving.
        if done.is_err() {
            chronicle.set_leaving(chronicle.state().version.pieces().through.0);
        }
        moved = moved.and(done?);
    }
}

/// Like [`collect`]; then rewrites all pieces of the chronicle into disjoint pieces.
///
/// # Errors
/// Like [`collect`].
pub async fn compact(mover: &Arc<Mover>, id: ChronicleId) -> Result<MoveCounts> {
    let files = mover.files()?;
    let collected = collect(mover, id).await?;
    let turn = mover.move_lock.lock().await;
    let Some(chronicle) = mover.publisher.chronicles.known(id) else { return Ok(collected) };
    let number = mover.move_history.begin(mover.clock.as_ref(), id, MoveKind::Archive);
    let result = rewrite::settle(mover, files, &chronicle).await;
    mover.move_history.end(mover.clock.as_ref(), number, &result);
    let moved = collected.and(result?);
    drop(turn);
    remove_doomed(files).await;
    Ok(moved)
}

/// Makes one due move of a chronicle's pieces: into stories, or a merge of at least `fan_in`
/// pieces. Does nothing if no move is due.
///
/// # Errors
/// Like [`collect`].
pub async fn merge(mover: &Arc<Mover>, id: ChronicleId, fan_in: usize) -> Result<MoveCounts> {
    let files = mover.files()?;
    let _turn = mover.move_lock.lock().await;
    let Some(chronicle) = mover.publisher.chronicles.known(id) else {
        return Ok(MoveCounts::default());
    };
    let Some((kind, target, inputs)) = rewrite::next(mover, &chronicle, fan_in).await? else {
        return Ok(MoveCounts::default());
    };
    let number = mover.move_history.begin(mover.clock.as_ref(), id, kind);
    let result = rewrite::rewrite(mover, files, &chronicle, &inputs, target).await;
    mover.move_history.end(mover.clock.as_ref(), number, &result);
    result
}

/// Removes the stories that no manifest and no reader needs any more. Not called while other moves
/// wait, because the store may be remote and slow.
pub async fn remove_doomed(files: &EngineFiles) {
    if let Err(error) = files.shelves.stories.remove_doomed().await {
        tracing::warn!(%error, "cannot remove unused stories; the server tries again later");
    }
}

/// Waits until all frames written to the journal are durable, even frames of statements that do not
/// ask for durability: writes an empty commit frame with the durability `disk`.
pub async fn sync(log: &dyn Log) -> Result<()> {
    let status = log.status();
    if status.durable >= status.written || sabotage::active("move-before-sync") {
        return Ok(());
    }
    let frame = Frame {
        kind: FrameKind::Commit,
        partition: PartitionId(0),
        chronicle: ChronicleId(0),
        schema_version: SchemaVersion(0),
        statement: StatementId(0),
        ticks: TickRange::EMPTY,
        count: 0,
        first_seq: 0,
        producer: None,
        payload: Bytes::new(),
    };
    let reservation = log.reserve(0).await?;
    let (sender, written) = oneshot::channel();
    let done = Box::new(move |result: Result<Lsn>| drop(sender.send(result)));
    log.submit(frame, reservation, Durability::Disk, done);
    let closed = || Error::new(ErrorKind::Shutdown, "the log was closed");
    written.await.map_err(|_| closed())?.map(drop)
}

/// The oldest batches with all gsn's up to `until`, up to about the size of one move.
fn oldest(version: &Version, until: Gsn, bytes_max: u64) -> Vec<Arc<MemoryBatch>> {
    let mut bytes = 0;
    let committed = version.batches().take_while(|batch| batch.last_gsn() <= until.0);
    let chosen = committed.take_while(|batch| {
        let before = bytes;
        bytes += batch.bytes();
        before < bytes_max
    });
    chosen.cloned().collect()
}

/// The gsn up to which pieces own the events after the first `moved` batches have moved. The border
/// must lie between two frames, because all events of a frame have the same owner; batches may have
/// lost their first and last events to deletes.
fn border(version: &Version, moved: usize, until: Gsn) -> Gsn {
    let next = version.batches().nth(moved).map(|batch| Gsn(batch.first_gsn() - 1));
    let border = next.map_or(until, |next| next.min(until));
    Gsn(border.0 + u64::from(sabotage::active("border-off")))
}

async fn move_out(
    mover: &Arc<Mover>,
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
    version: &Version,
    batches: Vec<Arc<MemoryBatch>>,
    through: Gsn,
    snapshot_gsn: Gsn,
) -> Result<MoveCounts> {
    debug_assert!(!batches.is_empty(), "a move without events");
    debug_assert!(version.pieces().through <= through, "the border goes back");
    debug_assert!(
        through <= snapshot_gsn || sabotage::active("border-off"),
        "events after the snapshot move"
    );
    sync(mover.log.as_ref()).await?;
    let id = chronicle.id();
    let fences = version.fences();
    let sizes = Sizes::of(&mover.settings, mover.backlog.is_open());
    let now_ns = mover.clock.now_ns();
    let oldest = batches.first().map(|batch| mover.commit_times.of(batch.first_gsn(), now_ns));
    let from = EventSource { snapshot_gsn, since_ns: oldest.unwrap_or(now_ns) };
    invariant!(
        OneOwner,
        batches.last().is_none_or(|batch| batch.last_gsn() <= through.0),
        "a batch continues behind the border, gsn {through}"
    );
    let tablets = &files.shelves.tablets;
    let mut numbers = PieceNumbers::new(&mover.piece_counter, files, id, TierName::Tablet);
    let number = &mut || numbers.take();
    let written = build::build(tablets, id, &batches, fences, from, number, sizes)?;
    let visible = |batch: &Arc<MemoryBatch>| {
        batch.rows() as u64 - batch.superseded_through(snapshot_gsn.0) as u64
    };
    let in_force: u64 = batches.iter().map(visible).sum();
    drop(batches);
    let moved = MoveCounts {
        rows: written.iter().map(|written| written.record.rows).sum(),
        pieces_added: written.len() as u64,
        pieces_removed: 0,
        bytes: written.iter().map(|written| written.record.bytes).sum(),
    };
    invariant!(
        halt MovesPreserve,
        moved.rows == in_force || !fences.is_empty() && moved.rows < in_force,
        "a move of chronicle {id} writes {} of {in_force} events",
        moved.rows
    );
    let added = open(files, chronicle, &written)?;
    let kept = added.clone();
    let (removed, forgotten) = (Vec::new(), Vec::new());
    let change = PieceChange { through, written: &written, removed, forgotten, version };
    let (publishing, moving) = (Arc::clone(&mover.publisher), Arc::clone(chronicle));
    let publish = move || {
        publishing.change(|_| {
            let version = moving.move_out(added, through, snapshot_gsn);
            (Some(PinnedVersion { chronicle: Arc::clone(&moving), version }), ())
        });
    };
    commit(files, chronicle, change, numbers, publish).await?;
    keep(mover, &kept, written);
    Ok(moved)
}

/// Creates the open pieces of written pieces, and adds the blocks of tablets to the index.
///
/// # Errors
/// `Internal`.
pub fn open(
    files: &EngineFiles,
    chronicle: &Chronicle,
    written: &[WrittenPiece],
) -> Result<Vec<Arc<OpenPiece>>> {
    let mut opened = Vec::with_capacity(written.len());
    for written in written {
        let shape = chronicle.known_shape(written.record.schema_version);
        let shape = shape.ok_or_else(|| Error::internal("a batch has no shape"))?;
        debug_assert_eq!(
            written.tablet.is_some(),
            written.record.tier() == TierName::Tablet,
            "a tablet without its heads, or a story with heads"
        );
        debug_assert!(
            written.record.gsns.1 <= written.record.fenced_through,
            "a piece has events after its snapshot"
        );
        let shelves = files.shelves.clone();
        if let Some(tablet) = &written.tablet {
            files.shelves.tablets.remember(&tablet.built, &tablet.heads);
        }
        opened.push(Arc::new(OpenPiece::new(written.record, chronicle.id(), shape, shelves)));
    }
    Ok(opened)
}

/// Adds the decoded blocks of new pieces to the backlog in memory. Called after the manifest names
/// the pieces.
pub fn keep(mover: &Mover, pieces: &[Arc<OpenPiece>], written: Vec<WrittenPiece>) {
    debug_assert_eq!(pieces.len(), written.len(), "a new piece is not in the version");
    let is_pinned =
        |id, since_ns| choose::is_pinned(since_ns, stay_ns(mover, id), mover.clock.now_ns());
    for (piece, written) in pieces.iter().zip(written) {
        debug_assert_eq!(piece.record().id, written.record.id, "blocks of another piece");
        if let Some(tablet) = written.tablet.filter(|tablet| !tablet.blocks.is_empty()) {
            mover.backlog.keep(piece, tablet.blocks, is_pinned);
        }
    }
}

/// Time for which events of a chronicle stay pinned after their commit, in nanoseconds (F12);
/// `None` if the chronicle does not set it.
pub fn pin_for_ns(mover: &Mover, id: ChronicleId) -> Option<i64> {
    let definition = mover.files.as_ref()?.definitions.of(id)?;
    definition.tiering.pin_for_ms.map(ns_of_ms)
}

/// Like [`choose::stay_ns`]; 0 for a dropped chronicle.
pub fn stay_ns(mover: &Mover, id: ChronicleId) -> i64 {
    let definition = mover.files.as_ref().and_then(|files| files.definitions.of(id));
    definition.map_or(0, |definition| choose::stay_ns(&definition))
}

/// A change of the pieces that a chronicle owns.
pub struct PieceChange<'a> {
    /// The highest gsn owned by pieces after the change.
    pub through: Gsn,
    /// The new pieces; durable, and verified by reading them back.
    pub written: &'a [WrittenPiece],
    /// The numbers of the removed pieces.
    pub removed: Vec<u64>,
    /// Arrival numbers of replaced events that no piece contains any more.
    pub forgotten: Vec<u64>,
    /// The version from which the new pieces were made.
    pub version: &'a Version,
}

/// Makes a change durable in the manifest, and then calls `publish` to make it visible.
///
/// # Errors
/// The errors of the manifest. After an error, removes the new pieces (listed in `numbers`), unless
/// the manifest may already name them.
pub async fn commit(
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
    change: PieceChange<'_>,
    mut numbers: PieceNumbers<'_>,
    publish: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let given = numbers.hand_over();
    let applied = apply(files, chronicle, change, publish).await;
    #[cfg(feature = "sabotage")]
    let applied = applied.and_then(|()| files.shelves.tablets.sync_late());
    if let Err(error) = &applied
        && !matches!(error.kind(), ErrorKind::Io | ErrorKind::Shutdown)
    {
        numbers.take_back(given);
    }
    applied
}

/// Like [`commit`], for a change without new pieces.
///
/// # Errors
/// The errors of the manifest.
pub async fn apply(
    files: &EngineFiles,
    chronicle: &Arc<Chronicle>,
    change: PieceChange<'_>,
    publish: impl FnOnce() + Send + 'static,
) -> Result<()> {
    let PieceChange { through, written, removed, forgotten, version } = change;
    let edit = |through, replaced| Move {
        chronicle: chronicle.id(),
        through,
        next_seq: chronicle.next_seq(),
        added: Vec::new(),
        removed: Vec::new(),
        fences: lasting(version),
        replaced,
        forgotten: Vec::new(),
        lost: version.lost().clone(),
        highest: chronicle.state().highest.map(Tick),
    };
    let mut replaced = news(files, chronicle.id(), version, through);
    // If one edit cannot list all marks of replaced events, earlier edits list the rest: the
    // commits of these replacements are durable already.
    while replaced.len() > MARKS_MAX {
        let rest = replaced.split_off(MARKS_MAX);
        let ahead = edit(owned_through(files, chronicle.id()), replaced);
        files.manifest.apply(Edit::Move(ahead), || ()).await?;
        replaced = rest;
    }
    let added = written.iter().map(|written| written.record).collect();
    let last = Move { added, removed, forgotten, ..edit(through, replaced) };
    files.manifest.apply(Edit::Move(last), publish).await
}

/// The events in pieces that were replaced by events with a gsn up to `through`, without those that
/// the manifest already lists.
pub fn news(
    files: &EngineFiles,
    id: ChronicleId,
    version: &Version,
    through: Gsn,
) -> Vec<(u64, u64)> {
    let state = files.manifest.state();
    let known = state.chronicles.get(&id).map(|owned| &owned.replaced);
    let new = |(seq, _): &(u64, u64)| known.is_none_or(|known| !known.contains_key(seq));
    version.pieces().replaced_through(through).into_iter().filter(new).collect()
}

fn owned_through(files: &EngineFiles, id: ChronicleId) -> Gsn {
    files.manifest.state().chronicles.get(&id).map_or(Gsn(0), |owned| owned.through)
}

/// The fences that hide events in pieces.
pub fn lasting(version: &Version) -> Vec<Fence> {
    let hides = |fence: &&Fence| {
        let mut pieces = version.pieces().iter();
        pieces.any(|piece| piece.fences_among(std::slice::from_ref(*fence)).next().is_some())
    };
    version.fences().iter().filter(hides).copied().collect()
}
