//! Recovery at a start: installs the pieces that the manifest names, and replays the journal (CL-1,
//! CL-9).
//!
//! ```text
//!   log.replay          decode                       apply
//!   frames, verified ─► columns in place, keys ─► statements, gsn's, series, versions
//!   (caller's thread)   (thread)                     (thread)
//! ```
//! Frames move between the steps in batches, called parcels: a frame may contain a single event,
//! and waking a thread costs more than decoding one event.
//!
//! The last step assigns gsn's in the order of the committing frames. Recovery drops the frames of
//! a statement without a commit frame: at the end of the log, or earlier if these frames use much
//! memory. In the latter case, a second pass over the log finds all commit frames. Recovery skips
//! the events of dropped chronicles, but their gsn's stay used.
//!
//! The catalog's last decision may name a prepared statement, which has no commit frame yet.
//! Recovery commits this statement at the end of the log, and writes the missing frame (RFC 0023).

mod apply;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};

use ahash::RandomState;
use arrow::buffer::ScalarBuffer;
use hashbrown::HashMap;
use stratalog_model::{
    ChronicleDefinition, ChronicleId, Decision, Error, ErrorKind, Frame, FrameKind, Gsn, Lsn,
    Result,
};
use stratalog_story::{Stories, StoryName};
use stratalog_tablet::TabletId;

use crate::{
    blocking_pool::BlockingPool,
    events::{column::Column, encode, keys::Groups, shape::Shape, ticks},
    ingest::{chronicle::Chronicle, chronicles::Chronicles, delete, keeper::Keeper},
    tiering::files::EngineFiles,
    version::{
        manifest::{Floor, ManifestState},
        piece::{OpenPiece, Shelves},
        piece_set::PieceSet,
        published_versions::PinnedVersion,
    },
};

/// Longest time that a start waits for the list of stories.
const REACH_MAX: Duration = Duration::from_secs(30);

/// Maximum number of parcels (batches of frames) that wait between two steps.
const QUEUE_PARCELS_MAX: usize = 2;

/// Maximum number of frames of a parcel.
const PARCEL_FRAMES_MAX: usize = 512;

/// A parcel is sent once its payloads have this number of bytes.
const PARCEL_BYTES: usize = 4 << 20;

type FrameDefinition = Option<Arc<ChronicleDefinition>>;

/// A frame that was read from the log, and is not decoded yet.
type ReadFrame = (Lsn, Frame, FrameDefinition);

/// A frame after the decoding step.
struct DecodedFrame {
    frame: Frame,
    chronicle: Option<Arc<Chronicle>>,
    /// The decoded events; `None` for frames without events. An error fails the recovery only if
    /// the events are committed: the schema version of rolled-back events may no longer exist.
    events: Option<Result<FrameEvents>>,
}

struct FrameEvents {
    shape: Arc<Shape>,
    columns: Vec<Column>,
    ticks: ScalarBuffer<i64>,
    groups: Groups,
}

/// The parts of a new engine that recovery fills.
#[derive(Clone, Copy)]
pub struct RecoveryTarget<'a> {
    /// The keeper, with the publisher of the versions.
    pub keeper: &'a Keeper,
    /// The files other than the log; `None` for an engine without them.
    pub files: Option<&'a EngineFiles>,
    /// The runtime on which the checks of files run.
    pub blocking_pool: &'a BlockingPool,
}

/// Brings a new engine to the state of its log. `decision` is the last decision of the catalog.
/// `verify` runs after all frames were read, and before recovery writes to the log.
///
/// # Errors
/// The errors of the log and of `verify`; `DataCorrupted` if a frame has a valid checksum but an
/// invalid payload, or if a part of a decided append is missing.
pub fn recover(
    target: RecoveryTarget<'_>,
    definitions: &dyn Fn(ChronicleId) -> FrameDefinition,
    decision: Option<&Decision>,
    verify: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let keeper = target.keeper;
    let publisher = &keeper.publisher;
    let started_ns = keeper.clock.monotonic_ns();
    let floor = adopt(target, definitions)?;
    let (read, to_decode) = sync_channel::<Vec<ReadFrame>>(QUEUE_PARCELS_MAX);
    let (decoded, to_apply) = sync_channel::<Vec<DecodedFrame>>(QUEUE_PARCELS_MAX);
    let mut frames = 0_u64;
    let unwritten = std::thread::scope(|scope| {
        let decoder = scope.spawn(|| decode_all(&publisher.chronicles, to_decode, decoded));
        let applier = scope.spawn(|| apply::apply_all(target, to_apply, floor.gsn.0, decision));
        let mut known: HashMap<ChronicleId, FrameDefinition, RandomState> = HashMap::default();
        let (mut parcel, mut bytes) = (Vec::new(), 0);
        let replayed = keeper.log.replay(&mut |lsn, frame| {
            if lsn < floor.lsn {
                return Ok(());
            }
            frames += 1;
            let id = frame.chronicle;
            let definition = known.entry(id).or_insert_with(|| definitions(id)).clone();
            bytes += frame.payload.len();
            parcel.push((lsn, frame, definition));
            debug_assert!(parcel.len() <= PARCEL_FRAMES_MAX, "the parcel is too large");
            if parcel.len() < PARCEL_FRAMES_MAX && bytes < PARCEL_BYTES {
                return Ok(());
            }
            bytes = 0;
            // An error means that the next step has stopped; the step reports its own error.
            read.send(std::mem::take(&mut parcel)).map_err(|_| stopped())
        });
        let replayed = replayed.and_then(|()| read.send(parcel).map_err(|_| stopped()));
        drop(read);
        let decoded = decoder.join().unwrap_or_else(|_| Err(panicked()));
        let applied = applier.join().unwrap_or_else(|_| Err(panicked()));
        decoded?;
        let unwritten = applied?;
        replayed.map(|()| unwritten)
    })?;
    let published = publisher.published();
    debug_assert!(floor.gsn <= published.gsn, "recovery ends before its beginning");
    reaches_pieces(target, published.gsn)?;
    verify()?;
    if let Some(frame) = unwritten {
        apply::write(target, frame)?;
    }
    for pinned in published.versions.values() {
        delete::free(publisher, &pinned.chronicle)?;
    }
    // No statement is unfinished now: recovery has rolled them back.
    keeper.floor_candidates.committed(
        keeper.log.status().written,
        published.gsn.0,
        keeper.last_statement().0,
    );
    tracing::info!(
        frames,
        gsn = published.gsn.0,
        memory_bytes = keeper.budget.used(),
        elapsed_ms = (keeper.clock.monotonic_ns() - started_ns) / 1_000_000,
        "events recovered"
    );
    Ok(())
}

