//! Tests of the cache of decoded columns.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "ranges of rows, of which one may be asked for"
)]

use std::sync::Arc;

use arrow::{
    array::{AsArray, RecordBatch},
    compute::concat,
    datatypes::{Float64Type, Int64Type},
};
use stratalog_journal::LocalDisk;
use stratalog_model::{ColumnId, ErrorKind};
use stratalog_story::{
    BuiltStory, CHUNK_ROWS, CellColumn, Finding, FindingKey, LocalShelf, Source, Stories,
    StoryEdge, StoryId, StorySettings,
};

use crate::fixture::{EVERYTHING, OPEN_BYTES, local, schema, slice, wait};

const HOSTS: usize = 50;
const TICKS: usize = 2_001;
const ROWS: usize = HOSTS * TICKS;

/// A story of one group with 100,050 rows: many chunks; the last chunk is short.
fn build(stories: &Stories, id: u64) -> BuiltStory {
    let mut builder = stories.build(StoryId(id), &schema(), StorySettings::default()).unwrap();
    let (batch, summary) = slice(id, 0, HOSTS, TICKS);
    builder.push(&batch, summary).unwrap();
    wait(builder.finish()).unwrap()
}

fn with_room(folder: &std::path::Path, room: u64) -> Stories {
    let shelf = LocalShelf::open(Arc::new(LocalDisk), &folder.join("stories")).unwrap();
    let spool = folder.join("spool");
    wait(Stories::open(Arc::new(shelf), Arc::new(LocalDisk), &spool, OPEN_BYTES, room)).unwrap()
}

#[test]
fn rows_are_those_of_the_file_and_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let built = build(&local(folder.path()), 3);
    let stories = with_room(folder.path(), 64 << 20);
    let story = wait(stories.open_story(&built)).unwrap();
    let whole: RecordBatch = wait(story.read(0, &EVERYTHING, None)).unwrap();
    let last = ROWS / CHUNK_ROWS;
    // Parts of chunks, rows across two chunks, and the short chunk at the end.
    let asked = [
        vec![5..17],
        vec![CHUNK_ROWS - 3..CHUNK_ROWS + 3, 3 * CHUNK_ROWS..3 * CHUNK_ROWS + 1],
        vec![last * CHUNK_ROWS..ROWS],
        vec![0..ROWS],
    ];
    for (number, ranges) in asked.iter().enumerate() {
        let columns = wait(story.columns(0, &EVERYTHING, ranges)).unwrap();
        assert!(columns.read_bytes() > 0 || number == 2, "{number}");
        for range in ranges {
            for (at, expected) in whole.columns().iter().enumerate() {
                let slices = columns.slices(at, range.clone()).unwrap();
                let slices: Vec<&dyn arrow::array::Array> =
                    slices.iter().map(AsRef::as_ref).collect();
                let found = concat(&slices).unwrap();
                assert_eq!(&found, &expected.slice(range.start, range.len()));
            }
        }
        let again = wait(story.columns(0, &EVERYTHING, ranges)).unwrap();
        assert_eq!(again.read_bytes(), 0);
    }
    // With one more column, only the missing column is read.
    let other = with_room(folder.path(), 64 << 20);
    let story = wait(other.open_story(&built)).unwrap();
    let value = [Source::Column(ColumnId(9))];
    let value_bytes = wait(story.columns(0, &value, &[0..9])).unwrap().read_bytes();
    assert!(value_bytes > 0);
    let both = [Source::Column(ColumnId(9)), Source::Tick];
    assert!(wait(story.columns(0, &both, &[0..9])).unwrap().read_bytes() > 0);
    assert_eq!(wait(story.columns(0, &both, &[0..9])).unwrap().read_bytes(), 0);
    // Rows outside of the request are unavailable.
    let few = wait(story.columns(0, &both, &[0..9])).unwrap();
    assert!(few.slices(0, CHUNK_ROWS..CHUNK_ROWS + 1).is_err() && few.slices(2, 0..1).is_err());
    assert!(wait(story.columns(1, &both, &[0..9])).is_err());
}

#[test]
fn memory_is_bounded_and_without_room_nothing_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let built: Vec<BuiltStory> = (1..=6).map(|id| build(&local(folder.path()), id)).collect();
    let room = 3 << 20;
    let stories = with_room(folder.path(), room);
    for _ in 0..3 {
        for built in &built {
            let story = wait(stories.open_story(built)).unwrap();
            let all = 0..ROWS;
            wait(story.columns(0, &EVERYTHING[2..4], &[all])).unwrap();
            assert!(stories.decoded_bytes() <= room, "{}", stories.decoded_bytes());
        }
    }
    assert!(stories.decoded_bytes() > room / 4);
    let none = with_room(folder.path(), 0);
    let story = wait(none.open_story(&built[0])).unwrap();
    for _ in 0..2 {
        let columns = wait(story.columns(0, &EVERYTHING, &[0..10])).unwrap();
        assert!(columns.read_bytes() > 0);
    }
    assert_eq!(none.decoded_bytes(), 0);
}

