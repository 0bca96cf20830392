use stratalog_journal::{Journal, JournalSettings, LocalDisk};
use stratalog_metrics::Metrics;
use stratalog_sim::{Crash, FaultyDisk};
use stratalog_story::RemoteSettings;
use stratalog_visor_core::clock::{ClockSettings, MasterClock, SystemTimeSource};

use super::*;
use crate::embedded::{DurableParts, StoryPlace};

fn disk() -> Arc<dyn Disk> {
    Arc::new(LocalDisk)
}

#[test]
fn a_missing_or_empty_directory_becomes_ours_and_opens_again() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("a/b");
    let open = || DataDirectory::open(&disk(), &path).unwrap();
    let first = open();
    assert!(!first.is_made() && first.catalog().is_dir() && first.journal().is_dir());
    assert!(!path.join(FORMAT).exists(), "its parts are not made yet");
    std::fs::write(first.clock().join("clock"), "half made").unwrap();
    drop(first);
    let mut second = open();
    assert!(!second.is_made(), "the first start was interrupted");
    second.complete(&disk()).unwrap();
    drop(second);
    assert!(open().is_made() && !path.join(FORMAT_NEW).exists());
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
fn parts_without_a_format_have_lost_it() {
    let path = tempfile::tempdir().unwrap();
    DataDirectory::open(&disk(), path.path()).unwrap().complete(&disk()).unwrap();
    std::fs::remove_file(path.path().join(FORMAT)).unwrap();
    let error = DataDirectory::open(&disk(), path.path()).unwrap_err();
    assert!(matches!(error, StartError::FormatMissing { .. }), "{error}");
    let error = DataDirectory::check_made(&disk(), path.path()).unwrap_err();
    assert!(matches!(error, StartError::FormatMissing { .. }), "{error}");
    // The complete directory can still be checked.
    let (_, wrong) = DataDirectory::hold(&disk(), path.path()).unwrap();
    assert!(matches!(wrong, Some(StartError::DamagedFormat { .. })));
    // A directory that has only some of the parts has no database.
    std::fs::remove_dir_all(path.path().join(CLOCK)).unwrap();
    let error = DataDirectory::open(&disk(), path.path()).unwrap_err();
    assert!(matches!(error, StartError::ForeignDirectory { .. }), "{error}");
}

#[test]
fn formats_that_are_not_known_are_refused_and_nothing_is_changed() {
    for (version, newer) in [(0, false), (FORMAT_VERSION + 1, true), (u32::MAX, true)] {
        let path = tempfile::tempdir().unwrap();
        DataDirectory::open(&disk(), path.path()).unwrap().complete(&disk()).unwrap();
        std::fs::write(path.path().join(FORMAT), format_text(version)).unwrap();
        for error in [
            DataDirectory::open(&disk(), path.path()).unwrap_err(),
            DataDirectory::hold(&disk(), path.path()).unwrap_err(),
        ] {
            assert_eq!(matches!(error, StartError::NewerFormat { .. }), newer, "{error}");
            assert_eq!(matches!(error, StartError::UnknownFormat { .. }), !newer, "{error}");
        }
        let text = std::fs::read_to_string(path.path().join(FORMAT)).unwrap();
        assert_eq!(text, format_text(version));
        assert!(!path.path().join(FORMAT_NEW).exists());
    }
}

#[test]
fn a_format_of_version_1_beside_data_of_version_2_is_refused_and_nothing_is_changed() {
    for (part, name) in [("tablets", "00000000000000000001.tablet"), ("stories", "7")] {
        let path = tempfile::tempdir().unwrap();
        DataDirectory::open(&disk(), path.path()).unwrap().complete(&disk()).unwrap();
        std::fs::create_dir_all(path.path().join(part).join(name)).unwrap();
        std::fs::write(path.path().join(FORMAT), format_text(1)).unwrap();
        let error = DataDirectory::open(&disk(), path.path()).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StartError::OlderFormat { part: found, .. } if found == part));
        assert!(text.contains(&format!("has {part} of version 2")), "{text}");
        let (directory, wrong) = DataDirectory::hold(&disk(), path.path()).unwrap();
        assert!(matches!(wrong, Some(StartError::OlderFormat { .. })));
        assert!(directory.has_manifest(), "a check reads the data as version 2");
        let text = std::fs::read_to_string(path.path().join(FORMAT)).unwrap();
        assert_eq!(text, format_text(1));
        assert!(!path.path().join(FORMAT_NEW).exists());
    }
}