/// Checks that the journal, which ends at `gsn`, reaches the highest gsn in the manifest.
fn reaches_pieces(target: RecoveryTarget<'_>, gsn: Gsn) -> Result<()> {
    let chronicles = &target.keeper.publisher.chronicles;
    let Some(files) = target.files else { return Ok(()) };
    for (id, owned) in &files.manifest.state().chronicles {
        let last = owned.last_gsn();
        if gsn < last && !chronicles.dropped.lock().contains_key(id) {
            return Err(Error::new(
                ErrorKind::DataCorrupted,
                format!("the journal ends at gsn {gsn}, but pieces continue to {last}"),
            )
            .with_hint("restore the directory of the journal from a backup"));
        }
    }
    Ok(())
}

/// Installs the pieces that the manifest names, and removes all other files. Returns the floor: the
/// place at which the replay of the log begins.
fn adopt(
    target: RecoveryTarget<'_>,
    definitions: &dyn Fn(ChronicleId) -> FrameDefinition,
) -> Result<Floor> {
    let Some(files) = target.files else { return Ok(Floor::default()) };
    let keeper = target.keeper;
    let publisher = &keeper.publisher;
    let state = files.manifest.state();
    wait(target.blocking_pool, keep(files, &state))?;
    for (id, owned) in &state.chronicles {
        let Some(definition) = definitions(*id) else {
            publisher.chronicles.dropped.lock().insert(*id, Vec::new());
            continue;
        };
        let chronicle = publisher.chronicles.chronicle(&definition)?;
        let mut pieces = Vec::with_capacity(owned.pieces.len());
        for record in owned.pieces.values() {
            let shape = chronicle.shape(&definition, record.schema_version)?;
            let piece = OpenPiece::new(*record, *id, shape, files.shelves.clone());
            pieces.push(Arc::new(piece));
        }
        let set =
            PieceSet::default().with(pieces, &[], owned.through).with_ticks_end(owned.ticks_end);
        let set = set.with_replaced(owned.replaced.iter().map(|(seq, gsn)| (*seq, *gsn)));
        chronicle.set_leaving(owned.through.0);
        let hidden = (owned.fences.clone(), owned.lost.clone());
        let version = chronicle.adopt(set, hidden, owned.next_seq, owned.highest());
        publisher.set_committed(state.floor.gsn.0);
        publisher.show(state.floor.gsn.0, [PinnedVersion { chronicle, version }]);
    }
    keeper.seen_statement(state.floor.statement);
    let mut producers = keeper.producers.lock();
    for (producer, number) in &state.floor.producers {
        producers.committed(*producer, *number);
    }
    Ok(state.floor.clone())
}

/// Checks the files that the manifest names, and removes all other files.
async fn keep(files: &EngineFiles, state: &ManifestState) -> Result<()> {
    let Shelves { tablets, stories } = &files.shelves;
    let (mut blocks, mut names) = (BTreeSet::new(), BTreeSet::new());
    for (chronicle, record) in state.pieces() {
        match record.story(chronicle) {
            Some(built) => drop(names.insert(built.name())),
            None => drop(blocks.insert(TabletId(record.id))),
        }
    }
    let existing_files = (tablets.files()?, existing_stories(stories).await?);
    let latest_tablet = existing_files.0.keys().map(|id| id.0).max();
    let latest_story =
        existing_files.1.iter().flat_map(|files| files.keys()).map(|name| name.id.0).max();
    let latest = latest_tablet.max(latest_story);
    for (chronicle, record) in state.pieces() {
        let checked = match (record.story(chronicle), &existing_files.1) {
            (Some(built), Some(existing_files)) => stories.check(&built, existing_files),
            // A story is checked when a query reads it.
            (Some(_), None) => Ok(()),
            (None, _) => tablets.check(TabletId(record.id), record.bytes, &existing_files.0),
        };
        checked.map_err(|error| with_age_hint(error, state.last_piece, latest))?;
    }
    // Only after the checks: if the manifest has lost edits, these files may have events that exist
    // nowhere else.
    tablets.keep_only(&blocks)?;
    if let Some(existing_files) = &existing_files.1 {
        stories.keep_only(&names, existing_files).await?;
    }
    Ok(())
}

