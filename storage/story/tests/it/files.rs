//! Written stories: reading back, column names, and other tools.

use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc};

use parquet::{
    basic::Encoding,
    file::{
        metadata::{PageIndexPolicy, ParquetMetaDataReader},
        reader::{FileReader, SerializedFileReader},
    },
};
use stratalog_journal::LocalDisk;
use stratalog_model::{Disk, ErrorKind, SchemaVersion};
use stratalog_story::{LocalShelf, Stories, StoryId, StoryName};

use crate::fixture::*;

fn name(id: u64) -> StoryName {
    StoryName { chronicle: CHRONICLE, id: StoryId(id) }
}

#[test]
fn groups_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built = build(&stories, 5, 3).unwrap();
    assert_eq!((built.groups, built.rows, built.schema_version), (3, 300, SchemaVersion(3)));
    assert_eq!((built.ticks, built.gsns), ((-500, 1519), (1, 599)));
    assert_eq!(wait(stories.files()).unwrap(), [(name(5), built.bytes)].into());
    check(&stories, &built).unwrap();
    wait(wait(stories.open_story(&built)).unwrap().check()).unwrap();
    // Reads again, from the file alone.
    let stories = local(folder.path());
    check(&stories, &built).unwrap();
    assert_eq!(wait(stories.open_story(&built)).unwrap().schema(), &schema());
    // The description survives serialization in the manifest.
    let text = serde_json::to_string(&built).unwrap();
    assert_eq!(serde_json::from_str::<stratalog_story::BuiltStory>(&text).unwrap(), built);
}

#[test]
fn the_file_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built = build(&stories, 5, 3).unwrap();
    let path = folder.path().join("stories/7/00000000000000000005.parquet");
    let file = fs::File::open(&path).unwrap();
    let metadata = ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Required)
        .parse_and_finish(&file)
        .unwrap();
    let pairs = metadata.file_metadata().key_value_metadata().unwrap();
    let value = |key: &str| {
        let pair = pairs.iter().find(|pair| pair.key == format!("stratalog.{key}"));
        pair.and_then(|pair| pair.value.clone()).unwrap_or_else(|| panic!("no {key}"))
    };
    let expected = [
        ("format_version", "1"),
        ("story", "5"),
        ("chronicle", "7"),
        ("chronicle_name", "public.cpu"),
        ("schema_version", "3"),
        ("rows", "300"),
        ("first_tick", "-500"),
        ("last_tick", "1519"),
        ("base_ns", "1000000"),
        ("granularity_ns", "1"),
    ];
    for (key, text) in expected {
        assert_eq!(value(key), text, "{key}");
    }
    assert!(!pairs.iter().any(|pair| pair.key == "ARROW:schema"));
    let ids: Vec<_> = metadata
        .file_metadata()
        .schema()
        .get_fields()
        .iter()
        .map(|field| field.get_basic_info().id())
        .collect();
    assert_eq!(ids, [1, 4, 9, 2147482647, 2147482648, 2147482649]);
    let group = metadata.row_group(0);
    let sorted: Vec<_> =
        group.sorting_columns().unwrap().iter().map(|column| column.column_idx).collect();
    assert_eq!(sorted, [1, 3]);
    let host = group.column(1);
    assert!(host.bloom_filter_offset().is_some_and(|at| (at as u64) < built.tail_at));
    assert!(host.encodings().any(|encoding| encoding == Encoding::RLE_DICTIONARY));
    assert!(group.column(3).encodings().any(|encoding| encoding == Encoding::DELTA_BINARY_PACKED));
    assert!(metadata.offset_index().unwrap()[0][1].page_locations().len() > 1);
    let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.get_row_iter(None).unwrap().count(), 300);
}

#[test]
fn unfinished_files_go_and_foreign_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let mut builder = stories.build(StoryId(9), &schema(), settings()).unwrap();
    let (batch, summary) = slice(9, 0, 5, 20);
    builder.push(&batch, summary).unwrap();
    drop(builder);
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 0);
    let built = build(&stories, 1, 1).unwrap();
    let file = |name: &str| -> PathBuf { folder.path().join(name) };
    let unfinished =
        ["spool/00000000000000000009.building", "stories/7/00000000000000000003.building"];
    let foreign = [
        "spool/notes.building",
        "spool/notes.txt",
        "stories/notes.txt",
        "stories/7/notes.parquet",
        "stories/7/3.building",
    ];
    for name in unfinished {
        fs::write(file(name), "half").unwrap();
    }
    for name in foreign {
        fs::write(file(name), "mine").unwrap();
    }
    fs::create_dir_all(file("stories/old/7")).unwrap();
    assert!(unfinished.iter().all(|name| file(name).exists()));
    let stories = local(folder.path());
    assert!(!unfinished.iter().any(|name| file(name).exists()));
    assert_eq!(keep_only(&stories, &BTreeSet::from([name(1)])), 0);
    assert!(foreign.iter().all(|name| file(name).exists()));
    check(&stories, &built).unwrap();
}

