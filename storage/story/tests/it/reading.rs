//! Parts of stories: columns, pages, batches.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, StringViewArray, UInt32Array},
    compute::{concat_batches, take_record_batch},
    datatypes::Int64Type,
};
use stratalog_model::{ColumnId, ErrorKind, Tick, TickRange, TickRanges};
use stratalog_story::{KeyValues, Selection, Source, StoryId, StorySettings};

use crate::fixture::*;

fn hosts(names: &[&str]) -> Vec<KeyValues> {
    let values: ArrayRef = Arc::new(StringViewArray::from(names.to_vec()));
    vec![KeyValues { column: ColumnId(4), values }]
}

fn between(start: i64, end: i64) -> TickRanges {
    TickRange::new(Tick(start), Tick(end)).into()
}

#[test]
fn columns_come_in_any_order_and_more_than_once() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built = build(&stories, 3, 2).unwrap();
    let story = wait(stories.open_story(&built)).unwrap();
    let (whole, _) = slice(3, 1, 5, 20);
    let wanted =
        [Source::Gsn, Source::Column(ColumnId(4)), Source::Gsn, Source::Column(ColumnId(1))];
    let read = wait(story.read(1, &wanted, None)).unwrap();
    assert_eq!(read, whole.project(&[5, 1, 5, 0]).unwrap());
    let none = wait(story.read(1, &[], None)).unwrap();
    assert_eq!((none.num_rows(), none.num_columns()), (100, 0));
    let fetched = wait(story.fetch(1, &wanted, None)).unwrap();
    assert_eq!(fetched.rows(), 100);
    assert_eq!(joined(fetched.decode(7).unwrap()), read);
    for (group, wanted) in [(2, Source::Tick), (0, Source::Column(ColumnId(2)))] {
        let error = wait(story.read(group, &[wanted], None)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}

#[test]
fn pages_of_wide_rows_have_few_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    for (width, rows_of_page) in [(10, 1000), (4096, 256), (3 << 20, 1)] {
        let rows = if width > 1 << 20 { 5 } else { 1000 };
        let (narrow, _) = slice(1, 0, 1, rows);
        let mut columns = narrow.columns().to_vec();
        columns[1] =
            Arc::new(StringViewArray::from_iter_values((0..rows).map(|_| "h".repeat(width))));
        let batch = RecordBatch::try_new(narrow.schema(), columns).unwrap();
        let id = StoryId(width as u64);
        let mut builder = stories.build(id, &schema(), StorySettings::default()).unwrap();
        builder.push(&batch, summary(&batch, "h", "h")).unwrap();
        let story = wait(stories.open_story(&wait(builder.finish()).unwrap())).unwrap();
        let selection = story.select(0, &between(-498, -497), &[], &[]).unwrap().unwrap();
        assert_eq!(selection.rows(), rows_of_page, "values of {width} bytes");
        let read = wait(story.read(0, &EVERYTHING, Some(&selection))).unwrap();
        let first = selection.ranges()[0].start;
        assert_eq!(read, batch.slice(first, selection.rows()));
    }
}

#[test]
fn wide_groups_are_read_in_windows_and_from_their_ends() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let rows = 5000;
    let (narrow, _) = slice(1, 0, 1, rows);
    let mut columns = narrow.columns().to_vec();
    // 40 MB, half the size after compression.
    let mut random = stratalog_sim::Random::new(3);
    let mut noise =
        || (0..512).map(|_| format!("{:016x}", random.below(u64::MAX))).collect::<String>();
    let notes = (0..rows).map(|row| format!("{row:08}{}", noise()));
    columns[1] = Arc::new(StringViewArray::from_iter_values(notes));
    let batch = RecordBatch::try_new(narrow.schema(), columns).unwrap();
    let mut builder = stories.build(StoryId(1), &schema(), StorySettings::default()).unwrap();
    builder.push(&batch, summary(&batch, "0", "g")).unwrap();
    let story = wait(stories.open_story(&wait(builder.finish()).unwrap())).unwrap();
    let all = || story.select(0, &TickRanges::all(), &[], &[]).unwrap().unwrap();
    let read = |selection: &Selection| {
        let fetched = wait(story.fetch(0, &EVERYTHING, Some(selection))).unwrap();
        assert!(fetched.batch_rows(8192) < 200, "{}", fetched.batch_rows(8192));
        let batch_rows = fetched.batch_rows(8192);
        joined(fetched.decode(batch_rows).unwrap())
    };
    let windows = story.windows(0, &EVERYTHING, all()).unwrap();
    assert!(windows.len() > 1, "{}", windows.len());
    let parts: Vec<RecordBatch> = windows.iter().map(read).collect();
    assert_eq!(concat_batches(&batch.schema(), &parts).unwrap(), batch);
    // Narrow columns are not split into windows.
    assert_eq!(story.windows(0, &[Source::Tick], all()).unwrap(), [all()]);
    for (wanted, last) in
        [(1, true), (1, false), (200, true), (5000, true), (9000, false), (0, true)]
    {
        let (edge, others) = story.edge(0, &EVERYTHING, &all(), wanted, last).unwrap();
        assert!(
            edge.rows() >= wanted.clamp(1, rows) && edge.rows() < wanted + 200
                || others.rows() == 0
        );
        assert_eq!(edge.rows() + others.rows(), rows);
        let start = if last { others.rows() } else { 0 };
        assert_eq!(read(&edge), batch.slice(start, edge.rows()));
    }
}