/// The error about a file that the manifest names. Adds a hint if a file exists with a number above
/// all numbers that the manifest knows: the manifest may be too old.
fn with_age_hint(error: Error, last_piece: u64, latest: Option<u64>) -> Error {
    match latest.filter(|latest| *latest > last_piece) {
        None => error,
        Some(latest) => error
            .with_detail(format!(
                "the manifest contains files up to number {last_piece}, but a file with number {latest} exists: most likely an older copy of the manifest replaced the newest copy, and this file was merged into a later file"
            ))
            .with_hint("restore the newest manifest; or restore the whole data directory from one backup"),
    }
}

/// The stories in the store; `None` if the store is out of reach. This does not prevent a start,
/// because the other tiers stay usable.
async fn existing_stories(stories: &Stories) -> Result<Option<BTreeMap<StoryName, u64>>> {
    let files = tokio::time::timeout(REACH_MAX, stories.files()).await;
    let error = match files {
        Ok(Ok(files)) => return Ok(Some(files)),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionFailure => error.to_string(),
        Ok(Err(error)) => return Err(error),
        Err(_) => format!("no answer within {} s", REACH_MAX.as_secs()),
    };
    tracing::warn!(
        %error,
        "stories are unreachable: stories are not checked now, and queries of stories fail"
    );
    Ok(None)
}

fn decode_all(
    chronicles: &Chronicles,
    parcels: Receiver<Vec<ReadFrame>>,
    out: SyncSender<Vec<DecodedFrame>>,
) -> Result<()> {
    for parcel in parcels {
        let mut decoded = Vec::with_capacity(parcel.len());
        for (lsn, frame, definition) in parcel {
            decoded.push(decode(chronicles, lsn, frame, definition)?);
        }
        if out.send(decoded).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

fn decode(
    chronicles: &Chronicles,
    lsn: Lsn,
    frame: Frame,
    definition: FrameDefinition,
) -> Result<DecodedFrame> {
    let Some(definition) = definition else {
        return Ok(DecodedFrame { frame, chronicle: None, events: None });
    };
    let chronicle = chronicles.chronicle(&definition)?;
    let events = (frame.kind == FrameKind::Events).then(|| {
        events_of(&frame, &chronicle, &definition).map_err(|error| {
            let place = format!("frame {lsn} of the journal");
            match error.kind() {
                ErrorKind::DataCorrupted => error.with_context(place),
                _ => Error::new(ErrorKind::DataCorrupted, "a frame cannot be read")
                    .with_context(place)
                    .with_source(error),
            }
        })
    });
    Ok(DecodedFrame { frame, chronicle: Some(chronicle), events })
}

fn events_of(
    frame: &Frame,
    chronicle: &Chronicle,
    definition: &ChronicleDefinition,
) -> Result<FrameEvents> {
    let shape = chronicle.shape(definition, frame.schema_version)?;
    let rows = frame.count as usize;
    let decoded = encode::decode(&frame.payload, &shape.schema, rows)?;
    let ticks = match decoded.ticks {
        Some(ticks) => ticks,
        None => match decoded.columns.get(shape.tick_at) {
            Some(Column::Plain(times)) => {
                let times = ticks::values(times)?;
                ticks::assign(&times, shape.tick_unit_ns, &definition.scale)?.into()
            }
            _ => return Err(Error::internal("the tick column is missing")),
        },
    };
    debug_assert_eq!(ticks.len(), rows, "an event without a tick");
    debug_assert_eq!(decoded.columns.len(), shape.columns.len(), "events of another shape");
    let groups = match chronicle.indexed() {
        true => Groups::of(&decoded.columns, &shape.keys, rows)?,
        false => Groups::default(),
    };
    Ok(FrameEvents { shape, columns: decoded.columns, ticks, groups })
}

/// Runs a future to completion on a new thread, because the caller that opens the engine may not be
/// allowed to block.
fn wait<T: Send>(
    blocking_pool: &BlockingPool,
    future: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| blocking_pool.block_on(future));
        thread.join().unwrap_or_else(|_| Err(Error::internal("a step of recovery panicked")))
    })
}

fn stopped() -> Error {
    Error::internal("recovery has stopped")
}

fn panicked() -> Error {
    Error::new(ErrorKind::DataCorrupted, "a frame of the journal cannot be decoded")
        .with_detail("the decoder panicked; the checksum of the frame is correct")
}
