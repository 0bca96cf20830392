use stratalog_journal::LocalDisk;

use super::*;

fn disk() -> Arc<dyn Disk> {
    Arc::new(LocalDisk)
}

#[test]
fn a_missing_or_empty_directory_becomes_ours_and_opens_again() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a/b");
    for _ in 0..2 {
        let directory = DataDirectory::open(&disk(), &path).unwrap();
        assert!(directory.catalog().is_dir() && directory.journal().is_dir());
    }
    assert_eq!(std::fs::read_to_string(path.join(FORMAT)).unwrap(), format_text(FORMAT_VERSION));
}

#[test]
fn a_foreign_directory_is_named_and_left_as_it_was() {
    let path = tempfile::tempdir().unwrap();
    std::fs::write(path.path().join("thesis.tex"), "x").unwrap();
    let error = DataDirectory::open(&disk(), path.path()).unwrap_err();
    assert!(matches!(&error, StartError::ForeignDirectory { entry, .. } if entry == "thesis.tex"));
    assert_eq!(std::fs::read_dir(path.path()).unwrap().count(), 1);
}

#[test]
fn an_interrupted_first_start_is_no_foreign_directory() {
    let path = tempfile::tempdir().unwrap();
    std::fs::write(path.path().join(LOCK), "1").unwrap();
    std::fs::write(path.path().join(FORMAT_NEW), "half").unwrap();
    DataDirectory::open(&disk(), path.path()).unwrap();
}

#[test]
fn a_second_holder_is_told_who_the_first_is() {
    let path = tempfile::tempdir().unwrap();
    let first = DataDirectory::open(&disk(), path.path()).unwrap();
    let error = DataDirectory::open(&disk(), path.path()).unwrap_err();
    let own = std::process::id();
    assert!(matches!(error, StartError::DirectoryLocked { holder: Some(pid), .. } if pid == own));
    drop(first);
    DataDirectory::open(&disk(), path.path()).unwrap();
}

#[test]
fn newer_and_damaged_formats_are_told_apart() {
    let path = tempfile::tempdir().unwrap();
    drop(DataDirectory::open(&disk(), path.path()).unwrap());
    let format = path.path().join(FORMAT);
    std::fs::write(&format, format_text(FORMAT_VERSION + 1)).unwrap();
    let error = DataDirectory::open(&disk(), path.path()).unwrap_err();
    assert!(matches!(error, StartError::NewerFormat { found, .. } if found == FORMAT_VERSION + 1));
    let flipped = format_text(FORMAT_VERSION).replace("version 1", "version 3");
    for text in [flipped.as_str(), "", "something else\n"] {
        std::fs::write(&format, text).unwrap();
        let error = DataDirectory::open(&disk(), path.path()).unwrap_err();
        assert!(matches!(error, StartError::DamagedFormat { .. }), "{text:?}: {error}");
    }
}
