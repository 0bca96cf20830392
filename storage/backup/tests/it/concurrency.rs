//! Backups during statements, moves, merges, deletes and drops.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use stratalog_model::{EventStore as _, Tick, TickRange};
use stratalog_sim::FaultyDisk;

use crate::database::*;

const ROWS: i64 = 7;

/// The statements of a table: each has all its `ROWS` rows, or none.
fn statements(rows: &Rows) -> BTreeMap<i64, usize> {
    let mut found = BTreeMap::new();
    for (tick, statement) in rows {
        assert_eq!(tick.div_euclid(ROWS), *statement, "tick {tick}");
        *found.entry(*statement).or_insert(0) += 1;
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn backups_have_all_that_was_acknowledged_and_whole_statements_only() {
    let disk = FaultyDisk::new(1);
    let definitions = [definition(1), definition(2), definition(3)];
    let database = Arc::new(Database::open(&disk, false, &definitions).unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new([AtomicI64::new(0), AtomicI64::new(0)]);
    // Statements below this number may be deleted.
    let deleted = Arc::new(AtomicI64::new(0));
    let mut tasks = Vec::new();
    for table in 0..2 {
        let (database, stop) = (Arc::clone(&database), Arc::clone(&stop));
        let acknowledged = Arc::clone(&acknowledged);
        tasks.push(tokio::spawn(async move {
            for statement in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let ticks = statement * ROWS..(statement + 1) * ROWS;
                database.append(table, ticks.clone(), statement).await.unwrap();
                acknowledged[table].store(statement + 1, Ordering::SeqCst);
                // Some statements are replaced by equal statements.
                if statement % 5 == 0 {
                    database.append(table, ticks, statement).await.unwrap();
                }
                tokio::time::sleep(std::time::Duration::from_micros(300)).await;
            }
        }));
    }
    {
        let (database, stop) = (Arc::clone(&database), Arc::clone(&stop));
        let (acknowledged, deleted) = (Arc::clone(&acknowledged), Arc::clone(&deleted));
        tasks.push(tokio::spawn(async move {
            for turn in 0_i64.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                for table in 0..2 {
                    let id = database.definitions[table].id;
                    match turn % 3 {
                        0 => database.engine().compact(id).await.unwrap(),
                        _ => database.engine().flush(id).await.unwrap(),
                    };
                }
                if turn % 4 == 3 {
                    let until = acknowledged[1].load(Ordering::SeqCst) / 2;
                    deleted.store(until, Ordering::SeqCst);
                    let range = TickRange::new(Tick::MIN, Tick(until * ROWS));
                    database.engine().delete(&database.definitions[1], range).await.unwrap();
                }
                database.engine().release_journal().await.unwrap();
            }
        }));
    }
    let there = FaultyDisk::new(2);
    let place = place(&there);
    database.append(2, 0..ROWS, 0).await.unwrap();
    database.engine().compact(database.definitions[2].id).await.unwrap();
    let mut reused = 0;
    for number in 1..=12 {
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        if number == 6 {
            database.dropped.lock().push(database.definitions[2].id);
            database.engine().forget(database.definitions[2].id);
        }
        let before: Vec<i64> =
            acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
        let (working, to) = (Arc::clone(&database), place.clone());
        let saved = tokio::task::spawn_blocking(move || {
            tokio::runtime::Handle::current().block_on(working.backup(&to, number * 1_000_000_000))
        });
        let saved = saved.await.unwrap().unwrap();
        let gone = deleted.load(Ordering::SeqCst);
        let after: Vec<i64> =
            acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
        reused += saved.files - saved.stored_files;
        let there = if number < 6 { 3 } else { 2 };
        let found = restored(&place, Some(&saved.name), &definitions[..there]).await.unwrap();
        for table in 0..2 {
            let found = statements(&found[table]);
            assert!(found.values().all(|rows| *rows == ROWS as usize), "part of a statement");
            let first = if table == 1 { gone } else { 0 };
            for statement in first..before[table] {
                assert!(found.contains_key(&statement), "table {table} lost {statement}");
            }
            assert!(found.keys().all(|statement| *statement <= after[table]));
        }
        if there == 3 {
            assert_eq!(found[2].len(), ROWS as usize);
        }
    }
    assert!(reused > 12, "{reused}");
    stop.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    // The tablets and stories that backups held are gone.
    for definition in &database.definitions[..2] {
        database.engine().compact(definition.id).await.unwrap();
    }
    database.engine().release_journal().await.unwrap();
    let named = database.engine().pieces().iter().filter(|piece| piece.number.is_some()).count();
    let files = disk.paths();
    let files = files
        .iter()
        .filter(|path| path.starts_with("/data/tablets") || path.starts_with("/data/stories"));
    assert_eq!(files.count(), named);
}