#[test]
fn pages_that_cannot_hold_what_is_wanted_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let mut builder = stories
        .build(StoryId(1), &schema(), StorySettings { page_rows_max: 100, ..settings() })
        .unwrap();
    let slices: Vec<_> = (0..2).map(|group| slice(1, group, 20, 500)).collect();
    for (batch, summary) in &slices {
        builder.push(batch, summary.clone()).unwrap();
    }
    let built = wait(builder.finish()).unwrap();
    let story = wait(stories.open_story(&built)).unwrap();
    let select = |group, ticks: &TickRanges, keys: &[KeyValues]| {
        story.select(group, ticks, keys, &[]).unwrap()
    };
    assert!(select(0, &TickRanges::all(), &[]).unwrap().is_all());
    assert_eq!(select(0, &between(500, 600), &[]), None);
    let cases = [
        (between(-500, -450), hosts(&["host-00010", "host-00190"])),
        (between(-10, 10), hosts(&["host-00000"])),
        (between(-500, -499), vec![]),
        (TickRanges::all(), hosts(&["host-00030", "nobody"])),
    ];
    for (ticks, keys) in cases {
        let selection = select(0, &ticks, &keys).unwrap();
        assert!(selection.rows() < 6000 && !selection.is_all(), "{}", selection.rows());
        let read = wait(story.read(0, &EVERYTHING, Some(&selection))).unwrap();
        let rows = selection.ranges().iter().flat_map(|range| range.start as u32..range.end as u32);
        let expected =
            take_record_batch(&slices[0].0, &UInt32Array::from_iter_values(rows)).unwrap();
        assert_eq!(read, expected);
        // No wanted row is missing.
        let wanted = |batch: &arrow::array::RecordBatch| {
            let numbers = batch.column(3).as_primitive::<Int64Type>();
            let names = batch.column(1).as_string_view();
            let values = keys.first().map(|key| {
                key.values.as_string_view().iter().flatten().map(str::to_string).collect::<Vec<_>>()
            });
            (0..batch.num_rows())
                .filter(|row| {
                    ticks.contains(Tick(numbers.value(*row)))
                        && values.as_ref().is_none_or(|values| {
                            values.iter().any(|value| value == names.value(*row))
                        })
                })
                .count()
        };
        assert_eq!(wanted(&read), wanted(&slices[0].0));
        let fetched = wait(story.fetch(0, &EVERYTHING, Some(&selection))).unwrap();
        assert_eq!(joined(fetched.decode(33).unwrap()), expected);
    }
}

#[test]
fn filters_know_who_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built = build(&stories, 1, 1).unwrap();
    let story = wait(stories.open_story(&built)).unwrap();
    assert!(wait(story.may_hold(0, &[])).unwrap());
    for host in 0..5 {
        assert!(
            wait(story.may_hold(0, &hosts(&["nobody", &format!("host-{:05}", host * 10)])))
                .unwrap()
        );
    }
    let strangers = (1..1000).filter(|host| host % 10 != 0);
    let taken = strangers
        .filter(|host| wait(story.may_hold(0, &hosts(&[&format!("host-{host:05}")]))).unwrap());
    assert!(taken.count() < 100);
}

#[test]
fn reading_may_move_between_threads() {
    fn movable<T: Send + 'static>(thing: T) -> T {
        thing
    }
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built = build(&stories, 1, 2).unwrap();
    let rows = wait(async move {
        let reading = movable(async move {
            let story = stories.open_story(&built).await?;
            story.fetch(1, &EVERYTHING, None).await
        });
        movable(tokio::spawn(reading).await.unwrap().unwrap())
    });
    let rows = movable(rows.decode(64).unwrap());
    assert_eq!(joined(rows), slice(1, 1, 5, 20).0);
}

#[test]
fn without_a_runtime_everything_works_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built = build(&stories, 1, 2).unwrap();
    let read = futures::executor::block_on(async {
        stories.open_story(&built).await?.read(0, &EVERYTHING, None).await
    });
    assert_eq!(read.unwrap(), slice(1, 0, 5, 20).0);
}
