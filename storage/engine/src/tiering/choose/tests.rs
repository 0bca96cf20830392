use stratalog_model::{Gsn, Tick, TickRange};

use super::*;
use crate::version::manifest::PieceFile;

const CALM: Pressure = Pressure {
    memory_bytes: 9,
    memory_bytes_high: 10,
    memory_bytes_wanted: 0,
    memory_bytes_max: 20,
    journal_bytes: 99,
    journal_bytes_high: 100,
};

fn load(chronicle: u32, bytes: u64, oldest_gsn: u64) -> Load {
    Load { chronicle: ChronicleId(chronicle), bytes, oldest_gsn, acquirers: 0, is_pinned: false }
}

fn piece(id: u64, ticks: (i64, i64), rows: u64) -> PieceRecord {
    PieceRecord {
        id,
        schema_version: SchemaVersion(1),
        bytes: rows,
        unpacked_bytes: rows * 10,
        parts: 1,
        rows,
        checksum: 0,
        ticks: TickRange::new(Tick(ticks.0), Tick(ticks.1)),
        gsns: (Gsn(1), Gsn(rows)),
        fenced_through: Gsn(0),
        since_ns: 0,
        file: PieceFile::Tablet,
    }
}

fn settings() -> EngineSettings {
    EngineSettings { tablet_rows_max: 100, move_bytes: 10_000, ..EngineSettings::default() }
}

#[test]
fn events_leave_where_it_helps() {
    let loads = [load(1, 5, 300), load(2, 9, 200), load(3, 1, 100)];
    assert_eq!(flush(&loads, &CALM), None);
    let short = Pressure { memory_bytes: 10, ..CALM };
    assert_eq!(flush(&loads, &short), Some(ChronicleId(2)));
    let long = Pressure { journal_bytes: 100, ..CALM };
    assert_eq!(flush(&loads, &long), Some(ChronicleId(3)));
    let both = Pressure { memory_bytes: 10, ..long };
    assert_eq!(flush(&loads, &both), Some(ChronicleId(2)));
    assert_eq!(flush(&[], &both), None);
    let fits = Pressure { memory_bytes_wanted: 11, ..CALM };
    assert_eq!(flush(&loads, &fits), None);
    let wanted = Pressure { memory_bytes_wanted: 12, ..CALM };
    assert_eq!(flush(&loads, &wanted), Some(ChronicleId(2)));
}

#[test]
fn what_many_have_acquired_leaves_memory_later() {
    let acquired = |chronicle, bytes, acquirers| Load { acquirers, ..load(chronicle, bytes, 1) };
    let short = Pressure { memory_bytes: 10, ..CALM };
    let chosen = |loads: &[Load]| flush(loads, &short).unwrap().0;
    assert_eq!(chosen(&[acquired(1, 100, 0), acquired(2, 199, 1), acquired(3, 50, 0)]), 1);
    assert_eq!(chosen(&[acquired(1, 100, 0), acquired(2, 202, 1), acquired(3, 50, 0)]), 2);
    assert_eq!(chosen(&[acquired(1, 100, 3), acquired(2, 99, 3)]), 1);
    // Acquirers have a limited effect: a chronicle with most of the memory moves even with many
    // acquirers.
    assert_eq!(chosen(&[acquired(1, 100, 0), acquired(2, 799, 7)]), 1);
    assert_eq!(chosen(&[acquired(1, 100, 0), acquired(2, 808, u32::MAX)]), 2);
    // An empty chronicle is not chosen instead.
    assert_eq!(chosen(&[acquired(1, 0, 0), acquired(2, 5, 7)]), 2);
    // If the journal is long, its oldest events move, with any number of acquirers.
    let long = Pressure { journal_bytes: 100, ..CALM };
    let loads =
        [Load { oldest_gsn: 5, ..acquired(1, 1, 9) }, Load { oldest_gsn: 6, ..acquired(2, 9, 0) }];
    assert_eq!(flush(&loads, &long), Some(ChronicleId(1)));
}

#[test]
fn f12_pinned_events_leave_the_journal_last() {
    let pinned = |chronicle, bytes, oldest_gsn| Load {
        is_pinned: true,
        ..load(chronicle, bytes, oldest_gsn)
    };
    let loads = [pinned(1, 500, 100), load(2, 9, 200)];
    let short = Pressure { memory_bytes: 10, ..CALM };
    assert_eq!(flush(&loads, &short), Some(ChronicleId(2)));
    assert_eq!(flush(&loads[..1], &short), None);
    let wanted = Pressure { memory_bytes_wanted: 12, ..CALM };
    assert_eq!(flush(&loads, &wanted), Some(ChronicleId(2)));
    assert_eq!(flush(&loads[..1], &wanted), Some(ChronicleId(1)), "rather than refuse appends");
    // Pinned events delay the release of the journal, up to a limit.
    let long = Pressure { journal_bytes: 199, ..CALM };
    assert_eq!(flush(&loads, &long), None);
    let longer = Pressure { journal_bytes: 200, ..CALM };
    assert_eq!(flush(&loads, &longer), Some(ChronicleId(1)));
}