/// Stops the disk after each step of a first start, one step per run: the next start must always
/// work.
#[test]
fn a_power_cut_after_any_step_of_the_first_start_leaves_a_directory_that_starts() {
    let settings = small_journals();
    let start = |disk: &FaultyDisk| -> Result<bool, StartError> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut directory = DataDirectory::open(&disk, Path::new("/data"))?;
        let made = directory.is_made();
        drop(DurableParts::open(
            &disk,
            &mut directory,
            &settings,
            &settings,
            StoryPlace { url: "", remote: RemoteSettings::default(), cache_bytes: 0 },
            ClockSettings::default(),
            &Metrics::new(),
        )?);
        Ok(made)
    };
    for crash in [Crash::Kill, Crash::PowerCut] {
        let mut interrupted = 0;
        for steps in 1.. {
            let disk = FaultyDisk::new(steps);
            disk.halt_after(steps);
            let ended = start(&disk).is_ok();
            let disk = disk.crash(crash);
            let made = start(&disk).unwrap_or_else(|error| panic!("{steps}, {crash:?}: {error}"));
            assert!(made || !ended, "{steps}, {crash:?}: an end that is forgotten");
            assert!(start(&disk.crash(crash)).unwrap(), "{steps}, {crash:?}");
            interrupted += u64::from(!made);
            if ended {
                break;
            }
        }
        assert!(interrupted > 10, "{interrupted}");
    }
}

/// Stops the disk after each step of the upgrade of a directory of version 1, one step per run: the
/// next start must always work.
#[test]
fn a_power_cut_after_any_step_of_completing_version_1_leaves_a_directory_that_starts() {
    let settings = small_journals();
    let start = |disk: &FaultyDisk| -> Result<bool, StartError> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut directory = DataDirectory::open(&disk, Path::new("/data"))?;
        assert!(directory.is_made());
        let completed = directory.has_manifest();
        drop(DurableParts::open(
            &disk,
            &mut directory,
            &settings,
            &settings,
            StoryPlace { url: "", remote: RemoteSettings::default(), cache_bytes: 0 },
            ClockSettings::default(),
            &Metrics::new(),
        )?);
        Ok(completed)
    };
    for crash in [Crash::Kill, Crash::PowerCut] {
        for steps in 0.. {
            let disk = FaultyDisk::new(steps);
            make_version_1(&disk, &settings);
            disk.halt_after(steps);
            let ended = start(&disk).is_ok();
            let disk = disk.crash(crash);
            let completed = start(&disk).unwrap_or_else(|error| panic!("{steps}: {error}"));
            assert!(completed || !ended, "{steps}, {crash:?}: an end that is forgotten");
            assert!(start(&disk.crash(crash)).unwrap(), "{steps}, {crash:?}");
            if ended {
                assert!(steps > 10, "{steps}");
                break;
            }
        }
    }
}

fn small_journals() -> JournalSettings {
    JournalSettings {
        segment_bytes_max: 64 << 10,
        frame_bytes_max: 16 << 10,
        free_bytes_min: 0,
        ..JournalSettings::default()
    }
}

/// Makes a complete directory of version 1, which has no manifest and no tablets.
fn make_version_1(disk: &FaultyDisk, settings: &JournalSettings) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let root = Path::new("/data");
    for part in [CATALOG, JOURNAL] {
        drop(Journal::open(Arc::clone(&shared), root.join(part), settings.clone()).unwrap());
    }
    shared.create_dir_all(&root.join(CLOCK)).unwrap();
    let source = Arc::new(SystemTimeSource::default());
    let settings = ClockSettings::default();
    drop(MasterClock::open(Arc::clone(&shared), &root.join(CLOCK), source, settings).unwrap());
    let format = shared.create(&root.join(FORMAT)).unwrap();
    format.write_all_at(format_text(1).as_bytes(), 0).unwrap();
    format.sync_all().unwrap();
    shared.sync_dir(root).unwrap();
    shared.sync_dir(Path::new("/")).unwrap();
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
    DataDirectory::open(&disk(), path.path()).unwrap().complete(&disk()).unwrap();
    let format = path.path().join(FORMAT);
    std::fs::write(&format, format_text(FORMAT_VERSION + 1)).unwrap();
    let error = DataDirectory::open(&disk(), path.path()).unwrap_err();
    assert!(matches!(error, StartError::NewerFormat { found, .. } if found == FORMAT_VERSION + 1));
    let flipped = format_text(FORMAT_VERSION).replace("version 2", "version 3");
    for text in [flipped.as_str(), "", "something else\n"] {
        std::fs::write(&format, text).unwrap();
        let error = DataDirectory::open(&disk(), path.path()).unwrap_err();
        assert!(matches!(error, StartError::DamagedFormat { .. }), "{text:?}: {error}");
    }
}
