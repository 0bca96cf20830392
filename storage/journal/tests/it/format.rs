//! Files of released formats stay readable; files of other formats are refused.

use std::{fs, path::Path};

use bytes::Bytes;
use stratalog_journal::JournalSettings;
use stratalog_model::{Durability, ErrorKind, Frame, Log, Lsn, StatementId};

use crate::support::*;

const FIRST: &str = "00000000000000000001.journal";

/// The frames of the fixture.
fn fixture_frames() -> Vec<Frame> {
    let mut frames: Vec<Frame> = (1..=8).map(|n| frame(n, (n as usize * 41) % 300)).collect();
    frames.push(Frame { payload: Bytes::from_static(b"the end"), ..frame(9, 0) });
    frames
}

fn fixture_settings() -> JournalSettings {
    JournalSettings { segment_bytes_max: 8 << 10, frame_bytes_max: 1 << 10, ..small() }
}

fn fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1.journal")
}

#[test]
fn format_1_is_read() {
    let directory = tempfile::tempdir().unwrap();
    fs::copy(fixture(), directory.path().join(FIRST)).unwrap();
    let journal = open_at(directory.path(), fixture_settings()).unwrap();
    let found = contents(&journal).unwrap();
    let expected: Vec<_> = (1..).map(Lsn).zip(fixture_frames()).collect();
    assert_eq!(found, expected);
}

#[test]
fn format_1_is_what_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open_at(directory.path(), fixture_settings()).unwrap();
    for frame in fixture_frames() {
        append(&journal, frame, Durability::Disk).unwrap();
    }
    journal.close().unwrap();
    let written = fs::read(directory.path().join(FIRST)).unwrap();
    if std::env::var_os("STRATALOG_WRITE_FIXTURE").is_some() {
        fs::write(fixture(), &written).unwrap();
    }
    // A difference here is a new format: keep the old fixture, and raise the version.
    assert!(written == fs::read(fixture()).unwrap(), "the format has changed");
}

#[test]
fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut bytes = fs::read(fixture()).unwrap();
    bytes[8] = 2;
    let checksum = crc32c::crc32c(&bytes[..4092]);
    bytes[4092..4096].copy_from_slice(&checksum.to_le_bytes());
    fs::write(directory.path().join(FIRST), bytes).unwrap();
    let error = open_at(directory.path(), fixture_settings()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ObjectNotInPrerequisiteState);
    assert!(error.message().contains("format version 2"), "{error}");
}

#[test]
fn a_foreign_file_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    drop(open_at(directory.path(), small()).unwrap());
    fs::write(directory.path().join("holiday.jpg"), b"x").unwrap();
    let error = open_at(directory.path(), small()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ObjectNotInPrerequisiteState);
    assert!(error.message().contains("holiday.jpg"), "{error}");
    fs::remove_file(directory.path().join("holiday.jpg")).unwrap();
    assert!(open_at(directory.path(), small()).is_ok());
}

#[test]
fn something_else_under_a_segments_name_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(FIRST), vec![7; 10_000]).unwrap();
    let error = open_at(directory.path(), small()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert!(error.message().contains(FIRST), "{error}");
}

#[test]
fn another_partitions_journal_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(open_at(directory.path(), small()).unwrap());
    let other = JournalSettings { partition: stratalog_model::PartitionId(4), ..small() };
    assert_eq!(kind(open_at(directory.path(), other)), Some(ErrorKind::DataCorrupted));
}

#[test]
fn a_spare_that_a_crash_left_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let journal = open_at(directory.path(), small()).unwrap();
    let frame = Frame { statement: StatementId(0), ..frame(3, 30) };
    append(&journal, frame, Durability::Disk).unwrap();
    drop(journal);
    fs::write(directory.path().join("spare.journal"), b"half made").unwrap();
    let journal = open_at(directory.path(), small()).unwrap();
    assert_eq!(contents(&journal).unwrap().len(), 1);
    assert!(!directory.path().join("spare.journal").exists());
}
