//! Changed bits and missing files: a restore names the file, and makes no database.

use std::path::Path;

use stratalog_model::{Disk as _, ErrorKind};
use stratalog_sim::FaultyDisk;

use crate::database::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_bit_that_changed_is_found() {
    let (_disk, database) = Database::new(1);
    database.fill().await;
    let there = FaultyDisk::new(2);
    let place = place(&there);
    database.backup(&place, 1_000_000_000).await.unwrap();
    let expected = database.rows(0).await;
    let mut flips = 0;
    for path in there.paths() {
        if path.ends_with("LOCK") {
            continue;
        }
        let sound = there.contents(&path).unwrap();
        let step = (sound.len() / 40).max(1);
        for at in (0..sound.len()).step_by(step).chain([sound.len() - 1]) {
            let mut damaged = sound.clone();
            damaged[at] ^= 1 << (at % 8);
            there.overwrite(&path, damaged);
            let target = FaultyDisk::new(3);
            let error = restore_to(&target, &place, None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{} {at}", path.display());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(error.message().contains(&name), "{name}: {error}");
            assert!(!target.exists(Path::new("/data/FORMAT")).unwrap());
            flips += 1;
        }
        for len in [0, sound.len() / 2, sound.len() - 1] {
            there.overwrite(&path, sound[..len].to_vec());
            let error = restore_to(&FaultyDisk::new(3), &place, None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{} {len}", path.display());
        }
        there.overwrite(&path, sound);
    }
    assert!(flips > 200, "{flips}");
    assert_eq!(restored(&place, None, &database.definitions).await.unwrap()[0], expected);
    for path in there.paths().into_iter().filter(|path| path.starts_with("/backups/files")) {
        let sound = there.contents(&path).unwrap();
        there.remove_file(&path).unwrap();
        let error = restore_to(&FaultyDisk::new(3), &place, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{}", path.display());
        there.overwrite(&path, sound);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_of_the_database_is_not_backed_up() {
    for file in ["tablets", "stories", "journal"] {
        let (disk, database) = Database::new(1);
        database.fill().await;
        let there = FaultyDisk::new(2);
        let place = place(&there);
        let folder = Path::new("/data").join(file);
        let mut paths = disk.paths().into_iter();
        let path = paths
            .find(|path| path.starts_with(&folder) && path.extension().is_some_and(|e| e != "lock"))
            .unwrap();
        let mut bytes = disk.contents(&path).unwrap();
        // In a payload, in the head of a block, in a row group.
        let at = match file {
            "journal" => 4096 + 200,
            "tablets" => 64 + 24,
            _ => bytes.len() / 2,
        };
        bytes[at] ^= 16;
        disk.overwrite(&path, bytes);
        let made = database.backup(&place, 1).await;
        let kind = made.as_ref().map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::DataCorrupted), "{}", path.display());
        assert!(stratalog_backup::backups(&place).await.unwrap().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_lies_is_found_before_the_backup_counts() {
    for kind in ["building", "backup.building"] {
        for nth in 1..8 {
            let (_disk, database) = Database::new(1);
            database.fill().await;
            let there = FaultyDisk::new(2);
            let place = place(&there);
            there.flip_write(kind, nth);
            let made = database.backup(&place, 1).await;
            if there.is_flipping() {
                break;
            }
            let error = made.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::DataCorrupted, "{error}");
            assert!(stratalog_backup::backups(&place).await.unwrap().is_empty());
            database.backup(&place, 1).await.unwrap();
            let found = restored(&place, None, &database.definitions).await.unwrap();
            assert_eq!(found[0], database.rows(0).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_interrupted_backup_left_is_used_when_it_is_right_and_only_then() {
    let (_disk, database) = Database::new(1);
    database.fill().await;
    let there = FaultyDisk::new(2);
    let first = database.backup(&place(&there), 1_000_000_000).await.unwrap();
    let left: Vec<_> =
        there.paths().into_iter().filter(|path| path.starts_with("/backups/files")).collect();
    let other = FaultyDisk::new(3);
    for (number, path) in left.iter().enumerate() {
        let mut bytes = there.contents(path).unwrap();
        match number % 4 {
            0 => bytes[0] ^= 1,
            1 => bytes.truncate(bytes.len() / 2),
            _ => {}
        }
        lay(&other, path, &bytes);
    }
    let wrong = left.len().div_ceil(4) + (left.len() - 1).div_ceil(4);
    let again = database.backup(&place(&other), 2_000_000_000).await.unwrap();
    assert_eq!((again.files, again.stored_files), (first.files, wrong as u64));
    let found = restored(&place(&other), None, &database.definitions).await.unwrap();
    assert_eq!(found[0], database.rows(0).await);
}
