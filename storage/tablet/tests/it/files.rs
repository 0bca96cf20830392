//! Written tablets are read back, and other files are reported.

use std::{collections::BTreeSet, fs};

use stratalog_model::{ErrorKind, SchemaVersion};
use stratalog_tablet::{BlockSummary, TabletId};

use crate::fixture::*;

#[test]
fn blocks_are_read_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let tablets = local(folder.path());
    let (built, heads) = build(&tablets, 5, 60).unwrap();
    assert_eq!((built.blocks, built.rows), (60, 60 * 61 / 2));
    assert_eq!(tablets.files().unwrap(), [(TabletId(5), built.bytes)].into());
    check(&tablets, &built).unwrap();
    tablets.tablet(&built).unwrap().verify().unwrap();
    // Reads again, from sled.
    drop(tablets);
    let tablets = local(folder.path());
    let tablet = tablets.tablet(&built).unwrap();
    assert_eq!(tablets.blocks(&tablet).unwrap(), heads);
    check(&tablets, &built).unwrap();
}

#[test]
fn payloads_that_do_not_shrink_are_kept_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let tablets = local(folder.path());
    let mut random = stratalog_sim::Random::new(3);
    let noise: Vec<u8> = (0..5000).map(|_| random.any() as u8).collect();
    let mut builder = tablets.build(TabletId(1), CHRONICLE, SchemaVersion(1)).unwrap();
    for payload in [noise.as_slice(), &[], &[0; 100_000]] {
        let summary = BlockSummary { rows: 1, ..BlockSummary::default() };
        builder.push(summary, &[section(payload, 8)]).unwrap();
    }
    let (built, _) = builder.finish().unwrap();
    let tablet = tablets.tablet(&built).unwrap();
    let heads = tablets.blocks(&tablet).unwrap();
    let read: Vec<_> = heads.iter().map(|head| tablet.read_all(head).unwrap().remove(0)).collect();
    assert_eq!(read, [noise, Vec::new(), vec![0; 100_000]]);
    assert!(heads[0].bytes() > 5000 && heads[2].bytes() < 500);
}

#[test]
fn unfinished_files_go_and_foreign_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tablets = local(folder.path());
    let mut builder = tablets.build(TabletId(9), CHRONICLE, SchemaVersion(1)).unwrap();
    builder.push(summary(1), &[section(b"never finished", 1)]).unwrap();
    drop(builder);
    drop(tablets);
    let file = |name: &str| folder.path().join("tablets").join(name);
    assert!(file("00000000000000000009.building").exists());
    drop(local(folder.path()));
    assert!(!file("00000000000000000009.building").exists());
    fs::write(file("notes.txt"), "mine").unwrap();
    let disk = std::sync::Arc::new(stratalog_journal::LocalDisk);
    let error = stratalog_tablet::Tablets::open(disk, &folder.path().join("tablets"), None);
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ObjectNotInPrerequisiteState);
    assert!(error.message().contains("notes.txt"), "{error}");
    assert!(file("notes.txt").exists());
}

#[test]
fn only_what_the_manifest_names_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let tablets = local(folder.path());
    let built: Vec<_> = (1..=4).map(|id| build(&tablets, id, 3).unwrap().0).collect();
    let kept: BTreeSet<_> = [TabletId(2), TabletId(4)].into();
    assert_eq!(tablets.keep_only(&kept).unwrap(), 2);
    assert_eq!(tablets.files().unwrap().into_keys().collect::<BTreeSet<_>>(), kept);
    check(&tablets, &built[1]).unwrap();
    let error = tablets.tablet(&built[0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DataCorrupted);
    assert!(error.message().ends_with("is missing"), "{error}");
    // A reader continues after the removal of its tablet.
    let tablet = tablets.tablet(&built[3]).unwrap();
    tablets.remove(TabletId(4)).unwrap();
    assert_eq!(tablets.blocks(&tablet).unwrap().len(), 3);
    tablet.verify().unwrap();
    assert!(tablets.build(TabletId(2), CHRONICLE, SchemaVersion(1)).is_err(), "it is in use");
    check(&tablets, &built[1]).unwrap();
}