#[test]
fn only_what_the_manifest_names_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built: Vec<_> = (1..=4).map(|id| build(&stories, id, 2).unwrap()).collect();
    let kept = BTreeSet::from([name(2), name(4)]);
    assert_eq!(keep_only(&stories, &kept), 2);
    assert_eq!(wait(stories.files()).unwrap().into_keys().collect::<BTreeSet<_>>(), kept);
    check(&stories, &built[1]).unwrap();
    let error = wait(stories.open_story(&built[0])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert!(error.message().ends_with("is missing"), "{error}");
    wait(stories.remove(name(4))).unwrap();
    wait(stories.remove(name(4))).unwrap();
    assert_eq!(wait(stories.files()).unwrap().len(), 1);
    let error = build(&stories, 2, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "the name is in use: {error}");
    check(&stories, &built[1]).unwrap();
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 0);
}

#[test]
fn rows_that_are_not_as_they_should_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let mut builder = stories.build(StoryId(1), &schema(), settings()).unwrap();
    let (batch, summary) = slice(1, 0, 5, 20);
    let mut refused = |batch, change: &dyn Fn(&mut stratalog_story::GroupSummary)| {
        let mut summary = summary.clone();
        change(&mut summary);
        builder.push(&batch, summary).unwrap_err()
    };
    let wrong = [
        refused(batch.clone(), &|summary| summary.rows += 1),
        refused(batch.clone(), &|summary| summary.ticks.1 += 1),
        refused(batch.clone(), &|summary| summary.gsns.0 -= 1),
        refused(batch.slice(0, 0), &|summary| summary.rows = 0),
        refused(batch.project(&[0, 1, 2, 3, 4]).unwrap(), &|_| {}),
    ];
    for error in wrong {
        assert_eq!(error.kind(), ErrorKind::Internal, "{error}");
    }
    let order = arrow::array::UInt32Array::from_iter_values((0..100).rev());
    let reversed = arrow::compute::take_record_batch(&batch, &order).unwrap();
    let error = refused(reversed, &|_| {});
    assert!(error.message().contains("row 1 of a slice is out of order"), "{error}");
    let error = refused(batch.clone(), &|summary| summary.keys.0 = vec![0; 70_000].into());
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    let empty = stories.build(StoryId(2), &schema(), settings()).unwrap();
    assert_eq!(wait(empty.finish()).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn memory_for_open_stories_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built: Vec<_> = (1..=20).map(|id| build(&stories, id, 2).unwrap()).collect();
    let one = wait(stories.open_story(&built[0])).unwrap().memory_bytes();
    let room = one * 3 + one / 2;
    let shelf = LocalShelf::open(Arc::new(LocalDisk), &folder.path().join("stories")).unwrap();
    let spool = folder.path().join("spool");
    let few =
        wait(Stories::open(Arc::new(shelf), Arc::new(LocalDisk), &spool, room, 1 << 20)).unwrap();
    for _ in 0..2 {
        for built in &built {
            check(&few, built).unwrap();
            assert!(few.open_bytes() <= room);
        }
    }
    assert!(few.open_bytes() > one * 2);
    let (first, again) =
        (wait(few.open_story(&built[19])).unwrap(), wait(few.open_story(&built[19])).unwrap());
    assert!(Arc::ptr_eq(&first, &again));
}

#[test]
fn a_spool_on_another_disk_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let shelf = LocalShelf::open(Arc::new(LocalDisk), &folder.path().join("stories")).unwrap();
    let stories = on_shelf(Arc::new(shelf), disk, folder.path()).unwrap();
    let built = build(&stories, 1, 2).unwrap();
    check(&stories, &built).unwrap();
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(folder.path().join("stories/7")).unwrap().count(), 1);
}
