//! Each call to a disk fails once, or is the last call, during a backup and a restore.

use std::path::Path;

use stratalog_backup::backups;
use stratalog_model::{Disk as _, ErrorKind};
use stratalog_sim::{Crash, Failure, FaultyDisk, Operation};

use crate::database::*;

/// Checks that every existing backup restores its content.
async fn check(there: &FaultyDisk, database: &Database, expected: [&Rows; 2]) {
    let place = place(there);
    let found = backups(&place).await.unwrap();
    assert!(!found.is_empty() && found.len() <= 2, "{}", found.len());
    for (backup, expected) in found.iter().zip(expected) {
        let rows = restored(&place, Some(&backup.name), &database.definitions).await.unwrap();
        assert_eq!(rows[0], *expected, "{}", backup.name);
    }
}

/// A database, the state at its first backup, and the state at the second backup.
async fn story(seed: u64) -> (Database, FaultyDisk, Rows) {
    let (_disk, database) = Database::new(seed);
    database.fill().await;
    let there = FaultyDisk::new(seed);
    database.backup(&place(&there), 1_000_000_000).await.unwrap();
    let first = database.rows(0).await;
    database.append(0, 150..180, 7).await.unwrap();
    database.engine().flush_all(&database).await;
    database.append(0, 170..190, 8).await.unwrap();
    (database, there, first)
}

trait FlushAll {
    async fn flush_all(&self, database: &Database);
}

impl FlushAll for stratalog_engine::Engine {
    async fn flush_all(&self, database: &Database) {
        use stratalog_model::EventStore as _;
        self.compact(database.definitions[0].id).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_whose_place_fails_is_made_or_is_not_there() {
    for failure in [Failure::Device, Failure::Full, Failure::ReadOnly] {
        let mut failed = 0;
        for nth in 1.. {
            let (database, there, first) = story(nth).await;
            let second = database.rows(0).await;
            there.fail_any(nth, failure);
            let made = database.backup(&place(&there), 2_000_000_000).await;
            let unmet = there.is_failing();
            there.fail_any(u64::MAX, failure);
            if let Err(error) = &made {
                let told = [ErrorKind::Io, ErrorKind::DiskFull, ErrorKind::DataCorrupted];
                assert!(told.contains(&error.kind()), "{nth}: {error}");
                failed += 1;
            }
            let after = match nth % 2 {
                0 => there.crash(Crash::PowerCut),
                _ => there.clone(),
            };
            check(&after, &database, [&first, &second]).await;
            if made.is_ok() {
                assert_eq!(backups(&place(&after)).await.unwrap().len(), 2);
            }
            // The remains do no harm.
            let again = database.backup(&place(&after), 3_000_000_000).await.unwrap();
            let found = restored(&place(&after), Some(&again.name), &database.definitions).await;
            assert_eq!(found.unwrap()[0], second);
            stratalog_backup::keep(&place(&after), 1).await.unwrap();
            let found = restored(&place(&after), None, &database.definitions).await;
            assert_eq!(found.unwrap()[0], second);
            if unmet {
                break;
            }
        }
        println!("{failed} calls failed with {failure:?}");
        assert!(failed > 15, "{failure:?}: {failed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_ends_at_any_call_is_whole_or_not_there() {
    for crash in [Crash::Kill, Crash::PowerCut] {
        for nth in 1.. {
            let (database, there, first) = story(nth).await;
            let second = database.rows(0).await;
            there.halt_after(nth);
            let made = database.backup(&place(&there), 2_000_000_000).await;
            let unmet = !there.is_halted();
            assert_eq!(made.is_ok(), unmet);
            let after = there.crash(crash);
            check(&after, &database, [&first, &second]).await;
            database.backup(&place(&after), 3_000_000_000).await.unwrap();
            let found = restored(&place(&after), None, &database.definitions).await.unwrap();
            assert_eq!(found[0], second);
            if unmet {
                println!("{nth} calls");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removal_that_ends_at_any_call_leaves_the_newest_whole() {
    for nth in 1.. {
        let (database, there, _) = story(nth).await;
        database.backup(&place(&there), 2_000_000_000).await.unwrap();
        let second = database.rows(0).await;
        there.halt_after(nth);
        stratalog_backup::keep(&place(&there), 1).await.ok();
        let unmet = !there.is_halted();
        let after = there.crash(Crash::PowerCut);
        for backup in backups(&place(&after)).await.unwrap() {
            restored(&place(&after), Some(&backup.name), &database.definitions).await.unwrap();
        }
        let found = restored(&place(&after), None, &database.definitions).await.unwrap();
        assert_eq!(found[0], second);
        if unmet {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_that_fails_or_ends_at_any_call_makes_a_whole_database_or_none() {
    let (database, there, _) = story(1).await;
    database.backup(&place(&there), 2_000_000_000).await.unwrap();
    let expected = database.rows(0).await;
    let format = Path::new("/data/FORMAT");
    for end in [None, Some(Crash::Kill), Some(Crash::PowerCut)] {
        let mut failed = 0;
        for nth in 1.. {
            let target = FaultyDisk::new(nth);
            match end {
                Some(_) => target.halt_after(nth),
                None => target.fail_any(nth, Failure::Device),
            }
            let made = restore_to(&target, &place(&there), None).await;
            failed += u64::from(made.is_err());
            let unmet = if end.is_some() { !target.is_halted() } else { target.is_failing() };
            let after = target.crash(end.unwrap_or(Crash::PowerCut));
            let whole = after.exists(format).unwrap();
            assert!(whole || made.is_err(), "{end:?} {nth}");
            if whole {
                let heir = Database::open(&after, true, &database.definitions).unwrap();
                assert_eq!(heir.rows(0).await, expected, "{end:?} {nth}");
            } else if after.exists(Path::new("/data/FORMAT.restoring")).unwrap() {
                let again = restore_to(&after, &place(&there), None).await.unwrap_err();
                assert_eq!(again.kind(), ErrorKind::ObjectNotInPrerequisiteState);
            }
            if unmet {
                break;
            }
        }
        println!("{failed} restores failed, {end:?}");
        assert!(failed > 30, "{failed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_cannot_be_read_fails_its_backup_only() {
    for operation in [Operation::Open, Operation::Read] {
        for nth in 1.. {
            let (disk, database) = Database::new(nth);
            database.fill().await;
            let there = FaultyDisk::new(nth);
            disk.fail(operation, nth, Failure::Device);
            let made = database.backup(&place(&there), 1_000_000_000).await;
            let Err(error) = made else {
                assert!(nth > 5, "{nth}");
                break;
            };
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            assert!(backups(&place(&there)).await.unwrap().is_empty());
            database.append(0, 150..160, 9).await.unwrap();
            database.backup(&place(&there), 2_000_000_000).await.unwrap();
            let found = restored(&place(&there), None, &database.definitions).await.unwrap();
            assert_eq!(found[0], database.rows(0).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restore_without_room_says_so_before_it_begins() {
    let (database, there, _) = story(1).await;
    database.backup(&place(&there), 2_000_000_000).await.unwrap();
    let target = FaultyDisk::new(1);
    target.set_capacity(10_000);
    let error = restore_to(&target, &place(&there), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    assert!(!target.exists(Path::new("/data/FORMAT.restoring")).unwrap());
}
