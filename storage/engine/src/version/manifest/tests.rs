use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use stratalog_journal::{Journal, JournalSettings, RequiredSegments};
use stratalog_model::{ErrorKind, Gsn, GsnRange, Tick};
use stratalog_sim::{Crash, FaultyDisk, Random};

use super::*;
use crate::version::{fence::Fence, lost_positions::LostPositions};

fn settings() -> JournalSettings {
    JournalSettings {
        segment_bytes_max: 64 << 10,
        frame_bytes_max: 16 << 10,
        queue_bytes_max: 1 << 20,
        free_bytes_min: 0,
        mark_idle_ms: 0,
        ..JournalSettings::default()
    }
}

fn open(disk: &FaultyDisk, made: bool) -> Result<Manifest> {
    let directory = std::path::PathBuf::from("/data/manifest");
    let disk = Arc::new(disk.clone());
    Manifest::open(Arc::new(match made {
        true => Journal::open_existing(disk, directory, settings(), RequiredSegments::Any)?,
        false => Journal::open(disk, directory, settings())?,
    }))
}

fn piece(id: u64, through: u64) -> PieceRecord {
    PieceRecord {
        id,
        schema_version: SchemaVersion(1),
        bytes: 1000 + id,
        unpacked_bytes: 5000,
        parts: 3,
        rows: 30,
        checksum: 77,
        ticks: TickRange::new(Tick(-5), Tick(100)),
        gsns: (Gsn(through.saturating_sub(9)), Gsn(through)),
        fenced_through: Gsn(0),
        since_ns: 7,
        file: PieceFile::Story { tail_at: 900 },
    }
}

/// A move that adds a piece; if there are more than eight pieces, the move removes the oldest.
fn next_move(state: &ManifestState, chronicle: ChronicleId) -> Edit {
    let owned = state.chronicles.get(&chronicle).cloned().unwrap_or_default();
    let through = Gsn(owned.through.0 + 10);
    let oldest = owned.pieces.keys().next().copied();
    let ticks = TickRange::new(Tick::MIN, Tick(through.0 as i64));
    Edit::Move(Move {
        chronicle,
        through,
        next_seq: owned.next_seq + 10,
        added: vec![piece(state.last_piece + 1, through.0)],
        removed: oldest.filter(|_| owned.pieces.len() > 8).into_iter().collect(),
        fences: vec![Fence { ticks, gsn: through, raised: None }],
        replaced: vec![(through.0, through.0 + 1)],
        forgotten: vec![through.0.saturating_sub(20)],
        lost: LostPositions::default().with(GsnRange::between(Gsn(1), through)),
        highest: Some(Tick(through.0 as i64 + 5)),
    })
}

type Change = dyn Fn(&mut Gsn, &mut Vec<PieceRecord>, &mut Vec<u64>);

fn run<T>(future: impl Future<Output = T>) -> T {
    futures::executor::block_on(future)
}

#[test]
fn edits_are_found_again_also_after_snapshots() {
    let disk = FaultyDisk::new(1);
    let manifest = open(&disk, false).unwrap();
    let published = Arc::new(AtomicUsize::new(0));
    for number in 0..2000_u32 {
        let edit = next_move(&manifest.state(), ChronicleId(1 + number % 3));
        let published = Arc::clone(&published);
        run(manifest.apply(edit, move || published.fetch_add(1, Ordering::SeqCst))).unwrap();
    }
    assert_eq!(published.load(Ordering::SeqCst), 2000);
    let floor = Floor { lsn: Lsn(7), gsn: Gsn(70), statement: StatementId(3), producers: vec![] };
    run(manifest.apply(Edit::Raise(floor), || ())).unwrap();
    run(manifest.apply(Edit::Forget(vec![ChronicleId(2)]), || ())).unwrap();
    let state = manifest.state();
    assert_eq!((state.chronicles.len(), state.last_piece), (2, 2000));
    let log = manifest.log.status();
    assert!(log.first > Lsn(1) && log.segments < 4, "old edits are kept: {log:?}");
    drop(manifest);
    assert_eq!(open(&disk, true).unwrap().state(), state);
}