/// A finding with any key.
#[derive(Debug, PartialEq)]
struct Note(String);

impl Finding for Note {
    type Key = FindingKey;

    fn cache_key(key: FindingKey) -> FindingKey {
        key
    }
}

/// A finding with keys of [`Note`].
#[derive(Debug, PartialEq)]
struct OtherType;

impl Finding for OtherType {
    type Key = FindingKey;

    fn cache_key(key: FindingKey) -> FindingKey {
        key
    }
}

#[test]
fn findings_are_kept_beside_columns() {
    let folder = tempfile::tempdir().unwrap();
    let built = build(&local(folder.path()), 2);
    let stories = with_room(folder.path(), 1 << 20);
    let story = wait(stories.open_story(&built)).unwrap();
    let (oldest, newest) = (true, false);
    let keys = [
        FindingKey::Runs { group: 0 },
        FindingKey::Runs { group: 1 },
        FindingKey::Runs { group: u32::MAX },
        FindingKey::Edge(StoryEdge::Series { oldest }),
        FindingKey::Edge(StoryEdge::Series { oldest: newest }),
        FindingKey::Edge(StoryEdge::Groups { oldest }),
        FindingKey::EdgeColumn(StoryEdge::Groups { oldest }, Source::Tick),
        FindingKey::EdgeColumn(StoryEdge::Series { oldest }, Source::Tick),
        FindingKey::EdgeColumn(StoryEdge::Series { oldest }, Source::Column(ColumnId(9))),
        FindingKey::Aggregates { request: 0 },
        FindingKey::Aggregates { request: u32::MAX },
        FindingKey::Words { group: 0, column: ColumnId(0) },
        FindingKey::Words { group: 0, column: ColumnId(1) },
        FindingKey::Words { group: 1, column: ColumnId(0) },
        FindingKey::CellsAnnex,
        FindingKey::WordsAnnex,
    ];
    for key in keys {
        assert_eq!(story.finding::<Note>(key), None);
        story.note(key, &Arc::new(Note(format!("{key:?}"))), 100);
    }
    for key in keys {
        assert_eq!(*story.finding::<Note>(key).unwrap(), Note(format!("{key:?}")));
        assert_eq!(story.finding::<OtherType>(key), None);
    }
}

#[test]
fn cells_are_read_by_column_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let built = build(&local(folder.path()), 4);
    let stories = with_room(folder.path(), 1 << 20);
    let story = wait(stories.open_story(&built)).unwrap();
    let value = ColumnId(9);
    let wanted = [
        CellColumn::Max(value),
        CellColumn::Key(0),
        CellColumn::Rows,
        CellColumn::Count(value),
        CellColumn::Sum(value),
        CellColumn::Max(value),
    ];
    for _ in 0..2 {
        let cells = wait(story.cells(0, &wanted)).unwrap().unwrap();
        assert!(cells.iter().all(|array| array.len() == HOSTS), "a cell for each host");
        assert_eq!(&cells[0], &cells[5]);
        assert_eq!(cells[1].as_string_view().value(HOSTS - 1), "host-00490");
        assert_eq!(cells[2].as_primitive::<Int64Type>().values(), &[TICKS as i64; HOSTS]);
        let counts: i64 = cells[3].as_primitive::<Int64Type>().values().iter().sum();
        assert_eq!(counts as usize, (0..ROWS).filter(|row| row % 5 != 3).count());
        let whole = wait(story.read(0, &EVERYTHING[2..3], None)).unwrap();
        let values = whole.column(0).as_primitive::<Float64Type>();
        let all: f64 = values.iter().flatten().sum();
        let sums: f64 = cells[4].as_primitive::<Float64Type>().values().iter().sum();
        assert!((sums - all).abs() < 1e-3, "{sums} {all}");
    }
    assert!(stories.decoded_bytes() > 0);
    assert_eq!(wait(story.cells(1, &wanted)).unwrap(), None);
    assert!(wait(story.cells(0, &[CellColumn::Min(ColumnId(4))])).is_err());
}

#[test]
fn damaged_cells_are_none_and_a_check_tells() {
    let folder = tempfile::tempdir().unwrap();
    let built = build(&local(folder.path()), 4);
    let path = folder.path().join("stories/7/00000000000000000004.parquet");
    let mut bytes = std::fs::read(&path).unwrap();
    // The last block before the tail contains only cells.
    let at = built.tail_at as usize - 20;
    bytes[at] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let stories = with_room(folder.path(), 1 << 20);
    let story = wait(stories.open_story(&built)).unwrap();
    assert_eq!(wait(story.cells(0, &[CellColumn::Rows])).unwrap(), None);
    assert_eq!(wait(story.check()).unwrap_err().kind(), ErrorKind::DataCorrupted);
}