#[test]
fn a_chronicle_with_next_to_nothing_does_not_leave_memory_before_appends_wait() {
    let short = Pressure {
        memory_bytes: 26 << 20,
        memory_bytes_high: 25 << 20,
        memory_bytes_wanted: 0,
        memory_bytes_max: 64 << 20,
        ..CALM
    };
    let small: Vec<Load> = (1..3000).map(|id| load(id, 9_000, u64::from(id))).collect();
    assert_eq!(flush(&small, &short), None);
    let waiting = Pressure { memory_bytes_wanted: 40 << 20, ..short };
    assert!(flush(&small, &waiting).is_some());
    let one_large: Vec<Load> = small.into_iter().chain([load(5000, 64 << 10, 9)]).collect();
    assert_eq!(flush(&one_large, &short), Some(ChronicleId(5000)));
}

#[test]
fn f35_events_leave_the_journal_by_number_bytes_or_age() {
    let second = 1_000_000_000;
    let settings = EngineSettings {
        story_rows_max: 100_000,
        story_bytes_max: 1 << 20,
        story_age_max_ms: 1_000,
        ..settings()
    };
    let calm =
        UpperTiers { rows: 5_000, bytes: 100_000, age_ns: second - 1, ..UpperTiers::default() };
    let due = |upper: &UpperTiers| descend(upper, &settings);
    assert!(!due(&calm) && !due(&UpperTiers::default()));
    // By age: the age of the oldest event since its commit.
    assert!(due(&UpperTiers { age_ns: second, ..calm }));
    assert!(!due(&UpperTiers { age_ns: second, acquirers: 1, ..calm }));
    assert!(due(&UpperTiers { age_ns: 2 * second, acquirers: 1, ..calm }));
    // A few rows do not move alone, unless the table sets its own age; they then move later.
    let few = UpperTiers { rows: 3, bytes: 900, ..calm };
    assert!(!due(&UpperTiers { age_ns: i64::MAX, ..few }));
    assert!(!due(&UpperTiers { age_ns: 23 * second, has_age: true, ..few }));
    assert!(due(&UpperTiers { age_ns: 24 * second, has_age: true, ..few }));
    // Few, but large events.
    assert!(due(&UpperTiers { age_ns: second, bytes: 64 << 10, ..few }));
    // By number, together with the events in tablets; the journal must have a good part of the
    // number.
    assert!(due(&UpperTiers { rows: 100_000, ..calm }));
    assert!(!due(&UpperTiers { rows: 99_999, ..calm }));
    assert!(due(&UpperTiers { rows: 25_000, tablet_rows: 75_000, ..calm }));
    assert!(!due(&UpperTiers { rows: 1, tablet_rows: 99_999, ..calm }));
    // By bytes, compressed as in a story.
    assert!(due(&UpperTiers { bytes: 8 << 20, ..calm }));
    assert!(!due(&UpperTiers { bytes: 4 << 20, ..calm }));
    assert!(due(&UpperTiers { bytes: 4 << 20, tablet_bytes: 600 << 10, ..calm }));
    // A table with at most ten rows in a story.
    let tiny = EngineSettings { story_rows_max: 10, ..settings.clone() };
    assert!(descend(&UpperTiers { rows: 1_000, ..calm }, &tiny));
    assert!(descend(&UpperTiers { rows: 10, age_ns: 0, ..calm }, &tiny));
    assert!(!descend(&UpperTiers { rows: 9, age_ns: 0, bytes: 900, ..calm }, &tiny));
}

#[test]
fn f13_tablets_that_many_have_acquired_stay_longer() {
    let settings = EngineSettings { story_rows_max: 100, story_age_max_ms: 60_000, ..settings() };
    let pieces = [piece(1, (0, 10), 100)];
    let minute = 60_000 * 1_000_000;
    assert!(archive(&pieces, &settings, None, 0, 0).is_some());
    assert_eq!(archive(&pieces, &settings, None, 1, 2 * minute - 1), None);
    assert!(archive(&pieces, &settings, None, 1, 2 * minute).is_some());
    assert!(archive(&pieces, &settings, None, u32::MAX, 8 * minute).is_some());
}