#[test]
fn edits_that_contradict_the_state_are_refused() {
    let manifest = open(&FaultyDisk::new(1), false).unwrap();
    let chronicle = ChronicleId(1);
    run(manifest.apply(next_move(&manifest.state(), chronicle), || ())).unwrap();
    let state = manifest.state();
    let wrong = |change: &Change| {
        let mut edit = next_move(&state, chronicle);
        if let Edit::Move(moved) = &mut edit {
            change(&mut moved.through, &mut moved.added, &mut moved.removed);
        }
        let error = run(manifest.apply(edit, || unreachable!("it is not published"))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
    };
    wrong(&|through, _, _| *through = Gsn(3));
    wrong(&|_, added, _| added[0].id = 1);
    wrong(&|_, added, _| added.push(added[0]));
    wrong(&|_, added, _| added[0].gsns.1 = Gsn(1_000));
    wrong(&|_, _, removed| removed.push(55));
    let floor = Floor { lsn: Lsn(9), ..Floor::default() };
    run(manifest.apply(Edit::Raise(floor), || ())).unwrap();
    let back = Edit::Raise(Floor::default());
    assert_eq!(run(manifest.apply(back, || ())).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn a_power_cut_leaves_the_state_before_or_after_the_edit() {
    let (mut before, mut after) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let disk = FaultyDisk::new(seed);
        let manifest = open(&disk, false).unwrap();
        let edits = random.between(1, 600);
        for _ in 0..edits {
            run(manifest.apply(next_move(&manifest.state(), ChronicleId(1)), || ())).unwrap();
        }
        let known = manifest.state();
        let next = next_move(&known, ChronicleId(1));
        let wanted = known.after(&next).unwrap();
        disk.halt_after(random.between(1, 6));
        let outcome = run(manifest.apply(next, || ()));
        let disk = disk.crash(Crash::PowerCut);
        drop(manifest);
        let found = open(&disk, true).unwrap().state();
        match (outcome.is_ok(), *found == *known) {
            (false, true) => before += 1,
            _ => {
                assert_eq!(*found, wanted, "seed {seed}");
                after += 1;
            }
        }
    }
    assert!(before > 5 && after > 5, "{before} before, {after} after");
}

#[test]
fn a_lost_beginning_is_told() {
    let disk = FaultyDisk::new(1);
    let manifest = open(&disk, false).unwrap();
    for _ in 0..200 {
        run(manifest.apply(next_move(&manifest.state(), ChronicleId(1)), || ())).unwrap();
    }
    drop(manifest);
    let segments = disk.paths().into_iter().filter(|path| path.extension().is_some());
    let oldest = segments.min().unwrap();
    stratalog_model::Disk::remove_file(&disk, &oldest).unwrap();
    let error = open(&disk, true).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert!(error.message().contains("lost its beginning"), "{error}");
}

#[test]
fn records_of_formats_that_are_not_known_are_told_from_damage() {
    let edit = next_move(&ManifestState::default(), ChronicleId(1));
    let sound = record::of_edit(&edit).unwrap();
    assert_eq!(record::edit(&sound).unwrap(), edit);
    for format in [0, sound[0] + 1, u8::MAX] {
        let mut other = sound.to_vec();
        other[0] = format;
        let error = record::edit(&other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ObjectNotInPrerequisiteState, "{format}");
        assert_eq!(record::snapshot(&other).unwrap_err().kind(), error.kind());
    }
    assert_eq!(record::edit(&[]).unwrap_err().kind(), ErrorKind::DataCorrupted);
    // Fields that the first format lacks are empty.
    let mut first = sound.to_vec();
    first[0] = 1;
    assert_eq!(record::edit(&first).unwrap(), edit);
}
