//! Damaged bytes never become wrong rows (CL-6).

use std::{fs, path::PathBuf};

use stratalog_model::ErrorKind;
use stratalog_story::{BuiltStory, Stories};

use crate::fixture::*;

fn path(folder: &tempfile::TempDir, id: u64) -> PathBuf {
    folder.path().join(format!("stories/7/{id:020}.parquet"))
}

/// Performs all kinds of reads.
fn read(stories: &Stories, built: &BuiltStory) -> stratalog_model::Result<()> {
    check(stories, built)?;
    let story = wait(stories.open_story(built))?;
    let keys = [stratalog_story::KeyValues {
        column: stratalog_model::ColumnId(4),
        values: std::sync::Arc::new(arrow::array::StringViewArray::from(vec!["host-00010"])),
    }];
    for head in story.groups() {
        assert!(wait(story.may_hold(head.number, &keys))?);
    }
    wait(story.check())
}

#[test]
fn every_flipped_bit_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built = build(&stories, 1, 2).unwrap();
    drop(stories);
    let bytes = fs::read(path(&folder, 1)).unwrap();
    assert!(bytes.len() > 4000);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        fs::write(path(&folder, 1), &changed).unwrap();
        let error = read(&local(folder.path()), &built).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "at {at}: {error}");
        assert!(error.message().contains("00000000000000000001.parquet"), "{error}");
        assert!(
            error.hint().is_some()
                && error.detail().is_some_and(|detail| detail.starts_with("bytes "))
        );
    }
    fs::write(path(&folder, 1), &bytes).unwrap();
    read(&local(folder.path()), &built).unwrap();
}

#[test]
fn damage_is_told_with_its_place_and_spares_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let mut builder = stories.build(stratalog_story::StoryId(1), &schema(), settings()).unwrap();
    for group in 0..3 {
        let (batch, summary) = slice(1, group, 400, 100);
        builder.push(&batch, summary).unwrap();
    }
    let built = wait(builder.finish()).unwrap();
    assert!(built.tail_at > 4 * 65_536, "{built:?}");
    let mut bytes = fs::read(path(&folder, 1)).unwrap();
    bytes[70_000] ^= 4;
    fs::write(path(&folder, 1), &bytes).unwrap();
    let story = wait(stories.open_story(&built)).unwrap();
    let outcomes: Vec<_> = (0..3).map(|group| wait(story.read(group, &EVERYTHING, None))).collect();
    let failed: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].message().contains("is damaged at offset 65536"), "{}", failed[0]);
    assert_eq!(failed[0].detail(), Some("bytes 65536..131072"));
    assert!(wait(story.check()).is_err());
    assert_eq!(outcomes[2].as_ref().unwrap(), &slice(1, 2, 400, 100).0);
}

#[test]
fn cut_longer_and_foreign_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let stories = local(folder.path());
    let built = build(&stories, 1, 2).unwrap();
    let other = build(&stories, 2, 2).unwrap();
    drop(stories);
    let bytes = fs::read(path(&folder, 1)).unwrap();
    let open = || read(&local(folder.path()), &built).unwrap_err();
    for len in [0, 1, 4, built.tail_at as usize, bytes.len() / 2, bytes.len() - 1] {
        fs::write(path(&folder, 1), &bytes[..len]).unwrap();
        assert_eq!(open().kind(), ErrorKind::DataCorrupted);
    }
    let longer: Vec<u8> = bytes.iter().copied().chain([0]).collect();
    fs::write(path(&folder, 1), longer).unwrap();
    assert_eq!(open().kind(), ErrorKind::DataCorrupted);
    fs::copy(path(&folder, 2), path(&folder, 1)).unwrap();
    assert_eq!(open().kind(), ErrorKind::DataCorrupted);
    // A complete story with valid checksums, but another story than the manifest's.
    let meant = BuiltStory { id: built.id, ..other };
    let error = read(&local(folder.path()), &meant).unwrap_err();
    assert!(error.message().contains("not the story in the manifest"), "{error}");
    fs::write(path(&folder, 1), &bytes).unwrap();
    let stories = local(folder.path());
    read(&stories, &built).unwrap();
    for meant in [
        BuiltStory { rows: built.rows + 1, ..built },
        BuiltStory { groups: built.groups + 1, ..built },
        BuiltStory { ticks: (0, 0), ..built },
        BuiltStory { gsns: (0, 0), ..built },
        BuiltStory { schema_version: stratalog_model::SchemaVersion(4), ..built },
        BuiltStory { bytes: built.bytes - 1, ..built },
        BuiltStory { tail_at: built.tail_at + 1, ..built },
        BuiltStory { tail_at: u64::MAX, ..built },
        BuiltStory { checksum: built.checksum ^ 1, ..built },
    ] {
        let error = wait(stories.open_story(&meant)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{meant:?}");
    }
    read(&stories, &built).unwrap();
}