#[test]
fn a_piece_from_before_a_correction_of_the_clock_is_old_and_not_pinned() {
    let settings = EngineSettings { story_age_max_ms: 60_000, ..settings() };
    let ahead = PieceRecord { since_ns: 1_000, ..piece(1, (0, 10), 10) };
    assert!(archive(&[ahead], &settings, Some(i64::MAX), 0, 999).is_some());
    assert_eq!(archive(&[ahead], &settings, None, 0, 1_000), None);
}

#[test]
fn disjoint_full_pieces_stay_as_they_are() {
    let full: Vec<_> = (0..20).map(|at| piece(at, (at as i64, at as i64 + 1), 100)).collect();
    assert_eq!(merge(&full, LargestPiece::tablet(&settings()), 2), None);
    assert_eq!(merge(&[], LargestPiece::tablet(&settings()), 2), None);
}

#[test]
fn those_that_overlap_most_come_first() {
    let pieces = [
        piece(1, (0, 10), 100),
        piece(2, (5, 20), 100),
        piece(3, (8, 9), 100),
        piece(4, (15, 30), 100),
        piece(5, (30, 40), 100),
    ];
    let mut chosen = merge(&pieces, LargestPiece::tablet(&settings()), 2).unwrap();
    chosen.sort_unstable();
    assert_eq!(chosen, [1, 2, 3]);
    assert_eq!(merge(&pieces, LargestPiece::tablet(&settings()), 4), None);
    // Ends are exclusive: the pieces at 30 only touch.
    assert_eq!(merge(&pieces[3..], LargestPiece::tablet(&settings()), 2), None);
}

#[test]
fn small_neighbours_fill_one() {
    let mut pieces: Vec<_> = (0..8).map(|at| piece(at, (at as i64, at as i64 + 1), 30)).collect();
    assert_eq!(merge(&pieces, LargestPiece::tablet(&settings()), 2).unwrap(), [0, 1, 2]);
    assert_eq!(merge(&pieces, LargestPiece::tablet(&settings()), 4), None, "three fill a tablet");
    pieces[1].schema_version = SchemaVersion(2);
    let mut chosen = merge(&pieces, LargestPiece::tablet(&settings()), 2).unwrap();
    chosen.sort_unstable();
    assert_eq!(chosen, [0, 2, 3], "another shape is no neighbour");
    // Few, but wide rows.
    let wide: Vec<_> =
        pieces.iter().map(|piece| PieceRecord { unpacked_bytes: 9_000, ..*piece }).collect();
    assert_eq!(merge(&wide, LargestPiece::tablet(&settings()), 2), None);
}

fn story(id: u64, ticks: (i64, i64), rows: u64) -> PieceRecord {
    PieceRecord { file: PieceFile::Story { tail_at: 1 }, ..piece(id, ticks, rows) }
}

#[test]
fn an_epoch_closes_by_rows_bytes_or_age() {
    let settings = EngineSettings {
        story_rows_max: 1000,
        story_bytes_max: 5000,
        story_age_max_ms: 60_000,
        ..settings()
    };
    let pieces = [piece(1, (0, 10), 400), piece(2, (10, 20), 400), story(9, (0, 20), 100_000)];
    let now = 59_999 * 1_000_000;
    assert_eq!(archive(&pieces, &settings, None, 0, now), None);
    assert_eq!(archive(&pieces[2..], &settings, None, 0, i64::MAX), None, "there is no tablet");
    assert_eq!(archive(&pieces, &settings, None, 0, now + 1_000_000).unwrap(), [1, 2], "by age");
    let rows = EngineSettings { story_rows_max: 800, ..settings.clone() };
    assert_eq!(archive(&pieces, &rows, None, 0, now).unwrap(), [1, 2]);
    let bytes = EngineSettings { story_bytes_max: 800, ..settings.clone() };
    assert_eq!(archive(&pieces, &bytes, None, 0, now).unwrap(), [1, 2]);
    // As many tablets as fit into one story, the oldest ticks first.
    let few = EngineSettings { story_rows_max: 300, ..settings.clone() };
    assert_eq!(archive(&pieces, &few, None, 0, now).unwrap(), [1]);
    // A story with many late events is rewritten.
    let late = [piece(1, (0, 10), 400), story(2, (5, 6), 3000), story(3, (10, 20), 10)];
    assert_eq!(archive(&late, &settings, None, 0, i64::MAX).unwrap(), [1, 2]);
}

