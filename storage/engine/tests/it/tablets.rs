//! Journal, manifest and tablets together, on a faulty disk.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use stratalog_engine::Grapher;
use stratalog_journal::{Journal, JournalSettings};
use stratalog_model::{
    ChronicleDefinition, Collision, Disk, Durability, EventStore, Log, Result, Tick, TickRange,
    store::AppendOptions,
};
use stratalog_sim::{Crash, FaultyDisk, Random};

use crate::{fixture::*, life::*};

/// Makes a random act. Returns the events of the chronicle afterwards; if the disk has crashed, the
/// possible states.
async fn act(
    random: &mut Random,
    life: &Life,
    cpu: &Arc<ChronicleDefinition>,
    known: &Rows,
    clock: &mut i64,
) -> (Rows, bool) {
    let mut after = known.clone();
    let done = match random.below(10) {
        0..=5 => {
            let rows: Vec<Row> = (0..random.between(1, 200))
                .map(|_| {
                    *clock += random.below(3) as i64;
                    let tick = *clock - random.below(5) as i64 * random.below(60) as i64;
                    row(tick, ["a", "b", "c"][random.below(3) as usize], random.below(1000) as f64)
                })
                .collect();
            after.extend(rows.iter().map(|row| ((row.tick, row.host.clone()), row.value)));
            append(&life.engine, cpu, &rows).await.is_ok()
        }
        6 => {
            let end = *clock - 400 + random.below(300) as i64;
            after.retain(|(tick, _), _| *tick >= end);
            let range = TickRange::new(Tick::MIN, Tick(end));
            life.engine.delete(cpu, range).await.is_ok()
        }
        7 => life.engine.flush(cpu.id).await.is_ok(),
        8 => life.engine.compact(cpu.id).await.is_ok(),
        _ => life.engine.release_journal().await.is_ok(),
    };
    (after, done)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_events_survive_deaths_while_they_move() {
    let (mut deaths, mut most) = (0, 0);
    for seed in 1..=40 {
        let mut random = Random::new(seed);
        let cpu = chronicle(1, Collision::Last, true);
        let mut disk = FaultyDisk::new(seed ^ 0x7AB);
        let (mut known, mut clock) = (Rows::new(), 0);
        let mut possible: Option<Rows> = None;
        for number in 0..6 {
            let life = Life::open(&disk, number > 0, std::slice::from_ref(&cpu));
            let found = life.rows(&cpu).await;
            let unfinished = possible.take().is_some_and(|possible| possible == found);
            assert!(unfinished || found == known, "seed {seed}, life {number}");
            known = found;
            most = most.max(files(&disk).len());
            disk.halt_after(random.between(5, 250));
            loop {
                let (after, done) = act(&mut random, &life, &cpu, &known, &mut clock).await;
                if !done {
                    possible = Some(after);
                    deaths += 1;
                    break;
                }
                known = after;
                // The disk may have died at the removal of a doomed file.
                if disk.is_halted() {
                    break;
                }
                assert_eq!(life.rows(&cpu).await, known, "seed {seed}, life {number}");
            }
            let crash = if random.chance(70) { Crash::PowerCut } else { Crash::Kill };
            disk = disk.crash(crash);
            life.close();
        }
    }
    assert!(deaths > 200 && most > 5, "{deaths} deaths, {most} tablets");
}

/// A relaxed chronicle with the events 0 … 999 of host a.
async fn thousand_relaxed(seed: u64) -> (Arc<ChronicleDefinition>, FaultyDisk, Life) {
    let mut relaxed = definition(1, Collision::Last, true);
    relaxed.durability = Durability::Relaxed;
    let cpu = Arc::new(relaxed);
    let disk = FaultyDisk::new(seed);
    let life = Life::open(&disk, false, std::slice::from_ref(&cpu));
    let many: Vec<Row> = (0..1000).map(|at| row(at, "a", at as f64)).collect();
    append(&life.engine, &cpu, &many).await.unwrap();
    (cpu, disk, life)
}

/// A transaction block with rows for two chronicles, savepoints, and small and large pushes.
/// Returns the rows not rolled back. Some frames stream long before the end.
async fn block(life: &Life, tables: &[Arc<ChronicleDefinition>; 2], rows: i64) -> Result<Rows> {
    let [one, two] = tables;
    let of = |host: &str, from: i64| -> Vec<Row> {
        (from..from + rows).map(|at| row(at, host, at as f64)).collect()
    };
    let mut block = life.engine.begin(AppendOptions::default())?;
    push(&mut block, one, &of("first", 0)).await?;
    let savepoint = block.savepoint()?;
    push(&mut block, two, &of("lost", 0)).await?;
    push(&mut block, one, &of("lost", 1)).await?;
    block.roll_back_to(savepoint);
    push(&mut block, two, &of("second", 0)).await?;
    block.savepoint()?;
    push(&mut block, one, &of("third", 2)).await?;
    block.commit().await?;
    let kept = [of("first", 0), of("second", 0), of("third", 2)].concat();
    Ok(kept.into_iter().map(|row| ((row.tick, row.host), row.value)).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_is_there_whole_or_not_at_all_after_a_death_at_every_call() {
    let tables = [chronicle(1, Collision::Last, true), chronicle(2, Collision::First, true)];
    for (rows, crash) in [3, 400].into_iter().flat_map(|n| [(n, Crash::Kill), (n, Crash::PowerCut)])
    {
        let whole = {
            let life = Life::open(&FaultyDisk::new(1), false, &tables);
            block(&life, &tables, rows).await.unwrap()
        };
        let (mut stored, mut gone) = (0, 0);
        for nth in 1.. {
            let disk = FaultyDisk::new(nth);
            let life = Life::open(&disk, false, &tables);
            disk.halt_after(nth);
            let acknowledged = block(&life, &tables, rows).await.is_ok();
            let unmet = !disk.is_halted();
            let disk = disk.crash(crash);
            life.close();
            let life = Life::open(&disk, true, &tables);
            let mut found = life.rows(&tables[0]).await;
            found.extend(life.rows(&tables[1]).await);
            match found.is_empty() {
                true => gone += 1,
                false => stored += 1,
            }
            assert!(found == whole || found.is_empty() && !acknowledged, "{crash:?} at call {nth}");
            // The chronicles work again, without traces of a lost block.
            if found.is_empty() {
                assert_eq!(block(&life, &tables, rows).await.unwrap(), whole);
            }
            for table in &tables {
                life.engine.flush(table.id).await.unwrap();
            }
            found = life.rows(&tables[0]).await;
            found.extend(life.rows(&tables[1]).await);
            assert_eq!(found, whole, "{crash:?} at call {nth}");
            life.close();
            if unmet {
                break;
            }
        }
        assert!(stored > 0 && gone > 0, "{stored} stored, {gone} gone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_moved_is_durable_whatever_its_statement_asked_for() {
    for seed in 1..=10 {
        let (cpu, disk, life) = thousand_relaxed(seed).await;
        append(&life.engine, &cpu, &[row(7, "a", -7.0)]).await.unwrap();
        assert_eq!(life.engine.flush(cpu.id).await.unwrap().rows, 1000);
        let known = life.rows(&cpu).await;
        let disk = disk.crash(Crash::PowerCut);
        life.close();
        let life = Life::open(&disk, true, std::slice::from_ref(&cpu));
        assert_eq!(life.rows(&cpu).await, known);
        append(&life.engine, &cpu, &[row(7, "a", 77.0)]).await.unwrap();
        let known = life.rows(&cpu).await;
        let disk = disk.crash(Crash::Kill);
        life.close();
        let life = Life::open(&disk, true, std::slice::from_ref(&cpu));
        assert_eq!(life.rows(&cpu).await, known);
        assert_eq!(known.get(&(7, "a".to_string())), Some(&77.0));
    }
}

/// The delete in the edit of a rewrite survives a power cut only together with the DELETE frame: a
/// fence above the end of the journal would hide later events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_beside_a_rewrite_hides_no_later_events() {
    for seed in 1..=30 {
        let (cpu, disk, life) = thousand_relaxed(seed).await;
        life.engine.flush(cpu.id).await.unwrap();
        // No frame of this test is durable by itself: events, and deletes at any time of a rewrite.
        let over = AtomicBool::new(false);
        let delete = async {
            for step in 1..=900 {
                if over.load(Ordering::Acquire) {
                    return;
                }
                append(&life.engine, &cpu, &[row(5000 + step, "b", 1.0)]).await.unwrap();
                let range = TickRange::new(Tick::MIN, Tick(step));
                assert!(life.engine.delete(&cpu, range).await.unwrap() > 0);
            }
        };
        let compact = async {
            let moved = life.engine.compact(cpu.id).await.unwrap();
            over.store(true, Ordering::Release);
            moved
        };
        let (moved, ()) = tokio::join!(compact, delete);
        assert!(moved.pieces_added > 0);
        let known = life.rows(&cpu).await;
        let disk = disk.crash(Crash::PowerCut);
        life.close();
        let life = Life::open(&disk, true, std::slice::from_ref(&cpu));
        let kept = life.rows(&cpu).await;
        let mut moved = known.iter().filter(|((_, host), _)| host == "a");
        assert!(moved.all(|(key, value)| kept.get(key) == Some(value)), "seed {seed}");
        // Writes as many events as were lost, in the range of the deletes, in one append.
        let again: Vec<Row> = (0..200).map(|at| row(at, "c", -1.0)).collect();
        let mut expected = kept;
        for row in &again {
            append(&life.engine, &cpu, std::slice::from_ref(row)).await.unwrap();
            expected.insert((row.tick, row.host.clone()), row.value);
        }
        assert_eq!(life.rows(&cpu).await, expected, "seed {seed}");
        life.engine.compact(cpu.id).await.unwrap();
        assert_eq!(life.rows(&cpu).await, expected, "seed {seed}");
        life.close();
    }
}

/// A life with 20,000 events in many segments.
async fn filled(disk: &FaultyDisk, cpu: &Arc<ChronicleDefinition>) -> Life {
    let life = Life::open(disk, false, std::slice::from_ref(cpu));
    for part in 0..40 {
        let rows: Vec<Row> = (part * 500..(part + 1) * 500).map(|at| row(at, "a", 1.0)).collect();
        append(&life.engine, cpu, &rows).await.unwrap();
    }
    life
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_gives_up_what_tablets_hold() {
    let (cpu, disk) = (chronicle(1, Collision::First, true), FaultyDisk::new(1));
    let life = filled(&disk, &cpu).await;
    let before = life.engine.status();
    assert_eq!(life.engine.flush(cpu.id).await.unwrap().rows, 20_000);
    let freed = life.engine.release_journal().await.unwrap();
    let after = life.engine.status();
    assert_eq!(before.log.stored_bytes - after.log.stored_bytes, freed);
    assert!(after.log.segments <= 2 && before.log.segments > 5, "{before:?} {after:?}");
    assert!(after.memory_bytes * 20 < before.memory_bytes, "{before:?} {after:?}");
    let known = life.rows(&cpu).await;
    assert_eq!(known.len(), 20_000);
    life.close();
    let life = Life::open(&disk, true, std::slice::from_ref(&cpu));
    assert_eq!(life.rows(&cpu).await, known);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tablets_of_dropped_chronicles_go_with_their_last_reader() {
    let (cpu, other) = (chronicle(1, Collision::Last, true), chronicle(2, Collision::All, true));
    let definitions = [cpu.clone(), other.clone()];
    let disk = FaultyDisk::new(1);
    let life = Life::open(&disk, false, &definitions);
    let rows: Vec<Row> = (0..100).map(|at| row(at, "a", 1.0)).collect();
    for definition in &definitions {
        append(&life.engine, definition, &rows).await.unwrap();
        life.engine.flush(definition.id).await.unwrap();
    }
    let (mine, others) = (files(&disk).len() / 2, files(&disk).len() / 2);
    assert!(mine > 0);
    let pinned = life.engine.snapshot();
    life.engine.forget(cpu.id);
    life.engine.release_journal().await.unwrap();
    assert_eq!(read(pinned.as_ref(), &cpu).await.len(), 100);
    assert_eq!(files(&disk).len(), mine + others);
    drop(pinned);
    assert_eq!(files(&disk).len(), others);
    life.close();

    // The server died after the drop, and before the edit of the manifest.
    let life = Life::open(&disk, true, &[cpu]);
    assert_eq!(files(&disk).len(), others);
    life.engine.release_journal().await.unwrap();
    assert_eq!(files(&disk).len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_without_its_end_is_told() {
    let cpu = chronicle(1, Collision::Last, true);
    let disk = FaultyDisk::new(1);
    let life = Life::open(&disk, false, std::slice::from_ref(&cpu));
    append(&life.engine, &cpu, &[row(1, "a", 1.0)]).await.unwrap();
    life.engine.flush(cpu.id).await.unwrap();
    life.close();
    for path in disk.paths() {
        if path.starts_with("/data/journal") {
            disk.remove_file(&path).unwrap();
        }
    }
    let made = Journal::open(
        Arc::new(disk.clone()),
        PathBuf::from("/data/journal"),
        JournalSettings { free_bytes_min: 0, ..JournalSettings::default() },
    );
    made.unwrap().close().unwrap();
    let error =
        Life::try_open(&disk, true, &[cpu], &Sizes::default()).map(Life::close).unwrap_err();
    assert!(error.message().contains("the journal ends at gsn 0"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_without_needed_events_go_by_themselves() {
    let (cpu, disk) = (chronicle(1, Collision::First, true), FaultyDisk::new(1));
    let life = filled(&disk, &cpu).await;
    assert!(life.engine.status().log.segments > 5);
    let known = life.rows(&cpu).await;
    let grapher = Grapher::start(&life.engine).unwrap();
    life.engine.flush(cpu.id).await.unwrap();
    for _ in 0..200 {
        if life.engine.status().log.segments == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(life.engine.status().log.segments, 1);
    drop(grapher);
    assert_eq!(life.rows(&cpu).await, known);
    let disk = disk.crash(Crash::PowerCut);
    life.close();
    let life = Life::open(&disk, true, std::slice::from_ref(&cpu));
    assert_eq!(life.rows(&cpu).await, known);
    life.close();
}
