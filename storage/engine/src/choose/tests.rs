use stratalog_model::{Gsn, Tick, TickRange};

use super::*;
use crate::manifest::PieceFile;

const CALM: Pressure = Pressure {
    memory_bytes: 9,
    memory_bytes_high: 10,
    memory_bytes_wanted: 0,
    memory_bytes_max: 20,
    journal_bytes: 99,
    journal_bytes_high: 100,
};

fn load(chronicle: u32, bytes: u64, oldest_gsn: u64) -> Load {
    Load { chronicle: ChronicleId(chronicle), bytes, oldest_gsn }
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
fn disjoint_full_pieces_stay_as_they_are() {
    let full: Vec<_> = (0..20).map(|at| piece(at, (at as i64, at as i64 + 1), 100)).collect();
    assert_eq!(merge(&full, &settings(), 2), None);
    assert_eq!(merge(&[], &settings(), 2), None);
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
    let mut chosen = merge(&pieces, &settings(), 2).unwrap();
    chosen.sort_unstable();
    assert_eq!(chosen, [1, 2, 3]);
    assert_eq!(merge(&pieces, &settings(), 4), None);
    // Ends are not inside: those at 30 only touch.
    assert_eq!(merge(&pieces[3..], &settings(), 2), None);
}

#[test]
fn small_neighbours_fill_one() {
    let mut pieces: Vec<_> = (0..8).map(|at| piece(at, (at as i64, at as i64 + 1), 30)).collect();
    assert_eq!(merge(&pieces, &settings(), 2).unwrap(), [0, 1, 2]);
    assert_eq!(merge(&pieces, &settings(), 4), None, "three fill a tablet");
    pieces[1].schema_version = SchemaVersion(2);
    let mut chosen = merge(&pieces, &settings(), 2).unwrap();
    chosen.sort_unstable();
    assert_eq!(chosen, [0, 2, 3], "another shape is no neighbour");
    // Few rows, but wide ones.
    let wide: Vec<_> =
        pieces.iter().map(|piece| PieceRecord { unpacked_bytes: 9_000, ..*piece }).collect();
    assert_eq!(merge(&wide, &settings(), 2), None);
}
