use std::{path::Path, sync::Arc};

use stratalog_journal::LocalDisk;
use stratalog_model::{Disk, ErrorKind};

use super::AllowedPlaces;

#[test]
fn folders_are_compared_without_links_and_dots() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let (data, listed, other) = (root.join("data"), root.join("listed"), root.join("other"));
    for folder in [&data, &listed, &other] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::os::unix::fs::symlink(&other, listed.join("link")).unwrap();
    std::os::unix::fs::symlink(&listed, root.join("alias")).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(LocalDisk);
    let list = format!("{}, s3://lake/backups", listed.display());
    let places = AllowedPlaces::new(&list, &data);
    for allowed in [
        "data/backups",
        "data/backups/a/b",
        "listed",
        "listed/new/one",
        "alias/new",
        "other/../listed/x",
    ] {
        assert!(places.folder(&disk, &root.join(allowed)).is_ok(), "{allowed}");
    }
    for refused in [
        "data",
        "data/tablets",
        "data/backupsx",
        "other",
        "listed/link/x",
        "listed/../other",
        "listedx",
        "listed/new/../../other",
        "data/backups/../tablets",
        "listed/link/../x/../../etc",
    ] {
        let error = places.folder(&disk, &root.join(refused)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InsufficientPrivilege, "{refused}");
    }
    assert!(places.folder(&disk, Path::new("listed")).is_err());
}

#[test]
fn urls_of_stores_are_compared_by_bucket_and_whole_segments() {
    let places = AllowedPlaces::new("s3://lake/backups, gs://other", Path::new("/data"));
    for allowed in
        ["s3://lake/backups", "s3://lake/backups/", "s3://lake/backups/a/b", "gs://other/x"]
    {
        assert!(places.remote(allowed).is_ok(), "{allowed}");
    }
    for refused in [
        "s3://lake",
        "s3://lake/backupsx",
        "s3://lake2/backups",
        "gs://lake/backups",
        "s3://lake/backups/../x",
        "s3://lake/backups/%2e%2e/x",
        "s3://lake/backups/..%2fx",
        "s3://u:p@lake/backups",
        "s3://lake/backups?x=1",
        "http://169.254.169.254/latest",
        "s3://lake:80/backups",
    ] {
        assert!(places.remote(refused).is_err(), "{refused}");
    }
}

#[test]
fn the_list_is_of_paths_and_urls() {
    for usable in ["", "/a, /b", "file:///a", "s3://bucket/prefix"] {
        assert!(AllowedPlaces::check(usable).is_ok(), "{usable}");
    }
    for unusable in ["a", "file://host/a/b", "s3://bucket/a?x=1", "s3:///x"] {
        assert!(AllowedPlaces::check(unusable).is_err(), "{unusable}");
    }
}
