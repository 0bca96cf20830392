//! Incremental backups: stored files, reused files, and removed files.

use std::path::Path;

use stratalog_backup::{backups, keep};
use stratalog_model::{ErrorKind, EventStore as _};
use stratalog_sim::FaultyDisk;

use crate::database::*;

fn objects(disk: &FaultyDisk) -> Vec<String> {
    let names = disk.paths().into_iter().filter(|path| path.starts_with("/backups/files"));
    names.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_stores_what_is_new_and_restores_what_was_there() {
    let (_disk, database) = Database::new(1);
    database.fill().await;
    let there = FaultyDisk::new(2);
    let place = place(&there);
    let first = database.backup(&place, 1_000_000_000).await.unwrap();
    assert_eq!(first.stored_files, first.files);
    assert_eq!(first.stored_bytes, first.bytes);
    let expected = database.rows(0).await;
    assert_eq!(restored(&place, None, &database.definitions).await.unwrap()[0], expected);

    // Nothing has changed.
    let second = database.backup(&place, 2_000_000_000).await.unwrap();
    assert_eq!((second.stored_files, second.stored_bytes), (0, 0));
    assert!(second.name > first.name);

    // The statement is only in the last segment.
    let before = objects(&there);
    database.append(0, 200..205, 4).await.unwrap();
    let third = database.backup(&place, 3_000_000_000).await.unwrap();
    let new: Vec<_> =
        objects(&there).into_iter().filter(|object| !before.contains(object)).collect();
    assert!(new.iter().all(|object| object.starts_with("journal-")), "{new:?}");
    assert!((1..=2).contains(&new.len()), "{new:?}");
    assert_eq!(third.stored_files, new.len() as u64);

    // Each backup still has its own state.
    let latest = database.rows(0).await;
    let at = |name: String| {
        let (place, definitions) = (&place, &database.definitions);
        async move { restored(place, Some(&name), definitions).await.unwrap().remove(0) }
    };
    assert_eq!(at(first.name).await, expected);
    assert_eq!(at(second.name).await, expected);
    assert_eq!(at(third.name).await, latest);
    let error = restored(&place, Some("20200101T000000.000Z"), &database.definitions).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::UndefinedObject);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_backups_go_with_the_files_that_only_they_have() {
    let (_disk, database) = Database::new(1);
    database.fill().await;
    let there = FaultyDisk::new(2);
    let place = place(&there);
    let names = ["a", "b", "c"];
    let mut last = Rows::new();
    for (number, _) in (1..).zip(names) {
        database.append(0, 100 * number..100 * number + 9, number).await.unwrap();
        database.engine().compact(database.definitions[0].id).await.unwrap();
        database.backup(&place, number * 1_000_000_000).await.unwrap();
        last = database.rows(0).await;
    }
    let before = objects(&there).len();
    // Remains of an interrupted backup: a complete file and an unfinished file.
    let left = ["/backups/files/tablet-7-00", "/backups/files/tablet-8-00.building"].map(Path::new);
    left.iter().for_each(|path| lay(&there, path, b"left"));
    let kept = keep(&place, 2).await.unwrap();
    assert_eq!(kept.backups, 1);
    assert!(there.paths().iter().all(|path| !left.contains(&path.as_path())));
    assert!(kept.files > 0 && objects(&there).len() < before);
    assert_eq!(restored(&place, None, &database.definitions).await.unwrap()[0], last);
    let left = backups(&place).await.unwrap();
    assert_eq!(left.len(), 2);
    for backup in left {
        restored(&place, Some(&backup.name), &database.definitions).await.unwrap();
    }
    // Nothing remains to be removed.
    assert_eq!(keep(&place, 2).await.unwrap(), Default::default());
    // During a backup, nobody removes anything.
    let guard = place.guard().await.unwrap();
    assert_eq!(keep(&place, 1).await.unwrap_err().kind(), ErrorKind::ObjectInUse);
    let refused = database.backup(&place, 9_000_000_000).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ObjectInUse);
    guard.end().await;
    database.backup(&place, 9_000_000_000).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_databases_share_a_place_and_no_file() {
    let there = FaultyDisk::new(2);
    let place = place(&there);
    let (_first, one) = Database::new(1);
    let (_second, other) = Database::new(3);
    one.append(0, 0..40, 1).await.unwrap();
    other.append(0, 0..40, 2).await.unwrap();
    for database in [&one, &other] {
        database.engine().compact(database.definitions[0].id).await.unwrap();
    }
    let first = one.backup(&place, 1_000_000_000).await.unwrap();
    let second = other.backup(&place, 2_000_000_000).await.unwrap();
    for (database, saved) in [(&one, first), (&other, second)] {
        let found = restored(&place, Some(&saved.name), &database.definitions).await.unwrap();
        assert_eq!(found[0], database.rows(0).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restored_database_goes_on_and_is_backed_up_itself() {
    let (_disk, database) = Database::new(1);
    database.fill().await;
    let there = FaultyDisk::new(2);
    let place = place(&there);
    database.backup(&place, 1_000_000_000).await.unwrap();
    let second = FaultyDisk::new(3);
    restore_to(&second, &place, None).await.unwrap();
    let heir = Database::open(&second, true, &database.definitions).unwrap();
    assert_eq!(heir.engine().status().committed, database.engine().status().committed);
    heir.append(0, 300..330, 9).await.unwrap();
    heir.engine().compact(heir.definitions[0].id).await.unwrap();
    let saved = heir.backup(&place, 2_000_000_000).await.unwrap();
    assert!(saved.stored_files < saved.files, "{saved:?}");
    let expected = heir.rows(0).await;
    assert_eq!(restored(&place, None, &heir.definitions).await.unwrap()[0], expected);
    // A target with any content is left unchanged.
    let refused = restore_to(&second, &place, None).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ObjectNotInPrerequisiteState);
    assert_eq!(heir.rows(0).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_nobody_wants_any_more_ends() {
    let (_disk, database) = Database::new(1);
    database.fill().await;
    let there = FaultyDisk::new(2);
    let place = place(&there);
    let watch = stratalog_backup::Watch::default();
    watch.cancel();
    let ended = stratalog_backup::save(&database.source, &place, 1, &watch).await.unwrap_err();
    assert_eq!(ended.kind(), ErrorKind::QueryCanceled);
    assert!(backups(&place).await.unwrap().is_empty());
    // The segment holds no events.
    let segments = database.source.events.extents().unwrap().len();
    for number in 0..40 {
        database.append(0, 1000 + number * 20..1020 + number * 20, number).await.unwrap();
    }
    database.engine().compact(database.definitions[0].id).await.unwrap();
    database.engine().release_journal().await.unwrap();
    assert!(database.source.events.extents().unwrap().len() <= segments.max(2));
    database.backup(&place, 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_stays_until_the_hold_ends() {
    let (disk, database) = Database::new(1);
    database.fill().await;
    let (engine, table) = (database.engine(), database.definitions[0].id);
    let held = engine.hold().unwrap();
    let pieces = held.pieces();
    let first = database.source.events.extents().unwrap()[0].path.clone();
    // All pieces are replaced, moved and rewritten.
    for number in 0..30 {
        database.append(0, number * 5..number * 5 + 30, 100 + number).await.unwrap();
    }
    engine.compact(table).await.unwrap();
    engine.release_journal().await.unwrap();
    let named = engine.pieces();
    let gone = |id| named.iter().all(|piece| piece.number != Some(id));
    assert!(pieces.len() > 1 && pieces.iter().all(|piece| gone(piece.id())), "nothing is old");
    for piece in &pieces {
        held.verify(piece).await.unwrap();
    }
    assert_eq!(database.source.events.extents().unwrap()[0].path, first);
    assert!(disk.paths().contains(&first));
    let tablets = pieces.iter().filter(|piece| piece.story().is_none());
    let tablets: Vec<_> = tablets.map(|piece| piece.tablet_path(&held).1).collect();
    drop(held);
    assert!(!tablets.is_empty() && tablets.iter().all(|path| !disk.paths().contains(path)));
    assert!(!disk.paths().contains(&first), "the journal keeps what nobody holds");
    engine.compact(table).await.unwrap();
    let stories = disk.paths();
    let stories = stories.iter().filter(|path| path.starts_with("/data/stories")).count();
    let named = named.iter().filter(|piece| piece.tier.to_string() == "story").count();
    assert_eq!(stories, named);
}