#[test]
fn a_compaction_leaves_full_disjoint_stories_alone() {
    let settings =
        EngineSettings { story_rows_max: 1000, story_bytes_max: 5000, ..EngineSettings::default() };
    let none: Vec<u64> = Vec::new();
    let chosen =
        |pieces: &[PieceRecord]| -> Vec<u64> { unsettled(pieces, &settings).into_iter().collect() };
    assert_eq!(chosen(&[story(1, (0, 10), 900), story(2, (10, 20), 900)]), none);
    assert_eq!(chosen(&[story(1, (0, 10), 20)]), none);
    assert_eq!(chosen(&[story(1, (0, 10), 20), story(2, (10, 20), 20)]), [1, 2]);
    assert_eq!(
        chosen(&[story(1, (0, 100), 900), story(2, (10, 20), 900), story(3, (50, 60), 900)]),
        [1, 2, 3]
    );
    assert_eq!(chosen(&[story(1, (0, 10), 900), piece(2, (10, 20), 900)]), [2]);
}

#[test]
fn what_is_too_deep_for_memory_is_merged_first() {
    let settings = EngineSettings { move_bytes: 1000, ..settings() };
    let deep_ones: Vec<_> = (0..20).map(|at| piece(at, (0, 100), 30)).collect();
    // Pieces of 300 bytes each: the result has as many as fit into 4 times 1000 bytes.
    assert_eq!(deep(&deep_ones, &settings).unwrap().len(), 13);
    assert_eq!(merge(&deep_ones, LargestPiece::tablet(&settings), 8).unwrap().len(), 13);
    let wide: Vec<_> =
        deep_ones.iter().map(|piece| PieceRecord { unpacked_bytes: 9000, ..*piece }).collect();
    assert_eq!(merge(&wide, LargestPiece::tablet(&settings), 8).unwrap().len(), 2, "never fewer");
    assert_eq!(deep(&deep_ones[..10], &settings), None);
    let roomy = EngineSettings { move_bytes: 10_000, ..settings };
    assert_eq!(deep(&deep_ones, &roomy), None);
}

#[test]
fn pinned_tablets_stay_and_keep_their_time() {
    let minute = 60_000_000_000;
    let at = |id: u64, since_ns: i64| PieceRecord { since_ns, ..piece(id, (0, 10), 10) };
    let pieces: Vec<PieceRecord> = (0..8).map(|id| at(id, id as i64 * 10 * minute)).collect();
    let eager = EngineSettings { story_rows_max: 1, ..settings() };
    let (now, hour) = (80 * minute, Some(60 * minute));
    let chosen = |pin| archive(&pieces, &eager, pin, 0, now);
    // The tablets of the first 20 minutes are at least an hour old; the first fills a story.
    assert_eq!(chosen(None), chosen(hour));
    let all = EngineSettings { story_rows_max: 1000, story_age_max_ms: 1, ..settings() };
    assert_eq!(archive(&pieces, &all, hour, 0, now).unwrap(), [0, 1, 2]);
    assert_eq!(archive(&pieces, &all, None, 0, now).unwrap().len(), 8);
    assert_eq!(archive(&pieces[3..], &all, hour, 0, now), None, "all are pinned");
    // The pin time of one hour has four parts; they contain two tablets, two tablets, then one, …
    let largest = LargestPiece::tablet(&settings());
    assert_eq!(merge_tablets(&pieces, largest, 2, None).unwrap().len(), 8);
    assert_eq!(merge_tablets(&pieces, largest, 2, hour).unwrap(), [0, 1]);
    assert_eq!(merge_tablets(&pieces, largest, 3, hour), None);
}

#[test]
fn full_tablets_of_a_tick_are_not_merged_again() {
    let largest = LargestPiece::tablet(&settings());
    let full: Vec<PieceRecord> = (1..40).map(|id| piece(id, (7, 8), 60)).collect();
    assert_eq!(merge_tablets(&full, largest, 2, None), None);
    assert_eq!(deep(&full, &settings()), None);
    let large: Vec<PieceRecord> =
        full.iter().map(|piece| PieceRecord { rows: 5, unpacked_bytes: 6_000, ..*piece }).collect();
    assert_eq!(merge_tablets(&large, largest, 2, None), None);
    let wide: Vec<PieceRecord> = (1..40).map(|id| piece(id, (7, 9), 60)).collect();
    assert!(merge_tablets(&wide, largest, 2, None).is_some());
    let small: Vec<PieceRecord> = (1..40).map(|id| piece(id, (7, 8), 50)).collect();
    assert!(merge_tablets(&small, largest, 2, None).is_some());
    assert!(
        archive(&full, &EngineSettings { story_rows_max: 100, ..settings() }, None, 0, 0).is_some()
    );
}
